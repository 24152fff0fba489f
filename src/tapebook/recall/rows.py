"""The chunks of one scope as arrays, in the order they were committed: what a search looks at before any text.

A chunk has a row for ever. It can be found from the sequence of its first version until it was replaced or removed, so
as of a sequence the chunks are a beginning of the rows, less those that had ended.
"""

import numpy as np
from numpy.typing import NDArray

PAGE = 512
NEVER = 2**63 - 1
"""The end of a chunk that stands."""
LONGEST = 2**16 - 1
"""The longest a chunk counts as."""

ROW = np.dtype(
    [("first", "<i8"), ("end", "<i8"), ("document", "<u4"), ("length", "<u2"), ("kind", "u1"), ("passages", "u1")]
)

RowArray = NDArray[np.void]


def known(rows: RowArray, seq: int) -> RowArray:
    """The rows that were committed as of a sequence."""
    return rows[: int(np.searchsorted(rows["first"], seq, side="right"))]


def unpacked(pages: list[bytes]) -> RowArray:
    """Rows from their pages, in order."""
    return np.frombuffer(b"".join(pages), ROW)
