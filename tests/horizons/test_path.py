"""A path in five integers against the path itself."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tapebook.horizons.path import Path, joined, step

AMOUNTS = st.lists(st.integers(-6, 6), max_size=12)


def path_of(amounts: list[int]) -> Path:
    path = Path()
    for amount in amounts:
        path = joined(path, step(amount))
    return path


def slow(amounts: list[int]) -> Path:
    """By all pairs of a peak and a later trough; of equal falls, the one with the lowest trough."""
    totals = [0, *accumulate(amounts)]
    falls = [(high - low, totals[-1] - low) for at, high in enumerate(totals) for low in totals[at:]]
    return Path(totals[-1], max(totals), min(totals), *max(falls))


@given(AMOUNTS)
def test_it_is_what_all_pairs_say(amounts: list[int]) -> None:
    assert path_of(amounts) == slow(amounts)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_it_joins_in_any_grouping(one: list[int], two: list[int], three: list[int]) -> None:
    a, b, c = path_of(one), path_of(two), path_of(three)
    assert joined(joined(a, b), c) == joined(a, joined(b, c)) == path_of(one + two + three)
    assert joined(a, Path()) == a == joined(Path(), a)


def test_a_fall_and_what_was_regained() -> None:
    assert path_of([10, -6, 2, 1]) == Path(7, 10, 0, 6, 3)
