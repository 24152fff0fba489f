"""The sections of the user message, one per file, in the order a packet shows them.

A section builds typed rows from what was known and writes one line per row; the budget sits between
the two.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tapebook.domain.packet import Section

Source = TypeVar("Source")


class Layout(msgspec.Struct, Generic[Source], frozen=True):
    """How a section is made: its cap in tokens, its rows, and the line of a row.

    A section of `memory` is left out for an agent that has none. One that must be `whole` is refused rather than cut.
    """

    name: str
    cap: int
    build: Callable[[Source], Section | None]
    line: Callable[[tuple[str, ...]], str]
    oldest_first: bool = False
    memory: bool = False
    whole: bool = False


def fact_line(row: tuple[str, ...]) -> str:
    """A row of a name and a value."""
    return f"- {row[0]}: {row[1]}"
