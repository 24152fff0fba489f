"""The sections of the user message, one per file, in the order a packet shows them.

A section builds typed rows from a Situation and writes one line per row; the budget sits between
the two.
"""

from collections.abc import Callable

import msgspec

from tapebook.context.situation import Situation
from tapebook.domain.packet import Section


class Layout(msgspec.Struct, frozen=True):
    """How a section is made: its cap in tokens, its rows, its intro line and the line of a row."""

    cap: int
    build: Callable[[Situation], Section | None]
    line: Callable[[tuple[str, ...]], str]
    oldest_first: bool = False


def fact_line(row: tuple[str, ...]) -> str:
    """A row of a name and a value."""
    return f"- {row[0]}: {row[1]}"
