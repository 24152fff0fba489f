"""Installs small distributions for a test, as an installer leaves them: modules and a dist-info folder on the path."""

import importlib
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "example_package"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, version: str, entries: dict[str, dict[str, str]]
) -> Path:
    """A distribution with these entry points, by group; its modules are what the caller writes to the folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in of.items()) for group, of in entries.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), "utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    return folder


def install_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The documented example package, installed as its pyproject.toml says; returns the folder of its modules."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    shutil.copytree(
        EXAMPLE / "tapebook_contrarian", folder / "tapebook_contrarian", ignore=shutil.ignore_patterns("__*__")
    )
    (folder / "tapebook_contrarian" / "__init__.py").touch()
    for module in [module for module in sys.modules if module.partition(".")[0] == "tapebook_contrarian"]:
        monkeypatch.delitem(sys.modules, module)
    install(folder, monkeypatch, name=project["name"], version=project["version"], entries=project["entry-points"])
    return folder / "tapebook_contrarian"
