"""Halt, resume and flatten: at once, from anywhere, and twice is the same as once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.desk import control
from tapebook.desk.control import FlattenReport, HaltReport
from tapebook.domain.units import MINUTE
from tapebook.errors import StaleWriter
from tapebook.home import exclusive_lock
from tapebook.log import Leases
from tests.desk.desks import BRIEF, Desk, desk, holding, reply


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


def events(floor: Desk) -> int:
    return floor.rooms.book.head()


def test_halt_and_resume(floor: Desk) -> None:
    agent = floor.hire()
    assert floor.halt(agent.id, reason="odd") == HaltReport(agent.id, True, {agent.id: "odd"})
    before = events(floor)
    assert floor.halt(agent.id, reason="odd") == HaltReport(agent.id, False, {agent.id: "odd"})
    assert events(floor) == before
    assert floor.halt("", reason="storm").halts == {"": "storm", agent.id: "odd"}
    assert floor.resume("", reason="over") == HaltReport("", True, {agent.id: "odd"})
    assert floor.resume("", reason="over") == HaltReport("", False, {agent.id: "odd"})
    assert floor.resume(agent.id, reason="over").halts == {}
    assert floor.is_whole()


def test_halted_desk_decides_and_sends_nothing(floor: Desk) -> None:
    agent = holding(floor)
    floor.halt("", reason="storm")
    floor.later(MINUTE, BTC=100, ETH=10)
    for text in (reply("open", "long", 100), reply("close"), reply("adjust", "long", 100)):
        floor.later(1)
        run = floor.say(agent, text)
        assert (run.status, run.verdicts[0].rule) == ("rejected", "R1_KILL_SWITCH")
    assert floor.held(agent) == {"BTC": 500_000_000}
    floor.resume("", reason="over")
    floor.later(1)
    assert floor.say(agent, reply("close")).status == "placed"


def test_flatten_cancels_and_closes_even_while_halted(floor: Desk) -> None:
    agent = holding(floor)
    floor.halt("", reason="storm")
    floor.later(MINUTE, BTC=101, ETH=10)
    assert control.flatten(floor.rooms, [agent.id], reason="enough") == [FlattenReport(agent.id, ["BTC"], 1, False)]
    ended = floor.rooms.book.orders(agent.id, working=False, most=2)
    assert ("cancelled", "flattened") in [(order.status, order.detail) for order in ended]
    floor.later(10_000, BTC=101, ETH=9)
    floor.work(agent)
    assert floor.held(agent) == {} and floor.working(agent) == []
    (closed,) = floor.rooms.book.closed_trades(agent.id, seq=floor.rooms.book.head(agent.id), most=5)
    assert (closed.exit_reason, closed.exit_run_id) == ("external_flatten", None)
    assert floor.rooms.book.run_counts() == {"done": 2}
    assert floor.is_whole()


def test_running_desk_finds_the_wish_itself(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    other = Leases(floor.rooms.book_db, holder="other", ttl_seconds=60, elapsed=lambda: 0.0)
    (lease,) = other.acquire([floor.rooms.book.stream(agent.id)], most=1)
    assert control.flatten(floor.rooms, [agent.id], reason="enough") == [FlattenReport(agent.id, [], 0, True)]
    other.release([lease])
    with exclusive_lock(floor.rooms.home):
        assert control.flatten(floor.rooms, [agent.id], reason="enough")[0].left_to_desk
    assert len(floor.working(agent)) == 1 and floor.held(agent)
    floor.work(agent)
    assert [order.run_id for order in floor.working(agent)] == [""]


def test_whole_desk_is_flattened_by_one_wish(floor: Desk) -> None:
    agent = holding(floor)
    floor.later(MINUTE, BTC=101, ETH=10)
    control.flatten(floor.rooms, ["nobody.paper"], reason="x")
    floor.work(agent)
    assert [order.run_id for order in floor.working(agent)] != [""]
    control.flatten(floor.rooms, [""], reason="x")
    floor.work(agent)
    assert [order.run_id for order in floor.working(agent)] == [""]


def test_halt_does_not_fail_because_an_agent_was_saved(floor: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    append, calls = floor.rooms.book.append, list[int]()

    def busy(*args: object, **options: object) -> object:
        calls.append(1)
        if len(calls) < 3:
            raise StaleWriter("an agent was saved")
        return append(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(floor.rooms.book, "append", busy)
    assert floor.halt("", reason="storm").changed
    monkeypatch.setattr(floor.rooms.book, "append", lambda *_, **__: busy_for_ever())
    with pytest.raises(StaleWriter):
        floor.halt(BRIEF.name, reason="storm")


def busy_for_ever() -> None:
    raise StaleWriter("an agent was saved")
