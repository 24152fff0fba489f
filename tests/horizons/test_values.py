"""The keys of every layer, and the statistics behind them against other arithmetic."""

import math
import statistics
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from tapebook.domain.units import DAY
from tapebook.horizons.aggregate import Aggregate, Sums, TradeExit, fold_spans, leaf_of
from tapebook.horizons.layers import LAYER_OF, PERIOD_KINDS, ContextLayer, Period, PeriodKind, period_of
from tapebook.horizons.values import RollupTerms, correlation, mean_confidence, sharpe_ratio, values_of
from tests.horizons.makers import exit_at, leaves_of, ledgers
from tests.horizons.oracle import PNL, in_time, periods_of
from tests.matrix import examples

# The keys seed documents name for each layer, apart from those that people write.
NAMED: dict[ContextLayer, set[str]] = {
    ContextLayer.L6_DAILY: {"total_pnl", "trade_count", "win_rate", "avg_confidence"},
    ContextLayer.L5_WEEKLY: {"weekly_pnl", "top_performers", "sector_focus", "volatility_regime", "avg_confidence"},
    ContextLayer.L4_MONTHLY: {"monthly_pnl", "sharpe_ratio", "max_drawdown", "recovery", "exposure", "correlation"},
    ContextLayer.L3_QUARTERLY: {"quarterly_pnl", "market_phase"},
    ContextLayer.L2_ANNUAL: {
        "annual_pnl",
        "sharpe_ratio",
        "win_rate",
        "best_strategy",
        "worst_mistake",
        "max_drawdown",
    },
    ContextLayer.L1_LEGACY: {"total_pnl", "years_traded", "avg_annual_pnl", "greatest_trades"},
}
MONTH = [
    exit_at("2026-02-02T10:00", 12.5, strategy="trend", confidence_e4=6_000, regime="trend_up_lowvol"),
    exit_at("2026-02-03T10:00", -20.25, symbol="ETH", strategy="carry", confidence_e4=8_000, regime="trend_up_hivol"),
    exit_at("2026-02-04T10:00", 5.0, symbol="SOL", strategy="carry", regime="chop_lowvol", fees_usd_e6=500_000),
    exit_at("2026-02-04T12:00", 4.0, strategy="trend", regime="trend_up_lowvol"),
]


def told(kind: PeriodKind, exits: list[TradeExit], terms: RollupTerms | None = None) -> dict[str, Any]:
    """The values of the period of a kind that the first exit lies in."""
    period = period_of(kind, exits[0].exited_at)
    values = values_of(period, whole_of(exits, period), terms or RollupTerms())
    return {key: msgspec.json.decode(value) for key, value in values.items()}


def whole_of(exits: list[TradeExit], period: Period) -> Aggregate:
    return fold_spans(leaf for day, leaf in leaves_of(exits).items() if day.start in period)


@pytest.mark.parametrize("kind", PERIOD_KINDS)
def test_every_named_key_is_there(kind: PeriodKind) -> None:
    assert NAMED[LAYER_OF[kind]] <= told(kind, MONTH).keys()


def test_the_values_of_a_month() -> None:
    found = told("month", MONTH)
    assert found["monthly_pnl"] == 0.75 and found["max_drawdown"] == 20.25
    assert found["recovery"] == pytest.approx(8.5 / 20.25, abs=1e-4)
    assert (found["win_rate"], found["win_rate_n"], found["win_count"]) == (75.0, 4, 3)
    # Four thousand dollars for an hour each, over three days.
    assert found["exposure"] == pytest.approx(4_000 / 72, abs=1e-6)


def test_more_than_all_of_a_fall_is_not_regained() -> None:
    exits = [exit_at(f"2026-02-0{day}T10:00", net) for day, net in ((2, 10.0), (3, -4.0), (4, 9.0))]
    assert (told("month", exits)["max_drawdown"], told("month", exits)["recovery"]) == (4.0, 1.0)
    assert "recovery" not in told("month", exits[:1]) and told("month", exits[:1])["max_drawdown"] == 0.0


def test_the_values_of_the_other_layers() -> None:
    week, year, legacy = told("week", MONTH), told("year", MONTH), told("legacy", MONTH)
    assert week["top_performers"] == ["BTC", "SOL"] and week["volatility_regime"] == "low"
    assert week["avg_confidence"] == 0.7 and week["avg_confidence_n"] == 2
    assert told("quarter", MONTH)["market_phase"] == "Bull"
    assert (year["best_strategy"], year["best_strategy_pnl"], year["best_strategy_n"]) == ("trend", 16.5, 2)
    assert (year["worst_mistake"]["symbol"], year["worst_mistake"]["pnl"]) == ("ETH", -20.25)
    assert [trade["pnl"] for trade in legacy["greatest_trades"]] == [12.5, 4.5, 4.0]
    assert (legacy["years_traded"], legacy["avg_annual_pnl"]) == (1, 0.75)


def test_what_was_booked_on_a_day_stands_beside_what_ended_on_it() -> None:
    day = period_of("day", MONTH[0].exited_at)
    booked = values_of(day, leaf_of(day, MONTH[:1], ledger_usd_e6=-1_250_000), RollupTerms())
    assert (booked["total_pnl"], booked["ledger_pnl"]) == ("12.5", "-1.25")
    assert "ledger_pnl" not in told("day", MONTH)
    parts = [leaf_of(day, []), leaf_of(day, [], ledger_usd_e6=3), leaf_of(day, MONTH[:1], ledger_usd_e6=-5)]
    assert fold_spans(parts).ledger_usd_e6 == -2 and fold_spans(parts[:1]).ledger_usd_e6 is None


def test_sectors_come_from_outside() -> None:
    sectors = {"BTC": "majors", "ETH": "majors", "SOL": "layer 1"}
    assert told("week", MONTH, RollupTerms(sectors.__getitem__))["sector_focus"] == ["majors", "layer 1"]
    assert told("week", MONTH)["sector_focus"] == ["Bitcoin", "Layer 1"]
    assert told("week", MONTH)["sectors"] == {"BTC": "Bitcoin", "ETH": "Layer 1", "SOL": "Layer 1"}


@settings(max_examples=examples(40))
@given(ledgers())
def test_money_is_shown_to_the_last_unit(exits: list[TradeExit]) -> None:
    for kind in PERIOD_KINDS:
        total = Decimal(0)
        for period in periods_of(exits, kind):
            total += Decimal(values_of(period, whole_of(exits, period), RollupTerms())[PNL[kind]])
        assert total * 10**6 == sum(each.net_usd_e6 for each in exits)


@settings(max_examples=examples(40))
@given(ledgers())
def test_no_estimate_is_bare(exits: list[TradeExit]) -> None:
    for kind in PERIOD_KINDS:
        for period in periods_of(exits, kind):
            found = {
                key: msgspec.json.decode(value)
                for key, value in values_of(period, whole_of(exits, period), RollupTerms()).items()
            }
            for key in {"win_rate", "avg_confidence", "sharpe_ratio"} & found.keys():
                low, high = found[f"{key}_interval"]
                assert low <= found[key] <= high and found[f"{key}_n"] >= 1


@settings(max_examples=examples(60))
@given(ledgers())
def test_sharpe_is_that_of_all_days_of_the_span(exits: list[TradeExit]) -> None:
    for period in periods_of(exits, "year"):
        whole, ended = whole_of(exits, period), in_time(exits, period)
        daily = [0.0] * whole.span_days
        for each in ended:
            daily[each.exited_at // DAY - ended[0].exited_at // DAY] += each.net_usd_e6
        found = sharpe_ratio(whole.daily, days=whole.span_days)
        if len(daily) < 3 or not any(daily):
            assert found is None
        else:
            expected = statistics.fmean(daily) / statistics.stdev(daily) * math.sqrt(365)
            assert found is not None and found.n == len(daily)
            assert found.value == pytest.approx(expected, rel=1e-6, abs=1e-9)


@settings(max_examples=examples(60))
@given(ledgers())
def test_correlation_is_the_weighted_mean_of_the_pairs(exits: list[TradeExit]) -> None:
    for period in periods_of(exits, "month"):
        whole, ended = whole_of(exits, period), in_time(exits, period)
        found = correlation(whole)
        series = {symbol: [0.0] * whole.span_days for symbol in whole.symbols}
        for each in ended:
            series[each.symbol][each.exited_at // DAY - ended[0].exited_at // DAY] += each.net_usd_e6
        moving = [values for values in series.values() if whole.span_days > 2 and statistics.pstdev(values) > 0]
        if len(moving) < 2:
            assert found is None
            continue
        pairs = [(a, b) for at, a in enumerate(moving) for b in moving[at + 1 :]]
        shared = math.fsum(statistics.covariance(a, b) for a, b in pairs)
        room = math.fsum(statistics.stdev(a) * statistics.stdev(b) for a, b in pairs)
        # Where one symbol moves a million times as far as the rest, there is nothing to compare.
        assert found is None or found == pytest.approx(shared / room, abs=1e-5)


def test_what_moves_together_correlates() -> None:
    days = [(f"2026-02-0{day}T01:00", net) for day, net in ((1, 3.0), (2, -2.0), (3, 5.0))]
    both = [exit_at(at, net, trade_id=f"b{at}") for at, net in days]
    with_it = [exit_at(at, 2 * net, trade_id=f"e{at}", symbol="ETH") for at, net in days]
    against = [exit_at(at, -net, trade_id=f"e{at}", symbol="ETH") for at, net in days]
    month = period_of("month", both[0].exited_at)
    assert correlation(whole_of(both + with_it, month)) == pytest.approx(1.0)
    assert correlation(whole_of(both + against, month)) == pytest.approx(-1.0)
    assert correlation(whole_of(both, month)) is None


def test_confidence_needs_two_for_an_interval() -> None:
    assert mean_confidence(Sums()) is None
    one = mean_confidence(Sums(1, 6_000, 6_000**2))
    assert one is not None and (one.value, one.low, one.high, one.n) == (0.6, 0.0, 1.0, 1)
    two = mean_confidence(Sums(2, 12_000, 2 * 6_000**2))
    assert two is not None and two.low == two.value == two.high == 0.6
