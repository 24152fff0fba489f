"""The sections of the user message, one per file, in the order a packet shows them.

A section picks what it looks at (`look`), makes typed rows of that and of nothing else (`rows`), and
writes one line per row (`text`); the budget sits between the two. So the rows of a section whose look
has not changed need not be made again.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from tapebook.domain.packet import Section

Source = TypeVar("Source")
Seen = TypeVar("Seen")
Row = tuple[str, ...]
Rows = tuple[Row, ...]

FACTS = ("name", "value")
"""The columns of a section that names what it shows."""


class Layout(msgspec.Struct, Generic[Source, Seen], frozen=True):
    """How a section is made: its cap in tokens, its title, what it looks at, its rows, and their text.

    A title that is always the same is text. Where every item it looks at is one row, `row` says which. A section
    without rows is left out, unless it is shown `bare`. Rows are shortened before one of the first that are `wanted` is
    left out: `shorten` says how a row looks in each of so many `shapes`, the longest first. One of `memory` is left out
    for an agent that has none; one that `shares` leaves the closed trades less room. One that must be `whole` is
    refused rather than cut, with the name of the agent that should shorten it.
    """

    name: str
    cap: int
    title: str | Callable[[Source], str]
    columns: tuple[str, ...]
    look: Callable[[Source], Seen]
    rows: Callable[[Seen], Rows]
    text: Callable[[Rows], str]
    row: Callable[[Any], Row] | None = None
    oldest_first: bool = False
    bare: bool = False
    memory: bool = False
    shares: bool = False
    whole: Callable[[Source], str] | None = None
    shapes: int = 0
    wanted: int = 0
    shorten: Callable[[Row, int], Row] | None = None

    def section(self, source: Source) -> Section | None:
        """The section with all its rows; None when there is nothing to say."""
        rows = self.rows(self.look(source))
        title = self.title if isinstance(self.title, str) else self.title(source)
        return Section(self.name, title, self.columns, rows) if rows or self.bare else None


def fact_text(rows: Rows) -> str:
    """Rows of a name and a value."""
    return "- " + "\n- ".join(map(": ".join, rows)) if rows else ""
