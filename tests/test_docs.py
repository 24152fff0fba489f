"""The documents are true: the README runs, and every command, option, setting and error is written down."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from tapebook import errors
from tapebook.settings import config
from tapebook.surfaces import cli
from tests.package_source import nodes, tokens, tree

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text("utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")
# The home of a command that names none.
HOME = "home"
ROOT_COMMAND = get_command(cli.root)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_ten_lines_of_the_readme_print_what_stands_below_them(tmp_path: Path, demo_hour: Path) -> None:
    (code,), (result,) = blocks(README, "python"), blocks(README, "text")
    # A demo that has ended already says again what it said (tests/replay/test_restart.py), in a third of the time.
    shutil.copytree(demo_hour, tmp_path / "readme-home")
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == result
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, demo_hour: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_hour, tmp_path / HOME)
    lines = [line for block in blocks(README, "console") for line in block.splitlines() if line.startswith("tapebook ")]
    assert len(lines) >= 20
    for line in lines:
        # A year of bars takes half a minute; all else is as it stands there.
        short = line.replace("--days 365", "--days 3").replace("--chunks quarter", "--chunks none")
        code = cli.main(shlex.split(short)[1:])
        out, err = capfd.readouterr()
        assert code == 0, f"{line}: {err}"
        assert out.strip(), f"{line} printed nothing"


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [
    (page.name, line)
    for page in PAGES
    for block in re.findall(r"```(?:console|sh)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    for line in re.findall(r"^(?:\$ )?(tapebook .*)$", block, re.MULTILINE)
]


def test_every_command_that_a_page_shows_can_be_given() -> None:
    """Its words lead to a command that has these arguments and options."""
    assert len(SHOWN) >= 75
    wrong = [f"{page}: {line}: {why}" for page, line in SHOWN if (why := refusal_of(line)) is not None]
    assert not wrong, "\n".join(wrong)


def refusal_of(line: str) -> str | None:
    """Why the command line does not take a line; None when it does. Nothing is run."""
    words = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)[1:]
    command: Any = ROOT_COMMAND
    path = "tapebook"
    while words and words[0] in getattr(command, "commands", {}):
        command, path = command.commands[words[0]], f"{path} {words.pop(0)}"
    try:
        command.make_context(path, words)
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return None


def test_the_first_steps_print_what_stands_below_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, demo_hour: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_hour, tmp_path / HOME)
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


LEAVES = leaves(ROOT_COMMAND, "tapebook")


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


WHERE = re.findall(
    r"^\| (.+?) \| `([\w/]+\.py):([\w.]+)` \| .+ \|$", (ROOT / "docs" / "where.md").read_text("utf-8"), re.MULTILINE
)


def names_defined_in(text: str) -> set[str]:
    """The functions and classes of a module, methods as `Class.method`."""
    body = tree(text).body
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = {f"{of.name}.{node.name}" for of in classes for node in of.body if isinstance(node, defined)}
    return methods | {node.name for node in body if isinstance(node, defined)}


@pytest.mark.parametrize(("behaviour", "file", "name"), WHERE, ids=[behaviour for behaviour, _, _ in WHERE])
def test_a_behaviour_is_where_the_page_says(behaviour: str, file: str, name: str) -> None:
    path = ROOT / "src" / "tapebook" / file
    assert path.is_file(), f"{behaviour}: there is no {file}"
    assert name in names_defined_in(path.read_text("utf-8")), f"{behaviour}: {file} has no {name}"


def test_the_page_of_places_is_whole() -> None:
    page = (ROOT / "docs" / "where.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and not line.startswith(("| where", "|--"))]
    assert len(rows) == len(WHERE) == len({behaviour for behaviour, _, _ in WHERE}) >= 20
    assert names_defined_in("class A:\n    def f(self): pass\nasync def g(): pass\nx = 1\n") == {"A", "A.f", "g"}


PACKAGE = ROOT / "src" / "tapebook"
QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*(?:\([^`]*\))?|[\w./-]+/[\w.-]+\.(?:py|sql))`")
# Examples of what users write, files of a home, and names of other programs.
EXAMPLES = re.compile(
    r"_2|_e12|_ms|_s|c2|L6|MaxLeverage|run_1a2b|(dis|re)connects?|BTCUSDT|time_utc|start_position|\w+_BTC|clone_id|"
    r"userFills(ByTime)?|commissionAsset|closedPnl|bm25|renderer_3\.tar\.xz|CHANGELOG\.md|BROAD_HANDLERS|PURE_CACHES"
)


@cache
def words_and_quotes() -> tuple[set[str], list[tuple[str, str]]]:
    """Every word of the source's code and SQL, and what docstrings and comments quote, with its file and line."""
    words = {path.stem for path in PACKAGE.rglob("*")} | {path.name for path in PACKAGE.rglob("*")}
    quotes = []
    for path in [*PACKAGE.rglob("*.sql"), ROOT / "Makefile", ROOT / "pyproject.toml"]:
        words.update(re.findall(r"\w+", path.read_text("utf-8")))
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        alone = [node.value for node in nodes(text) if isinstance(node, ast.Expr)]
        prose = {(node.lineno, node.col_offset) for node in alone if isinstance(node, ast.Constant)}
        for token in tokens(text):
            if token.type == tokenize.COMMENT or token.start in prose:
                place = f"{path.relative_to(ROOT)}:{token.start[0]}"
                quotes += [(place, quote) for quote in QUOTED.findall(token.string)]
            elif token.type in (tokenize.NAME, tokenize.STRING):
                words.update(re.findall(r"\w+", token.string))
    return words, quotes


def unknown_quotes(quotes: list[tuple[str, str]], words: set[str]) -> list[str]:
    """What is quoted as a name and is none: a path without a file, or a name whose parts occur nowhere in the code."""
    found = []
    for place, quote in quotes:
        if "/" in quote and not quote.endswith(")"):
            is_known = any((folder / quote).exists() for folder in (PACKAGE, ROOT)) or quote.startswith("migrations/")
        else:
            parts = quote.partition("(")[0].split(".")
            is_known = all(part in words for part in parts) or EXAMPLES.fullmatch(quote.partition("(")[0]) is not None
        found += [] if is_known else [f"{place} {quote}"]
    return found


def test_names_in_docstrings_and_comments_exist() -> None:
    words, quotes = words_and_quotes()
    assert len(quotes) > 500
    assert not unknown_quotes(quotes, words)


def test_names_in_the_documents_exist() -> None:
    words, _ = words_and_quotes()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    texts = {page: re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL) for page in pages}
    quotes = [(str(page.relative_to(ROOT)), quote) for page, text in texts.items() for quote in QUOTED.findall(text)]
    assert len(quotes) > 500
    assert not unknown_quotes(quotes, words)


def test_quotes_of_what_is_not_there() -> None:
    text = "`tick/story.py` `tick/loop.py` `Log.append` `Log.forget` `head()` `gone(a, b)` `--json` `a b` `c2`"
    quotes = [("here", quote) for quote in QUOTED.findall(text)]
    found = unknown_quotes(quotes, {"Log", "append", "head"})
    assert found == ["here tick/loop.py", "here Log.forget", "here gone(a, b)"]
