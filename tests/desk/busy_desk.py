"""A home with many agents that are due now, on a market that is a minute old: something for real workers to do."""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tapebook.api import app
from tapebook.clock import SystemClock
from tapebook.desk.scheduler import Scheduler
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.units import DAY, MINUTE, floor_to_step
from tapebook.settings.config import FILE
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.replay.stage import Stage
from tests.replay.storm import ROOT, environment

SYMBOLS = tuple(f"S{number}" for number in range(10))


def settle(stage: Stage, *, pairs: int, engine: str = "hold", **settings: object) -> Path:
    """A home with so many pairs due; their slot lasts a day, so that none expires under a slow machine."""
    home = furnish(stage, pairs=pairs, engine=engine, **settings)
    list_due(home, pairs=pairs)
    return home


def furnish(stage: Stage, *, pairs: int, engine: str = "hold", **settings: object) -> Path:
    """That home before anything is due."""
    home = stage.make("home")
    text = (home / FILE).read_text("utf-8")
    for name, value in settings.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    (home / FILE).write_text(text, "utf-8")
    with opened(home) as rooms:
        now = rooms.clock.now()
        rooms.tape.commit(list(_market(now)))
        for number in range(pairs // len(SYMBOLS)):
            agent = AgentProfile(f"agent-{number:04d}", SYMBOLS, engine=engine, cadence_ms=DAY)
            rooms.book.save_agent(agent, at=now)
    return home


def list_due(home: Path, *, pairs: int) -> None:
    """Lists what is due now, for workers to take."""
    with opened(home) as rooms:
        scheduler = Scheduler(rooms)
        scheduler.turn()
        assert scheduler.added == pairs


@contextmanager
def opened(home: Path) -> Iterator[Rooms]:
    """The rooms of a home, in real time."""
    rooms = Rooms(home, clock=SystemClock())
    try:
        yield rooms
    finally:
        rooms.close()


def _market(now: int) -> Iterator[Observation]:
    for symbol in SYMBOLS:
        for at in range(floor_to_step(now, MINUTE) - 30 * MINUTE, floor_to_step(now, MINUTE), MINUTE):
            yield Candle(symbol, 60, at, 10**10, 10**10 + 10**7, 10**10 - 10**7, 10**10, 5.0, 500.0, 3)
        yield Mid(symbol, floor_to_step(now, 5_000), 10**10)


class Hand:
    """A worker process."""

    def __init__(self, home: Path, *, seconds: float = 300, thinks: float = 0.0) -> None:
        words = [sys.executable, "-m", "tests.desk.worker_process", str(home), str(seconds), str(thinks)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)

    def await_beginning(self) -> None:
        """Waits until it takes what is due."""
        assert self.process.stdout
        assert "begun" in json.loads(self.process.stdout.readline())

    def await_question(self) -> None:
        """Waits until it has asked an engine."""
        self.await_beginning()
        assert self.process.stdout
        assert "asked" in json.loads(self.process.stdout.readline())

    def leave(self) -> dict[str, Any]:
        """Tells it to stop, and gives what it says at the end."""
        self.process.terminate()
        out, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        ended: dict[str, Any] = json.loads(out.splitlines()[-1])
        return ended


def await_idle(home: Path, *, seconds: float = 120) -> None:
    """Waits until nothing is left to decide."""
    until = time.monotonic() + seconds
    with opened(home) as rooms:
        while rooms.work.counts_by_state():
            assert time.monotonic() < until, f"still to do: {rooms.work.counts_by_state()}"
            time.sleep(0.05)


def assert_once_each(home: Path, *, pairs: int) -> Counter[str]:
    """Every pair was decided once, every order is there once, nothing contradicts itself; gives runs by status."""
    with opened(home) as rooms:
        runs = rooms.book_db.all(sql("SELECT run_id, deployment, symbol, status FROM decision_runs"))
        orders = rooms.book_db.all(sql("SELECT run_id, client_id FROM orders"))
        events = rooms.book_db.all(sql("SELECT COUNT(*) FROM log_events WHERE kind = 'run.decided'"))
        left = rooms.book_db.all(sql("SELECT deployment, holder FROM leases WHERE holder <> ''"))
    assert len(runs) == pairs == events[0][0]
    assert set(Counter((deployment, symbol) for _, deployment, symbol, _ in runs).values()) == {1}
    assert all(times == 1 for times in Counter(run for run, _ in orders).values())
    assert left == []
    with app.open(home) as book:
        assert book.verify() == []
    return Counter(status for *_, status in runs)
