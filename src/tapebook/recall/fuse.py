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


def ranked(score: Scores, candidates: NDArray[np.int64], *, most: int) -> NDArray[np.int64]:
    """The best candidates, best first; of equal ones the one that was there first."""
    if len(candidates) > most:
        last = np.partition(score[candidates], len(candidates) - most)[len(candidates) - most]
        candidates = candidates[score[candidates] >= last]
    return candidates[np.lexsort((candidates, -score[candidates]))][:most]


class Caps:
    """How many places of one document and of one kind are given; the next best take the places of the others."""

    def __init__(self, terms: IndexTerms, kinds: dict[str, int]) -> None:
        self._per_path = terms.per_path
        self._per_kind = {kinds[kind]: most for kind, most in terms.per_kind.items() if kind in kinds}
        self._given: Counter[tuple[str, int]] = Counter()

    def admits(self, document: int, kind: int) -> bool:
        """Whether one more may be given; counts it if so."""
        if self._per_path and self._given["document", document] >= self._per_path:
            return False
        if kind in self._per_kind and self._given["kind", kind] >= self._per_kind[kind]:
            return False
        self._given["document", document] += 1
        self._given["kind", kind] += 1
        return True
