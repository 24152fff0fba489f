"""Times: the unit is told by the size of the number, the zone by the text, and one column is written one way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import iso_text
from tapebook.history.table_columns import BAD_TIME, TimeColumn, why_bad_time
from tests.history.files import MIDNIGHT

HOUR_LATER = MIDNIGHT + 3_600_000


@pytest.mark.parametrize(
    ("values", "instants", "words"),
    [
        ([MIDNIGHT // 1000], [MIDNIGHT], "seconds since 1970, UTC"),
        (["1690156800", "1690160400.0"], [MIDNIGHT, HOUR_LATER], "seconds since 1970, UTC"),
        ([MIDNIGHT // 1000 + 0.25], [MIDNIGHT + 250], "seconds since 1970, UTC"),
        ([MIDNIGHT, HOUR_LATER], [MIDNIGHT, HOUR_LATER], "milliseconds since 1970, UTC"),
        ([str(MIDNIGHT), str(HOUR_LATER)], [MIDNIGHT, HOUR_LATER], "milliseconds since 1970, UTC"),
        (["1.6901568e+12"], [MIDNIGHT], "milliseconds since 1970, UTC"),
        ([MIDNIGHT * 1000 + 999], [MIDNIGHT], "microseconds since 1970, UTC"),
        ([f"{MIDNIGHT}000000"], [MIDNIGHT], "nanoseconds since 1970, UTC"),
        (["2023-07-24T00:00:00Z"], [MIDNIGHT], "ISO-8601 with a zone, turned into UTC"),
        (["2023-07-24 02:00:00+02:00"], [MIDNIGHT], "ISO-8601 with a zone, turned into UTC"),
        (["2023-07-24 00:00:00 UTC"], [MIDNIGHT], "ISO-8601 with a zone, turned into UTC"),
        (["2023-07-24 00:00:00", "2023-07-24 01:00"], [MIDNIGHT, HOUR_LATER], "ISO-8601 without a zone, taken as UTC"),
        (["2023-07-24"], [MIDNIGHT], "ISO-8601 without a zone, taken as UTC"),
        (["20230724"], [MIDNIGHT], "ISO-8601 without a zone, taken as UTC"),
        (["2023/07/24 00:00"], [MIDNIGHT], "ISO-8601 without a zone, taken as UTC"),
        (["2023.07.24 01:00"], [HOUR_LATER], "ISO-8601 without a zone, taken as UTC"),
        # The first readable value decides; what is written otherwise is bad.
        (
            ["?", str(MIDNIGHT), "2023-07-24", "1690156800"],
            [BAD_TIME, MIDNIGHT, BAD_TIME, BAD_TIME],
            "milliseconds since 1970, UTC",
        ),
        (["2023-07-24", "2023-07-24T01:00Z"], [MIDNIGHT, BAD_TIME], "ISO-8601 without a zone, taken as UTC"),
        (
            [None, "", True, "24.07.2023", "07/24/2023", "1999-12-31", -5, 0],
            [BAD_TIME] * 8,
            "ISO-8601 without a zone, taken as UTC",
        ),
        (["", "yesterday"], [BAD_TIME, BAD_TIME], "no readable time"),
        ([float("nan"), float("inf")], [BAD_TIME, BAD_TIME], "no readable time"),
    ],
)
def test_times(values: list[Any], instants: list[int], words: str) -> None:
    times = TimeColumn()
    assert times.read_block(values) == instants
    assert times.words == words


def test_one_way_of_writing_for_all_blocks() -> None:
    times = TimeColumn()
    assert times.read_block(["nothing"]) == [BAD_TIME]
    assert times.read_block([str(MIDNIGHT)]) == [MIDNIGHT]
    assert times.read_block(["2023-07-24"]) == [BAD_TIME]


def test_instants_by_type_are_milliseconds() -> None:
    times = TimeColumn("timestamps in ns, with the zone UTC")
    assert times.read_block([MIDNIGHT, None, 5]) == [MIDNIGHT, BAD_TIME, BAD_TIME]
    assert times.words == "timestamps in ns, with the zone UTC"


def test_why_a_time_is_bad() -> None:
    assert why_bad_time(None) == why_bad_time("") == "has no time"
    assert why_bad_time("soon").startswith("time 'soon' cannot be read: write it like 2026-01-31T12:05:00Z")
    assert "is not between 2000 and 2099, or is written unlike the first" in why_bad_time("1999-12-31")


@given(st.integers(946_684_800_000, 4_102_444_799_999), st.sampled_from(["ms", "ns", "us", "iso", "text"]))
def test_every_instant_survives(instant: int, way: str) -> None:
    written = {
        "ms": instant,
        "us": instant * 1000,
        "ns": instant * 10**6,
        "iso": iso_text(instant),
        "text": str(instant),
    }[way]
    assert TimeColumn().read_block([written]) == [instant]
