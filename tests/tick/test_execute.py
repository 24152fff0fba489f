"""The second gate: between a decision and its order the world may have changed, and then nothing leaves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.broker import OrderState
from tapebook.decision import EngineAnswer
from tapebook.domain.agent import AgentProfile, Deployment, RiskCaps
from tapebook.domain.order import Order
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E6, MINUTE
from tapebook.errors import StaleWriter
from tapebook.tick.decide import PreparedDecision, Slot
from tapebook.tick.execute import execute_orders
from tapebook.tick.story import conclude_decision, prepare_decision
from tests.desk.desks import BRIEF, Desk, desk, reply


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


def asked(floor: Desk, deployment: Deployment, symbol: str = "BTC") -> PreparedDecision:
    """A packet that waits for its answer."""
    opened = prepare_decision(floor.rooms, Slot(deployment, symbol, floor.clock.now()))
    assert isinstance(opened, PreparedDecision)
    return opened


def decide(floor: Desk, deployment: Deployment, text: str) -> DecisionRun:
    """A decision whose order has not been sent: the process died in between."""
    return conclude_decision(floor.rooms, asked(floor, deployment), EngineAnswer(text))


def changed(**fields: Any) -> AgentProfile:
    return msgspec.structs.replace(BRIEF, **fields)


def sent(floor: Desk, agent: Deployment, run: DecisionRun) -> tuple[str, str, str]:
    """Status and words of the order, and the status of its run, after the gate."""
    execute_orders(floor.rooms, agent)
    known = floor.rooms.book.run(run.run_id)
    assert known is not None
    return (*floor.order(agent), known.status)


def test_order_leaves_when_nothing_has_changed(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    run = decide(floor, agent, reply("open", "long", 500))
    assert sent(floor, agent, run) == ("placed", "", "placed")


def test_halt_between_decision_and_sending(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    run = decide(floor, agent, reply("open", "long", 500))
    floor.halt("", reason="storm")
    words = "R1_KILL_SWITCH at send: the desk is halted: storm"
    assert sent(floor, agent, run) == ("rejected", words, "rejected")
    assert floor.working(agent) == [] and floor.is_whole()


def test_agent_disabled_in_between(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    run = decide(floor, agent, reply("open", "long", 500))
    floor.rooms.book.save_agent(changed(enabled=False), at=floor.clock.now())
    assert sent(floor, agent, run)[:2] == ("rejected", "R1_KILL_SWITCH at send: a is not enabled")


def test_caps_lowered_in_between(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    run = decide(floor, agent, reply("open", "long", 500))
    floor.rooms.book.save_agent(changed(caps=RiskCaps(max_position_usd_e6=400 * E6)), at=floor.clock.now())
    words = "R3_POSITION_CAP at send: position of $500.00 exceeds $400.00"
    assert sent(floor, agent, run)[:2] == ("rejected", words)


@pytest.mark.parametrize(
    ("ms", "price", "status", "words"),
    [
        (60_000, 101.9, "placed", ""),
        (60_000, 102.1, "rejected", "R9_PRICE_DEVIATION at send: the price moved by 2.10 % since the decision"),
        (60_000, 97.9, "rejected", "R9_PRICE_DEVIATION at send: the price moved by 2.10 % since the decision"),
        (121_000, None, "rejected", "R7_STALE_DATA at send: the newest price is 121 s old"),
        (5 * MINUTE, 100.0, "placed", ""),
        (5 * MINUTE + 1_000, 100.0, "rejected", "R17_EXPIRED at send: the order was intended 301 s ago"),
    ],
)
def test_market_and_time_in_between(floor: Desk, ms: int, price: float | None, status: str, words: str) -> None:
    agent = floor.hire()
    floor.quote(BTC=100)
    run = decide(floor, agent, reply("open", "long", 500))
    floor.later(ms, **({} if price is None else {"BTC": price}))
    after = {"placed": "placed", "rejected": "expired" if "EXPIRED" in words else "rejected"}[status]
    assert sent(floor, agent, run) == (status, words, after)


def test_orders_that_wait_together_are_counted_together(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    first, second = asked(floor, agent), asked(floor, agent, "ETH")
    conclude_decision(floor.rooms, first, EngineAnswer(reply("open", "long", 1_500)))
    conclude_decision(floor.rooms, second, EngineAnswer(reply("open", "long", 1_000, symbol="ETH")))
    # A cap that was lowered since lets only one of them leave.
    floor.rooms.book.save_agent(changed(caps=RiskCaps(max_account_usd_e6=2_000 * E6)), at=floor.clock.now())
    execute_orders(floor.rooms, agent)
    known = floor.rooms.book.orders(agent.id, working=False, most=2)
    assert sorted(order.status for order in known) == ["placed", "rejected"]
    assert [order.detail for order in known if order.status == "rejected"] == [
        "R14_ACCOUNT_CAP at send: $2500.00 in all symbols exceeds $2000.00"
    ]


class Counting:
    """A broker that remembers what it was handed."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.placed: list[str] = []

    def place(self, order: Order) -> OrderState:
        self.placed.append(order.client_id)
        state: OrderState = self._broker.place(order)
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


def test_nothing_is_placed_twice_unless_the_first_time_was_lost(floor: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = floor.hire()
    broker = Counting(floor.rooms.broker("paper"))
    monkeypatch.setattr(floor.rooms, "broker", lambda *_: broker)
    floor.quote(BTC=100)
    decide(floor, agent, reply("open", "long", 500))
    append = floor.rooms.book.append

    def lost(*_: Any, **__: Any) -> Any:
        raise StaleWriter("somebody was faster")

    monkeypatch.setattr(floor.rooms.book, "append", lost)
    with pytest.raises(StaleWriter):
        execute_orders(floor.rooms, agent)
    monkeypatch.setattr(floor.rooms.book, "append", append)
    for _ in range(3):
        execute_orders(floor.rooms, agent)
    # The same client id both times: an exchange takes it once.
    assert len(broker.placed) == 2 and len(set(broker.placed)) == 1
    assert len(floor.working(agent)) == 1


@pytest.mark.parametrize(
    ("settings", "size", "price"),
    [("", 499_975_001, 9_998_765_432), ("[paper]\nlots = true", 499_975_000, 9_990_000_000)],
)
def test_sizes_and_limits_are_in_lots_where_the_settings_say_so(
    tmp_path: Path, settings: str, size: int, price: int
) -> None:
    """BTC goes in steps of 0.00001, its price in steps of 0.1 and five digits."""
    with desk(tmp_path / "lots", settings=settings) as opened:
        agent = opened.hire()
        opened.quote(BTC=100.005)
        opened.say(agent, reply("open", "long", 500, order_type="limit", limit_price=99.98765432))
        (order,) = opened.working(agent)
        assert (order.size_e8, order.limit_price_e8) == (size, price)
