"""The port: intervals, when history counts as known, and the list of bad rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput
from tapebook.history.importer import RowProblems, assumed_known_at
from tapebook.tape.view import bar_length_ms, parse_span, span_ms, span_text
from tests.history.files import MIDNIGHT


def test_intervals() -> None:
    assert (bar_length_ms("1m"), bar_length_ms("4h"), span_ms("8h"), span_ms("90s")) == (
        MINUTE,
        4 * HOUR,
        8 * HOUR,
        90_000,
    )
    with pytest.raises(BadInput, match="there are no bars of '3m': choose one of 1m, 5m, 15m, 1h, 4h, 1d"):
        bar_length_ms("3m")
    with pytest.raises(BadInput, match="'soon' is no interval: write it like 1m, 1h or 8h"):
        span_ms("soon")
    assert parse_span("0m") is None


@given(st.integers(1, 100_000), st.sampled_from("smhd"))
def test_a_span_is_read_as_it_is_written(count: int, unit: str) -> None:
    span = span_ms(f"{count}{unit}")
    assert span_ms(span_text(span)) == span


def test_spans_below_a_second() -> None:
    assert (span_text(8), span_text(1_500), span_text(0)) == ("0.008s", "1.5s", "0s")


def test_history_counts_as_known_the_grace_after_its_bucket() -> None:
    assert assumed_known_at(Candle("BTC", 300, MIDNIGHT, 1, 1, 1, 1, 0.0, 0.0, 0)) == MIDNIGHT + 302_000
    assert assumed_known_at(FundingRate("BTC", MIDNIGHT, 1, 0)) == MIDNIGHT + 2_000
    assert assumed_known_at(Mid("BTC", MIDNIGHT, 1)) == MIDNIGHT + 7_000


@given(st.permutations(range(30)))
def test_the_first_bad_rows_are_kept_whatever_their_order(rows: list[int]) -> None:
    problems = RowProblems()
    for row in rows:
        problems.add(row, f"why {row}")
    assert problems.count == 30
    assert [(problem.row, problem.why) for problem in problems.first()] == [(row, f"why {row}") for row in range(20)]
