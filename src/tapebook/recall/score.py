"""How much words say: BM25 whose every number is that of the question, the chunk, or the chunks that share a term.

The usual formula also knows how many documents there are and how long they are on average, so a document that has
nothing to do with a question moves all scores of it. Here the two are constants, measured once (docs/decisions/0012): a
document without any of the terms changes no score at all, and measured on five sets of real questions the ranking is
better for it.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.2
B = 0.75
PIVOT = 100
"""The length in terms that is neither short nor long."""
COMMON = 5_000
"""In so many chunks a term says next to nothing."""

MOST = K1 + 1
"""What a term counts, times its weight, in a chunk that says nothing else."""


def weight(chunks: int) -> float:
    """What a term says that stands in so many chunks; a term that stands in none would have said most."""
    # Rounded, since the last digits of a logarithm are the library's own.
    return round(math.log1p(COMMON / max(chunks, 1)), 6)


def saturated(times: "NDArray[np.float64]", lengths: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """What a term counts that stands so many times in chunks of these lengths."""
    return times * MOST / (times + K1 * (1 - B + B / PIVOT * lengths))
