"""What `import tapebook` promises: an exact list of names, and a docstring that is the map of the rooms."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import tapebook
from tapebook.api.app import Tapebook
from tapebook.api.backtests import Backtests
from tapebook.api.bots import BotDecision
from tapebook.api.experience import HomeExperience
from tapebook.api.horizons import HomeLayers
from tapebook.api.recall import Recall
from tapebook.api.trades import HomeSkills, MemoryClient
from tests.package_source import nodes

EXPECTED = [
    *("Check", "DecisionRun", "DemoReport", "Finding", "Packet", "ReplayReport", "SystemClock", "Tapebook"),
    *("TapebookError", "VirtualClock", "demo", "init", "open"),
]


def test_public_names_are_exact() -> None:
    assert sorted(tapebook.__all__) == sorted(EXPECTED)
    assert [name for name in tapebook.__all__ if not hasattr(tapebook, name)] == []


def raised_messages(file: Path) -> Iterator[tuple[int, str]]:
    """The texts that errors of a file are raised with, and their lines; without the commands they name in backticks."""
    text = file.read_text("utf-8")
    # Most files name no option at all.
    for error in nodes(text) if "--" in text else ():
        if isinstance(error, ast.Raise):
            texts = [each for each in ast.walk(error) if isinstance(each, ast.JoinedStr | ast.Constant)]
            parts = {id(part) for text in texts for part in ast.walk(text) if part is not text}
            yield from (
                (each.lineno, re.sub(r"`[^`]*`", "", ast.unparse(each))) for each in texts if id(each) not in parts
            )


def test_errors_speak_python() -> None:
    """Messages name parameters; options are of the command line, which puts them in."""
    root = Path(tapebook.__file__).parent
    files = [file for file in root.rglob("*.py") if "surfaces" not in file.parts]
    found = [
        f"{file.relative_to(root)}:{line}"
        for file in files
        for line, message in raised_messages(file)
        if re.search(r"(?<![\w-])--[a-z]", message)
    ]
    assert found == []


def test_the_docstring_names_every_room() -> None:
    folders = sorted(init.parent.name for init in Path(tapebook.__file__).parent.glob("*/__init__.py"))
    missing = [folder for folder in folders if not re.search(rf"\b{folder}/", tapebook.__doc__ or "")]
    assert not missing, f"the docstring of tapebook has no line for {', '.join(f'{folder}/' for folder in missing)}"


def public_names(kind: type, *, own: bool = False) -> set[str]:
    """Methods and properties that are meant for programs; with `own`, without those of its bases."""
    found = vars(kind) if own else dir(kind)
    members = {name: inspect.getattr_static(kind, name) for name in found if not name.startswith("_")}
    return {name for name, member in members.items() if inspect.isfunction(member) or isinstance(member, property)}


def test_the_page_of_the_api_lists_every_name() -> None:
    """A method that is added gets its line in docs/api.md, and one that is gone loses it."""
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text("utf-8").partition("## All names")[2]
    nouns = {
        "tb.recall.": Recall,
        "tb.experience.": HomeExperience,
        "tb.backtests.": Backtests,
        "tb.skills.": HomeSkills,
    }
    nouns |= {"tb.": Tapebook, "decision.": BotDecision}
    expected = {f"{prefix}{name}" for prefix, kind in nouns.items() for name in public_names(kind)}
    expected |= {f"tb.horizons.{name}" for name in public_names(HomeLayers, own=True)}
    seed = {"recentClosed", "openWithMfeMae", "activeLessons"}
    expected |= {f"tb.memory(agent).{name}" for name in public_names(MemoryClient) - seed}
    expected |= {"decision.run", "offer.packet", "offer.text", "offer.ticket"}
    listed = set(re.findall(r"`((?:tb|decision|offer)\.[^`]+)`", page))
    assert listed == expected, f"docs/api.md: lacks {sorted(expected - listed)}, has {sorted(listed - expected)}"
    assert [name for name in tapebook.__all__ if f"`{name}`" not in page] == []
