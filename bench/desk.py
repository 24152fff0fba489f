"""The desk: decisions a second of one worker, claims, the size of a run, and calls in flight.

The floor of decisions is measured in the same run: a bare loop that inserts the same bytes into the
same tables with raw apsw, one durable commit per run. Nothing that keeps every run by itself is faster.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from bench.figure import Figure, seconds
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.decision import EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import Worker
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid, Observation
from tapebook.domain.packet import Packet
from tapebook.domain.units import MINUTE
from tapebook.home import make_home
from tapebook.log import Leases, Stream
from tapebook.log.store import MIGRATIONS as LOG
from tapebook.settings.config import FILE, TEMPLATE
from tapebook.wiring import Rooms
from tests.conftest import _embedded_postgres as postgres

T0 = 1_767_571_200_000
SYMBOLS = [f"S{number:03d}" for number in range(50)]
RUNS = 5_000
CLAIMS = 2_000


def run() -> list[Figure]:
    """All figures of the desk."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return [*_deciding(place), *_claiming(place), *_in_flight(place)]


def _deciding(place: Path) -> list[Figure]:
    """A worker with the hold engine over pairs of 50 symbols: what the desk itself costs."""
    with desk(place / "hold", agents=RUNS // len(SYMBOLS), symbols=SYMBOLS) as rooms:
        Scheduler(rooms).turn()
        before = _bytes(rooms)
        worker = Worker(rooms)
        took = seconds(lambda: _until_idle(worker))
        assert worker.made == RUNS
        size = (_bytes(rooms) - before) / RUNS
        rate, floor = RUNS / took, RUNS / _floor(rooms, place)
    return [
        Figure("decisions of one worker, hold engine", rate, "per s", floor, rate / floor, "≥ 250, aim 1,000"),
        Figure("bytes of a run in the book, indexes included", size, "bytes", aim="≤ 3,000"),
    ]


def _claiming(place: Path) -> list[Figure]:
    """Leases taken and released, fifty at a time."""
    figures = [_claims("SQLite", str(place / "claims.db"))]
    with postgres() as url:
        figures.append(_claims("PostgreSQL", url))
    return figures


def _claims(name: str, url: str) -> Figure:
    db = connect(url, durable=True)
    migrate(db, (LOG,))
    leases = Leases(db, holder="bench", ttl_seconds=20, elapsed=time.monotonic)
    streams = [Stream("bench", f"d{number}") for number in range(CLAIMS)]

    def claim() -> None:
        for start in range(0, CLAIMS, 50):
            leases.watch_others()
            leases.release(leases.acquire(streams[start : start + 50], most=50))

    took = seconds(claim)
    db.close()
    return Figure(f"leases taken and released on {name}, 50 at a time", CLAIMS / took, "per s")


def _in_flight(place: Path) -> list[Figure]:
    """An engine that thinks for a second, asked by one worker with 200 threads."""
    pairs = 1_000
    with desk(place / "slow", agents=pairs // len(SYMBOLS), symbols=SYMBOLS) as rooms:
        engine = Sleeper(1.0)
        rooms.engine = lambda agent: engine  # type: ignore[method-assign]
        Scheduler(rooms).turn()
        worker = Worker(rooms)
        took = seconds(lambda: _until_idle(worker))
        assert worker.made == pairs
    ideal = pairs / 200 * 1.0
    return [
        Figure("calls in flight at the peak, engine of 1 s", engine.most, "calls", aim="≥ 170"),
        Figure("decisions a second, engine of 1 s, 200 threads", pairs / took, "per s", pairs / ideal, ideal / took),
    ]


class Sleeper:
    """An engine that takes its time and counts how many ask it at once."""

    identity = ""

    def __init__(self, thinks_seconds: float) -> None:
        self._seconds = thinks_seconds
        self._now = 0
        self.most = 0

    def decide(self, packet: Packet) -> EngineAnswer:
        """A hold, later."""
        self._now += 1
        self.most = max(self.most, self._now)
        time.sleep(self._seconds)
        self._now -= 1
        return make_answer(packet, "hold", reason="thought about it")


@contextmanager
def desk(home: Path, *, agents: int, symbols: list[str], book: str = "book.db") -> Iterator[Rooms]:
    """A home with a market of two hours and so many agents on all symbols, at one moment."""
    make_home(home)
    (home / FILE).write_text(TEMPLATE.replace('book = "book.db"', f'book = "{book}"'), "utf-8")
    rooms = Rooms(home, clock=VirtualClock(T0))
    try:
        rooms.tape.commit(list(_market(symbols)))
        for number in range(agents):
            profile = AgentProfile(f"agent-{number:04d}", tuple(symbols), engine="hold", strategy="Hold.")
            rooms.book.save_agent(profile, at=T0)
        yield rooms
    finally:
        rooms.close()


def _market(symbols: list[str]) -> Iterator[Observation]:
    for symbol in symbols:
        for at in range(T0 - 120 * MINUTE, T0, MINUTE):
            price = 10**12 + at // MINUTE % 97 * 10**8
            yield Candle(symbol, 60, at, price, price + 10**8, price - 10**8, price, 12.5, 1e5, 33)
        yield Mid(symbol, T0, 10**12)
        yield Liquidity(symbol, T0, 10**12, 1.2, 1e6, 4e6, 9e6, 0.1)
        yield AssetContext(symbol, T0, 12_500_000, 0, 1e5, 10**12, 10**12)


def _until_idle(worker: Worker) -> None:
    while worker.turn():
        pass
    worker.close()


def _bytes(rooms: Rooms) -> int:
    """The file of the book with everything in it."""
    path = rooms.home / rooms.config.store.book
    apsw.Connection(str(path)).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path.stat().st_size


def _floor(rooms: Rooms, place: Path) -> float:
    """Seconds to insert the rows the runs left, a durable commit for each run."""
    source = apsw.Connection(str(rooms.home / rooms.config.store.book))
    tables = ("log_events", "decision_runs", "decision_actions")
    rows = {table: _rows(source, table) for table in tables}
    target = apsw.Connection(str(place / "floor.db"))
    target.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 10000").fetchall()
    for sql in source.execute("SELECT sql FROM sqlite_master WHERE tbl_name IN (?, ?, ?) AND sql IS NOT NULL", tables):
        target.execute(str(sql[0])).fetchall()
    inserts = {table: f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[table][0]))})" for table in tables}

    def insert() -> None:
        for number in range(RUNS):
            with target:
                for table in tables:
                    target.execute(inserts[table], rows[table][number])

    return seconds(insert)


def _rows(source: apsw.Connection, table: str) -> list[tuple[object, ...]]:
    where = "WHERE kind = 'run.decided'" if table == "log_events" else ""
    return source.execute(f"SELECT * FROM {table} {where} ORDER BY deployment, seq").fetchall()
