"""Luck and skill apart: the parts always sum to the result, and each answers to its own cause alone."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.backtest.measure import attribute_result, symbol_paces
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import E6, E8, HOUR
from tests.experience.makers import T0, closed


def trade(
    number: int, *, gross_usd: float, size_usd: float = 1_000.0, side: str = "long", hours: float = 1
) -> ClosedTrade:
    made = closed(number, net_bps=0, side=side)
    state = msgspec.structs.replace(
        made.state, entered_usd_e6=round(size_usd * E6), realised_usd_e6=round(gross_usd * E6), fees_usd_e6=2 * E6
    )
    exit_at = state.entry_tick_at + round(hours * HOUR)
    return ClosedTrade(msgspec.structs.replace(state, funding_usd_e6=-E6), exit_at, "test", None)


made = st.builds(
    trade,
    st.integers(0, 10**6),
    gross_usd=st.floats(-5_000, 5_000),
    size_usd=st.floats(0, 10**6),
    side=st.sampled_from(("long", "short")),
    hours=st.floats(0, 500),
)


@given(st.lists(made, max_size=20), st.floats(-1e-6, 1e-6))
def test_parts_sum_to_the_net_result_exactly(trades: list[ClosedTrade], pace: float) -> None:
    parts = attribute_result(trades, {"BTC": pace})
    assert sum(msgspec.structs.astuple(parts)) == sum(trade.state.net_usd_e6 for trade in trades)
    assert parts.fees_usd_e6 == -2 * E6 * len(trades) and parts.funding_usd_e6 == -E6 * len(trades)


def test_what_the_market_gave_to_whoever_was_in_it_is_the_markets() -> None:
    # 1 % an hour: a long of 1,000 for two hours is owed 20, a short owes as much.
    pace = 0.01 / HOUR
    both = [trade(1, gross_usd=20, hours=2), trade(2, gross_usd=-20, hours=2, side="short")]
    parts = attribute_result(both, {"BTC": pace})
    assert (parts.market_usd_e6, parts.timing_usd_e6, parts.sizing_usd_e6) == (0, 0, 0)
    alone = attribute_result([trade(1, gross_usd=50, hours=2)], {"BTC": pace})
    assert (alone.market_usd_e6, alone.timing_usd_e6, alone.sizing_usd_e6) == (20 * E6, 30 * E6, 0)


def test_more_on_the_winner_is_sizing() -> None:
    # Both moved by 1 %, one for and one against; the winner was three times as large.
    parts = attribute_result([trade(1, gross_usd=30, size_usd=3_000), trade(2, gross_usd=-10)], {})
    assert (parts.market_usd_e6, parts.timing_usd_e6, parts.sizing_usd_e6) == (0, 0, 20 * E6)


@pytest.mark.parametrize("known", [{}, {"ETH": 1.0}])
def test_a_symbol_without_a_pace_has_no_market_part(known: dict[str, float]) -> None:
    assert attribute_result([trade(1, gross_usd=5)], known).market_usd_e6 == 0
    assert msgspec.structs.astuple(attribute_result([], known)) == (0, 0, 0, 0, 0)


def test_a_pace_is_the_change_over_the_time_there_was_a_price() -> None:
    # Trades are entered on hours 4 and 2 at a mark of 100.
    both = [trade(4, gross_usd=0), trade(2, gross_usd=0)]
    span = {"start": T0, "end": T0 + 10 * HOUR}
    assert symbol_paces(both, {"BTC": (50 * E8, 75 * E8)}, **span) == {"BTC": pytest.approx(0.5 / (10 * HOUR))}
    assert symbol_paces(both, {"BTC": (None, 150 * E8)}, **span) == {"BTC": pytest.approx(0.5 / (8 * HOUR))}
    assert (
        symbol_paces(both, {"BTC": (50 * E8, None)}, **span)
        == symbol_paces(both, {}, **span)
        == symbol_paces([], {}, **span)
        == {}
    )
