"""Vectors of whole numbers, so that a product has one value on every machine and with every library.

A row is stretched until its largest number is 127 and rounded. Products of such rows are sums of whole numbers below
2**24, which 32-bit floats hold exactly in whatever order a library adds them; so is a length's square, kept beside.
"""

import numpy as np
from numpy.typing import NDArray

PAGE = 256
_LARGEST = 127
_EXACT = 2**24
# Small enough for one processor: OpenBLAS would wake others, which takes longer than the work.
_BLOCK = 1_024


def dtype(dimension: int) -> np.dtype[np.void]:
    """A vector with the square of its length."""
    return np.dtype([("square", "<f4"), ("values", "i1", (dimension,))])


def quantised(rows: NDArray[np.float64]) -> NDArray[np.void]:
    """Rows of floats as vectors; what is not a number, or nothing but zeros, is like nothing."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0] = 1.0
    made = np.zeros(len(rows), dtype(rows.shape[1]))
    reach = np.full((len(rows), 1), float(_LARGEST))
    while True:
        values = np.rint(rows / largest * reach)
        square = (values * values).sum(axis=1)
        if not len(rows) or square.max() < _EXACT:
            break
        # Long vectors of even numbers: fewer steps, and still exact.
        reach[square >= _EXACT] /= 2
    made["values"], made["square"] = values, square
    return made


def cosines(vectors: NDArray[np.void], question: NDArray[np.void]) -> NDArray[np.float64]:
    """How alike each vector is to a question's, from -1 to 1."""
    asked = question["values"].astype(np.float32)
    products = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = vectors["values"][start : start + _BLOCK].astype(np.float32)
        np.matmul(block, asked, out=products[start : start + _BLOCK])
    lengths = np.sqrt(vectors["square"].astype(np.float64) * float(question["square"]))
    lengths[lengths == 0] = 1.0
    return products / lengths
