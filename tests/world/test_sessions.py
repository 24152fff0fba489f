"""The week has a rhythm."""

from statistics import fmean

import pytest

from tapebook.domain.units import DAY, HOUR, MINUTE, parse_instant
from tapebook.world.cadence import session_pace

MONDAY = parse_instant("2026-01-05T00:00:00Z")


def test_the_us_open_is_livelier_than_the_end_of_the_asian_day() -> None:
    assert session_pace(MONDAY + 14 * HOUR) > 1.5 * session_pace(MONDAY + 5 * HOUR)


@pytest.mark.parametrize("day", range(7))
def test_only_saturday_and_sunday_are_calm(day: int) -> None:
    same_hour_on_monday = session_pace(MONDAY + 14 * HOUR)
    assert (session_pace(MONDAY + day * DAY + 14 * HOUR) < same_hour_on_monday) == (day >= 5)


def test_a_weekday_is_about_one_on_average() -> None:
    assert fmean(session_pace(MONDAY + minute * MINUTE) for minute in range(1_440)) == pytest.approx(1.0, abs=0.02)
