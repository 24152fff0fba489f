"""The contract of the broker port, in two parts.

*Any broker*, an exchange or a simulation, is asked through a `Venue`: the adapter, a market it trades on and the book
that is kept beside it, which books what it has not booked yet, as a reconciliation does. Beside the brokers of the
folder a double is held to it whose orders, fills and account are those of a little exchange behind a socket, which
fills in parts and loses requests and answers.

A *pure broker* has no state: its answers are a function of the booked account and the market. The scenarios are those
of `tests/broker/scenarios.py`: markets of ten minutes around a full hour, with accounts that are short of money and
orders that meet everything at the same moment.
"""

from collections.abc import Callable, Iterator
from itertools import product, zip_longest
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook import plug
from tapebook.broker import BookedAccount, Broker, BrokerActivity, MarketListing, OrderState, PaperTerms
from tapebook.broker.port import trades_elsewhere
from tapebook.domain.market import Mid
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, Order, OrderEnd, round_price, round_size
from tapebook.domain.units import E8, HOUR, MINUTE
from tapebook.errors import BrokerAway
from tests.broker.little_exchange import Fault, LittleExchange, wired_broker
from tests.broker.market import (
    NOON,
    RICH,
    TERMS,
    Market,
    Teller,
    WrittenQuotes,
    account,
    activity,
    bar,
    held,
    limit,
    mid,
    order,
)
from tests.broker.scenarios import END, START, Scenario, scenarios
from tests.matrix import examples

FOLDER = "tapebook.broker.brokers"
# A bot that trades elsewhere tells what happened: its broker executes nothing that a contract could be about.
BROKERS = [*(name for name in plug.names(FOLDER) if not trades_elsewhere(name)), "wired"]
# Brokers whose every answer is computed from what they are given.
PURE = ["paper"]

every_broker = pytest.mark.parametrize("name", BROKERS)
pure_broker = pytest.mark.parametrize("name", PURE)


@pytest.fixture(autouse=True)
def exchange(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleExchange]:
    """The exchange of the double."""
    with wired_broker(monkeypatch, RICH) as opened:
        yield opened


def create(name: str, terms: PaperTerms = TERMS) -> Broker:
    """A new broker, as the composition root makes it."""
    broker: Broker = plug.load(FOLDER, name).create(terms)
    return broker


class Venue:
    """A broker, the market it trades on, and a book that is kept beside it."""

    def __init__(self, name: str, exchange: LittleExchange) -> None:
        self._name = name
        self._exchange = exchange
        self._mids: list[Mid] = []
        self.teller = Teller(account(), [])
        self.now = NOON

    @property
    def broker(self) -> Broker:
        """A new object each time, as after a restart: what is known is with the broker, not with its client."""
        return create(self._name, msgspec.structs.replace(TERMS, spread_ppm=0))

    def booked(self) -> BookedAccount:
        """What the broker is told."""
        return self.teller.booked(WrittenQuotes(Market(tuple(self._mids))), until=self.now)

    def trade(self, minutes: float, price: float, *, most: float | None = None) -> None:
        """The market trades, so many minutes after noon; an exchange may execute a part of an order only."""
        seen = mid(minutes, price)
        self.now = max(self.now, seen.bucket_ts)
        self._mids.append(seen)
        self._exchange.trade("BTC", seen.bucket_ts, seen.price_e8, most_e8=None if most is None else round(most * E8))

    def state(self, client_id: str = "c1") -> OrderState:
        """What became of an order."""
        return self.broker.order_state(client_id, self.booked())

    def cancel(self, client_id: str = "c1") -> OrderState:
        """Asks for a cancellation."""
        return self.broker.cancel(client_id, self.booked())

    def send(self, wanted: Order) -> OrderState:
        """Asks and then places, once; the book has the order from the moment the broker is known to have it."""
        self.now = max(self.now, wanted.intended_at)
        state = self.state(wanted.client_id)
        if state.status == "never seen":
            state = self.broker.place(wanted)
        if state.has_arrived:
            self.teller.add(wanted)
        return state

    def hear(self) -> list[BrokerEvent]:
        """Books what is not booked yet and gives it."""
        said = self.broker.activity_since(self.booked()).events
        fresh = [event for event in said if not self.teller.has(event)]
        for event in fresh:
            self.teller.book(event)
        return fresh

    def left(self) -> dict[str | None, int]:
        """Open orders by client id, with what is left of each."""
        return {each.client_id: each.signed_left_e8 for each in self.broker.open_orders(self.booked())}

    def sizes(self) -> dict[str, int]:
        """What is held by the book."""
        return {symbol: each.size_e8 for symbol, each in self.teller.portfolio.positions.items()}

    def agrees(self) -> bool:
        """Whether the broker's account is the booked one, now that everything is booked."""
        said, mine = self.broker.account_state(self.booked()), self.teller.portfolio
        return self.sizes() == {symbol: each.size_e8 for symbol, each in said.positions.items()} and (
            said.cash_usd_e6 == mine.cash_usd_e6
        )


@pytest.fixture
def venue(name: str, exchange: LittleExchange) -> Venue:
    return Venue(name, exchange)


# --- any broker -------------------------------------------------------------------------------------------------


@every_broker
def test_order_nobody_handed_over_was_never_seen(venue: Venue) -> None:
    assert venue.state("abc").status == "never seen"
    assert venue.cancel("abc").status == "never seen"
    assert venue.left() == {} and venue.hear() == [] and venue.agrees()


@every_broker
@pytest.mark.parametrize("side", ["buy", "sell"])
def test_market_order_is_filled_once_however_often_it_is_placed(venue: Venue, side: str) -> None:
    wanted = order(side=side, size=2)
    assert venue.send(wanted).status in ("resting", "filled")
    venue.broker.place(wanted)
    venue.trade(1, 100)
    assert venue.state().status == "filled"
    *fills, end = venue.hear()
    assert [each.client_id for each in fills if isinstance(each, Fill)] == ["c1"] * len(fills)
    assert sum(each.signed_size_e8 for each in fills if isinstance(each, Fill)) == wanted.signed_size_e8
    assert isinstance(end, OrderEnd) and (end.client_id, end.status) == ("c1", "filled")
    venue.trade(2, 101)
    assert venue.hear() == [] and venue.agrees()


@every_broker
def test_resting_order_is_listed_until_it_is_cancelled_and_then_never_fills(venue: Venue) -> None:
    venue.send(limit(90))
    venue.trade(1, 100)
    assert venue.state().status == "resting" and venue.left() == {"c1": E8}
    assert venue.cancel().status == "cancelled"
    assert venue.cancel().status == "cancelled"
    venue.teller.drop("c1")
    venue.trade(2, 80)
    assert not [each for each in venue.hear() if isinstance(each, Fill)]
    assert venue.left() == {} and venue.sizes() == {} and venue.agrees()


@every_broker
def test_order_that_was_filled_cannot_be_cancelled(venue: Venue) -> None:
    venue.send(order())
    venue.trade(1, 100)
    assert venue.cancel().status == "filled"
    venue.hear()
    assert venue.sizes() == {"BTC": E8} and venue.agrees()


@every_broker
def test_what_is_filled_and_what_is_left_is_the_order(venue: Venue) -> None:
    """Filled in parts or at once: fills come one by one, and the order ends with the last of them."""
    venue.send(order(size=3))
    for minute in (1, 2, 3):
        venue.trade(minute, 100 + minute, most=1)
        heard = venue.hear()
        assert venue.agrees()
        assert venue.sizes()["BTC"] + venue.left().get("c1", 0) == 3 * E8
        ends = [each for each in heard if isinstance(each, OrderEnd)]
        assert not ends or (ends == heard[-1:] and venue.left() == {})
    assert venue.sizes() == {"BTC": 3 * E8}


@every_broker
def test_part_that_was_filled_before_a_cancellation_is_told_after_it(venue: Venue) -> None:
    venue.send(limit(99, size=3))
    venue.trade(1, 100)
    venue.trade(2, 98, most=1)
    state = venue.cancel()
    heard = venue.hear()
    filled = sum(each.signed_size_e8 for each in heard if isinstance(each, Fill))
    assert (state.status, filled) in (("cancelled", E8), ("filled", 3 * E8))
    venue.trade(3, 90)
    assert not [each for each in venue.hear() if isinstance(each, Fill)] and venue.agrees()


@every_broker
@pytest.mark.parametrize("size", [0.5, 1, 7])
def test_reduce_only_order_never_turns_a_position(venue: Venue, size: float) -> None:
    venue.send(order())
    venue.trade(1, 100)
    venue.hear()
    venue.send(order(2, "sell", size, client_id="c2", reduce_only=True))
    venue.trade(3, 101)
    venue.hear()
    assert venue.sizes().get("BTC", 0) == max(0, E8 - round(size * E8)) and venue.agrees()


@every_broker
def test_times(venue: Venue) -> None:
    """In time order, none after the moment, no fill before its order."""
    venue.send(order())
    venue.send(order(0.5, "sell", 2, client_id="c2"))
    venue.trade(1, 100)
    venue.trade(2, 101)
    times = [each.happened_at for each in venue.hear()]
    assert times == sorted(times) and times[0] > NOON and times[-1] <= venue.now


LOST: tuple[Fault, ...] = ("lose request", "lose answer")
LOSSES: tuple[Fault, ...] = (*LOST, "late arrival")


@every_broker
@pytest.mark.parametrize("faults", [*product(LOSSES, repeat=2), ("reject",)])
def test_asking_before_placing_leaves_one_order_or_a_refusal(
    venue: Venue, name: str, faults: tuple[Fault, ...], exchange: LittleExchange
) -> None:
    """Whatever is lost: asking by client id until something is known, and placing only what was never seen."""
    exchange.placing.extend(faults)
    states = [venue.send(order())]
    while states[-1].status == "unknown" and len(states) < 2 * len(faults) + 2:
        states.append(venue.send(order()))
    assert all(state.detail for state in states if state.status in ("unknown", "rejected"))
    assert states[-1].status == ("rejected" if name == "wired" and faults == ("reject",) else "resting")
    exchange.arrive()
    venue.trade(1, 100)
    venue.trade(2, 100)
    venue.hear()
    assert venue.sizes() == ({} if states[-1].status == "rejected" else {"BTC": E8}) and venue.agrees()


@every_broker
@pytest.mark.parametrize("faults", [*product(LOST, repeat=2)])
def test_cancelling_until_it_is_known_takes_the_order_out(
    venue: Venue, faults: tuple[Fault, ...], exchange: LittleExchange
) -> None:
    venue.send(limit(90))
    exchange.cancelling.extend(faults)
    states = [venue.cancel() for _ in range(len(faults) + 1)]
    assert {state.status for state in states} <= {"unknown", "cancelled"} and states[-1].status == "cancelled"
    assert all(state.detail for state in states if state.status == "unknown")
    venue.teller.drop("c1")
    venue.trade(1, 80)
    venue.hear()
    assert venue.sizes() == {} and venue.agrees()


READS: list[Callable[[Venue], Any]] = [Venue.hear, Venue.left, Venue.agrees]


@every_broker
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fault", LOST)
def test_read_that_fails_is_never_an_empty_answer(
    venue: Venue, name: str, read: Callable[[Venue], Any], fault: Fault, exchange: LittleExchange
) -> None:
    venue.send(order())
    venue.trade(1, 100)
    exchange.reading.append(fault)
    if name == "wired":
        with pytest.raises(BrokerAway):
            read(venue)
    venue.hear()
    assert venue.sizes() == {"BTC": E8} and venue.left() == {} and venue.agrees()


@every_broker
@given(size=st.integers(1, 10**10), price=st.integers(1, 10**13), buying=st.booleans())
def test_increments(name: str, size: int, price: int, buying: bool) -> None:
    """What is rounded once stays as it is, and is never more or worse than what was asked for."""
    steps = create(name, msgspec.structs.replace(TERMS, lots=True)).increments("BTC", MarketListing(5, 40))
    assert steps is not None
    fit, at = round_size(size, steps), round_price(price, steps, buying=buying)
    assert 0 <= fit <= size and size - fit < steps.lot_e8 and round_size(fit, steps) == fit
    assert round_price(at, steps, buying=buying) == at and at > 0
    assert at >= price or buying


@every_broker
def test_any_sequence(name: str, exchange: LittleExchange) -> None:
    """Orders, prints, cancellations and lost answers in any order: book and broker agree whenever all is booked."""

    @settings(max_examples=examples(25), deadline=None)
    @given(st.lists(st.tuples(st.sampled_from("mlrcth"), st.integers(1, 9), st.booleans()), max_size=14), st.data())
    def check(steps: list[tuple[str, int, bool]], data: st.DataObject) -> None:
        exchange.clear(RICH)
        floor = Venue(name, exchange)
        for number, (kind, amount, flag) in enumerate(steps, start=1):
            minutes, name_of_order = number / 10, f"{number:x}"
            faults = data.draw(st.lists(st.sampled_from(LOST), max_size=1))
            if kind in "mlr":
                side = "buy" if flag else "sell"
                exchange.placing.extend(faults)
                wanted = order(minutes, side, amount, client_id=name_of_order, reduce_only=kind == "r")
                if kind == "l":
                    wanted = limit(95 + amount, minutes, side, amount, client_id=name_of_order)
                while floor.send(wanted).status == "unknown":
                    pass
            elif kind == "c":
                working = [each.client_id for each in floor.teller.working()]
                exchange.cancelling.extend(faults if working else ())
                for client_id in working[:1]:
                    while (state := floor.cancel(client_id)).status == "unknown":
                        pass
                    floor.hear()
                    if state.status == "cancelled":
                        floor.teller.drop(client_id)
            elif kind == "t":
                floor.trade(minutes + 0.05, 95 + amount, most=amount if flag else None)
            else:
                floor.hear()
                assert floor.agrees()
                assert {*floor.left()} == {each.client_id for each in floor.teller.working()}
        floor.hear()
        assert floor.agrees()

    check()


# --- pure brokers -----------------------------------------------------------------------------------------------


def asked(name: str, scenario: Scenario, until: int) -> BrokerActivity:
    """What a broker that has never heard of a scenario says of it."""
    known = [each for each in scenario.orders if each.intended_at <= until]
    quotes = WrittenQuotes(scenario.market)
    return activity(create(name, scenario.terms), scenario.account, known, quotes=quotes, until=until)


@pure_broker
def test_any_scenario(name: str) -> None:
    @settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
    @given(scenarios(), st.integers(START, END))
    def check(scenario: Scenario, sooner: int) -> None:
        whole = asked(name, scenario, END)
        events = list(whole.events)
        check_times(scenario, events)
        check_orders_end_once(scenario, events)
        check_reduce_only(scenario, events)
        check_funding(scenario, events)
        check_liquidations(scenario, events)
        check_account_and_orders(name, scenario)
        # The same question again is answered alike; asked earlier, with the beginning of the answer.
        assert asked(name, scenario, END) == whole
        early = asked(name, scenario, sooner)
        assert list(early.events) == [event for event in events if event.happened_at <= sooner]
        assert early.walked_until <= max(whole.walked_until, scenario.account.walked_until)

    check()


def check_account_and_orders(name: str, scenario: Scenario) -> None:
    """Account and open orders are what is left once every event is booked."""
    broker, quotes = create(name, scenario.terms), WrittenQuotes(scenario.market)
    booked = scenario.teller().booked(quotes, until=END)
    after = scenario.lived(broker)
    assert broker.account_state(booked) == after.portfolio
    assert {each.client_id for each in broker.open_orders(booked)} == {each.client_id for each in after.working()}


def check_times(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """In time order, nothing after the end, no fill before its order could have arrived."""
    times = [event.happened_at for event in events]
    assert times == sorted(times) and all(moment <= END for moment in times)
    sent = {each.client_id: each.intended_at for each in scenario.orders}
    for event in events:
        if isinstance(event, Fill) and event.client_id is not None:
            assert event.happened_at >= sent[event.client_id] + scenario.terms.latency_ms


def check_orders_end_once(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """At most one end per order; what is filled ends as filled at the same moment, and nothing else is filled."""
    ends = [event for event in events if isinstance(event, OrderEnd)]
    assert len({end.client_id for end in ends}) == len(ends)
    assert {end.client_id for end in ends} <= {each.client_id for each in scenario.orders}
    assert all(end.detail for end in ends if end.status != "filled")
    filled = [(end.client_id, end.happened_at) for end in ends if end.status == "filled"]
    fills = [event for event in events if isinstance(event, Fill)]
    assert filled == [(fill.client_id, fill.happened_at) for fill in fills if not fill.liquidation]
    assert len({fill.fill_id for fill in fills}) == len(fills)


def check_reduce_only(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """Such an order takes a position nearer to nothing and never past it; others are filled whole."""
    placed = {each.client_id: each for each in scenario.orders}
    sizes = {each.position.symbol: each.position.size_e8 for each in scenario.account.exposures}
    for event in events:
        if not isinstance(event, Fill):
            continue
        before = sizes.get(event.symbol, 0)
        after = sizes[event.symbol] = before + event.signed_size_e8
        if event.client_id is None:
            continue
        its_order = placed[event.client_id]
        if its_order.reduce_only:
            assert abs(after) < abs(before) and before * after >= 0
            assert abs(event.signed_size_e8) == min(its_order.size_e8, abs(before))
        else:
            assert event.signed_size_e8 == its_order.signed_size_e8


def check_funding(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """At the full hour, once per symbol and only on what was held before it, and in the right direction."""
    paid = [event for event in events if isinstance(event, FundingPayment)]
    assert len({(each.symbol, each.happened_at) for each in paid}) == len(paid)
    for payment in paid:
        assert payment.happened_at % HOUR == 0
        start = [each.position for each in scenario.account.exposures if each.position.symbol == payment.symbol]
        told = events[: events.index(payment)]
        fills = [event for event in told if isinstance(event, Fill) and event.symbol == payment.symbol]
        # What an order does at the very hour comes after the payment; a minute that ends there is judged before it.
        assert all(fill.liquidation or fill.happened_at < payment.happened_at for fill in fills)
        size = sum(each.size_e8 for each in start) + sum(fill.signed_size_e8 for fill in fills)
        assert size != 0 and payment.amount_usd_e6 * size * payment.rate_e12 <= 0


def check_liquidations(scenario: Scenario, events: list[BrokerEvent]) -> None:
    """What is liquidated is gone, and under cross margin everything goes at once."""
    sizes = {each.position.symbol: each.position.size_e8 for each in scenario.account.exposures}
    for event, following in zip_longest(events, events[1:]):
        if not isinstance(event, Fill):
            continue
        sizes[event.symbol] = sizes.get(event.symbol, 0) + event.signed_size_e8
        if event.liquidation:
            assert (sizes[event.symbol], event.client_id, event.maker) == (0, None, False)
            if scenario.account.margin == "cross" and not (isinstance(following, Fill) and following.liquidation):
                assert not any(sizes.values())


@pure_broker
def test_nothing_at_stake_is_nothing_to_say(name: str) -> None:
    market = Market((mid(0, 100),), (bar(0, 100, 200, 50, 100),))
    said = activity(create(name), account(), [], quotes=WrittenQuotes(market), until=NOON + 9 * HOUR)
    assert said.events == ()


@pure_broker
def test_never_asks_beyond_the_moment(name: str) -> None:
    until = NOON + 90 * MINUTE + 30_000
    bars = tuple(bar(minute, 100, 101, 99, 100) for minute in range(0, 300, 2))
    market = Market(tuple(mid(minute, 100) for minute in range(0, 300, 7)), bars, rates={str(NOON + HOUR): 1})
    quotes = WrittenQuotes(market)
    activity(create(name), account(held(1)), [order(), limit(99), order(89.9)], quotes=quotes, until=until)
    assert quotes.seen <= until


@pure_broker
@pytest.mark.parametrize(
    ("size", "rate", "amount"),
    [(1, 10**8, -10_000), (1, -(10**8), 10_000), (-1, 10**8, 10_000), (-1, -(10**8), -10_000), (1, 0, 0)],
)
def test_sign_of_funding(name: str, size: int, rate: int, amount: int) -> None:
    quotes = WrittenQuotes(Market((mid(-1, 100),), rates={str(NOON + HOUR): rate}))
    said = activity(create(name), account(held(size)), [], quotes=quotes, until=NOON + HOUR)
    assert said.events == (FundingPayment("BTC", NOON + HOUR, amount, rate),)


@pure_broker
def test_account_that_cannot_last_is_closed(name: str) -> None:
    market = Market((mid(0, 100),), tuple(bar(minute, 100, 100, 100 - 20 * minute, 100) for minute in range(4)))
    said = activity(create(name), account(held(1), cash=30), [], quotes=WrittenQuotes(market), until=NOON + 4 * MINUTE)
    (fill,) = said.events
    assert isinstance(fill, Fill) and fill.liquidation
    assert (fill.signed_size_e8, fill.happened_at) == (-E8, NOON + 3 * MINUTE)
