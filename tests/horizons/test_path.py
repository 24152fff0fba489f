"""A path in five integers against the path itself."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tapebook.horizons.aggregate import RunningTotal, join_running_totals, running_total_of

AMOUNTS = st.lists(st.integers(-6, 6), max_size=12)


def path_of(amounts: list[int]) -> RunningTotal:
    path = RunningTotal()
    for amount in amounts:
        path = join_running_totals(path, running_total_of(amount))
    return path


def slow(amounts: list[int]) -> RunningTotal:
    """By all pairs of a peak and a later trough; of equal falls, the one with the lowest trough."""
    totals = [0, *accumulate(amounts)]
    falls = [(high - low, totals[-1] - low) for at, high in enumerate(totals) for low in totals[at:]]
    return RunningTotal(totals[-1], max(totals), min(totals), *max(falls))


@given(AMOUNTS)
def test_it_is_what_all_pairs_say(amounts: list[int]) -> None:
    assert path_of(amounts) == slow(amounts)


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_it_joins_in_any_grouping(one: list[int], two: list[int], three: list[int]) -> None:
    a, b, c = path_of(one), path_of(two), path_of(three)
    assert (
        join_running_totals(join_running_totals(a, b), c)
        == join_running_totals(a, join_running_totals(b, c))
        == path_of(one + two + three)
    )
    assert join_running_totals(a, RunningTotal()) == a == join_running_totals(RunningTotal(), a)


def test_a_fall_and_what_was_regained() -> None:
    assert path_of([10, -6, 2, 1]) == RunningTotal(7, 10, 0, 6, 3)
