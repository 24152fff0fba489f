"""The contract of the broker port, kept by every broker in its folder on any market.

A scenario is a random market of three hours with some orders and positions. Times lie on a coarse
grid, so that executions, cancellations and full hours meet at the same moment.
"""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook import plug
from tapebook.broker import Broker, Exposure, PaperTerms
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.money import E8, E12, divide, notional_usd_e6
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, Order, OrderEnd, OrderType
from tests.broker.market import NOON, TERMS, WrittenQuotes, limit, mid, order

FOLDER = "tapebook.broker.brokers"
BROKERS = plug.names(FOLDER)
PATIENCE = 5 * MINUTE
SYMBOLS = ("BTC", "ETH")

every_broker = pytest.mark.parametrize("name", BROKERS)


def create(name: str, terms: PaperTerms = TERMS) -> Broker:
    """A new broker, as the composition root makes it."""
    broker: Broker = plug.load(FOLDER, name).create(terms)
    return broker


class Scenario(msgspec.Struct, frozen=True):
    """A market, and what an account has at stake in it."""

    terms: PaperTerms
    mids: tuple[Mid, ...]
    spreads: dict[int, int]
    rates: dict[int, int]
    orders: tuple[Order, ...]
    exposures: tuple[Exposure, ...]

    def quotes(self) -> WrittenQuotes:
        """The market as a broker sees it."""
        return WrittenQuotes(self.mids, spreads=self.spreads, rates=self.rates)

    def turns(self) -> list[int]:
        """The moments at which something can happen, and those just before and after."""
        sent = [each.intended_at + self.terms.latency_ms for each in self.orders]
        turns = {NOON, NOON + HOUR, NOON + 4 * HOUR, *sent, *(moment + PATIENCE for moment in sent)}
        turns.update(each.bucket_ts for each in self.mids)
        return sorted(turn + off for turn in turns for off in (-1, 0, 1))

    def activity(self, name: str, until: int) -> list[BrokerEvent]:
        """What a new broker says of it."""
        return create(name, self.terms).activity(self.orders, self.exposures, quotes=self.quotes(), until=until)


MOMENTS = st.integers(0, 72).map(lambda step: NOON + step * PATIENCE // 2)
PRICES = st.integers(95, 105).map(lambda price: price * E8)
SIZES = st.integers(1, 5).map(lambda size: size * E8)
MIDS = st.builds(Mid, st.sampled_from(SYMBOLS), MOMENTS, PRICES)


@st.composite
def orders(draw: st.DrawFn, number: int) -> Order:
    """Any order; ids do not stand in the order of time."""
    kinds: list[OrderType] = ["market", "limit"]
    kind = draw(st.sampled_from(kinds))
    return Order(
        client_id=f"{draw(st.sampled_from('abc'))}{number}",
        run_id="r",
        symbol=draw(st.sampled_from(SYMBOLS)),
        side=draw(st.sampled_from(["buy", "sell"])),
        size_e8=draw(SIZES),
        type=kind,
        limit_price_e8=draw(PRICES) if kind == "limit" else None,
        reduce_only=draw(st.booleans()),
        leverage=1,
        intended_at=draw(MOMENTS),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Three hours of a market."""
    terms = msgspec.structs.replace(TERMS, latency_ms=draw(st.sampled_from([0, 500])))
    held = draw(st.dictionaries(st.sampled_from(SYMBOLS), st.tuples(SIZES, st.booleans(), st.integers(0, 3))))
    hours = [NOON + hour * HOUR for hour in range(5)]
    return Scenario(
        terms,
        tuple(draw(st.lists(MIDS, max_size=20, unique_by=lambda each: (each.symbol, each.bucket_ts)))),
        draw(st.dictionaries(MOMENTS, st.integers(0, 5_000), max_size=4)),
        draw(st.dictionaries(st.sampled_from(hours), st.integers(-(10**9), 10**9))),
        tuple(draw(orders(number)) for number in range(draw(st.integers(0, 5)))),
        tuple(Exposure(each, size if long else -size, NOON - back * HOUR) for each, (size, long, back) in held.items()),
    )


def held_before(moment: int, symbol: str, exposures: Sequence[Exposure], events: Sequence[BrokerEvent]) -> int:
    """What was held in a symbol just before a moment."""
    start = sum(each.size_e8 for each in exposures if each.symbol == symbol)
    fills = [event for event in events if isinstance(event, Fill) and event.symbol == symbol]
    return start + sum(fill.signed_size_e8 for fill in fills if fill.happened_at < moment)


@every_broker
def test_any_scenario(name: str) -> None:
    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(scenarios(), st.data())
    def check(scenario: Scenario, data: st.DataObject) -> None:
        turns = st.sampled_from(scenario.turns())
        sooner, later = sorted((data.draw(turns), data.draw(turns)))
        events = scenario.activity(name, later)
        check_times(scenario, events, later)
        check_orders_end_once(scenario, events)
        check_first_executable_observation(scenario, events, later)
        check_reduce_only(scenario, events)
        check_funding(scenario, events, later)
        # The same question again, of a broker that has never heard of it, is answered alike;
        # asked earlier, with the beginning of the answer.
        assert scenario.activity(name, later) == events
        assert scenario.activity(name, sooner) == [event for event in events if event.happened_at <= sooner]

    check()


def check_times(scenario: Scenario, events: list[BrokerEvent], until: int) -> None:
    """In time order, nothing after `until`, no fill before the order could have arrived."""
    times = [event.happened_at for event in events]
    assert times == sorted(times) and all(moment <= until for moment in times)
    sent = {each.client_id: each.intended_at for each in scenario.orders}
    for event in events:
        if isinstance(event, Fill):
            assert event.client_id is not None
            assert event.happened_at >= sent[event.client_id] + scenario.terms.latency_ms


def check_orders_end_once(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """At most one end per order; what is filled ends as filled at the same moment, and nothing else is filled."""
    ends = [event for event in events if isinstance(event, OrderEnd)]
    assert len({end.client_id for end in ends}) == len(ends)
    assert {end.client_id for end in ends} <= {each.client_id for each in scenario.orders}
    filled = [(end.client_id, end.happened_at) for end in ends if end.status == "filled"]
    fills = [event for event in events if isinstance(event, Fill)]
    assert filled == [(fill.client_id, fill.happened_at) for fill in fills]
    assert len({fill.fill_id for fill in fills}) == len(fills)


def check_first_executable_observation(scenario: Scenario, events: list[BrokerEvent], until: int) -> None:
    """Each order meets the first midpoint that may execute it, or ends when its patience does, or goes on waiting."""
    fills = {event.client_id: event for event in events if isinstance(event, Fill)}
    ends = {event.client_id: event for event in events if isinstance(event, OrderEnd)}
    for each in scenario.orders:
        since = each.intended_at + scenario.terms.latency_ms
        in_time = [found for found in scenario.mids if executes(found, each, since)]
        first = min(in_time, key=lambda found: found.bucket_ts, default=None)
        fill, end = fills.get(each.client_id), ends.get(each.client_id)
        if first is not None and first.bucket_ts <= until:
            assert end is not None and end.status in ("filled", "rejected") and end.happened_at == first.bucket_ts
            if fill is not None:
                check_price(scenario, each, first, fill)
        elif each.type == "market" and until >= since + PATIENCE:
            assert end is not None and (end.status, end.happened_at) == ("cancelled", since + PATIENCE)
        else:
            assert (fill, end) == (None, None)


def executes(seen: Mid, placed: Order, since: int) -> bool:
    """Whether a midpoint executes an order: in time for a market order, traded through for a limit order."""
    if seen.symbol != placed.symbol or seen.bucket_ts < since:
        return False
    if placed.limit_price_e8 is None:
        return seen.bucket_ts <= since + PATIENCE
    return seen.price_e8 < placed.limit_price_e8 if placed.side == "buy" else seen.price_e8 > placed.limit_price_e8


def check_price(scenario: Scenario, placed: Order, seen: Mid, fill: Fill) -> None:
    """A limit order fills at its limit as a maker; a market order half a spread on the wrong side, as a taker."""
    terms = scenario.terms
    if placed.type == "limit":
        assert (fill.price_e8, fill.maker) == (placed.limit_price_e8, True)
    else:
        half = seen.price_e8 * scenario.spreads.get(seen.bucket_ts, terms.spread_ppm) // 2_000_000
        assert (fill.price_e8, fill.maker) == (seen.price_e8 + (half if placed.side == "buy" else -half), False)
    rate = terms.maker_fee_ppm if fill.maker else terms.taker_fee_ppm
    assert fill.fee_usd_e6 == divide(abs(notional_usd_e6(fill.signed_size_e8, fill.price_e8)) * rate, 1_000_000)
    assert (fill.signed_size_e8 > 0) == (placed.side == "buy")


def check_reduce_only(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """Such an order takes a position nearer to nothing and never past it; others are filled whole."""
    placed = {each.client_id: each for each in scenario.orders}
    held = {each.symbol: each.size_e8 for each in scenario.exposures}
    for event in events:
        if isinstance(event, OrderEnd) and event.status == "rejected":
            assert placed[event.client_id].reduce_only
        if not isinstance(event, Fill) or event.client_id is None:
            continue
        before, its_order = held.get(event.symbol, 0), placed[event.client_id]
        after = held[event.symbol] = before + event.signed_size_e8
        if its_order.reduce_only:
            assert abs(after) < abs(before) and before * after >= 0
            assert abs(event.signed_size_e8) == min(its_order.size_e8, abs(before))
        else:
            assert event.signed_size_e8 == its_order.signed_size_e8


def check_funding(scenario: Scenario, events: list[BrokerEvent], until: int) -> None:
    """At each full hour, once, on what was held before it: a long pays a positive rate, a short receives it."""
    paid = [event for event in events if isinstance(event, FundingPayment)]
    due = []
    for hour in range(NOON - 3 * HOUR, until + 1, HOUR):
        for symbol in SYMBOLS:
            size = held_before(hour, symbol, scenario.exposures, events)
            booked = any(each.symbol == symbol and each.funded_until >= hour for each in scenario.exposures)
            rate, mark = scenario.rates.get(hour), scenario.quotes().mark_e8(symbol, at=hour)
            if size and not booked and rate is not None and mark is not None:
                due.append(FundingPayment(symbol, hour, -divide(notional_usd_e6(size, mark) * rate, E12), rate))
    assert paid == due


@every_broker
def test_nothing_at_stake_is_nothing_to_say(name: str) -> None:
    assert create(name).activity([], [], quotes=WrittenQuotes([mid(0, 100)]), until=NOON + 9 * HOUR) == []


@every_broker
def test_placing_twice_changes_nothing(name: str) -> None:
    broker, quotes = create(name), WrittenQuotes([mid(1, 100), mid(2, 101)])
    broker.place(order())
    once = broker.activity([order()], [], quotes=quotes, until=NOON + HOUR)
    broker.place(order())
    assert broker.activity([order()], [], quotes=quotes, until=NOON + HOUR) == once
    assert len([event for event in once if isinstance(event, Fill)]) == 1


@every_broker
def test_never_asks_beyond_the_moment(name: str) -> None:
    until = NOON + 90 * MINUTE
    rates = {NOON + HOUR: 1, NOON + 2 * HOUR: 1}
    quotes = WrittenQuotes([mid(minute, 100) for minute in range(0, 300, 7)], rates=rates)
    exposures = [Exposure("BTC", E8, NOON)]
    create(name).activity([order(), limit(99), order(89.9)], exposures, quotes=quotes, until=until)
    assert quotes.seen <= until


@every_broker
@pytest.mark.parametrize(
    ("size", "rate", "amount"),
    [(1, 10**8, -10_000), (1, -(10**8), 10_000), (-1, 10**8, 10_000), (-1, -(10**8), -10_000), (1, 0, 0)],
)
def test_sign_of_funding(name: str, size: int, rate: int, amount: int) -> None:
    quotes = WrittenQuotes([mid(-1, 100)], rates={NOON + HOUR: rate})
    said = create(name).activity([], [Exposure("BTC", size * E8, NOON)], quotes=quotes, until=NOON + HOUR)
    assert said == [FundingPayment("BTC", NOON + HOUR, amount, rate)]
