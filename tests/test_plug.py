"""The name in the config is the module."""

import importlib
import sys
from pathlib import Path

import pytest

from tapebook import plug
from tapebook.errors import UnknownName


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with three adapters, one of them a folder itself."""
    indexes = tmp_path / "plugged" / "indexes"
    (indexes / "deep").mkdir(parents=True)
    for name in ("../__init__", "__init__", "trend", "hold", "deep/__init__", "deep/inner"):
        (indexes / f"{name}.py").write_text(f"NAME = {name!r}\n")
    (indexes / "notes.txt").touch()
    for name in [name for name in sys.modules if name.startswith("plugged")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    return "plugged.indexes"


def test_folder_lists_its_adapters_in_order(folder: str) -> None:
    assert plug.names(folder) == ["deep", "hold", "trend"]


def test_name_loads_the_module(folder: str) -> None:
    assert plug.load(folder, "trend").NAME == "trend"


@pytest.mark.parametrize("name", ["trand", "", "deep.inner", "../trend", "os", "Trend"])
def test_unknown_name_is_refused_with_those_that_exist(folder: str, name: str) -> None:
    with pytest.raises(UnknownName) as caught:
        plug.load(folder, name)
    assert str(caught.value) == f"there is no {name!r} among the indexes; choose one of: deep, hold, trend"


def test_new_file_is_found_without_a_registry(folder: str, tmp_path: Path) -> None:
    plug.names(folder)
    (tmp_path / "plugged" / "indexes" / "fresh.py").write_text("NAME = 'fresh'\n")
    importlib.invalidate_caches()
    assert "fresh" in plug.names(folder)
    assert plug.load(folder, "fresh").NAME == "fresh"
