"""When a note is due."""

import pytest

from tapebook.domain.agent import ReflectionSettings
from tapebook.domain.units import DAY, HOUR
from tapebook.lessons import ReflectionState, should_run_reflection

NOON = 20_000 * DAY + 12 * HOUR


def due(state: ReflectionState, cadence: str, *, as_of: int = NOON, n: int = 10) -> bool:
    return should_run_reflection(state, ReflectionSettings(cadence, n), as_of=as_of)  # type: ignore[arg-type]


def test_off_means_never() -> None:
    assert not due(ReflectionState(1_000, None, NOON), "off")


@pytest.mark.parametrize(("closed", "expected"), [(0, False), (9, False), (10, True), (11, True), (25, True)])
def test_two_closes_in_one_tick_cannot_skip_a_note(closed: int, expected: bool) -> None:
    assert due(ReflectionState(closed, NOON, NOON), "per_n_trades") is expected


def test_the_first_daily_note_comes_after_the_first_day_with_a_closed_trade() -> None:
    first = ReflectionState(1, None, NOON - HOUR)
    assert not due(first, "daily")
    assert due(first, "daily", as_of=NOON + DAY)


def test_a_daily_note_comes_once_a_utc_day_and_only_with_something_new() -> None:
    assert not due(ReflectionState(3, NOON - HOUR, 0), "daily")
    assert due(ReflectionState(3, NOON - DAY, 0), "daily")
    assert not due(ReflectionState(0, NOON - DAY, 0), "daily")
