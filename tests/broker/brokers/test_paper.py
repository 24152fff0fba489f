"""Paper trading: when, at which price and for which fee an order fills, in small worked examples."""

import pytest

from tapebook.broker import Exposure
from tapebook.broker.brokers import paper
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.money import E8, scaled
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, Order, OrderEnd
from tests.broker.market import NOON, TERMS, WrittenQuotes, limit, mid, order


def said(
    orders: list[Order], mids: list[Mid], *, held: float = 0, until: float = 600, **market: dict[int, int]
) -> list[BrokerEvent]:
    """What happens up to so many minutes after noon to orders and a position in BTC."""
    exposures = [Exposure("BTC", round(held * E8), NOON)] if held else []
    quotes = WrittenQuotes(mids, **market)
    return paper.create(TERMS).activity(orders, exposures, quotes=quotes, until=NOON + round(until * MINUTE))


def fills(events: list[BrokerEvent]) -> list[tuple[float, float, float]]:
    """Minute, signed size and price of every fill."""
    found = [event for event in events if isinstance(event, Fill)]
    return [((each.happened_at - NOON) / MINUTE, each.signed_size_e8 / E8, each.price_e8 / E8) for each in found]


def ends(events: list[BrokerEvent]) -> list[tuple[str, str]]:
    """Id and status of every order that ended."""
    return [(event.client_id, event.status) for event in events if isinstance(event, OrderEnd)]


@pytest.mark.parametrize(
    ("side", "spreads", "price"),
    [
        ("buy", {}, 100.01),
        ("sell", {}, 99.99),
        ("buy", {NOON + MINUTE: 5_000}, 100.25),
        ("sell", {NOON + MINUTE: 5_000}, 99.75),
        ("buy", {NOON + MINUTE: 0}, 100.0),
    ],
)
def test_market_order_fills_half_a_spread_away(side: str, spreads: dict[int, int], price: float) -> None:
    events = said([order(0, side)], [mid(1, 100)], spreads=spreads)
    assert fills(events) == [(1, 1 if side == "buy" else -1, price)]
    assert ends(events) == [("c1", "filled")]


def test_fill_says_all_about_itself() -> None:
    (fill, end) = said([order(0, "sell", 2)], [mid(1, 100)])
    assert isinstance(fill, Fill)
    assert (fill.symbol, fill.client_id, fill.maker, fill.liquidation) == ("BTC", "c1", False, False)
    # 0.045 % of what was sold: two at 99.99.
    assert fill.fee_usd_e6 == scaled("0.089991", 10**6)
    assert end == OrderEnd("c1", NOON + MINUTE, "filled")


def test_price_before_the_order_could_arrive_is_not_used() -> None:
    events = said([order()], [Mid("BTC", NOON + after, 100 * E8) for after in (0, 499, 500, 501)])
    assert [event.happened_at for event in events] == [NOON + 500, NOON + 500]


@pytest.mark.parametrize(
    ("observed", "until", "status"),
    [
        (None, 5 * MINUTE + 499, []),
        (None, 5 * MINUTE + 500, [("c1", "cancelled")]),
        (5 * MINUTE + 500, 5 * MINUTE + 500, [("c1", "filled")]),
        (5 * MINUTE + 501, HOUR, [("c1", "cancelled")]),
    ],
)
def test_market_order_waits_five_minutes(observed: int | None, until: int, status: list[tuple[str, str]]) -> None:
    mids = [] if observed is None else [Mid("BTC", NOON + observed, 100 * E8)]
    assert ends(said([order()], mids, until=until / MINUTE)) == status


def test_cancelled_order_says_why() -> None:
    assert said([order()], []) == [
        OrderEnd("c1", NOON + 500 + 5 * MINUTE, "cancelled", "no price was observed in time")
    ]


@pytest.mark.parametrize(
    ("side", "prices", "filled"),
    [
        ("buy", [100, 99, 98.99], [(3, 1, 99)]),
        ("buy", [99, 99, 99], []),
        ("sell", [98, 99, 99.01], [(3, -1, 99)]),
        ("sell", [99, 99, 99], []),
        ("buy", [98, 97], [(1, 1, 99)]),
        ("sell", [120], [(1, -1, 99)]),
    ],
)
def test_limit_order_waits_until_it_is_traded_through(
    side: str, prices: list[float], filled: list[tuple[float, float, float]]
) -> None:
    mids = [mid(minute, price) for minute, price in enumerate(prices, start=1)]
    events = said([limit(99, 0, side)], mids)
    assert fills(events) == filled
    for event in events:
        if isinstance(event, Fill):
            assert event.maker and event.fee_usd_e6 == scaled("0.01485", 10**6)


def test_limit_order_has_patience_without_end() -> None:
    assert ends(said([limit(99)], [mid(590, 98)], until=589)) == []
    assert ends(said([limit(99)], [mid(590, 98)])) == [("c1", "filled")]


@pytest.mark.parametrize(
    ("held", "side", "size", "filled", "status"),
    [
        (3, "sell", 2, -2, "filled"),
        (3, "sell", 3, -3, "filled"),
        (3, "sell", 5, -3, "filled"),
        (-3, "buy", 5, 3, "filled"),
        (3, "buy", 1, None, "rejected"),
        (-3, "sell", 1, None, "rejected"),
        (0, "sell", 1, None, "rejected"),
    ],
)
def test_reduce_only(held: float, side: str, size: float, filled: float | None, status: str) -> None:
    events = said([order(0, side, size, reduce_only=True)], [mid(1, 100)], held=held)
    assert [size for _, size, _ in fills(events)] == ([] if filled is None else [filled])
    assert ends(events) == [("c1", status)]


def test_second_reduce_only_order_finds_what_the_first_left() -> None:
    both = [order(0, "sell", 2, reduce_only=True), order(1, "sell", 2, client_id="c2", reduce_only=True)]
    third = order(2, "sell", 2, client_id="c3", reduce_only=True)
    events = said([*both, third], [mid(0.5, 100), mid(1.5, 100), mid(2.5, 100)], held=3)
    assert [size for _, size, _ in fills(events)] == [-2, -1]
    assert ends(events) == [("c1", "filled"), ("c2", "filled"), ("c3", "rejected")]


def payments(events: list[BrokerEvent]) -> list[tuple[float, int]]:
    """Hour after noon and amount of every payment."""
    found = [event for event in events if isinstance(event, FundingPayment)]
    return [((each.happened_at - NOON) / HOUR, each.amount_usd_e6) for each in found]


RATES = {NOON + hour * HOUR: 10**8 for hour in range(1, 11)}


def test_funding_every_hour_on_what_is_held() -> None:
    events = said([], [mid(-1, 100), mid(90, 200)], held=1, until=180, rates=RATES)
    assert payments(events) == [(1, -10_000), (2, -20_000), (3, -20_000)]


def test_funding_follows_the_fills_between_two_hours() -> None:
    orders = [order(30, "buy", 1), order(90, "sell", 3, client_id="c2"), order(150, "buy", 1, client_id="c3")]
    mids = [mid(minute, 100) for minute in range(0, 300, 5)]
    events = said(orders, mids, held=1, until=240, rates=RATES)
    # Two long at one o'clock, one short at two, nothing after.
    assert payments(events) == [(1, -20_000), (2, 10_000)]


def test_position_opened_at_the_very_hour_owes_nothing_for_it() -> None:
    at_the_hour = order(intended_at=NOON + HOUR - TERMS.latency_ms)
    events = said([at_the_hour], [mid(60, 100), mid(61, 100)], until=120, rates=RATES)
    assert fills(events)[0][0] == 60
    assert payments(events) == [(2, -10_000)]


def test_position_closed_at_the_very_hour_was_held_up_to_it() -> None:
    closing = order(side="sell", intended_at=NOON + HOUR - TERMS.latency_ms)
    events = said([closing], [mid(60, 100)], held=1, until=180, rates=RATES)
    assert payments(events) == [(1, -10_000)]
    assert [type(event) for event in events] == [FundingPayment, Fill, OrderEnd]


def test_hour_without_a_rate_or_a_mark_is_left_out() -> None:
    rates = {NOON + HOUR: 10**8, NOON + 3 * HOUR: 10**8}
    assert payments(said([], [mid(61, 100)], held=1, until=200, rates=rates)) == [(3, -10_000)]


def test_hours_that_are_booked_are_not_paid_again() -> None:
    quotes = WrittenQuotes([mid(-1, 100)], rates=RATES)
    broker = paper.create(TERMS)
    again = broker.activity([], [Exposure("BTC", E8, NOON + 2 * HOUR)], quotes=quotes, until=NOON + 3 * HOUR)
    assert payments(again) == [(3, -10_000)]
