"""How many bytes a decision takes: in the book of a desk, in a backtest, and once it has left for the archive.

The floor is what cannot be left out: the canonical text of the events, as their hashes cover it. The desk's agent and
the one of the backtest are the same, an ensemble of the four rule engines; the backtest has full memory. A backtest of
a month is measured beside the one of a year: what it comes to in a year when only a month was run.
"""

import shutil
import tempfile
from pathlib import Path

import apsw
import msgspec

import tapebook
from bench.backtest import AGENT, START, YEAR, fill
from bench.figure import Figure
from tapebook.backtest.plan import ChunkKind
from tapebook.clock import SystemClock, VirtualClock
from tapebook.desk.librarian import OldRunArchiver
from tapebook.domain.units import DAY, MINUTE
from tapebook.tick.decide import Slot
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import Rooms

LIVE = 1_000
PER_DAY = 288
MONTH = 30
MOST_PER_RUN, MOST_PER_YEAR_MB = 3_000, 120


def run() -> list[Figure]:
    """All figures of stored decisions."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        fill(home)
        live, left, month, year = _live(home), _left(home), _backtest(home, days=MONTH), _backtest(home, days=YEAR)
    size = year.stored * PER_DAY * YEAR / 1e6
    return [
        _figure("decision of a desk's ensemble of 4, in its book", live, aim=f"≤ {MOST_PER_RUN:,}"),
        _figure("the same once its month has left, in the book", left),
        _figure("decision of the ensemble in a backtest of a year", year, aim="≤ 1,141"),
        Figure(
            "home of a backtest of a year of 5 m decisions",
            size,
            "MB",
            year.told * PER_DAY * YEAR / 1e6,
            year.told / year.stored,
            f"≤ {MOST_PER_YEAR_MB}",
        ),
        Figure("the same, from a month alone", month.stored * PER_DAY * YEAR / 1e6, "MB"),
    ]


class Bytes(msgspec.Struct, frozen=True):
    """Of one decision: what is stored, and the canonical text of its events."""

    stored: float
    told: float


def _figure(name: str, found: Bytes, *, aim: str = "") -> Figure:
    return Figure(name, found.stored, "B", found.told, found.told / found.stored, aim)


def _live(home: Path) -> Bytes:
    """Decisions one by one, each a commit of its own, after some that made the tables."""
    clock = VirtualClock(START + DAY)
    rooms = Rooms(home, clock=clock)
    sizes, told = [], []
    for number in range(2 * LIVE):
        at = START + DAY + number * 5 * MINUTE
        clock.advance(at + 2_500)
        tick(rooms, Slot(deploy_agent(rooms.book, rooms.clock, AGENT), "BTC", at, trigger="schedule"))
        if (number + 1) % LIVE == 0:
            sizes.append(_book_bytes(home))
            told.append(_told(rooms))
    rooms.close()
    return Bytes((sizes[1] - sizes[0]) / LIVE, (told[1] - told[0]) / LIVE)


def _left(home: Path) -> Bytes:
    """The same decisions when they are old: what the book still has of them, without the room that came free."""
    rooms = Rooms(home, clock=VirtualClock(START + 90 * DAY))
    old = OldRunArchiver(rooms.archive, rooms.log, rooms.clock, config=rooms.config)
    while old.archive_step():
        pass
    told = _told(rooms)
    rooms.close()
    apsw.Connection(str(home / "book.db")).execute("VACUUM").fetchall()
    return Bytes(_book_bytes(home) / (2 * LIVE), told / (2 * LIVE))


def _backtest(home: Path, *, days: int) -> Bytes:
    """Everything in the home of a backtest."""
    with tapebook.open(home) as book:
        chunks: ChunkKind = "quarter" if days == YEAR else "none"
        result = book.backtest(AGENT, memory="on", chunks=chunks, start=START, end=START + days * DAY)
    folder = home / "backtests" / result.id
    _book_bytes(folder)
    stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    rooms = Rooms(folder, clock=SystemClock())
    told = _told(rooms)
    rooms.close()
    shutil.rmtree(folder)
    return Bytes(stored / result.total.ticks, told / result.total.ticks)


def _told(rooms: Rooms) -> int:
    """The canonical text of all events of deployments."""
    streams = [stream for stream in rooms.log.streams() if stream.deployment]
    return sum(len(event.body.encode()) for stream in streams for event in rooms.log.events(stream))


def _book_bytes(home: Path) -> int:
    db = apsw.Connection(str(home / "book.db"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return (home / "book.db").stat().st_size
