"""Portfolio and risk caps: in dollars and cents, from integers, with what is left of every cap."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context import market_sections
from tapebook.context.render import Rows, fact_text
from tapebook.context.situation import Situation
from tapebook.domain.agent import RiskCaps
from tapebook.domain.packet import Section
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import Activity
from tapebook.domain.units import E6, E8, MINUTE
from tests.context.situations import NOW, deployed, order, profile, situation

CAPS = (
    ("max_position_usd", "2000.00"),
    ("max_account_usd", "10000.00"),
    ("account_used_usd", "0.00"),
    ("max_leverage", "5"),
    ("min_notional_usd", "10.00"),
)
LEFT = (("max_daily_loss_usd", "1000.00"), ("daily_loss_left_usd", "1000.00"), ("orders_left_this_hour", "60"))


def built(found: Situation) -> Section:
    """The section, which is always there."""
    section = market_sections.PORTFOLIO_SECTION.section(found)
    assert section is not None
    return section


def flat(**changes: object) -> Situation:
    """An account of 1,000 USD that holds nothing."""
    plain = situation(
        portfolio=Portfolio({}, 1_000 * E6), marks={}, activity=Activity(day_start_equity_usd_e6=1_000 * E6)
    )
    return msgspec.structs.replace(plain, **changes)


@pytest.mark.parametrize(
    ("size", "side", "worth", "unrealised", "equity"),
    [(2, "long", "220.00", "20.00", "1020.00"), (-2, "short", "220.00", "-20.00", "980.00")],
)
def test_position_in_the_symbol(size: int, side: str, worth: str, unrealised: str, equity: str) -> None:
    held = Position("BTC", size * E8, size * 100 * E6)
    other = Position("ETH", E8, 50 * E6)
    marks = {"BTC": 110 * E8, "ETH": 50 * E8}
    section = built(flat(portfolio=Portfolio({"ETH": other, "BTC": held}, 1_000 * E6), marks=marks, activity=None))
    assert section.rows == (
        ("cash_usd", "1000.00"),
        ("equity_usd", equity),
        ("position_side", side),
        ("position_usd", worth),
        ("entry_price", "100.00"),
        ("mark", "110.00"),
        ("unrealised_usd", unrealised),
        ("open_symbols", "BTC ETH"),
        ("working_orders", "none"),
        *CAPS[:2],
        ("account_used_usd", "270.00"),
        *CAPS[3:],
    )


def test_flat_account_shows_every_cap() -> None:
    assert built(flat()).rows == (
        ("cash_usd", "1000.00"),
        ("equity_usd", "1000.00"),
        ("position_side", "flat"),
        ("open_symbols", "none"),
        ("working_orders", "none"),
        *CAPS,
        *LEFT,
    )


def test_position_in_another_symbol_is_not_this_ones() -> None:
    held = {"ETH": Position("ETH", E8, 50 * E6)}
    section = built(flat(portfolio=Portfolio(held, 0), marks={"ETH": 60 * E8}))
    assert (section.get("position_side"), section.get("position_usd")) == ("flat", None)
    assert (section.get("equity_usd"), section.get("open_symbols")) == ("10.00", "ETH")


@pytest.mark.parametrize(
    ("start", "left"),
    [(900, "1000.00"), (1_000, "1000.00"), (1_300, "700.00"), (2_000, "0.00"), (9_000, "0.00")],
    ids=["won", "even", "lost", "all of it", "more than all"],
)
def test_loss_that_is_left_for_the_day(start: int, left: str) -> None:
    section = built(flat(activity=Activity(day_start_equity_usd_e6=start * E6)))
    assert section.get("daily_loss_left_usd") == left


@pytest.mark.parametrize(("done", "left"), [(0, "60"), (59, "1"), (60, "0"), (100, "0")])
def test_orders_that_are_left_for_the_hour(done: int, left: str) -> None:
    assert built(flat(activity=Activity(orders_last_hour=done))).get("orders_left_this_hour") == left


def test_what_could_not_be_read_is_said_and_not_shown_as_full() -> None:
    section = built(flat(activity=None, degraded=("recent_trades", "activity")))
    assert section.get("daily_loss_left_usd") is None
    assert section.get("could_not_be_read") == "activity recent_trades"
    assert built(flat()).get("could_not_be_read") is None


@pytest.mark.parametrize(
    ("cooldown_ms", "lost_at", "rests"),
    [
        (0, NOW - 1, None),
        (10 * MINUTE, NOW - 9 * MINUTE, "60"),
        (10 * MINUTE, NOW - 9 * MINUTE + 1, "61"),
        (10 * MINUTE, NOW - 10 * MINUTE, None),
    ],
)
def test_rest_after_a_loss(cooldown_ms: int, lost_at: int, rests: str | None) -> None:
    agent = profile(caps=RiskCaps(cooldown_ms=cooldown_ms))
    lost = Activity(last_loss_at={"BTC": lost_at, "ETH": NOW})
    assert built(flat(deployment=deployed(agent), activity=lost)).get("rests_after_loss_s") == rests


def test_working_orders_are_named_and_count_towards_the_account() -> None:
    market = order("ETH", type="market", limit_price_e8=None, side="sell", size_e8=2 * E8)
    closing = order("SOL", reduce_only=True, size_e8=5 * E8)
    section = built(flat(working=(order(), market, closing), marks={"ETH": 100 * E8}))
    assert section.get("working_orders") == "buy 0.01 BTC at 65000; sell 2 ETH; buy 5 SOL at 65000"
    assert section.get("account_used_usd") == "850.00"
    unpriced = built(flat(working=(market,)))
    assert unpriced.get("account_used_usd") == "0.00"


def test_long_lists_are_counted() -> None:
    held = {f"S{number:02d}": Position(f"S{number:02d}", E8, 0) for number in range(50)}
    section = built(flat(portfolio=Portfolio(held, 0), marks=dict.fromkeys(held, E8), working=(order(),) * 9))
    assert section.get("open_symbols") == "S00 S01 S02 S03 S04 S05 S06 S07 and 42 more"
    assert (section.get("working_orders") or "").endswith("; 6 more")


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6).map(tuple))
def test_facts_are_a_line_each(rows: Rows) -> None:
    assert fact_text(rows) == "\n".join(f"- {name}: {value}" for name, value in rows)
