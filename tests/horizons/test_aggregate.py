"""Aggregates merge in any grouping, and say of any span what its trades say."""

import statistics
from fractions import Fraction

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.canonical import canonical_json
from tapebook.domain.units import DAY
from tapebook.horizons.aggregate import (
    EMPTY_AGGREGATE,
    MOST_BEST,
    MOST_WORST,
    Aggregate,
    TradeExit,
    fold_spans,
    fold_two_spans,
)
from tapebook.horizons.layers import PERIOD_KINDS, period_of
from tests.horizons.makers import ABOVE_DAYS, exit_at, leaves_of, ledgers
from tests.horizons.oracle import deepest_fall, in_time, periods_of
from tests.matrix import examples


@settings(max_examples=examples(60))
@given(ledgers(), st.data())
def test_merging_is_associative_and_empty_changes_nothing(exits: list[TradeExit], data: st.DataObject) -> None:
    leaves = list(leaves_of(exits).values())
    one, two = sorted(data.draw(st.tuples(st.integers(0, len(leaves)), st.integers(0, len(leaves)))))
    a, b, c = fold_spans(leaves[:one]), fold_spans(leaves[one:two]), fold_spans(leaves[two:])
    assert fold_two_spans(fold_two_spans(a, b), c) == fold_two_spans(a, fold_two_spans(b, c)) == fold_spans(leaves)
    assert fold_two_spans(a, EMPTY_AGGREGATE) == a == fold_two_spans(EMPTY_AGGREGATE, a)


@settings(max_examples=examples(60))
@given(ledgers())
def test_sums_are_conserved_over_every_layer(exits: list[TradeExit]) -> None:
    """Days, weeks, months, quarters, years and all time give one total, to the last millionth of a dollar."""
    leaves = leaves_of(exits)
    for kind in PERIOD_KINDS:
        spans = [
            fold_spans(leaf for day, leaf in leaves.items() if day.start in each) for each in periods_of(exits, kind)
        ]
        assert sum(span.net_usd_e6 for span in spans) == sum(each.net_usd_e6 for each in exits)
        assert sum(span.gross_usd_e6 for span in spans) == sum(each.gross_usd_e6 for each in exits)
        assert sum(span.fees_usd_e6 for span in spans) == sum(each.fees_usd_e6 for each in exits)
        assert sum(span.funding_usd_e6 for span in spans) == sum(each.funding_usd_e6 for each in exits)
        assert sum(span.trades for span in spans) == len(exits)
        assert sum(span.wins for span in spans) == sum(each.net_usd_e6 > 0 for each in exits)
        for span in spans:
            assert sum(tally.net_usd_e6 for tally in span.symbols.values()) == span.net_usd_e6
            assert sum(tally.net_usd_e6 for tally in span.strategies.values()) == span.net_usd_e6


@settings(max_examples=examples(60))
@given(ledgers())
def test_a_parent_is_what_its_trades_say(exits: list[TradeExit]) -> None:
    leaves = leaves_of(exits)
    for kind in ABOVE_DAYS:
        for period in periods_of(exits, kind):
            whole, ended = (
                fold_spans(leaf for day, leaf in leaves.items() if day.start in period),
                in_time(exits, period),
            )
            nets = [each.net_usd_e6 for each in ended]
            daily = [sum(e.net_usd_e6 for e in ended if e.exited_at in day) for day in periods_of(ended, "day")]
            assert (whole.path.total, whole.path.drawdown) == (sum(nets), deepest_fall(nets))
            assert (whole.daily.n, whole.daily.total) == (len(daily), sum(daily))
            assert whole.daily.square == sum(net * net for net in daily)
            assert [each.net_usd_e6 for each in whole.best] == sorted((n for n in nets if n > 0), reverse=True)[
                :MOST_BEST
            ]
            assert [each.net_usd_e6 for each in whole.worst] == sorted(n for n in nets if n < 0)[:MOST_WORST]
            assert whole.notional_ms == sum(each.entered_usd_e6 * each.held_ms for each in ended)
            assert whole.years == tuple(sorted({int(day.key[:4]) for day in periods_of(ended, "day")}))
            assert whole.span_days == (ended[-1].exited_at // DAY) - (ended[0].exited_at // DAY) + 1
            check_confidence(whole, ended)


def check_confidence(whole: Aggregate, ended: list[TradeExit]) -> None:
    """Mean and variance of what was said, exactly."""
    said = [each.confidence_e4 for each in ended if each.confidence_e4 is not None]
    assert whole.confidence_e4.n == len(said)
    if said:
        assert Fraction(whole.confidence_e4.total, len(said)) == statistics.mean(map(Fraction, said))
        second = Fraction(whole.confidence_e4.square, len(said)) - Fraction(whole.confidence_e4.total, len(said)) ** 2
        assert second == statistics.pvariance(map(Fraction, said))


@settings(max_examples=examples(40))
@given(ledgers())
def test_it_survives_the_log(exits: list[TradeExit]) -> None:
    """Integers of any length, as canonical JSON and back."""
    whole = fold_spans(leaves_of(exits).values())
    assert msgspec.json.decode(canonical_json(whole), type=Aggregate) == whole


def test_a_week_over_two_months_is_split_by_day() -> None:
    """2026-W05 ends on 1 February: a month of weeks would count it in one month, or in both."""
    leaves = leaves_of([exit_at("2026-01-30T10:00"), exit_at("2026-01-31T10:00", 2), exit_at("2026-02-01T23:59", 4)])
    (week,) = {period_of("week", day.start) for day in leaves}
    months = {
        kind: fold_spans(leaf for day, leaf in leaves.items() if day.key[:7] == kind) for kind in ("2026-01", "2026-02")
    }
    assert week.key == "2026-W05" and fold_spans(leaves.values()).net_usd_e6 == 7_000_000
    assert {key: month.net_usd_e6 for key, month in months.items()} == {"2026-01": 3_000_000, "2026-02": 4_000_000}
