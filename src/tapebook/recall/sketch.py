"""Short forms of vectors, which say how alike each of them can be to a question at most, for a fraction of the work.

Vectors of one model lie near few directions. A quarter of them is kept: what a vector has there, and the length of what
it has elsewhere. The product of two vectors is that of their short forms and of the rest, and of the rest it is at most
the product of both lengths. So a bound is never too low, and low enough that few vectors are left to be compared.
"""

import numpy as np
from numpy.typing import NDArray

BLOCK = 4_096
"""Vectors that get their short forms together; what is behind the last whole block has none."""
_PARTS = 4
_SAMPLE = 2_048
_TURNS = 3

Floats = NDArray[np.float32]


class Sketch:
    """The short forms of one growing array of vectors, block by block."""

    def __init__(self) -> None:
        self._directions: Floats = np.zeros((0, 0), np.float32)
        self._blocks: list[Floats] = []

    def __len__(self) -> int:
        """How many vectors have one."""
        return BLOCK * len(self._blocks)

    def grow(self, vectors: NDArray[np.void]) -> None:
        """Makes those that are missing; vectors may only have become more."""
        if len(vectors) >= BLOCK and not self._blocks:
            self._directions = _directions(vectors)
        while len(vectors) >= len(self) + BLOCK:
            self._blocks.append(_short(vectors[len(self) : len(self) + BLOCK], self._directions))

    def bounds(self, question: NDArray[np.void]) -> Floats:
        """What the cosine of each vector to a question's is at most."""
        found = np.empty(len(self), np.float32)
        if self._blocks:
            asked = _short(question[np.newaxis], self._directions)[:, 0]
            for at, block in enumerate(self._blocks):
                np.matmul(asked, block, out=found[BLOCK * at : BLOCK * (at + 1)])
            found += _slack(self._directions)
        return found


def _short(vectors: NDArray[np.void], directions: Floats) -> Floats:
    """A column for each vector: what it has in some directions, and the length of the rest, or a little more."""
    kept = directions.shape[1]
    short = np.empty((kept + 1, len(vectors)), np.float32)
    np.matmul(directions.T, vectors["values"].astype(np.float32).T, out=short[:kept])
    short[:kept] /= _lengths(vectors)
    rest = 1 - np.square(short[:kept]).sum(axis=0)
    short[kept] = np.sqrt(np.maximum(rest, 0) + _slack(directions))
    return short


def _slack(directions: Floats) -> np.float32:
    """More than 32-bit sums of so many products are wrong by, in whatever order they are added."""
    dimension, kept = directions.shape
    return np.float32((dimension + kept) * np.sqrt(kept) * 2.0**-21)


def _lengths(vectors: NDArray[np.void]) -> Floats:
    lengths: Floats = np.sqrt(vectors["square"])
    # Zeros are like nothing, whatever they are divided by.
    lengths[lengths == 0] = 1
    return lengths


def _directions(vectors: NDArray[np.void]) -> Floats:
    """Where vectors reach farthest, by turning towards them a few times; any directions at right angles would do."""
    some = vectors[:: -(-len(vectors) // _SAMPLE)]
    sample = some["values"] / _lengths(some)[:, np.newaxis].astype(np.float64)
    found = np.eye(sample.shape[1], max(1, sample.shape[1] // _PARTS))
    for _ in range(_TURNS):
        found, _upper = np.linalg.qr(sample.T @ (sample @ found))
    return found.astype(np.float32)
