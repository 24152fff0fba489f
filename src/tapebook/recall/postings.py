"""Which chunks a term stands in, as bytes: one number per chunk, its row and how often, in the order of rows.

Kept in pages by row, so that one more chunk rewrites a page and not the whole list.
"""

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

PAGE = 1_024
_TIMES_BITS = 6
MOST_TIMES = 2**_TIMES_BITS - 1
"""More often than this counts as this: the score has long stopped growing."""

Posting = tuple[int, int]


def packed(postings: Iterable[Posting]) -> bytes:
    """Rows with how often, rising, as bytes."""
    numbers = [row << _TIMES_BITS | min(times, MOST_TIMES) for row, times in postings]
    return struct.pack(f"<{len(numbers)}I", *numbers)


def unpacked(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows, and how often the term stands in each."""
    numbers = np.frombuffer(content, "<u4")
    return (numbers >> _TIMES_BITS).astype(np.int64), (numbers & MOST_TIMES).astype(np.float64)
