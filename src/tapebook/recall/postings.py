"""Which chunks a term stands in: one number per chunk, its row and how often, in the order of rows.

Kept in pages by row, so that one more chunk rewrites a page and not the whole list.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

PAGE = 1_024
_TIMES_BITS = 6
MOST_TIMES = 2**_TIMES_BITS - 1
"""More often than this counts as this: the score has long stopped growing."""


def posting(row: int, times: int) -> int:
    """A row with how often, as one number; numbers of later rows are larger."""
    return row << _TIMES_BITS | (times if times < MOST_TIMES else MOST_TIMES)


def pages(numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Rising numbers as the bytes of their pages."""
    first, last = _page(numbers[0]), _page(numbers[-1])
    if first == last:
        yield first, _packed(numbers)
    else:
        for page, part in groupby(numbers, key=_page):
            yield page, _packed(list(part))


def unpacked(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows, and how often the term stands in each."""
    numbers = np.frombuffer(content, "<u4")
    return (numbers >> _TIMES_BITS).astype(np.int64), (numbers & MOST_TIMES).astype(np.float64)


def _page(number: int) -> int:
    return (number >> _TIMES_BITS) // PAGE


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)
