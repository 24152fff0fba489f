"""Two processes' worth of rooms on one home, in virtual time and with a watch that a test moves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapebook.clock import VirtualClock
from tapebook.decision import Engine, EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import EnginePool, Worker
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import MINUTE, parse_instant
from tapebook.wiring import Rooms
from tests.replay.crew import Here

START = parse_instant("2026-01-05T06:00:00Z")


class Asked:
    """An engine that says what a test says, and remembers what it was asked."""

    identity = ""

    def __init__(self, says: Callable[[Packet], EngineAnswer]) -> None:
        self._says = says
        self.packets: list[Packet] = []

    def decide(self, packet: Packet) -> EngineAnswer:
        """What the test says."""
        self.packets.append(packet)
        return self._says(packet)


def holds(packet: Packet) -> EngineAnswer:
    """Nothing to do."""
    return make_answer(packet, "hold", reason="nothing to do")


def buys(packet: Packet) -> EngineAnswer:
    """A small market order."""
    return make_answer(packet, "open", reason="cheap", side="long", notional_usd=100.0, leverage=1)


class Later:
    """A pool that asks when it is told to."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any) -> None:
        """Notes a question."""
        self._calls.append((call, args))

    def ask(self) -> int:
        """Asks all of them; says how many."""
        calls, self._calls = self._calls, []
        for call, args in calls:
            call(*args)
        return len(calls)


class Shop:
    """A process: its rooms, and a watch that shows other seconds than those of its neighbours."""

    def __init__(self, home: Path, clock: VirtualClock, says: Callable[[Packet], EngineAnswer] = holds) -> None:
        self.rooms = Rooms(home, clock=clock)
        self.clock = clock
        self.seconds = 0.0
        self.engine = Asked(says)
        self.rooms.leases._elapsed = lambda: self.seconds
        self.rooms.engine = self._engine  # type: ignore[method-assign]

    def _engine(self, agent: AgentProfile) -> Engine:
        return self.engine

    def hire(self, *agents: AgentProfile) -> None:
        """Saves agents."""
        for agent in agents:
            self.rooms.book.save_agent(agent, at=self.clock.now())

    def quote(self, *symbols: str, price_e8: int = 10**10) -> None:
        """What the market says now."""
        now = self.clock.now()
        seen: list[Observation] = [Mid(symbol, now, price_e8) for symbol in symbols]
        bar = (price_e8, price_e8, price_e8, price_e8, 1.0, 100.0, 1)
        seen += [Candle(symbol, 60, now - MINUTE, *bar) for symbol in symbols]
        self.rooms.tape.commit(seen)

    def list_due(self) -> int:
        """What has become due, on the list."""
        scheduler = Scheduler(self.rooms)
        scheduler.turn()
        return scheduler.added

    def worker(self, pool: EnginePool | None = None) -> Worker:
        """A worker that asks at once, or when the pool says."""
        return Worker(self.rooms, pool=pool or Here())

    def wait(self) -> None:
        """Looks at what others hold, and waits until they must be dead."""
        self.rooms.leases.watch_others()
        self.seconds += 2 * self.rooms.config.desk.lease_seconds

    def runs(self) -> list[DecisionRun]:
        """Every run, oldest first."""
        found = (self.rooms.book.run(run_id) for run_id in reversed(self.rooms.book.run_ids(most=10_000)))
        return [run for run in found if run is not None]

    def close(self) -> None:
        """The process ends."""
        self.rooms.close()


def work(worker: Worker) -> None:
    """Turns until nothing is left."""
    while worker.turn(wait_seconds=0):
        pass


@contextmanager
def shops(home: Path, count: int = 2, says: Callable[[Packet], EngineAnswer] = holds) -> Iterator[list[Shop]]:
    """Several processes on one home, at one moment of the market."""
    clock = VirtualClock(START)
    opened = [Shop(home, clock, says) for _ in range(count)]
    try:
        yield opened
    finally:
        for shop in opened:
            shop.close()
