"""The documents are true: the README runs, and every command, option, setting and error is written down."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.main import get_command

from tapebook import errors
from tapebook.settings import config
from tapebook.surfaces import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_ten_lines_of_the_readme_print_what_stands_below_them(tmp_path: Path) -> None:
    (code,), (result,) = blocks(README, "python"), blocks(README, "text")
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == result
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(README, "console") for line in block.splitlines() if line.startswith("tapebook ")]
    assert len(lines) >= 8
    for line in lines:
        code = cli.main(shlex.split(line)[1:])
        out, err = capfd.readouterr()
        assert code == 0, f"{line}: {err}"
        assert out.strip(), f"{line} printed nothing"


def test_the_first_steps_print_what_stands_below_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page = (ROOT / "docs" / "first-steps.md").read_text("utf-8")
    assert re.findall(r"^## (\d+)", page, re.MULTILINE) == [str(number) for number in range(1, 11)]
    shows = "".join(blocks(page, "console"))
    for line, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shows, re.MULTILINE):
        command, *words = shlex.split(line)
        if command != "tapebook":
            subprocess.run(line, shell=True, check=True)
            continue
        code = cli.main(words)
        out, err = capfd.readouterr()
        said = [each for each in err.splitlines() if each.startswith(("error: ", "warning: "))]
        assert (code == 0) == ("error: " not in err), f"{line}: {err}"
        shown = "".join(f"{each}\n" for each in [*out.splitlines(), *said])
        assert re.fullmatch(pattern_of(expected), without_ids(shown)), f"$ {line}\n{shown}\ninstead of\n{expected}"


def pattern_of(expected: str) -> str:
    """A pattern for what a page shows; a line of `…` is any lines."""
    lines = [r"(?:.*\n)*?" if line == "…" else f"{re.escape(line)}\n" for line in without_ids(expected).splitlines()]
    return "".join(lines)


def without_ids(text: str) -> str:
    """A text without what changes with every version: ids, hashes, and the milliseconds a stream is ahead."""
    return re.sub(r"\.\d{3}Z", ".000Z", re.sub(r"\b[0-9a-f]{16,}\b", "ID", text))


def leaves(command: object, name: str) -> list[tuple[str, object]]:
    below = getattr(command, "commands", {})
    own = [(name, command)] if not below or getattr(command, "invoke_without_command", False) else []
    return own + [leaf for word, child in below.items() for leaf in leaves(child, f"{name} {word}")]


def rows_of_commands() -> dict[str, str]:
    rows = re.findall(r"^\| `(tapebook [^`]*)` (.*)$", COMMANDS, re.MULTILINE)
    return {re.sub(r"( [A-Z]+| \[[A-Z]+\])+$", "", name): rest for name, rest in rows}


LEAVES = leaves(get_command(cli.root), "tapebook")


@pytest.mark.parametrize(("name", "command"), LEAVES, ids=[name for name, _ in LEAVES])
def test_every_command_and_option_is_documented(name: str, command: object) -> None:
    rows = rows_of_commands()
    assert name in rows, f"docs/commands.md has no row for {name}"
    options = [option for parameter in getattr(command, "params", []) for option in parameter.opts]
    missing = [option for option in options if option.startswith("--") and option != "--help"]
    missing = [option for option in missing if f"`{option}`" not in rows[name] and option != "--version"]
    assert not missing, f"docs/commands.md does not name {', '.join(missing)} of {name}"


def test_every_documented_command_exists() -> None:
    assert set(rows_of_commands()) == {name for name, _ in LEAVES}


def settings(kind: type[msgspec.Struct], prefix: str = "") -> list[str]:
    found = []
    for field in msgspec.structs.fields(kind):
        inner = type(field.default) if isinstance(field.default, msgspec.Struct) else None
        found += settings(inner, f"{field.name}.") if inner else [f"{prefix}{field.name}"]
    return found


def test_every_setting_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([a-z_.]+)` \|", SETTINGS, re.MULTILINE)
    # The sections of sources from elsewhere are documented with them.
    assert sorted([*documented, "source_settings"]) == sorted(settings(config.Config))


def test_every_error_is_in_the_tree_of_the_docstring() -> None:
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]
    missing = [name for name in kinds if name not in (errors.__doc__ or "")]
    assert not missing
    assert len(kinds) >= 10


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        targets = re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text("utf-8"))
        lost = [target for target in targets if not (page.parent / target).exists()]
        assert not lost, f"{page.name} links to {lost}"
