"""Paper trading: when, at which price and for which fee an order fills, in small worked examples."""

from typing import Any

import pytest

from tapebook.broker import BrokerAccount, Exposure, MarketListing, OrderBook, Settlement
from tapebook.broker.brokers import paper
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, InsurancePayment, Order, OrderEnd
from tapebook.domain.units import E8, HOUR, MINUTE, to_units
from tests.broker.market import NOON, TERMS, Market, WrittenQuotes, account, activity, bar, held, limit, mid, order

DEEP = (10**18, 10**18, 10**18)


def told(mine: BrokerAccount, orders: list[Order], market: Market, *, until: float = 600) -> list[BrokerEvent]:
    """What happens to an account up to so many minutes after noon."""
    asked = NOON + round(until * MINUTE)
    return list(activity(paper.create(TERMS), mine, orders, quotes=WrittenQuotes(market), until=asked).events)


def said(
    orders: list[Order],
    mids: list[Mid],
    *,
    size: float = 0,
    until: float = 600,
    spreads: dict[int, int] | None = None,
    rates: dict[int, int] | None = None,
) -> list[BrokerEvent]:
    """What happens up to so many minutes after noon to orders and a position in BTC, with money enough."""
    mine = account(held(size)) if size else account()
    books = tuple(("BTC", at, OrderBook(spread, DEEP, DEEP)) for at, spread in (spreads or {}).items())
    market = Market(tuple(mids), (), books, {str(hour): rate for hour, rate in (rates or {}).items()})
    return told(mine, orders, market, until=until)


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
        # However deep the book is, what is taken from it is rounded to the worse side.
        ("buy", {NOON + MINUTE: 0}, 100.00000001),
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
    assert fill.fee_usd_e6 == to_units("0.089991", 10**6)
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
        ("buy", [99.005, 98.995], [(2, 1, 99)]),
        ("sell", [98.995, 99.005], [(2, -1, 99)]),
        # The first observation is inside the spread: it neither executes at once nor has gone beyond anything yet.
        ("buy", [98.995, 99, 99.5], []),
        ("buy", [98.995, 98.999], [(2, 1, 99)]),
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
            assert event.maker and event.fee_usd_e6 == to_units("0.01485", 10**6)


@pytest.mark.parametrize(
    ("side", "seen", "price"),
    [("buy", 98, 98.0098), ("sell", 120, 119.988), ("buy", 98.9901, 98.99999901), ("buy", 98, 98.0098)],
)
def test_limit_order_that_the_market_satisfies_is_a_taker(side: str, seen: float, price: float) -> None:
    """At the market's price where that is better than the limit."""
    events = said([limit(99, 0, side)], [mid(1, seen), mid(2, 50)])
    assert fills(events) == [(1, 1 if side == "buy" else -1, price)]
    assert isinstance(events[0], Fill) and not events[0].maker


def test_limit_order_larger_than_what_its_limit_buys_has_its_limit() -> None:
    """The best price satisfies it, the average of its size would not."""
    thin = OrderBook(200, (10**6,) * 3, (10**6,) * 3)
    events = told(account(), [limit(100.5)], Market((mid(1, 100),), (), (("BTC", NOON, thin),)))
    assert fills(events) == [(1, 1, 100.5)]


@pytest.mark.parametrize(
    ("minutes", "until", "status"),
    [(59, 59, "filled"), (60 + 0.5 / 60, 61, "filled"), (60.01, 60, None), (60.01, 61, "cancelled")],
)
def test_limit_order_has_patience_for_an_hour(minutes: float, until: float, status: str | None) -> None:
    events = said([limit(99)], [mid(1, 100), mid(minutes, 98)], until=until)
    assert ends(events) == ([("c1", status)] if status else [])
    if status == "cancelled":
        assert events == [OrderEnd("c1", NOON + 500 + HOUR, "cancelled", "not filled within 60 minutes")]


def test_size_pays_for_the_book_it_takes() -> None:
    thin = OrderBook(200, (0, 0, 0), (10**8, 10**8, 10**8))
    events = told(account(), [order(0, "buy", 1)], Market((mid(1, 100),), (), (("BTC", NOON, thin),)))
    # All hundred USD that lie within 0.1 %, from the best price on.
    assert fills(events) == [(1, 1, 100.055)]


def test_reduce_only_order_pays_for_what_it_executes() -> None:
    thin = OrderBook(200, (10**8, 10**8, 10**8), (0, 0, 0))
    selling = order(0, "sell", 500, reduce_only=True)
    events = told(account(held(1)), [selling], Market((mid(1, 100),), (), (("BTC", NOON, thin),)))
    assert fills(events) == [(1, -1, 99.945)]


@pytest.mark.parametrize(
    ("has", "side", "size", "filled", "status"),
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
def test_reduce_only(has: float, side: str, size: float, filled: float | None, status: str) -> None:
    events = said([order(0, side, size, reduce_only=True)], [mid(1, 100)], size=has)
    assert [size for _, size, _ in fills(events)] == ([] if filled is None else [filled])
    assert ends(events) == [("c1", status)]


def test_second_reduce_only_order_finds_what_the_first_left() -> None:
    both = [order(0, "sell", 2, reduce_only=True), order(1, "sell", 2, client_id="c2", reduce_only=True)]
    third = order(2, "sell", 2, client_id="c3", reduce_only=True)
    events = said([*both, third], [mid(0.5, 100), mid(1.5, 100), mid(2.5, 100)], size=3)
    assert [size for _, size, _ in fills(events)] == [-2, -1]
    assert ends(events) == [("c1", "filled"), ("c2", "filled"), ("c3", "rejected")]


def payments(events: list[BrokerEvent]) -> list[tuple[float, int]]:
    """Hour after noon and amount of every payment."""
    found = [event for event in events if isinstance(event, FundingPayment)]
    return [((each.happened_at - NOON) / HOUR, each.amount_usd_e6) for each in found]


RATES = {NOON + hour * HOUR: 10**8 for hour in range(1, 11)}


def test_funding_every_hour_on_what_is_held() -> None:
    events = said([], [mid(-1, 100), mid(90, 200)], size=1, until=180, rates=RATES)
    assert payments(events) == [(1, -10_000), (2, -20_000), (3, -20_000)]


def test_funding_follows_the_fills_between_two_hours() -> None:
    orders = [order(30, "buy", 1), order(90, "sell", 3, client_id="c2"), order(150, "buy", 1, client_id="c3")]
    mids = [mid(minute, 100) for minute in range(0, 300, 5)]
    events = said(orders, mids, size=1, until=240, rates=RATES)
    # Two long at one o'clock, one short at two, nothing after.
    assert payments(events) == [(1, -20_000), (2, 10_000)]


def test_position_opened_at_the_very_hour_owes_nothing_for_it() -> None:
    at_the_hour = order(intended_at=NOON + HOUR - TERMS.latency_ms)
    events = said([at_the_hour], [mid(60, 100), mid(61, 100)], until=120, rates=RATES)
    assert fills(events)[0][0] == 60
    assert payments(events) == [(2, -10_000)]


def test_position_closed_at_the_very_hour_was_held_up_to_it() -> None:
    closing = order(side="sell", intended_at=NOON + HOUR - TERMS.latency_ms)
    events = said([closing], [mid(60, 100)], size=1, until=180, rates=RATES)
    assert payments(events) == [(1, -10_000)]
    assert [type(event) for event in events] == [FundingPayment, Fill, OrderEnd]


def test_hour_without_a_rate_or_a_mark_is_left_out() -> None:
    rates = {NOON + HOUR: 10**8, NOON + 3 * HOUR: 10**8}
    assert payments(said([], [mid(61, 100)], size=1, until=200, rates=rates)) == [(3, -10_000)]


def test_hours_that_are_booked_are_not_paid_again() -> None:
    market = Market((mid(-1, 100),), rates={str(hour): rate for hour, rate in RATES.items()})
    paid = Exposure(held(1).position, NOON + 2 * HOUR)
    assert payments(told(account(paid), [], market, until=180)) == [(3, -10_000)]


def test_rate_that_comes_late_is_paid_for_an_hour() -> None:
    market = Market((mid(-1, 100),), rates={str(hour): rate for hour, rate in RATES.items()})
    assert payments(told(account(held(1), walked=119), [], market, until=121)) == [(1, -10_000), (2, -10_000)]
    assert payments(told(account(held(1), walked=120), [], market, until=121)) == [(2, -10_000)]
    # Unless the position has changed since its hour.
    since = held(1, moved_at=NOON + HOUR)
    assert payments(told(account(since, walked=119), [], market, until=121)) == [(2, -10_000)]


# Margin


def refusals(events: list[BrokerEvent]) -> list[str]:
    """Why orders were refused."""
    return [event.detail for event in events if isinstance(event, OrderEnd) and event.status == "rejected"]


@pytest.mark.parametrize(
    ("cash", "margin", "refused"),
    [
        # Ten bought at 100.01 with five times leverage: 200 of margin, 0.450045 of fees, 0.1 of spread lost.
        (200.550045, "cross", False),
        (200.550044, "cross", True),
        # An isolated position is given a fifth of what was paid: 200.02.
        (200.470045, "isolated", False),
        (200.470044, "isolated", True),
    ],
)
def test_initial_margin(cash: float, margin: Any, refused: bool) -> None:
    events = told(account(cash=cash, margin=margin), [order(0, "buy", 10, leverage=5)], Market((mid(1, 100),)))
    assert refusals(events) == (["insufficient margin"] if refused else [])


def test_what_others_need_is_not_there() -> None:
    mine = account(held(10, 50, "ETH", leverage=2), cash=500)
    prices = (mid(0, 50, "ETH"), mid(1, 100))
    # 250 of 500 are ETH's; 2.4 BTC need 240.
    assert refusals(told(mine, [order(0, "buy", 2.4)], Market(prices))) == []
    assert refusals(told(mine, [order(0, "buy", 2.6)], Market(prices))) == ["insufficient margin"]
    # What ETH has won since is there.
    assert refusals(told(mine, [order(0, "buy", 2.6)], Market((mid(0, 60, "ETH"), mid(1, 100))))) == []


def test_what_reduces_is_never_refused() -> None:
    broke = account(held(10, 100), cash=-950)
    events = told(broke, [order(0, "sell", 4, leverage=99)], Market((mid(1, 100),)), until=1)
    assert (refusals(events), fills(events)) == ([], [(1, -4, 99.99)])


def test_turning_needs_margin_for_the_other_side() -> None:
    events = told(account(held(1), cash=90), [order(0, "sell", 2)], Market((mid(1, 100),)), until=1)
    assert refusals(events) == ["insufficient margin"]


def test_leverage_beyond_the_tier_is_refused() -> None:
    events = told(account(), [order(0, "buy", 1, leverage=41)], Market((mid(1, 100),)))
    assert refusals(events) == ["leverage 41 exceeds the 40 that BTC allows at this size"]


def test_leverage_is_that_of_the_list_as_it_was_known_when_the_order_filled() -> None:
    listings = (("BTC", NOON, MarketListing(5, 40)), ("BTC", NOON + 10 * MINUTE, MarketListing(5, 10)))
    market = Market((mid(1, 100), mid(12, 100)), listings=listings)
    orders = [order(0, "buy", 1, leverage=20), order(11, "buy", 1, leverage=20, client_id="c2")]
    events = told(account(), orders, market)
    assert fills(events)[0][0] == 1 and refusals(events) == [
        "leverage 20 exceeds the 10 that BTC allows at this size"
    ], "asked long after the list has changed, the first order is filled as before"


# Liquidation

QUIET = [bar(minute, 100, 100, 100, 100) for minute in range(10)]


def minute_by_minute(*changes: Candle) -> Market:
    """A quiet market in BTC with some other bars, and midpoints that say 100."""
    bars = {each.bucket_ts: each for each in (*QUIET, *changes)}
    return Market(tuple(mid(minute + 0.5, 100) for minute in range(10)), tuple(bars.values()))


@pytest.mark.parametrize(
    ("size", "fall", "price"),
    [
        # 10 × p − 1,000 + 50 = 10 × p / 80
        (10, bar(3, 99, 100, 90, 99), 95 / (1 - 1 / 80)),
        (10, bar(3, 93, 100, 90, 99), 93),
        (-10, bar(3, 101, 110, 100, 101), 105 / (1 + 1 / 80)),
        (-10, bar(3, 107, 110, 100, 101), 107),
    ],
)
def test_extreme_of_a_minute_liquidates_at_its_end(size: float, fall: Candle, price: float) -> None:
    fill = told(account(held(size), cash=50), [], minute_by_minute(fall))[0]
    assert isinstance(fill, Fill) and fill.liquidation and fill.client_id is None
    assert (fill.happened_at, fill.signed_size_e8) == (NOON + 4 * MINUTE, round(-size * E8))
    assert fill.price_e8 / E8 == pytest.approx(price, abs=1e-4)
    # The taker fee and the penalty.
    assert fill.fee_usd_e6 == pytest.approx(fill.price_e8 * 10 * 5_450 / 10**8, abs=1)


@pytest.mark.parametrize(("size", "kind"), [(10, bar(3, 100, 200, 97, 100)), (-10, bar(3, 100, 103, 1, 100))])
def test_extreme_that_is_favourable_liquidates_nobody(size: float, kind: Candle) -> None:
    assert told(account(held(size), cash=50), [], minute_by_minute(kind)) == []


def test_minute_that_was_checked_is_not_checked_again() -> None:
    market = minute_by_minute(bar(3, 100, 100, 50, 100))
    assert told(account(held(10), cash=50, walked=4), [], market) == []
    assert len(told(account(held(10), cash=50, walked=3), [], market)) == 1


def test_bar_is_checked_when_it_has_ended_and_not_before() -> None:
    broker, market = paper.create(TERMS), minute_by_minute(bar(3, 100, 100, 50, 100))
    mine = account(held(10), cash=50)
    before = activity(broker, mine, [], quotes=WrittenQuotes(market), until=NOON + 4 * MINUTE - 1)
    assert (before.events, before.walked_until) == ((), NOON + 3 * MINUTE)
    after = activity(broker, mine, [], quotes=WrittenQuotes(market), until=NOON + 4 * MINUTE)
    assert (len(after.events), after.walked_until) == (1, NOON + 4 * MINUTE)


@pytest.mark.parametrize(
    ("bought", "falls"),
    [
        # Within the minute nobody knows whether the low was before; what the bar closed at was after.
        (3.25, False),
        # At the first instant of the minute everything in it comes after; before it anyway.
        (3, True),
        (2.75, True),
    ],
)
def test_low_of_the_minute_in_which_a_position_moved(bought: float, falls: bool) -> None:
    buying = order(side="buy", size=10, leverage=40, intended_at=NOON + round(bought * MINUTE) - TERMS.latency_ms)
    crash = minute_by_minute(bar(3, 100, 100, 90, 99.5))
    market = Market((mid(bought, 100), *crash.mids), crash.bars)
    events = told(account(cash=50), [buying], market)
    assert [fill[0] for fill in fills(events)] == ([bought, 4] if falls else [bought])


def test_close_of_the_minute_in_which_a_position_moved() -> None:
    buying = order(3, side="buy", size=10, leverage=40)
    crash = minute_by_minute(bar(3, 100, 100, 90, 94))
    events = told(account(cash=50), [buying], crash)
    assert fills(events) == [(3.5, 10, 100.01), (4, -10, 94)]


@pytest.mark.parametrize(("missing", "liquidated"), [(False, 4), (True, 6)])
def test_bar_that_stays_away_is_made_of_midpoints(missing: bool, liquidated: int) -> None:
    bars = [each for each in QUIET if not missing or each.bucket_ts != NOON + 3 * MINUTE]
    crash = [bar(3, 100, 100, 90, 100)] if not missing else []
    mids = (mid(3.2, 99), mid(3.4, 90), mid(3.6, 99))
    events = told(account(held(10), cash=50), [], Market(mids, tuple(crash + bars[:3] + bars[4 - missing :])))
    assert [fill[0] for fill in fills(events)] == [liquidated]


def test_position_that_moved_since_counts_as_what_it_was_worth_then() -> None:
    """The minute at three is judged at six, for its bar stays away; ETH was bought between, far below its price."""
    bars = [each for each in QUIET if each.bucket_ts != NOON + 3 * MINUTE]
    eth = [bar(minute, 50, 50, 50, 50, "ETH") for minute in range(4, 10)]
    mids = (mid(3.2, 100), mid(3.4, 95), mid(4.1, 100), mid(3.9, 80, "ETH"), mid(4.5, 50, "ETH"))
    buying = order(4.2, "buy", 1, symbol="ETH", leverage=20)
    events = told(account(held(10, leverage=40), cash=60), [buying], Market(mids, (*bars, *eth)))
    assert [(at, size) for at, size, _ in fills(events)] == [(4.5, 1), (6, -10), (6, -1)]
    assert fills(events)[2][2] == 50


def test_account_falls_as_a_whole_under_cross_margin() -> None:
    eth = [bar(minute, 50, 50, 50, 50, "ETH") for minute in range(10)]
    quiet = minute_by_minute(bar(3, 100, 100, 80, 100))
    mine = account(held(10), held(-2, 50, "ETH"), cash=100)
    waiting = [limit(50, 1, client_id="c9"), limit(10, 1, client_id="c8", symbol="ETH"), limit(50, 5, client_id="c7")]
    events = told(mine, waiting, Market(quiet.mids, (*quiet.bars, *eth)), until=8)
    assert [each.symbol for each in events if isinstance(each, Fill) and each.liquidation] == ["BTC", "ETH"]
    # What was waiting goes with it; what was sent later does not.
    at = NOON + 4 * MINUTE
    assert events[2:] == [OrderEnd("c8", at, "cancelled", "liquidated"), OrderEnd("c9", at, "cancelled", "liquidated")]


def test_isolated_position_falls_alone() -> None:
    eth = [bar(minute, 50, 50, 50, 50, "ETH") for minute in range(10)]
    quiet = minute_by_minute(bar(3, 100, 100, 80, 100))
    mine = account(held(10, leverage=20), held(-2, 50, "ETH"), cash=100_000, margin="isolated")
    waiting = [limit(50, 1, client_id="c9"), limit(10, 1, client_id="c8", symbol="ETH")]
    events = told(mine, waiting, Market(quiet.mids, (*quiet.bars, *eth)), until=8)
    assert [each.symbol for each in events if isinstance(each, Fill)] == ["BTC"]
    assert ends(events) == [("c9", "cancelled")]


@pytest.mark.parametrize("margin", ["cross", "isolated"])
def test_loss_beyond_what_there_was_is_made_up(margin: Any) -> None:
    """Ten bought at 100 with 50 behind them are closed at 60: 400 and 3.27 of fees are lost, 353.27 of it by others."""
    mine = account(held(10, leverage=20), cash=50, margin=margin)
    fill, insured = told(mine, [], minute_by_minute(bar(3, 60, 61, 60, 61)))
    assert isinstance(fill, Fill) and fill.price_e8 == 60 * E8
    symbol = "BTC" if margin == "isolated" else ""
    assert insured == InsurancePayment(symbol, NOON + 4 * MINUTE, 353_270_000)


def test_own_order_that_closes_too_late_is_made_up_for_too() -> None:
    """Closed at 40 within a minute that nobody has judged yet."""
    events = told(account(held(10), cash=50), [order(0, "sell", 10)], Market((mid(0.5, 40),)), until=0.5)
    lost = to_units("600.04", 10**6) + to_units("0.179982", 10**6) - to_units("50", 10**6)
    assert events[1] == InsurancePayment("", NOON + MINUTE // 2, lost)


def test_funding_wears_an_isolated_margin_down() -> None:
    """Half a percent an hour of 1,000 takes 5 from a margin of 15 that needs 12.5."""
    rates = {str(NOON + HOUR): 5 * 10**9}
    bars = tuple(bar(minute, 100, 100, 100, 100) for minute in range(63))
    mine = account(held(10, leverage=40, margin_usd_e6=15_000_000), cash=1_000, margin="isolated")
    events = told(mine, [], Market((mid(0, 100),), bars, rates=rates), until=63)
    assert [type(event) for event in events] == [FundingPayment, Fill]
    # The first minute after the hour finds it.
    assert fills(events)[0][0] == 61
    rich = account(held(10, leverage=40, margin_usd_e6=15_000_000), cash=1_000)
    assert [type(event) for event in told(rich, [], Market((mid(0, 100),), bars, rates=rates), until=63)] == [
        FundingPayment
    ]


def test_delisted_symbol_is_settled_after_funding_and_before_orders() -> None:
    """At one moment: the funding of the hour, then the end of the symbol; nothing is executed in it any more."""
    end = NOON + HOUR
    market = Market(
        (mid(0, 100), mid(60, 90), mid(61, 90)),
        rates={str(end): 10**8},
        settlements={"BTC": Settlement(end, 95 * E8)},
    )
    # One arrives at the very moment, one rests, one is intended only afterwards.
    arrives, rests = order(60 - 500 / MINUTE), limit(80, 30, client_id="c2")
    late = order(60.5, client_id="c3")
    broker, orders = paper.create(TERMS), [arrives, rests, late]
    said = activity(broker, account(held(1)), orders, quotes=WrittenQuotes(market), until=end + MINUTE)
    rate = FundingPayment("BTC", end, -9_000, 10**8)
    fill = said.events[1]
    assert isinstance(fill, Fill) and fill.delisted and not fill.liquidation and fill.client_id is None
    assert (fill.happened_at, fill.price_e8, fill.signed_size_e8, fill.fee_usd_e6) == (end, 95 * E8, -E8, 0)
    assert said.events == (
        rate,
        fill,
        OrderEnd("c1", end, "cancelled", "delisted"),
        OrderEnd("c2", end, "cancelled", "delisted"),
        OrderEnd("c3", end + MINUTE, "rejected", "delisted"),
    )
    sooner = activity(broker, account(held(1)), orders, quotes=WrittenQuotes(market), until=end - 1)
    assert sooner.events == ()


def test_isolated_position_that_settles_below_its_margin_is_made_up_for() -> None:
    market = Market((mid(0, 100),), settlements={"BTC": Settlement(NOON + MINUTE, 40 * E8)})
    exposure = held(1, leverage=2)
    said = activity(
        paper.create(TERMS), account(exposure, margin="isolated"), [], quotes=WrittenQuotes(market), until=NOON + MINUTE
    )
    # Half of a hundred dollars was there to lose, and sixty were lost.
    assert said.events[1:] == (InsurancePayment("BTC", NOON + MINUTE, 10_000_000),)
