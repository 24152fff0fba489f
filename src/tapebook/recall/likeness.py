"""How alike rows are to a question: for all of them what it is at most, and exactly for those that are asked for."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tapebook.recall import vectors
from tapebook.recall.sketch import Sketch

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]
_Float = TypeVar("_Float", np.float32, np.float64)

# To compare all vectors in their order is as fast as to fetch and compare so large a share of them.
_MANY = 3


class PartLikeness:
    """The rows of one scope: row n has the vectors from `edges[n]` to `edges[n + 1]`; without any it is 0 alike."""

    def __init__(
        self, question: NDArray[np.void], kept: NDArray[np.void], edges: Numbers, *, sketch: Sketch, base: int
    ) -> None:
        self.base = base
        self._question = question
        # Fewer than there are rows, when some wait for theirs.
        done = int(np.searchsorted(edges, len(kept), side="right")) - 1
        self._starts, self._ends = edges[:done], edges[1 : done + 1]
        self._kept = kept[: edges[done]]
        self.sketched = first = int(np.searchsorted(self._ends, len(sketch), side="right"))
        self.at_most = np.zeros(len(edges) - 1)
        self.at_most[:first] = _highest(sketch.bounds(question), edges[: first + 1])
        rest = vectors.cosines(self._kept[edges[first] :], question)
        self.at_most[first:done] = _highest(rest, edges[first : done + 1] - edges[first])

    def exact(self, rows: Numbers) -> Values:
        """The likeness of rows that have short forms: that of their most alike vector."""
        starts = self._starts[rows]
        counts = self._ends[rows] - starts
        edges = np.concatenate(([0], np.cumsum(counts)))
        places = np.repeat(starts - edges[:-1], counts) + np.arange(edges[-1])
        if len(places) * _MANY > len(self._kept):
            cosines = vectors.cosines(self._kept, self._question)[places]
        else:
            cosines = vectors.cosines(self._kept[places], self._question)
        return _highest(cosines, edges)

    def closest(self, row: int) -> int:
        """Which vector of a row is the most alike."""
        if row >= len(self._ends):
            return 0
        return int(np.argmax(vectors.cosines(self._kept[self._starts[row] : self._ends[row]], self._question)))


def _highest(values: NDArray[_Float], edges: Numbers) -> NDArray[_Float]:
    """The highest value of each row: of the first ones all at once, then of the second ones of rows that have them."""
    starts, counts = edges[:-1], np.diff(edges)
    found = values[starts]
    rows, place = np.flatnonzero(counts > 1), 1
    while len(rows):
        found[rows] = np.maximum(found[rows], values[starts[rows] + place])
        place += 1
        rows = rows[counts[rows] > place]
    return found


class Likeness:
    """The rows in sight, one scope behind the other."""

    def __init__(self, parts: list[PartLikeness]) -> None:
        self._parts = parts
        self.at_most = np.concatenate([part.at_most for part in parts])

    def exact(self, rows: Numbers) -> Values:
        """The likeness of some rows, in rising order; it takes the place of what it could be at most."""
        for part in self._parts:
            low, high = np.searchsorted(rows, (part.base, part.base + part.sketched))
            if low < high:
                self.at_most[rows[low:high]] = part.exact(rows[low:high] - part.base)
        return self.at_most[rows]

    def closest(self, at: int) -> int:
        """Which passage of a row is the most alike."""
        part = next(part for part in reversed(self._parts) if part.base <= at)
        return part.closest(at - part.base)
