"""The leaf of a day."""

import msgspec
import pytest
from hypothesis import given, settings

from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.units import E6
from tapebook.horizons.aggregate import EMPTY_AGGREGATE, EXTERNAL, TradeExit, exit_of, leaf_of
from tapebook.horizons.layers import parse_period, period_of
from tests.horizons.makers import exit_at, ledgers
from tests.matrix import examples

DAY = parse_period("day", "2026-02-04")


@settings(max_examples=examples(40))
@given(ledgers(most=12, days=0))
def test_the_order_of_arrival_does_not_matter(exits: list[TradeExit]) -> None:
    day = period_of("day", exits[0].exited_at) if exits else DAY
    assert leaf_of(day, exits) == leaf_of(day, sorted(exits, key=lambda each: each.net_usd_e6))


def test_a_trade_of_another_day_is_refused() -> None:
    with pytest.raises(ValueError, match="did not end on 2026-02-04"):
        leaf_of(DAY, [exit_at("2026-02-05T00:00")])
    assert leaf_of(DAY, [exit_at("2026-02-04T23:59:59.999")]).trades == 1


def test_a_day_without_trades_is_empty() -> None:
    assert leaf_of(DAY, []) == EMPTY_AGGREGATE
    booked = leaf_of(DAY, [], ledger_usd_e6=-5)
    assert booked.ledger_usd_e6 == -5 and booked.daily.n == 0 and booked.span_days == 0


def test_symbols_are_squared_by_the_day_and_not_by_the_trade() -> None:
    leaf = leaf_of(DAY, [exit_at("2026-02-04T01:00", 3), exit_at("2026-02-04T02:00", -1)])
    assert leaf.symbols["BTC"].square_e12 == (2 * E6) ** 2 == leaf.daily.square
    assert (leaf.wins, leaf.trades, leaf.symbols["BTC"].wins) == (1, 2, 1)


def test_a_closed_trade_with_who_entered_it() -> None:
    state = TradeState(
        *("t1", "BTC", "short", 1_000, 10**8, 2, "why", "r1", "chop_hivol", None, -(10**8), -50 * E6, 1_000),
        realised_usd_e6=5 * E6,
        fees_usd_e6=E6,
        funding_usd_e6=-2 * E6,
    )
    trade = ClosedTrade(state, 61_000, "a long\n reason " + "x" * 200, "r2")
    told = exit_of(trade, "trend", 7_000)
    assert (told.net_usd_e6, told.entered_usd_e6, told.held_ms) == (2 * E6, 50 * E6, 60_000)
    assert (told.strategy, told.confidence_e4, told.regime) == ("trend", 7_000, "chop_hivol")
    assert told.reason.startswith("a long reason xxx") and len(told.reason) == 80
    assert (exit_of(trade).strategy, exit_of(trade).confidence_e4) == (EXTERNAL, None)
    sized = ClosedTrade(msgspec.structs.replace(state, entry_usd_e6=20 * E6), 61_000, "", None)
    assert exit_of(sized).entered_usd_e6 == 20 * E6
