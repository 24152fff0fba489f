"""The contract of the broker port, kept by every broker in its folder on any market.

The scenarios are those of `tests/broker/scenarios.py`: markets of ten minutes around a full hour,
with accounts that are short of money and orders that meet everything at the same moment. Beside the brokers of the
folder a double is held to it whose orders go over a socket to an exchange that loses requests and answers.
"""

from collections.abc import Iterator
from itertools import product, zip_longest

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook import plug
from tapebook.broker import Broker, BrokerActivity, PaperTerms
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.money import E8
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, OrderEnd
from tests.broker.little_exchange import Fault, LittleExchange, wired_broker
from tests.broker.market import NOON, TERMS, Market, WrittenQuotes, account, bar, held, limit, mid, order
from tests.broker.scenarios import END, START, Scenario, scenarios
from tests.matrix import examples

FOLDER = "tapebook.broker.brokers"
BROKERS = [*plug.names(FOLDER), "wired"]

every_broker = pytest.mark.parametrize("name", BROKERS)


@pytest.fixture(autouse=True)
def exchange(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleExchange]:
    """The exchange of the double."""
    with wired_broker(monkeypatch) as opened:
        yield opened


def create(name: str, terms: PaperTerms = TERMS) -> Broker:
    """A new broker, as the composition root makes it."""
    broker: Broker = plug.load(FOLDER, name).create(terms)
    return broker


def asked(name: str, scenario: Scenario, until: int) -> BrokerActivity:
    """What a broker that has never heard of a scenario says of it."""
    quotes = WrittenQuotes(scenario.market)
    known = [each for each in scenario.orders if each.intended_at <= until]
    return create(name, scenario.terms).activity(scenario.account, known, quotes=quotes, until=until)


@every_broker
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
        # The same question again is answered alike; asked earlier, with the beginning of the answer.
        assert asked(name, scenario, END) == whole
        early = asked(name, scenario, sooner)
        assert list(early.events) == [event for event in events if event.happened_at <= sooner]
        assert early.walked_until <= max(whole.walked_until, scenario.account.walked_until)

    check()


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


@every_broker
def test_nothing_at_stake_is_nothing_to_say(name: str) -> None:
    market = Market((mid(0, 100),), (bar(0, 100, 200, 50, 100),))
    said = create(name).activity(account(), [], quotes=WrittenQuotes(market), until=NOON + 9 * HOUR)
    assert said.events == ()


@every_broker
def test_placing_twice_changes_nothing(name: str) -> None:
    broker, quotes = create(name), WrittenQuotes(Market((mid(1, 100), mid(2, 101))))
    assert broker.place(order()).status == "placed"
    once = broker.activity(account(), [order()], quotes=quotes, until=NOON + HOUR)
    broker.place(order())
    assert broker.activity(account(), [order()], quotes=quotes, until=NOON + HOUR) == once
    assert len([event for event in once.events if isinstance(event, Fill)]) == 1


@every_broker
def test_order_nobody_handed_over_was_never_seen(name: str) -> None:
    assert create(name).order_state("nobody placed this").status == "never seen"


LOSSES: tuple[Fault, ...] = ("lose request", "lose answer", "late arrival")


@every_broker
@pytest.mark.parametrize("faults", [*product(LOSSES, repeat=2), ("reject",)])
def test_asking_before_placing_leaves_one_order_or_a_refusal(
    name: str, faults: tuple[Fault, ...], exchange: LittleExchange
) -> None:
    """Whatever is lost: asking by client id until something is known, and placing only what was never seen."""
    exchange.placing.extend(faults)
    states = []
    for _ in range(2 * len(faults) + 2):
        # A new object each time, as after a restart: what is known is with the broker, not with its client.
        state = create(name).order_state(order().client_id)
        if state.status == "never seen":
            state = create(name).place(order())
            assert state.status != "never seen"
        states.append(state)
        if state.status != "unknown":
            break
    assert all(state.detail for state in states if state.status in ("unknown", "rejected"))
    assert states[-1].status == ("rejected" if name == "wired" and faults == ("reject",) else "placed")
    exchange.arrive()
    assert len(exchange.orders) == (1 if name == "wired" else 0)


@every_broker
def test_never_asks_beyond_the_moment(name: str) -> None:
    until = NOON + 90 * MINUTE + 30_000
    bars = tuple(bar(minute, 100, 101, 99, 100) for minute in range(0, 300, 2))
    market = Market(tuple(mid(minute, 100) for minute in range(0, 300, 7)), bars, rates={str(NOON + HOUR): 1})
    quotes = WrittenQuotes(market)
    create(name).activity(account(held(1)), [order(), limit(99), order(89.9)], quotes=quotes, until=until)
    assert quotes.seen <= until


@every_broker
@pytest.mark.parametrize(
    ("size", "rate", "amount"),
    [(1, 10**8, -10_000), (1, -(10**8), 10_000), (-1, 10**8, 10_000), (-1, -(10**8), -10_000), (1, 0, 0)],
)
def test_sign_of_funding(name: str, size: int, rate: int, amount: int) -> None:
    quotes = WrittenQuotes(Market((mid(-1, 100),), rates={str(NOON + HOUR): rate}))
    said = create(name).activity(account(held(size)), [], quotes=quotes, until=NOON + HOUR)
    assert said.events == (FundingPayment("BTC", NOON + HOUR, amount, rate),)


@every_broker
def test_account_that_cannot_last_is_closed(name: str) -> None:
    market = Market((mid(0, 100),), tuple(bar(minute, 100, 100, 100 - 20 * minute, 100) for minute in range(4)))
    said = create(name).activity(account(held(1), cash=30), [], quotes=WrittenQuotes(market), until=NOON + 4 * MINUTE)
    (fill,) = said.events
    assert isinstance(fill, Fill) and fill.liquidation
    assert (fill.signed_size_e8, fill.happened_at) == (-E8, NOON + 3 * MINUTE)
