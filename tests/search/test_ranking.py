"""The best rows are those of sorting all of them, however loose the bounds and whatever the caps; few are looked at."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tapebook.search.index import IndexTerms
from tapebook.search.query import NO_ANSWER, CandidateRows, Caps, Rows, best_rows

KINDS = {"note": 0, "trade": 1, "journal": 2}


class Table:
    """Rows with exact scores, bounds, documents and kinds; it counts which rows somebody asked for."""

    def __init__(
        self, exact: NDArray[np.float64], more: NDArray[np.float64], documents: list[int], kinds: list[int]
    ) -> None:
        self.exact = exact
        self.bounds = np.where(exact == NO_ANSWER, more, exact + more)
        self.documents, self.kinds = np.array(documents, np.uint32), np.array(kinds, np.uint8)
        self.asked: set[int] = set()

    def field(self) -> CandidateRows:
        """To look for the best in."""

        def exact(rows: Rows) -> NDArray[np.float64]:
            assert rows.tolist() == sorted(set(rows.tolist()))
            self.asked |= set(rows.tolist())
            return self.exact[rows]

        return CandidateRows(
            np.arange(len(self.exact)),
            self.bounds.copy(),
            exact,
            lambda rows: (self.documents[rows], self.kinds[rows]),
        )

    def slow(self, caps: Caps, limit: int) -> list[int]:
        """The best rows by looking at all."""
        order = sorted(range(len(self.exact)), key=lambda at: (-self.exact[at], at))
        admitted = [
            at
            for at in order
            if self.exact[at] > NO_ANSWER and caps.admits(int(self.documents[at]), int(self.kinds[at]))
        ]
        return admitted[:limit]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Up to some hundred rows, many of them equal, some of them no answer."""
    count = draw(st.integers(0, 400))
    chance = np.random.default_rng(draw(st.integers(0, 10**6)))
    exact = chance.integers(0, draw(st.sampled_from((2, 10, 1_000))), count) / 7
    exact[chance.random(count) < draw(st.sampled_from((0.0, 0.3, 0.98)))] = NO_ANSWER
    more = chance.random(count) * draw(st.sampled_from((0.0, 0.1, 3.0, 200.0)))
    # A document may have rows of two kinds, when it was of another one once.
    documents = chance.integers(0, draw(st.sampled_from((1, 4, 300))), count)
    return Table(exact, more, documents.tolist(), chance.integers(0, 3, count).tolist())


@given(
    tables(), st.integers(1, 20), st.integers(0, 3), st.dictionaries(st.sampled_from((*KINDS, "x")), st.integers(0, 3))
)
def test_the_best_are_those_of_sorting_all(table: Table, limit: int, path: int, kind: dict[str, int]) -> None:
    terms = IndexTerms("", per_path=path, per_kind=kind)
    found = best_rows(table.field(), Caps(terms, KINDS), limit)
    expected = table.slow(Caps(terms, KINDS), limit)
    assert list(found.items()) == [(at, table.exact[at]) for at in expected]


def test_few_rows_are_looked_at() -> None:
    chance = np.random.default_rng(5)
    table = Table(chance.normal(size=50_000), chance.random(50_000) * 0.3, [0] * 50_000, [0] * 50_000)
    found = best_rows(table.field(), Caps(IndexTerms(""), {}), 10)
    assert list(found) == np.argsort(-table.exact)[:10].tolist()
    assert len(table.asked) < 500


def test_what_has_all_its_places_is_not_looked_at_again() -> None:
    """Nearly all rows are trades, and better than the few notes: two are given, and then the notes are looked for."""
    chance = np.random.default_rng(6)
    exact = chance.random(50_000)
    kinds = np.ones(50_000, int)
    kinds[::1_000], exact[::1_000] = 0, exact[::1_000] / 10
    table = Table(exact, chance.random(50_000) * 0.01, list(range(50_000)), kinds.tolist())
    terms = IndexTerms("", per_kind={"trade": 2})
    found = best_rows(table.field(), Caps(terms, KINDS), 10)
    assert list(found) == table.slow(Caps(terms, KINDS), 10) and [kinds[at] for at in found] == [1, 1, *[0] * 8]
    assert len(table.asked) < 1_500
