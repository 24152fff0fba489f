"""The table of docs/page.md: the panels of each page, and how each is had by a command, from Python and over HTTP."""

import re
from pathlib import Path
from typing import NamedTuple

_DOCUMENT = Path(__file__).parents[3] / "docs" / "page.md"
# Words of the table that stand for a name of the home.
_NAMES = re.compile(r"\b(SECTION|SYMBOL|LENGTH|ACTION|PERIOD|LAYER|DAY)\b")


class PanelRow(NamedTuple):
    """A row: a page, its panels, and the three other ways."""

    page: str
    panels: list[str]
    command: str
    python: str
    path: str

    @property
    def patterns(self) -> list[re.Pattern[str]]:
        """A pattern for the title of each panel."""
        return [re.compile(_NAMES.sub(".+", re.escape(panel).replace("\\ ", " "))) for panel in self.panels]


def _rows() -> list[PanelRow]:
    lines = [line.strip("| ").split(" | ") for line in _DOCUMENT.read_text("utf-8").splitlines() if "`tb." in line]
    table = [cells for cells in lines if len(cells) == 5]
    return [
        PanelRow(page, panels.split("; "), command.strip("`"), python.strip("`"), path.strip("`"))
        for page, panels, command, python, path in table
    ]


PANELS = _rows()


def page_name(path: str) -> str:
    """The name of a page in that table, by its address."""
    first, *rest = path.strip("/").split("/")
    if "decisions" in rest:
        return "Decision"
    if first == "backtests" and rest:
        return "Comparison" if rest[0] == "compare" else "Backtest"
    singular = {"agents": "Agent", "decisions": "Decision"}
    return singular[first] if rest else {"": "Overview", "documents": "Document"}.get(first, first.capitalize())
