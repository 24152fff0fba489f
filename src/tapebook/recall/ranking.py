"""The best rows that the caps admit, looked for where they can be.

Of every row it is known what it scores at most; to say what it scores exactly takes longer. So the scores of those that
may be the best are made exact, then of those that may still be better than the last of these. Whatever is left cannot
be among the best: the answer is that of sorting all rows by their exact scores and going through them with the caps.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.recall.fuse import Caps, Scores

NOWHERE = -np.inf
"""The score of a row that is no answer."""

Rows = NDArray[np.int64]


class Field(msgspec.Struct):
    """Rows in rising order, each with its score: at most so high, until `exact` says how high."""

    rows: Rows
    scores: Scores
    exact: Callable[[Rows], Scores]
    sources: Callable[[Rows], tuple[NDArray[np.uint32], NDArray[np.uint8]]]
    """The document and the kind of each row, by their numbers."""

    def at_least(self, score: float) -> Rows:
        """The places of rows that may score so high; how high they do is exact from then on."""
        places = np.flatnonzero(self.scores >= score)
        self.scores[places] = self.exact(self.rows[places])
        return places

    def without(self, score: float, caps: Caps) -> "Field":
        """What scores less, and may be given."""
        rest = self.scores < score
        rest[rest] = caps.leaves(*self.sources(self.rows[rest]))
        return Field(self.rows[rest], self.scores[rest], self.exact, self.sources)


def best(field: Field, caps: Caps, limit: int) -> dict[int, float]:
    """The best rows with their exact scores, best first, of equal ones the one that was there first."""
    given: list[tuple[int, float]] = []
    while len(field.rows):
        likely = field.at_least(_nth(field.scores, 4 * limit + 32))
        cut = _nth(field.scores[likely], limit - len(given))
        reached = field.at_least(cut)
        # Of all that score so high it is known now how high, so what becomes of them can be said.
        given += _admitted(field, reached[field.scores[reached] >= cut], caps)
        if len(given) >= limit:
            break
        field = field.without(cut, caps)
    return dict(given[:limit])


def _admitted(field: Field, places: Rows, caps: Caps) -> list[tuple[int, float]]:
    places = places[field.scores[places] > NOWHERE]
    places = places[np.lexsort((places, -field.scores[places]))]
    rows, scores = field.rows[places], field.scores[places]
    found = zip(*(each.tolist() for each in (rows, scores, *field.sources(rows))), strict=True)
    return [(row, score) for row, score, document, kind in found if caps.admits(document, kind)]


def _nth(scores: Scores, place: int) -> float:
    """The n-th highest of some scores; when they are fewer, what all others reach too."""
    if len(scores) < place:
        return NOWHERE
    return float(np.partition(scores, len(scores) - place)[len(scores) - place])
