"""Words and meaning as one score, and what of it is given.

    score = (words + meaning · likeness) / (all words + meaning)

The vector of a question counts like one more word of it, and a rare one. So a question of many words is answered by
its words, and one of few, or of words nobody wrote, by its meaning. A likeness can lift a chunk but never push one out:
whatever has a word of the question stays, however low its score.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tapebook.recall.port import IndexTerms

MEANING = 14.0
"""What a likeness of 1 counts beside words, at equal weights; measured (docs/decisions/0012)."""

Scores = NDArray[np.float64]


def fused(words: Scores, possible: float, likeness: Scores | None, terms: IndexTerms) -> Scores:
    """The score of every chunk, from 0 to 1; `possible` is what its words could give at most."""
    if likeness is None or not terms.semantic_percent:
        return words / possible if possible else words
    by_words, by_meaning = terms.lexical_percent / 50, terms.semantic_percent / 50 * MEANING
    together = by_words * words + by_meaning * np.maximum(likeness, 0.0)
    return together / (by_words * possible + by_meaning)


def named(score: Scores, share: Scores | None) -> Scores:
    """Scores with the names of the question, if it has any: whatever has one stands above all that have none."""
    return score if share is None else (score + share) / 2


class Caps:
    """How many places of one document and of one kind are given; the next best take the places of the others."""

    def __init__(self, terms: IndexTerms, kinds: dict[str, int]) -> None:
        self._per_path = terms.per_path
        self._per_kind = {kinds[kind]: most for kind, most in terms.per_kind.items() if kind in kinds}
        self._documents: Counter[int] = Counter()
        self._kinds: Counter[int] = Counter()

    def admits(self, document: int, kind: int) -> bool:
        """Whether one more may be given; counts it if so."""
        if self._per_path and self._documents[document] >= self._per_path:
            return False
        if kind in self._per_kind and self._kinds[kind] >= self._per_kind[kind]:
            return False
        self._documents[document] += 1
        self._kinds[kind] += 1
        return True

    def leaves(self, documents: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of some rows may still be given: neither their document nor their kind has all its places."""
        full = [each for each, given in self._documents.items() if 0 < self._per_path <= given]
        closed = [each for each, most in self._per_kind.items() if self._kinds[each] >= most]
        return ~(np.isin(documents, full) | np.isin(kinds, closed))
