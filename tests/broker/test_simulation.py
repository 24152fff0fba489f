"""The walk against a slow model that shares no line with it, and what must be true of every walk.

`test_as_the_slow_model` compares every fill, fee, payment, refusal and liquidation, and the money at the end.
"""

from collections import Counter
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.broker import Broker, BrokerActivity
from tapebook.broker.brokers import paper
from tapebook.domain.order import BrokerEvent, Fill, FillRule, FundingPayment, InsurancePayment, OrderEnd
from tapebook.domain.position import Portfolio
from tests.broker.market import Teller, WrittenQuotes, activity
from tests.broker.scenarios import END, START, Scenario, scenarios
from tests.broker.slow_model import SlowDesk
from tests.matrix import examples

many = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


def broker(scenario: Scenario) -> Broker:
    """A new broker, which knows nothing."""
    return paper.create(scenario.terms)


def plain(said: BrokerEvent) -> tuple[Any, ...]:
    """An event as the slow model tells it."""
    match said:
        case Fill():
            kind = (said.maker, said.client_id, said.liquidation)
            return ("fill", said.symbol, said.happened_at, said.signed_size_e8, said.price_e8, said.fee_usd_e6, *kind)
        case FundingPayment():
            return ("funding", said.symbol, said.happened_at, said.amount_usd_e6, said.rate_e12)
        case InsurancePayment():
            return ("insurance", said.symbol, said.happened_at, said.amount_usd_e6)
        case OrderEnd():
            return ("end", said.client_id, said.happened_at, said.status)


@many
@given(scenarios(), st.sampled_from(["next_open", "bar_close", "worst"]))
def test_as_the_slow_model(drawn: Scenario, fill: FillRule) -> None:
    scenario = replace(drawn, terms=replace(drawn.terms, fill=fill))
    slow = SlowDesk.of(scenario.account, scenario.market, scenario.terms)
    slow.run(list(scenario.orders), END)
    teller = scenario.lived(broker(scenario))
    for kind, count in Counter(_kind(said) for said in teller.events).items():
        event(f"{scenario.account.margin} {kind}", str(min(count, 3)))
    assert [plain(said) for said in teller.events] == slow.events
    assert teller.portfolio.cash_usd_e6 == slow.cash
    held = {symbol: (lot.size, lot.cost, lot.leverage, lot.margin, lot.moved) for symbol, lot in slow.lots.items()}
    assert {symbol: _told(teller.portfolio, symbol) for symbol in teller.portfolio.positions} == held
    if held:
        assert teller.walked_until == slow.checked


def _kind(said: BrokerEvent) -> str:
    match said:
        case Fill():
            return "liquidation" if said.liquidation else "maker" if said.maker else "taker"
        case OrderEnd():
            return f"{said.status} {said.detail.split(' ')[0]}"
    return type(said).__name__


def _told(portfolio: Portfolio, symbol: str) -> tuple[int, ...]:
    held = portfolio.positions[symbol]
    return held.size_e8, held.cost_usd_e6, held.leverage, held.margin_usd_e6, held.moved_at


@many
@given(scenarios(), st.lists(st.integers(START, END), max_size=6), st.lists(st.integers(0, 30), max_size=6))
def test_small_steps_are_one_big_step(scenario: Scenario, anywhere: list[int], grid: list[int]) -> None:
    whole = scenario.lived(broker(scenario))
    # Stops on the grid meet executions, ends of minutes and the full hour exactly.
    parts = scenario.lived(broker(scenario), *anywhere, *(START + 20_000 * step for step in grid))
    assert parts.events == whole.events
    assert parts.portfolio == whole.portfolio
    if parts.portfolio.positions:
        assert parts.walked_until == whole.walked_until


@many
@given(scenarios(), st.integers(START, END))
def test_asked_again_after_a_crash(scenario: Scenario, stop: int) -> None:
    def asked() -> BrokerActivity:
        quotes = WrittenQuotes(scenario.market)
        return activity(broker(scenario), scenario.account, scenario.orders, quotes=quotes, until=stop)

    # Nothing was booked: another process asks the same and hears the same.
    assert asked() == asked()
    # All was booked: the same moment again has nothing more to say.
    teller = scenario.lived(broker(scenario), stop)
    assert teller.ask(broker(scenario), scenario.market, until=END).events == ()


class Watched(Teller):
    """A teller that holds every event against the money it moves."""

    def book(self, said: BrokerEvent) -> None:
        """Books an event; the account changes by what the event names and by nothing else."""
        prices = {symbol: held.entry_price_e8 for symbol, held in self.portfolio.positions.items()}
        if isinstance(said, Fill):
            prices[said.symbol] = said.price_e8
        before = self._worth(prices)
        super().book(said)
        changed = self._worth(prices) - before
        match said:
            case Fill():
                # A value is rounded once per part of a fill; one that turns a position has two.
                assert abs(changed + said.fee_usd_e6) <= 1
            case FundingPayment() | InsurancePayment():
                assert changed == said.amount_usd_e6
            case OrderEnd():
                assert changed == 0
        self._check_nothing_is_owed(said)

    def _worth(self, prices: dict[str, int]) -> Fraction:
        worth = Fraction(self.portfolio.cash_usd_e6)
        for held in self.portfolio.positions.values():
            worth += Fraction(held.size_e8 * prices[held.symbol], 10**10) - held.cost_usd_e6
        return worth

    def _check_nothing_is_owed(self, said: BrokerEvent) -> None:
        if isinstance(said, InsurancePayment) and not said.symbol:
            assert (self.portfolio.cash_usd_e6, self.portfolio.positions) == (0, {})


@many
@given(scenarios())
def test_equity_changes_by_what_is_named_alone(scenario: Scenario) -> None:
    watched = Watched(scenario.account, scenario.orders)
    watched.ask(broker(scenario), scenario.market, until=END)
    assert watched.events == scenario.lived(broker(scenario)).events
    filled = any(isinstance(said, Fill) for said in watched.events)
    if filled and not watched.portfolio.positions:
        assert watched.portfolio.cash_usd_e6 >= 0
