"""A file as named columns, read block by block, whatever format it came in."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

BLOCK_ROWS = 20_000

Column = Sequence[Any]


class Block(msgspec.Struct, frozen=True):
    """Some rows: the number of each in the file, and their values by column."""

    numbers: Sequence[int]
    columns: Sequence[Column]


class Table(msgspec.Struct, frozen=True):
    """The columns of a file and its blocks, which can be read once.

    Without a header `names` are the places of the columns. `instants` says of columns that hold instants by
    their type how they were written; their values are UTC milliseconds.
    """

    format: str
    row_name: Literal["line", "row"]
    names: tuple[str, ...]
    has_header: bool
    blocks: Iterator[Block]
    instants: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def places(width: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(f"#{place + 1}" for place in range(width))
