"""Series: order, repetitions, spacing, gaps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput
from tapebook.history import series
from tapebook.history.importer import RowProblems
from tests.history.files import MIDNIGHT


def ordered(*rows: tuple[int, int]) -> tuple[list[tuple[int, int]], series.Series[Mid], list[tuple[int, str]]]:
    """Orders rows given as (minute, price); gives what is left, the series, and the problems."""
    found: series.Series[Mid] = series.Series()
    for number, (minute, price) in enumerate(rows, 1):
        at = MIDNIGHT + minute * MINUTE
        found.add(number, at, Mid("BTC", at, price))
    problems = RowProblems()
    series.put_in_order(found, problems)
    left = [((at - MIDNIGHT) // MINUTE, mid.price_e8) for at, mid in zip(found.times, found.facts, strict=True)]
    return left, found, [(problem.row, problem.why) for problem in problems.first()]


def test_rows_in_order_stay() -> None:
    left, found, problems = ordered((0, 5), (1, 6), (7, 7))
    assert (left, found.duplicates, found.backwards, problems) == ([(0, 5), (1, 6), (7, 7)], 0, False, [])
    assert ordered()[0] == []


def test_newest_first_is_read_backwards() -> None:
    left, found, problems = ordered((7, 7), (1, 6), (1, 6), (0, 5))
    assert (left, found.duplicates, found.backwards, problems) == ([(0, 5), (1, 6), (7, 7)], 1, True, [])
    assert found.numbers == [4, 3, 1]


@pytest.mark.parametrize(
    ("minutes", "left", "backwards", "bad"),
    [
        ((5, 5, 4), [4, 5], True, []),
        ((5, 0, 1, 2), [5], False, [2, 3, 4]),
        ((5, 6, 3, 4), [5, 6], False, [3, 4]),
        ((3, 3, 3), [3], False, []),
    ],
)
def test_only_a_file_that_is_descending_throughout_is_turned_round(
    minutes: tuple[int, ...], left: list[int], backwards: bool, bad: list[int]
) -> None:
    kept, found, problems = ordered(*((minute, 9) for minute in minutes))
    assert ([minute for minute, _ in kept], found.backwards) == (left, backwards)
    assert [row for row, _ in problems] == bad
    assert found.numbers[0] == (3 if backwards else 1)


def test_disorder_and_contradictions_are_problems() -> None:
    left, found, problems = ordered((0, 5), (2, 6), (1, 9), (2, 6), (2, 7), (3, 8))
    assert left == [(0, 5), (2, 6), (3, 8)]
    assert found.duplicates == 1
    assert problems == [
        (3, "2023-07-24T00:01:00.000Z comes after 2023-07-24T00:02:00.000Z: rows must be in order of time"),
        (5, "2023-07-24T00:02:00.000Z is in 2 already with other values"),
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=12))
def test_every_row_is_kept_counted_or_a_problem(rows: list[tuple[int, int]]) -> None:
    left, found, problems = ordered(*rows)
    assert len(left) + found.duplicates + len(problems) == len(rows)
    assert [minute for minute, _ in left] == sorted({minute for minute, _ in left})
    assert set(left) <= set(rows)


def test_bad_rows_are_dropped_with_their_number() -> None:
    _, found, _ = ordered((0, 5), (1, 6), (2, 7))
    problems = RowProblems()
    found.drop_rows([False, True, False], "is bad", problems)
    assert (found.numbers, [mid.price_e8 for mid in found.facts]) == ([1, 3], [5, 7])
    assert [(one.row, one.why) for one in problems.first()] == [(2, "2023-07-24T00:01:00.000Z is bad")]


@pytest.mark.parametrize(
    ("minutes", "usual", "gaps", "missing"),
    [
        ([], None, [], 0),
        ([4], None, [], 0),
        ([0, 1, 2], 1, [], 0),
        ([0, 1, 2, 5, 6, 9], 1, [(3, 5), (7, 9)], 4),
        ([0, 5, 10, 20], 5, [(15, 20)], 1),
        ([0, 3, 5], 2, [(2, 3)], 0),
    ],
)
def test_spacing_and_gaps(minutes: list[int], usual: int | None, gaps: list[tuple[int, int]], missing: int) -> None:
    assert series.usual_spacing(minutes) == usual
    assert series.row_gaps(minutes, usual) == gaps
    assert series.missing_rows(gaps, usual) == missing


def test_the_longest_gaps_in_order_of_time() -> None:
    gaps = [(at, at + length) for at, length in ((0, 1), (10, 5), (20, 2), (30, 9), (40, 3), (50, 4), (60, 1))]
    assert series.longest_gaps(gaps) == ((10, 15), (20, 22), (30, 39), (40, 43), (50, 54))


@pytest.mark.parametrize(
    "minutes",
    [[], [3], [0, 1, 2], [0, 1, 2, 60], [0, 3, 5], [0, 2, 4, 5]],
)
def test_spacings_of_a_minute(minutes: list[int]) -> None:
    """Neither raises: the rows are whole minutes apart, and nobody said how far apart the hours should be."""
    series.require_spacing([minute * MINUTE for minute in minutes], MINUTE)
    series.require_spacing([minute * HOUR for minute in minutes], None)


@pytest.mark.parametrize(("minutes", "says"), [([0, 5, 10, 20], "5m"), ([0, 60], "1h"), ([0, 0.5, 1], "30s")])
def test_other_spacings_are_refused_with_what_was_found(minutes: list[float], says: str) -> None:
    with pytest.raises(BadInput, match=f"the rows are {says} apart but `interval=` says 1m: use `interval=` {says}"):
        series.require_spacing([round(minute * MINUTE) for minute in minutes], MINUTE)
