"""Writes minutes of an hour and rolls it up, killed before each statement that writes, and goes on.

`python -m tests.tape.crash_hours FOLDER` prints a line of JSON: all statements, and what was wrong after each end. It
is a program of its own because a process should fork only while it has one thread.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tapebook.clock import VirtualClock
from tapebook.db import Database, Row, connect, migrate
from tapebook.domain.market import Candle
from tapebook.domain.units import HOUR, MINUTE
from tapebook.tape.bars import roll_up
from tapebook.tape.seals import UnsealedCounts, check_tape
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.db.places import sql
from tests.replay.faults import Fuse, die, lit

T0 = 500_000 * HOUR
SYMBOLS = ("BTC", "ETH")
# The first of an hour, which marks it; one that finds the mark; the last; and the first of the hour that then runs.
MINUTES = (0, 1, 59, 60)
WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")

Rows = dict[str, list[Row]]


def story(db: Database) -> Iterator[None]:
    """Commits bars as a desk does; what is there already leaves no trace."""
    clock = VirtualClock(T0)
    tape = Tape(db, clock=clock)
    for minute in MINUTES:
        clock.advance(T0 + (minute + 1) * MINUTE)
        tape.commit([Candle(symbol, 60, T0 + minute * MINUTE, 5, 9, 1, 3 + minute, 1.0, 2.0, 3) for symbol in SYMBOLS])
        yield
    hours = tape.unrolled_hours(before=T0 + HOUR)
    bars: list[Candle] = []
    for each in hours:
        last, view = each.hour_ts + HOUR - MINUTE, View(clock.now())
        minutes = tape.candles(each.symbol, granularity_sec=60, since=each.hour_ts, until=last, view=view)
        bars += roll_up(minutes, granularity_sec=3_600)
    tape.commit_hours(bars, rolled=hours)
    yield


def run(place: Path) -> list[Rows]:
    """Opens the tape and lets the story run; what is in it after each of its commits."""
    with closing(connect(str(place), durable=False)) as db:
        migrate(db, (MIGRATIONS,))
        return [rows_of(db) for _ in story(db)]


def rows_of(db: Database) -> Rows:
    """All rows of all tables."""
    tables = db.all(sql("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"))
    return {name: db.all(sql(f"SELECT * FROM {name}")) for (name,) in tables}


def die_before(place: Path, act: int) -> None:
    """Runs the story in a child that is killed before a statement."""
    child = os.fork()
    if child == 0:
        try:
            with lit(Fuse(act, die)):
                run(place)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit(f"act {act} was never reached: the child left with status {status}")


def faults_of(place: Path, states: list[Rows]) -> list[str]:
    """What is wrong with a tape whose process was killed, and with what it is when the next one has gone on."""
    with closing(connect(str(place), durable=False)) as db:
        found = [] if rows_of(db) in states else ["a part of a commit is there"]
        found += damage(db)
    if run(place)[-1] != states[-1]:
        found.append("going on, it became another tape")
    with closing(connect(str(place), durable=False)) as db:
        return found + damage(db)


def damage(db: Database) -> list[str]:
    """What differs from its checksum."""
    found = check_tape(db, anchored={}, counts=UnsealedCounts(), progress=lambda table, rows: None)
    return [f"{each.where}: {each.problem}" for each in found]


def main(folder: Path) -> None:
    """Prints what the story writes, and the faults of each end."""
    empty = folder / "empty.db"
    with closing(connect(str(empty), durable=False)) as db:
        migrate(db, (MIGRATIONS,))
        states = [rows_of(db)]
    content, fuse = empty.read_bytes(), Fuse()
    with lit(fuse):
        states += run(empty)
    faults: dict[str, list[str]] = {}
    # An end before a statement that reads leaves what one before the next that writes does.
    for act in (number for number, each in enumerate(fuse.acts, 1) if each.startswith(WRITES)):
        place = folder / f"{act}.db"
        place.write_bytes(content)
        die_before(place, act)
        if found := faults_of(place, states):
            faults[f"{act}: {fuse.acts[act - 1]}"] = found
    print(json.dumps([fuse.acts, faults]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
