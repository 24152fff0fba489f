"""Models of every kind of server behind a desk: those that can do less trade all the same, and none can harm others."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import Worker
from tapebook.domain.agent import AgentProfile, Deployment, RiskCaps
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E8, MINUTE
from tapebook.settings.config import FILE, LlmSettings, as_toml, load_config
from tapebook.tick.decide import Slot
from tapebook.tick.story import tick
from tapebook.wiring import Rooms
from tests.desk.desks import Desk, desk
from tests.desk.worker_harness import START, Shop
from tests.llm.conftest import offline, one_server, server
from tests.llm.hostile_servers import BILLED, HOSTILE, KEY, many_tempered
from tests.llm.model_server import ModelServer, Said, Seen, error, openai_chat, trade_by
from tests.replay.stage import Stage

__all__ = ["offline", "one_server", "server"]

KNOWS = {"strict schema": 0, "JSON mode only": 1, "plain with fences": 2, "thinks first": 2}


def tempered(temper: str) -> Callable[[Seen], Said]:
    """A server of that temper with a model that trades; what it does not know it refuses."""

    def say(seen: Seen) -> Said:
        kind = seen.body.get("response_format", {}).get("type", "plain")
        if ("json_schema", "json_object", "plain").index(kind) < KNOWS[temper]:
            return Said(400, error(f"response_format.type {kind!r} is not supported"))
        reply = trade_by(seen.body["messages"][-1]["content"])
        if temper == "plain with fences":
            reply = f"```json\n{reply}\n```"
        if temper == "thinks first":
            reply = f'<think>\nIs {{"actions": []}} better? No.\n</think>\n\n{reply}'
        return Said(body=openai_chat(reply))

    return say


def traded(floor: Desk, agent: Deployment) -> tuple[list[DecisionRun], list[Any]]:
    """A round trip of an agent, from its question to its fill; the runs, and what came of them."""
    runs = []
    for price in (100, 103):
        floor.quote(BTC=price)
        runs.append(tick(floor.rooms, Slot(agent, "BTC", floor.clock.now())))
        floor.later(10_000, BTC=price + 1)
        floor.work(agent)
        floor.later(5 * MINUTE - 10_000)
    book = floor.rooms.book
    orders = [(known.order, known.status) for known in book.orders(agent.id, working=False, most=10)]
    fills = [fill for run in runs for fill in book.fills_of_run(run.run_id)]
    (trade,) = book.closed_trades(agent.id, seq=book.head(agent.id), most=10)
    return runs, [orders, fills, trade]


def test_servers_of_four_tempers_trade_through_one_agent(tmp_path: Path, server: ModelServer) -> None:
    came: dict[str, list[Any]] = {}
    for temper, refused in KNOWS.items():
        server.says(tempered(temper))
        settings = f'[llm]\nopenai_url = "{server.url}/v1"\nopenai_model = "some-model"\n'
        with desk(tmp_path / temper.replace(" ", "-"), settings=settings) as floor:
            agent = floor.hire(AgentProfile("a", ("BTC",), engine="openai"))
            runs, came[temper] = traded(floor, agent)
            assert floor.is_whole() and floor.held(agent) == {}
        assert [run.status for run in runs] == ["placed", "placed"] and not any(run.error for run in runs)
        assert [run.usage.cost_usd_e6 for run in runs if run.usage] == [7_500, 7_500]
        # What a server does not know it is asked once, and not before each decision.
        assert len(server.seen) == 2 + refused
    orders, fills, trade = came["strict schema"]
    assert all(found == [orders, fills, trade] for found in came.values())
    assert isinstance(trade, ClosedTrade) and trade.state.realised_usd_e6 > 0
    assert [status for _, status in orders] == ["filled", "filled"] and len(fills) == 2


class HostileDesk:
    """A worker whose agents ask a hostile server each, beside agents whose servers are good, and one of rules."""

    def __init__(self, home: Path, server: ModelServer, *, large: int, seconds_a_byte: float) -> None:
        server.says(many_tempered(large=large, seconds_a_byte=seconds_a_byte))
        self.server, self.clock = server, VirtualClock(START)
        self.rooms = Rooms(home, clock=self.clock)
        self.names = [*HOSTILE, "echoes-in-its-answer", "good"]
        caps = RiskCaps(max_orders_per_hour=60)
        for name in self.names:
            agent = AgentProfile(name, ("BTC",), engine="openai", model=name, cadence_ms=5 * MINUTE, caps=caps)
            self.rooms.book.save_agent(agent, at=START)
        ruled = AgentProfile("ruled", ("BTC",), engine="trend", cadence_ms=5 * MINUTE)
        self.rooms.book.save_agent(ruled, at=START)

    def decide(self) -> Worker:
        """One round of all agents, by one worker with its pool of threads."""
        Shop.quote(self, "BTC", price_e8=100 * E8)  # type: ignore[arg-type]
        scheduler = Scheduler(self.rooms)
        scheduler.turn()
        assert scheduler.added == len(self.names) + 1
        with closing(Worker(self.rooms)) as worker:
            while worker.turn(wait_seconds=0.2):
                pass
            return worker

    def dismiss(self, name: str) -> None:
        """An agent decides no more."""
        self.names.remove(name)
        found = self.rooms.book.agent(name)
        assert found is not None
        self.rooms.book.save_agent(msgspec.structs.replace(found[1], enabled=False), at=self.clock.now())

    def runs(self, name: str) -> list[DecisionRun]:
        """The runs of an agent, oldest first."""
        found = (self.rooms.book.run(run_id) for run_id in reversed(self.rooms.book.run_ids(most=10_000)))
        return [run for run in found if run is not None and run.agent == name]

    def later(self) -> None:
        """The next slot of everybody."""
        self.clock.advance(self.clock.now() + 5 * MINUTE)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, offline: None) -> None:
    """The provider's key is known."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def check(floor: HostileDesk, *, rounds: int, attempts: int) -> None:
    """Each hostile server is one recorded failure for each decision, with its cost, and nobody else's concern."""
    for name, fault in HOSTILE.items():
        runs = floor.runs(name)
        assert [run.status for run in runs] == ["failed"] * (rounds if name in floor.names else 1), name
        for run in runs:
            assert run.error is not None and run.error.startswith(f"{fault} after "), run.error
            assert len(run.error) <= 300 and run.usage is not None
            assert (run.usage.cost_usd_e6 > 0) == (name in BILLED), (name, run.usage)
            assert 1 <= run.usage.attempts <= attempts
    for name in ("good", "echoes-in-its-answer"):
        runs = floor.runs(name)
        assert [run.error for run in runs] == [None] * rounds
        assert {action.action for run in runs for action in run.actions} >= {"open"}
        assert sum(run.usage.cost_usd_e6 for run in runs if run.usage) == rounds * 7_500
        assert floor.rooms.book.orders(f"{name}.paper", working=False, most=10)[-1].status == "filled"
    assert len(floor.runs("ruled")) == rounds


@pytest.mark.usefixtures("key")
def test_hostile_servers_are_one_failure_each_and_harm_nobody(tmp_path: Path, server: ModelServer) -> None:
    home = Stage(tmp_path, "").make("home")
    limits = "attempts = 1\ntimeout_seconds = 3.0\ntotal_seconds = 3.0\n"
    (home / FILE).write_text(f'[llm]\nopenai_url = "{server.url}/v1"\n{limits}', "utf-8")
    floor = HostileDesk(home, server, large=5_000_000, seconds_a_byte=0.05)
    with closing(floor.rooms):
        for _ in range(2):
            worker = floor.decide()
            assert (worker.made, worker.failed, worker.lost, worker.problem) == (len(floor.names) + 1, 0, 0, None)
            floor.later()
            if "drips" in floor.names:
                floor.dismiss("drips")
        check(floor, rounds=2, attempts=1)
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in kept)
    # Nothing of what is larger than any answer is kept.
    assert sum(path.stat().st_size for path in kept) < 5_000_000
    with app.open(home, clock=floor.clock) as book:
        assert book.verify() == [] and book.replay().different == []


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty home with its book in each store."""
    dsn = str(request.getfixturevalue("postgres_dsn")) if request.param == "PostgreSQL" else ""
    stage = Stage(tmp_path, dsn)
    yield stage.make("home")
    stage.clear()


@pytest.mark.soak
@pytest.mark.usefixtures("key")
def test_a_desk_among_hostile_servers_for_hours(stored: Path, server: ModelServer) -> None:
    """As large and as slow as such servers are, with all attempts, over a dozen slots."""
    llm = LlmSettings(openai_url=f"{server.url}/v1", attempts=3, timeout_seconds=5.0, total_seconds=12.0)
    (stored / FILE).write_text(as_toml(msgspec.structs.replace(load_config(stored, {}), llm=llm)), "utf-8")
    floor = HostileDesk(stored, server, large=100_000_000, seconds_a_byte=2.0)
    with closing(floor.rooms):
        for _ in range(12):
            floor.decide()
            floor.later()
        check(floor, rounds=12, attempts=3)
    assert sum(path.stat().st_size for path in stored.rglob("*") if path.is_file()) < 50_000_000
