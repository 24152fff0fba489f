"""Instants as text and back, in UTC whatever the machine thinks."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import (
    DAY,
    HOUR,
    MINUTE,
    floor_to_step,
    iso_text,
    minute_text,
    parse_instant,
    time_of_day_text,
)

NOON = 1_769_861_100_000
INSTANTS = st.integers(-(10**13), 2 * 10**13)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(instant=INSTANTS)
def test_iso_and_back(instant: int) -> None:
    assert parse_instant(iso_text(instant)) == instant


@given(instant=st.integers(10**8, 2 * 10**13))
def test_epoch_milliseconds_are_themselves(instant: int) -> None:
    assert parse_instant(str(instant)) == instant


@given(moment=st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), zone=ZONES)
def test_a_zone_is_taken_into_account(moment: datetime, zone: timezone) -> None:
    aware = moment.replace(tzinfo=zone)
    expected = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert parse_instant(aware.isoformat()) == expected


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:05:00Z", "2026-01-31T12:05:00", "2026-01-31 12:05", "2026-01-31T12:05:00.000Z",
     "2026-01-31T14:05:00+02:00", "2026-01-31T12:05:00.0009Z", "20260131T120500Z", "1769861100000"],
)  # fmt: skip
def test_many_ways_to_write_one_instant(text: str) -> None:
    assert parse_instant(text) == NOON


def test_a_day_alone_is_its_first_instant() -> None:
    assert parse_instant("2026-01-31") == parse_instant("20260131") == floor_to_step(NOON, DAY)


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01", "2026-01-31T25:00", "31.01.2026", "12:05", " 2026-01-31"])
def test_what_is_no_time_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["--1769861100000", "²²²²²²²²²"])
def test_what_only_looks_like_digits_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["253402300800000", "999999999999999", "-99999999999999"])
def test_an_instant_that_cannot_be_written_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_instant(text)


def test_texts_by_hand() -> None:
    assert iso_text(NOON + 7) == "2026-01-31T12:05:00.007Z"
    assert iso_text(-1) == "1969-12-31T23:59:59.999Z"
    assert minute_text(NOON + 59_999) == "2026-01-31T12:05"
    assert time_of_day_text(NOON) == "12:05"


@given(instant=INSTANTS)
def test_short_texts_are_parts_of_the_long_one(instant: int) -> None:
    assert minute_text(instant) == iso_text(instant)[:16]
    assert time_of_day_text(instant) == iso_text(instant)[11:16]


@given(earlier=INSTANTS, later=INSTANTS)
def test_texts_sort_as_the_instants_do(earlier: int, later: int) -> None:
    assert (earlier < later) == (iso_text(earlier) < iso_text(later))


@given(instant=INSTANTS, step=st.sampled_from([5_000, MINUTE, 5 * MINUTE, HOUR, 8 * HOUR, DAY]))
def test_floor_is_the_newest_multiple_not_after(instant: int, step: int) -> None:
    start = floor_to_step(instant, step)
    assert start % step == 0
    assert start <= instant < start + step
