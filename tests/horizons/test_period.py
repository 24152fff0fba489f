"""Periods tile the time without gaps, and their names say which they are."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import DAY, parse_instant
from tapebook.errors import BadInput
from tapebook.horizons.layers import LEGACY, PERIOD_KINDS, Period, PeriodKind, parse_period, period_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last year of all has no next one.
INSTANTS = st.integers(parse_instant("0002-01-01"), parse_instant("9998-01-01") - 1)
FORMATS: dict[PeriodKind, str] = {"day": "%Y-%m-%d", "week": "%G-W%V", "month": "%Y-%m", "year": "%Y"}


@given(st.sampled_from(PERIOD_KINDS), INSTANTS)
def test_a_period_holds_its_instants_and_ends_where_the_next_begins(kind: PeriodKind, instant: int) -> None:
    period = period_of(kind, instant)
    assert period.start <= instant < period.end
    assert instant in period and period.end not in period and period.start - 1 not in period
    assert period == period_of(kind, period.start) == period_of(kind, period.end - 1)
    assert parse_period(kind, period.key) == period
    if kind != "legacy":
        assert period.next == period_of(kind, period.end) and period.next.start == period.end
        assert period.key < period.next.key and period < period.next


@given(INSTANTS)
def test_names_are_those_of_the_calendar(instant: int) -> None:
    moment = EPOCH + timedelta(milliseconds=instant)
    for kind, form in FORMATS.items():
        # strftime does not pad years below 1000 everywhere.
        expected = moment.strftime(form).rjust(len(period_of(kind, instant).key), "0")
        assert period_of(kind, instant).key == expected
    assert period_of("quarter", instant).key == f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
    assert period_of("legacy", instant).key == LEGACY


@given(INSTANTS)
def test_days_lie_whole_in_everything_and_months_in_quarters_and_years(instant: int) -> None:
    day = period_of("day", instant)
    for kind in PERIOD_KINDS:
        assert day.start >= period_of(kind, instant).start and day.end <= period_of(kind, instant).end
    month, quarter, year = (period_of(kind, instant) for kind in ("month", "quarter", "year"))
    assert year.start <= quarter.start <= month.start and month.end <= quarter.end <= year.end


def test_a_week_has_the_year_of_its_thursday() -> None:
    assert period_of("week", parse_instant("2027-01-01")).key == "2026-W53"
    assert period_of("week", parse_instant("2024-12-30")).key == "2025-W01"
    week = parse_period("week", "2026-W06")
    assert week == Period("week", parse_instant("2026-02-02")) and week.end - week.start == 7 * DAY


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *(
            ("day", "2026-02-30"),
            ("day", "2026-2-4"),
            ("day", "0000-01-01"),
            ("day", "2026-02-04 "),
            ("day", "9999-01-01"),
        ),
        *(("week", "2025-W53"), ("week", "2026-W00"), ("week", "2026-06"), ("month", "2026-13"), ("month", "2026-W06")),
        *(("quarter", "2026-Q5"), ("quarter", "2026-1"), ("year", "26"), ("year", "٢٠٢٦"), ("legacy", "legacy")),
        ("legacy", ""),
    ],
)
def test_other_names_are_refused(kind: PeriodKind, key: str) -> None:
    with pytest.raises(BadInput, match=r"write it like|years 1 to 9998"):
        parse_period(kind, key)


def test_there_is_nothing_after_all_time() -> None:
    with pytest.raises(BadInput):
        _ = period_of("legacy", 0).next
