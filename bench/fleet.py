"""The fleet: decisions to hold of worker processes on one PostgreSQL, which has both the book and the tape.

Workers begin with a slot that nobody measures, so that they know their accounts; then they make the decisions of the
next slot in a market that has moved. With rule engines they use a processor each, and as many as there are share it
with the server. With an engine that answers later, as a model does, workers wait, and more of them make more.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psycopg

from bench.desk import T0, Sleeper, _market
from bench.figure import Figure
from tapebook.clock import ScaledClock
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import Worker
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import Candle, FeatureRow
from tapebook.domain.units import HOUR, MINUTE, SECOND
from tapebook.home import make_home
from tapebook.settings.config import FILE, TEMPLATE
from tapebook.tick.prepare import FEATURE_FAMILIES
from tapebook.wiring import Rooms
from tests.conftest import _embedded_postgres as postgres

CADENCE = 5 * MINUTE
SYMBOLS = [f"S{number:03d}" for number in range(20)]
# Calls in flight of a worker whose engine answers later: few, so that workers wait for it and not for a processor.
IN_FLIGHT = 4
SLOW_SECONDS = 0.1
# A slot is decided so long after it: by then all of its market is known, which takes some seconds of the same clock to
# write. Workers whose clock was behind would find an empty market, and read it again as it comes in.
LISTED_MS = 30 * SECOND


class Measured(msgspec.Struct, frozen=True):
    """A slot that was decided: how many decisions a second, and processor time of the workers for each, in ms."""

    per_second: float
    cpu_ms: float


def run() -> list[Figure]:
    """All figures of the fleet."""
    with postgres() as url:
        quick = {workers: _measure(url, workers=workers, agents=60) for workers in (1, 2)}
        slow = {workers: _measure(url, workers=workers, agents=20, thinks=SLOW_SECONDS) for workers in (1, 2, 4)}
    figures = [
        Figure("holds of 1 worker, rule engine", quick[1].per_second, "per s", aim="≥ 250 quiet"),
        Figure("processor time of a hold in its worker", quick[1].cpu_ms, "ms"),
        Figure("holds of 2 workers, rule engine, 2 processors", quick[2].per_second, "per s"),
    ]
    ideal = IN_FLIGHT / SLOW_SECONDS
    for workers, found in slow.items():
        name = f"holds of {workers} worker{'s' * (workers > 1)}, engine of {SLOW_SECONDS} s, {IN_FLIGHT} calls each"
        figures.append(Figure(name, found.per_second, "per s", workers * ideal, found.per_second / workers / ideal))
    times = slow[4].per_second / slow[1].per_second
    return [*figures, Figure("4 workers against 1, engine of 0.1 s", times, "times", aim="≥ 3")]


def _measure(server: str, *, workers: int, agents: int, thinks: float = 0.0) -> Measured:
    with tempfile.TemporaryDirectory() as folder, _home(Path(folder) / "home", server, thinks=thinks) as home:
        _list_slot(home, T0, agents=agents)
        processes = [_start(home, thinks) for _ in range(workers)]
        try:
            _decide(processes, T0)
            _list_slot(home, T0 + CADENCE, agents=agents)
            begun = time.perf_counter()
            found = _decide(processes, T0 + CADENCE)
            took = time.perf_counter() - begun
        finally:
            for process in processes:
                process.communicate("", timeout=60)
    made = sum(each["made"] for each in found)
    assert made == agents * len(SYMBOLS), found
    return Measured(made / took, 1_000 * sum(each["cpu"] for each in found) / made)


@contextmanager
def _home(home: Path, server: str, *, thinks: float) -> Iterator[Path]:
    """A home with book and tape in a database of its own."""
    name = f"bench_{home.parent.name.lower()}"
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    make_home(home)
    text = re.sub(r'^(book|tape) = ".*"', rf'\1 = "{url}"', TEMPLATE, flags=re.MULTILINE)
    calls = IN_FLIGHT if thinks else 200
    text = re.sub(r"^calls_in_flight = .*$", f"calls_in_flight = {calls}", text, flags=re.MULTILINE)
    # Workers share what there is: one that takes all leases at once would leave the others without.
    text = re.sub(r"^batch = .*$", f"batch = {2 if thinks else 20}", text, flags=re.MULTILINE)
    (home / FILE).write_text(text, "utf-8")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
        yield home
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def _list_slot(home: Path, slot: int, *, agents: int) -> None:
    """What the market says at a slot, and all decisions that are due at it."""
    rooms = Rooms(home, clock=ScaledClock(slot, speed=1.0))
    moved = [msgspec.structs.replace(each, bucket_ts=each.bucket_ts + slot - T0) for each in _market(SYMBOLS)]
    # As ingestion does beside it: features of every symbol, and bars of the hours that have ended.
    features = [FeatureRow(symbol, slot, "{}", family) for symbol in SYMBOLS for family in FEATURE_FAMILIES.values()]
    hours = range(slot - slot % HOUR - 24 * HOUR, slot - slot % HOUR, HOUR)
    bar = (10**12, 10**12 + 10**8, 10**12 - 10**8, 10**12, 750.0, 6e6, 1_980)
    rooms.tape.commit([*moved, *features, *(Candle(each, 3_600, at, *bar) for each in SYMBOLS for at in hours)])
    for number in range(agents):
        profile = AgentProfile(f"agent-{number:04d}", tuple(SYMBOLS), engine="hold", cadence_ms=CADENCE)
        rooms.book.save_agent(profile, at=slot)
    scheduler = Scheduler(rooms)
    scheduler.turn()
    assert scheduler.added == agents * len(SYMBOLS)
    rooms.close()


def _start(home: Path, thinks: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.fleet", str(home), str(thinks)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=Path(__file__).parents[1], env=os.environ, stdin=pipe, stdout=pipe, text=True)


def _decide(processes: "list[subprocess.Popen[str]]", slot: int) -> list[dict[str, float]]:
    """Lets all workers make the decisions of a slot."""
    for process in processes:
        assert process.stdin
        process.stdin.write(f"{slot}\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in processes if process.stdout]


def work(home: Path, thinks: float) -> None:
    """A worker that makes the decisions of each slot it is told, until nothing is left of it."""
    rooms, slow = Rooms(home, clock=ScaledClock(T0, speed=1.0)), Sleeper(thinks)
    if thinks:
        rooms.engine = lambda agent: slow  # type: ignore[method-assign]
    worker = Worker(rooms)
    for line in sys.stdin:
        rooms.clock = rooms.log._clock = ScaledClock(int(line) + LISTED_MS, speed=1.0)  # type: ignore[misc]
        made, cpu = worker.made, time.process_time()
        # As a worker of a desk does: it waits when it has nothing in hand, and asks for no count before.
        while worker.turn() or rooms.work.counts_by_state():
            if not worker.is_busy:
                rooms.work.wait_for_more(seconds=0.05)
        print(json.dumps({"made": worker.made - made, "cpu": time.process_time() - cpu}), flush=True)
    worker.close()
    rooms.close()


if __name__ == "__main__":
    work(Path(sys.argv[1]), float(sys.argv[2]))
