"""A broker's answer that is lost: nothing is concluded before the order was asked for by its client id."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.decision import EngineAnswer
from tapebook.desk import control
from tapebook.desk.health import health_checks
from tapebook.domain.agent import Deployment
from tapebook.domain.instants import MINUTE
from tapebook.domain.run import DecisionRun
from tapebook.errors import StaleWriter
from tapebook.lab.explain import explain_run
from tapebook.tick.decide import PreparedDecision, Slot
from tapebook.tick.execute import execute_orders
from tapebook.tick.story import conclude_decision, prepare_decision
from tapebook.wiring import Rooms
from tests.broker.little_exchange import LittleExchange, wired_broker
from tests.desk.desks import BRIEF, Desk, desk, reply

AGENT = msgspec.structs.replace(BRIEF, broker="wired")


class Floor(Desk):
    """A desk whose orders go to an exchange that may lose them."""

    exchange: LittleExchange
    agent: Deployment

    def intend(self) -> DecisionRun:
        """A decision whose order has not been sent."""
        opened = prepare_decision(self.rooms, Slot(self.agent, "BTC", self.clock.now()))
        assert isinstance(opened, PreparedDecision)
        return conclude_decision(self.rooms, opened, EngineAnswer(reply("open", "long", 500)))

    def turn(self) -> tuple[str, str]:
        """What a turn makes of the order: its status and the words on it."""
        self.work(self.agent)
        return self.order(self.agent)

    def sent(self) -> int:
        """How often an order was handed over."""
        return [do for do, _ in self.exchange.asked].count("place")

    def run_status(self, run: DecisionRun) -> str:
        """What became of a decision."""
        known = self.rooms.book.run(run.run_id)
        assert known is not None
        return known.status


@pytest.fixture
def floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Floor]:
    with wired_broker(monkeypatch) as exchange, desk(tmp_path / "home") as opened:
        floor = Floor(opened.rooms, opened.clock)
        floor.exchange, floor.agent = exchange, floor.hire(AGENT)
        floor.quote(BTC=100)
        yield floor


def test_order_that_arrived_without_an_answer_is_not_sent_again(floor: Floor) -> None:
    floor.exchange.placing.append("lose answer")
    run = floor.intend()
    status, words = floor.turn()
    assert status == "intended" and words.startswith("whether the broker has it is not known")
    assert floor.turn() == ("placed", "")
    assert (floor.sent(), list(floor.exchange.orders.values())) == (1, ["placed"])
    floor.later(10_000, BTC=100)
    assert floor.turn() == ("filled", "")
    assert floor.run_status(run) == "done" and floor.is_whole()


def test_answer_that_comes_too_late_is_a_lost_one(floor: Floor) -> None:
    floor.exchange.placing.append("late answer")
    floor.intend()
    status, words = floor.turn()
    assert status == "intended" and "timed out" in words
    assert floor.turn() == ("placed", "") and floor.sent() == 1


def test_order_that_never_arrived_is_sent_again_under_the_same_id(floor: Floor) -> None:
    floor.exchange.placing.append("lose request")
    floor.intend()
    assert floor.turn()[0] == "intended"
    assert floor.turn() == ("placed", "")
    placed = [client_id for do, client_id in floor.exchange.asked if do == "place"]
    assert len(placed) == 2 and len(set(placed)) == 1 and len(floor.exchange.orders) == 1


def test_order_that_arrives_after_it_was_sent_again_counts_once(floor: Floor) -> None:
    floor.exchange.placing.append("late arrival")
    floor.intend()
    assert floor.turn()[0] == "intended"
    assert floor.turn() == ("placed", "")
    floor.exchange.arrive()
    floor.later(10_000, BTC=100)
    floor.turn()
    assert len(floor.exchange.orders) == 1 and floor.held(floor.agent) == {"BTC": 500_000_000}


def test_nothing_is_concluded_while_nobody_can_say(floor: Floor) -> None:
    """Not after the order's time, not in a halt; and it is written once, however often it is asked in vain."""
    floor.exchange.placing.append("lose answer")
    run = floor.intend()
    floor.turn()
    floor.exchange.asking.extend(["lose answer"] * 3)
    head = floor.rooms.book.head(floor.agent.id)
    control.halt(floor.rooms, "", reason="storm")
    for _ in range(3):
        floor.later(10 * MINUTE, BTC=100)
        assert floor.turn()[0] == "intended"
    assert floor.rooms.book.head(floor.agent.id) == head
    assert floor.run_status(run) == "placed"
    (told,) = explain_run(floor.rooms, run)["orders"]
    assert told["detail"].startswith("whether the broker has it is not known, it is asked at every turn: ")
    (check,) = [each for each in health_checks(floor.rooms) if each.name == "orders"]
    assert not check.ok and told["client_id"] in check.detail
    # The exchange had it all the time: that is what counts, and no gate can call it back.
    execute_orders(floor.rooms, floor.agent)
    assert floor.order(floor.agent) == ("placed", "")
    (check,) = [each for each in health_checks(floor.rooms) if each.name == "orders"]
    assert check.ok and floor.is_whole()


def test_order_nobody_ever_saw_meets_the_gate_again(floor: Floor) -> None:
    floor.exchange.placing.append("lose request")
    run = floor.intend()
    floor.turn()
    control.halt(floor.rooms, "", reason="storm")
    assert floor.turn() == ("rejected", "R1_KILL_SWITCH at send: the desk is halted: storm")
    assert (floor.run_status(run), floor.sent(), floor.exchange.orders) == ("rejected", 1, {})


@pytest.mark.parametrize("lost", [False, True])
def test_refusal_ends_order_and_run(floor: Floor, lost: bool) -> None:
    """Whether the broker says so at once, or its word was lost and is asked for."""
    floor.exchange.placing.append("reject")
    run = floor.intend()
    if lost:
        floor.exchange.placing.clear()
        (order,) = floor.working(floor.agent)
        floor.exchange.orders[order.client_id] = "rejected"
    assert floor.turn() == ("rejected", "the broker refused it: no such market")
    assert (floor.run_status(run), floor.working(floor.agent)) == ("rejected", [])
    assert floor.is_whole()


def test_process_that_died_after_sending_asks_before_it_sends(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    floor.intend()

    def killed(*_: Any, **__: Any) -> Any:
        raise StaleWriter("killed here")

    with monkeypatch.context() as patch, pytest.raises(StaleWriter):
        patch.setattr(floor.rooms.book, "append", killed)
        floor.turn()
    assert floor.sent() == 1
    again = Floor(Rooms(floor.rooms.home, clock=floor.clock), floor.clock)
    again.exchange, again.agent = floor.exchange, floor.agent
    assert again.turn() == ("placed", "") and again.sent() == 1
    again.rooms.close()


def test_flatten_does_not_cancel_what_may_have_left(floor: Floor) -> None:
    floor.exchange.placing.append("lose answer")
    floor.intend()
    floor.turn()
    floor.exchange.asking.extend(["lose answer"] * 2)
    floor.later(1_000, BTC=100)
    control.flatten(floor.rooms, [floor.agent.id], reason="enough")
    assert floor.order(floor.agent)[0] == "intended"
    # Now it is known that the exchange has it, and then it is cancelled like any other.
    floor.turn()
    assert floor.turn() == ("cancelled", "flattened")


def test_lost_order_counts_against_the_caps(floor: Floor) -> None:
    floor.exchange.placing.append("lose answer")
    floor.exchange.asking.append("lose answer")
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    run = floor.say(floor.agent, reply("open", "long", 1_600))
    assert run.verdicts[0].rule == "R3_POSITION_CAP"
