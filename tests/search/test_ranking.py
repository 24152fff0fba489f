"""The best rows are those of sorting all of them, whatever the caps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tapebook.search.index import IndexTerms
from tapebook.search.query import Caps, Rows, best_rows

KINDS = {"note": 0, "trade": 1, "journal": 2}


class Table:
    """Rows with scores, documents and kinds."""

    def __init__(self, scores: NDArray[np.float64], documents: NDArray[np.int64], kinds: NDArray[np.int64]) -> None:
        self.scores = scores
        self.documents, self.kinds = documents.astype(np.uint32), kinds.astype(np.uint8)

    def best(self, caps: Caps, limit: int) -> list[tuple[int, float]]:
        """The best rows, as a search finds them."""

        def sources(rows: Rows) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
            return self.documents[rows], self.kinds[rows]

        return [*best_rows(np.arange(len(self.scores)), self.scores, caps, limit=limit, sources=sources).items()]

    def slow(self, caps: Caps, limit: int) -> list[tuple[int, float]]:
        """The best rows by looking at all."""
        order = sorted(range(len(self.scores)), key=lambda at: (-self.scores[at], at))
        admitted = [at for at in order if caps.admits(int(self.documents[at]), int(self.kinds[at]))]
        return [(at, float(self.scores[at])) for at in admitted[:limit]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Up to some hundred rows, many of them equal."""
    count = draw(st.integers(0, 400))
    chance = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = chance.integers(0, draw(st.sampled_from((2, 10, 1_000))), count) / 7
    # A document may have rows of two kinds, when it was of another one once.
    documents = chance.integers(0, draw(st.sampled_from((1, 4, 300))), count)
    return Table(scores, documents, chance.integers(0, 3, count))


@given(
    tables(), st.integers(1, 20), st.integers(0, 3), st.dictionaries(st.sampled_from((*KINDS, "x")), st.integers(0, 3))
)
def test_the_best_are_those_of_sorting_all(table: Table, limit: int, path: int, kind: dict[str, int]) -> None:
    terms = IndexTerms("", per_path=path, per_kind=kind)
    assert table.best(Caps(terms, KINDS), limit) == table.slow(Caps(terms, KINDS), limit)


def test_few_notes_are_found_behind_many_trades() -> None:
    """Nearly all rows are trades, and better than the few notes: two are given, and then the notes are looked for."""
    chance = np.random.default_rng(6)
    scores, kinds = chance.random(5_000), np.ones(5_000, np.int64)
    kinds[::100], scores[::100] = 0, scores[::100] / 10
    table, terms = Table(scores, np.arange(5_000), kinds), IndexTerms("", per_kind={"trade": 2})
    found = table.best(Caps(terms, KINDS), 10)
    assert found == table.slow(Caps(terms, KINDS), 10) and [kinds[at] for at, _ in found] == [1, 1, *[0] * 8]
