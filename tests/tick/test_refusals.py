"""Whoever refuses, the agent is told: guard, send gate, broker, or the parser; and the run ends as refused."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.decision import EngineAnswer
from tapebook.domain.agent import AgentProfile, Deployment, RiskCaps
from tapebook.domain.market import Mid
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E6, E8, MINUTE, SECOND, parse_instant
from tapebook.home import make_home
from tapebook.lab.replay import replay_runs
from tapebook.tick.decide import Slot
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import Rooms

NOON = parse_instant("2026-06-04T12:00:00Z")
# More than the venue allows for BTC: the guard's caps permit it, the broker does not.
CAPS = RiskCaps(max_leverage=100)
AGENT = AgentProfile("a", ("BTC",), starting_cash_usd_e6=1_000 * E6, caps=CAPS)
TOO_MUCH = {"action": "open", "symbol": "BTC", "side": "long", "notional_usd": 200.0, "leverage": 90, "reason": "up"}


class Desk:
    """One agent whose answers are given, and a market that stands at 100."""

    def __init__(self, home: Path) -> None:
        make_home(home)
        self.clock = VirtualClock(NOON)
        self.rooms = Rooms(home, clock=self.clock)
        self.rooms.book.save_agent(AGENT, at=NOON)
        self.deployment: Deployment = deploy_agent(self.rooms.book, self.rooms.clock, "a")

    def decide(self, reply: str) -> tuple[DecisionRun, str]:
        """Answers at the next slot; returns the run as it ended and the text the agent was given."""
        told: list[str] = []

        def answer(_decide: object, packet: Packet) -> EngineAnswer:
            told.append(packet.text)
            return EngineAnswer(reply)

        self.pass_time(0)
        run = tick(self.rooms, Slot(self.deployment, "BTC", self.clock.now()), ask=answer)
        self.pass_time(5 * SECOND)
        execute_orders(self.rooms, self.deployment)
        reconcile_account(self.rooms, self.deployment)
        self.pass_time(5 * MINUTE - 5 * SECOND)
        ended = self.rooms.book.run(run.run_id)
        assert ended is not None
        return ended, told[0]

    def pass_time(self, ms: int) -> None:
        """The clock moves, and the price is seen again."""
        self.clock.advance(self.clock.now() + ms)
        self.rooms.tape.commit([Mid("BTC", self.clock.now(), 100 * E8)])


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "home")
    yield made
    made.rooms.close()


def reply(*actions: dict[str, object]) -> str:
    return msgspec.json.encode({"actions": actions, "note": ""}).decode()


def test_five_refusals_of_the_broker_in_a_row_are_said_and_counted(desk: Desk) -> None:
    ended = [desk.decide(reply(TOO_MUCH)) for _ in range(6)]
    assert {run.status for run, _ in ended} == {"rejected"}
    text = ended[-1][1]
    assert '- open BTC long: refused by the broker: "leverage 90 exceeds the 40 that BTC allows at this size"; ' in text
    assert "engine rejections (last 1h): BROKER_REFUSED=5" in text
    assert "do not repeat the same proposal shape" in text
    assert replay_runs(desk.rooms, [run.run_id for run, _ in ended]).different == []


def test_reply_that_cannot_be_read_is_refused_and_counted(desk: Desk) -> None:
    first, _ = desk.decide("buy!")
    assert first.status == "rejected"
    _, text = desk.decide(reply())
    assert "- refused, no readable reply: " in text
    assert "engine rejections (last 1h): UNREADABLE_REPLY=1" in text


def test_refusal_at_the_send_gate_is_said_and_counted(desk: Desk) -> None:
    order = TOO_MUCH | {"leverage": 2}

    def halts(_decide: object, _packet: Packet) -> EngineAnswer:
        return EngineAnswer(reply(order))

    desk.pass_time(0)
    run = tick(desk.rooms, Slot(desk.deployment, "BTC", NOON), ask=halts)
    assert run.status == "placed"
    desk.pass_time(5 * MINUTE)
    _, text = desk.decide(reply())
    assert "- open BTC long: allowed, filled; " in text
    # Nobody placed the next one in time: when somebody comes, the gate refuses it.
    late = Slot(desk.deployment, "BTC", desk.clock.now())
    desk.pass_time(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tapebook.tick.story.execute_orders", lambda rooms, deployment: None)
        patch.setattr("tapebook.tick.story.reconcile_account", lambda rooms, deployment: None)
        intended = tick(desk.rooms, late, ask=halts)
    desk.pass_time(10 * MINUTE)
    _, text = desk.decide(reply())
    ended = desk.rooms.book.run(intended.run_id)
    assert ended is not None and ended.status == "expired"
    assert "- open BTC long: refused at send by R17_EXPIRED: " in text
    assert "engine rejections (last 1h): R17_EXPIRED=1" in text
