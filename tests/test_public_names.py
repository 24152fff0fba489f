"""What `import tapebook` promises: an exact list of names, and a docstring that is the map of the rooms."""

import re
from pathlib import Path

import tapebook

EXPECTED = [
    *("Check", "DecisionRun", "DemoReport", "Finding", "Packet", "ReplayReport", "SystemClock", "Tapebook"),
    *("TapebookError", "VirtualClock", "demo", "init", "open"),
]


def test_public_names_are_exact() -> None:
    assert sorted(tapebook.__all__) == sorted(EXPECTED)
    assert [name for name in tapebook.__all__ if not hasattr(tapebook, name)] == []


def test_the_docstring_names_every_room() -> None:
    folders = sorted(init.parent.name for init in Path(tapebook.__file__).parent.glob("*/__init__.py"))
    missing = [folder for folder in folders if not re.search(rf"\b{folder}/", tapebook.__doc__ or "")]
    assert not missing, f"the docstring of tapebook has no line for {', '.join(f'{folder}/' for folder in missing)}"
