"""A broker's answer that is lost: nothing is concluded before the order was asked for by its client id."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.broker import BookedAccount, OrderState
from tapebook.decision import EngineAnswer
from tapebook.desk import control
from tapebook.desk.executor import Executor
from tapebook.desk.health import health_checks
from tapebook.desk.worker import WorkerError, result_or_error
from tapebook.domain.agent import Deployment
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E6, E8, MINUTE
from tapebook.errors import BrokerAway, StaleWriter
from tapebook.lab.explain import explain_run
from tapebook.tick.decide import PreparedDecision, Slot
from tapebook.tick.execute import execute_orders
from tapebook.tick.story import conclude_decision, prepare_decision
from tapebook.wiring import Rooms
from tests.broker.doubles.wired import WiredBroker
from tests.broker.little_exchange import Fault, KnownOrder, LittleExchange, wired_broker
from tests.db.places import sql
from tests.desk.desks import BRIEF, Desk, desk, reply

AGENT = msgspec.structs.replace(BRIEF, broker="wired")


class Floor(Desk):
    """A desk whose orders go to an exchange that may lose them."""

    exchange: LittleExchange
    agent: Deployment

    most: float | None = None
    """How much of an order a price of the market may execute at once."""

    def quote(self, **prices: float) -> None:
        """What the market says now, which the exchange trades at."""
        super().quote(**prices)
        most = None if self.most is None else round(self.most * E8)
        for symbol, price in prices.items():
            self.exchange.trade(symbol, self.clock.now(), round(price * E8), most_e8=most)

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
    assert (floor.sent(), floor.exchange.statuses()) == (1, ["resting"])
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
    floor.halt("", reason="storm")
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
    floor.halt("", reason="storm")
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
        floor.exchange.orders[order.client_id] = KnownOrder(order, 0, "rejected", "no such market")
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


@pytest.mark.parametrize("fault", ["lose request", "lose answer"])
def test_flatten_cancels_at_the_exchange_until_that_is_known(floor: Floor, fault: Fault) -> None:
    """Of an order whose answer was lost as of any other; nothing is concluded from a cancellation that was lost."""
    floor.exchange.placing.append("lose answer")
    run = floor.intend()
    floor.turn()
    floor.exchange.cancelling.append(fault)
    floor.exchange.asking.append("lose answer")
    floor.later(1_000)
    control.flatten(floor.rooms, [floor.agent.id], reason="enough")
    assert floor.order(floor.agent)[0] == "intended"
    assert floor.turn()[0] == "cancelled"
    assert (floor.exchange.statuses(), floor.run_status(run), floor.held(floor.agent)) == (["cancelled"], "done", {})
    assert floor.is_whole()


def test_order_that_was_cancelled_before_it_came_does_no_harm(floor: Floor) -> None:
    floor.exchange.placing.append("late arrival")
    floor.intend()
    floor.turn()
    floor.later(1_000)
    control.flatten(floor.rooms, [floor.agent.id], reason="enough")
    assert floor.order(floor.agent) == ("cancelled", "flattened")
    floor.exchange.arrive()
    floor.later(1_000, BTC=100)
    floor.turn()
    assert floor.exchange.statuses() == ["cancelled"] and floor.held(floor.agent) == {}


def test_flatten_of_an_order_that_is_filled_in_part_closes_that_part(floor: Floor) -> None:
    """The last part was executed after the book was brought up to date and before the exchange let go."""
    floor.intend()
    floor.turn()
    floor.most = 2
    floor.later(1_000, BTC=100)
    floor.turn()
    assert floor.held(floor.agent) == {"BTC": 2 * E8} and floor.order(floor.agent)[0] == "placed"
    floor.later(1_000, BTC=100)
    control.flatten(floor.rooms, [floor.agent.id], reason="enough")
    (order,) = floor.working(floor.agent)
    assert (order.side, order.size_e8, order.reduce_only, order.run_id) == ("sell", 4 * E8, True, "")
    assert floor.exchange.statuses() == ["cancelled", "resting"]
    floor.most = None
    floor.later(1_000, BTC=101)
    floor.turn()
    assert floor.held(floor.agent) == {} and floor.rooms.book.flatten_due(floor.agent.id) == {} and floor.is_whole()


class FillsWhileCancelling(WiredBroker):
    """Some of the order is executed on the way of its cancellation, and the end of the order is told too late."""

    def __init__(self, floor: Floor) -> None:
        super().__init__(floor.exchange.address)
        self._floor = floor

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """What is left of it is cancelled."""
        self._floor.exchange.trade("BTC", self._floor.clock.now(), 100 * E8, most_e8=E8)
        return super().cancel(client_id, booked)


def test_what_is_filled_on_the_way_of_a_cancellation_is_closed_too(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.rooms._brokers["wired"] = FillsWhileCancelling(floor)
    floor.later(1_000)
    control.flatten(floor.rooms, [floor.agent.id], reason="enough")
    (order,) = floor.working(floor.agent)
    assert (order.side, order.size_e8, floor.held(floor.agent)) == ("sell", E8, {"BTC": E8})
    assert floor.is_whole()


def test_fills_come_one_by_one_and_are_booked_once(floor: Floor) -> None:
    """The exchange tells everything since the order left, at every turn."""
    run = floor.intend()
    floor.turn()
    floor.most = 2
    for held, status in ((2, "placed"), (4, "placed"), (5, "filled")):
        floor.later(1_000, BTC=100)
        for _ in range(2):
            assert floor.turn()[0] == status
            assert floor.held(floor.agent) == {"BTC": held * E8}
    assert [each.signed_size_e8 for each in floor.rooms.book.fills_of_run(run.run_id)] == [2 * E8, 2 * E8, E8]
    assert floor.run_status(run) == "done" and floor.is_whole()


def test_fill_that_comes_before_the_answer_belongs_to_its_order(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    floor.turn()
    floor.exchange.placing.append("lose answer")
    floor.later(5 * MINUTE, BTC=100)
    floor.say(floor.agent, reply("close"))
    assert floor.order(floor.agent)[0] == "intended"
    floor.exchange.asking.append("lose answer")
    floor.later(1_000, BTC=101)
    floor.turn()
    assert floor.order(floor.agent)[0] == "filled" and floor.held(floor.agent) == {} and floor.is_whole()
    (closed,) = floor.rooms.book.closed_trades(floor.agent.id, seq=floor.rooms.book.head(floor.agent.id), most=5)
    assert closed.exit_reason == "because"


def test_funding_is_booked_once_even_when_it_is_told_after_the_close(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    floor.turn()
    floor.later(1_000)
    floor.exchange.pay_funding("BTC", floor.clock.now(), -7)
    for _ in range(2):
        floor.turn()
    floor.exchange.fill_of_somebody_else("BTC", -5 * E8, 100 * E8)
    floor.exchange.pay_funding("BTC", floor.clock.now() + 1, -2)
    floor.later(1_000)
    floor.turn()
    floor.intend()
    for _ in range(2):
        floor.turn()
    rows = sql("SELECT amount_usd_e6 FROM wallet_ledger WHERE kind = 'funding' ORDER BY seq")
    assert [row[0] for row in floor.rooms.book_db.all(rows)] == [-7, -2]
    assert floor.is_whole()


def test_fill_of_somebody_else_on_the_account_is_booked_as_such(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    floor.turn()
    floor.later(1_000)
    floor.exchange.now = floor.clock.now()
    floor.exchange.fill_of_somebody_else("BTC", -5 * E8, 100 * E8)
    floor.turn()
    (closed,) = floor.rooms.book.closed_trades(floor.agent.id, seq=floor.rooms.book.head(floor.agent.id), most=5)
    assert closed.exit_reason == "external_flatten" and floor.is_whole()


def test_nothing_is_decided_on_an_account_that_cannot_be_read(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    head = floor.rooms.book.head(floor.agent.id)
    floor.exchange.reading.append("lose answer")
    with pytest.raises(BrokerAway):
        floor.say(floor.agent, reply("open", "long", 100))
    assert floor.rooms.book.head(floor.agent.id) == head
    floor.turn()
    assert floor.held(floor.agent) == {"BTC": 5 * E8}


def test_lost_order_counts_against_the_caps(floor: Floor) -> None:
    floor.exchange.placing.append("lose answer")
    floor.exchange.asking.append("lose answer")
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    run = floor.say(floor.agent, reply("open", "long", 1_600))
    assert run.verdicts[0].rule == "R3_POSITION_CAP"


def account_checks(floor: Floor) -> list[str]:
    """What the doctor finds in accounts."""
    return [each.detail for each in health_checks(floor.rooms) if each.name == "accounts"]


def test_doctor_names_what_the_broker_has_and_the_book_does_not(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    floor.later(1_000, BTC=100)
    # A fill that is not booked yet is no difference.
    assert account_checks(floor) == []
    floor.turn()
    assert account_checks(floor) == []
    position = Position("ETH", -E8, -10 * E6)
    floor.exchange.portfolio = Portfolio(floor.exchange.portfolio.positions | {"ETH": position}, 0)
    stray = Order("ab", "", "SOL", "buy", E8, "limit", E8, False, 1, 0)
    floor.exchange.orders["ab"] = KnownOrder(stray, E8, "resting")
    name = floor.agent.id
    assert account_checks(floor) == [
        f"{name}: ETH: the broker holds -1.00000000, the book 0.00000000",
        f"{name}: SOL: the broker has an open order that the book does not have",
    ]
    floor.exchange.reading.append("lose request")
    assert [each.startswith(f"{name}: the little exchange does not answer") for each in account_checks(floor)] == [True]


def test_doctor_names_an_order_that_the_broker_has_forgotten(floor: Floor) -> None:
    floor.intend()
    floor.turn()
    (order,) = floor.working(floor.agent)
    floor.exchange.orders.clear()
    assert account_checks(floor) == [
        f"{floor.agent.id}: BTC: the broker does not have the open order {order.client_id}"
    ]


def test_broker_that_cannot_be_read_stops_its_own_account_alone(floor: Floor) -> None:
    """The executor goes on with the others; a decision of that account fails with the reason, and the next is made."""
    other = floor.hire(msgspec.structs.replace(BRIEF, name="b"))
    floor.intend()
    floor.turn()
    floor.say(other, reply("open", "long", 300))
    floor.later(10_000, BTC=100)
    executor = Executor(floor.rooms)
    floor.exchange.reading.append("lose answer")
    executor.turn()
    assert executor.problem is not None and "BrokerAway: the little exchange does not answer" in executor.problem
    assert (floor.held(other), floor.held(floor.agent)) == ({"BTC": 3 * E8}, {})
    tasks = [result_or_error(lambda: prepare_decision(floor.rooms, Slot(floor.agent, "BTC", floor.clock.now())))]
    floor.exchange.reading.append("lose request")
    tasks.append(result_or_error(lambda: prepare_decision(floor.rooms, Slot(floor.agent, "BTC", floor.clock.now()))))
    assert [isinstance(each, WorkerError) for each in tasks] == [False, True]
    executor.turn()
    assert floor.held(floor.agent) == {"BTC": 5 * E8} and floor.is_whole()
