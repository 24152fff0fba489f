"""Rows that left are read back as if they had stayed, in any order of reads, with a bounded scratch database."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query, Row
from tapebook.domain.market import Candle, Liquidity, Mid
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.errors import Damaged
from tapebook.ingest.compaction import retention_by_channel
from tapebook.settings.config import Config
from tapebook.tape.families import MIDS
from tapebook.tape.retention import ArchivedRows, retire_rows
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

KEEP = retention_by_channel(Config())

T0 = 1_767_571_200_000
NOTHING_STAYS = dict.fromkeys(KEEP, 0)


class Desk:
    """A tape whose rows leave for a shelf at once when asked to."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.shelf = Shelf()
        self.clock = VirtualClock(T0)
        self.tape = Tape(self.db, clock=self.clock, fetch=self.shelf.get)

    def say(self, *facts: Mid | Candle | Liquidity, at: int) -> None:
        self.clock.advance(at)
        self.tape.commit(facts)

    def retire(self, *, at: int) -> int:
        return retire_rows(self.db, self.shelf.put, keep=NOTHING_STAYS, now=at, watched=lambda: ("BTC", "ETH"))


@pytest.fixture
def desk(db: Database) -> Desk:
    """An empty one, on both engines; what left is read from a scratch database of SQLite in any case."""
    return Desk(db)


def bar(bucket_ts: int, close_e8: int, *, trades: int = 1) -> Candle:
    return Candle("BTC", 60, bucket_ts, 100, 200, 50, close_e8, 1.0, 2.0, trades)


def closes(desk: Desk, *, as_of: int) -> list[int]:
    bars = desk.tape.candles("BTC", granularity_sec=60, since=T0, view=View(as_of))
    return [each.close_e8 for each in bars]


def test_a_correction_of_an_archived_bar_counts_before_and_after_it_is_archived_too(desk: Desk) -> None:
    desk.say(bar(T0, 101), bar(T0 + MINUTE, 102), at=T0 + 3 * MINUTE)
    assert desk.retire(at=T0 + HOUR) == 2
    desk.say(bar(T0, 111, trades=2), at=T0 + 2 * HOUR)
    assert closes(desk, as_of=T0 + 3 * HOUR) == [111, 102]
    assert desk.retire(at=T0 + 3 * HOUR) == 1
    assert closes(desk, as_of=T0 + 3 * HOUR) == [111, 102]
    assert closes(desk, as_of=T0 + HOUR) == [101, 102], "the past has changed"


def test_two_revisions_of_one_commit_keep_their_order(desk: Desk) -> None:
    desk.say(bar(T0, 101), at=T0 + MINUTE)
    desk.say(bar(T0, 102), bar(T0, 103), at=T0 + 2 * MINUTE)
    desk.retire(at=T0 + HOUR)
    assert closes(desk, as_of=T0 + HOUR) == [103]


def test_the_newest_fact_is_found_in_the_archive(desk: Desk) -> None:
    desk.say(Mid("BTC", T0, 1), at=T0)
    desk.say(Mid("BTC", T0 + HOUR, 2), at=T0 + HOUR)
    desk.retire(at=T0 + 2 * HOUR)
    desk.say(Mid("ETH", T0 + 3 * HOUR, 3), at=T0 + 3 * HOUR)
    for as_of, price in ((T0 + 3 * HOUR, 2), (T0 + HOUR, 2), (T0 + HOUR - 1, 1), (T0 - 1, None)):
        found = desk.tape.newest(Mid, "BTC", view=View(as_of))
        assert (found.price_e8 if found else None) == price


@pytest.mark.parametrize("most_rows", [0, 30, 10**6])
def test_the_scratch_database_stays_small_and_says_the_same(desk: Desk, most_rows: int) -> None:
    hours = range(T0, T0 + 4 * HOUR, HOUR)
    for hour in hours:
        desk.say(*(Mid("BTC", hour + 5_000 * number, hour % 97 + number) for number in range(20)), at=hour + MINUTE)
    desk.retire(at=T0 + 5 * HOUR)
    opened: list[str] = []
    cold = ArchivedRows(desk.db, _counted(desk.shelf.get, opened), most_rows=most_rows)

    def read(since: int, until: int) -> list[int]:
        first, last = MIDS.chunk(since), MIDS.chunk(until)
        view = {"as_of": T0 + 9 * HOUR, "watermark": 10**9}
        where = {"symbol_id": 1, "granularity_sec": 0, "since": since, "until": until, **view}
        places = {"first_chunk": first, "last_chunk": last}
        rows = cold.rows_with_archived(MIDS, MIDS.queries.between, first=first, last=last, **where, **places)
        return [row[1] for row in rows]

    for _ in range(2):
        for hour in hours:
            assert read(hour, hour + MINUTE) == [hour % 97 + number for number in range(13)]
    assert (cold._rows_loaded == 4 * 16) == (most_rows == 10**6), "four chunks of each hour, or only the newest"
    assert len(read(T0, T0 + 4 * HOUR)) == 80
    assert opened == list(desk.shelf.objects), "a file is fetched once, however often its chunks are loaded"


class StatementLog:
    """A database that keeps the names of the statements that read rows, and calls back after each of them."""

    def __init__(self, db: Database) -> None:
        self.names: list[str] = []
        self.after: Callable[[], object] = lambda: None
        self._db = db

    def all(self, query: Query, **params: Any) -> list[Row]:
        found = self._db.all(query, **params)
        self.names.append(query.name)
        self.after()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def test_a_read_that_touches_no_archived_chunk_is_one_statement(desk: Desk) -> None:
    desk.say(*(bar(T0 + number * MINUTE, 100 + number) for number in range(60)), Mid("BTC", T0, 1), at=T0 + HOUR)
    desk.retire(at=T0 + 40 * MINUTE)
    desk.say(Mid("BTC", T0 + HOUR, 2), at=T0 + HOUR + 1)
    log = StatementLog(desk.db)
    tape, view = Tape(cast("Database", log), clock=desk.clock, fetch=desk.shelf.get), View(T0 + HOUR + 1)
    tape.symbols()
    log.names.clear()
    assert len(tape.candles("BTC", granularity_sec=60, since=T0 + 40 * MINUTE, view=view)) == 20
    newest = tape.newest(Mid, "BTC", view=view)
    assert newest is not None and newest.price_e8 == 2 and log.names == ["between", "newest"]
    assert len(tape.candles("BTC", granularity_sec=60, since=T0, view=view)) == 60, "rows in the archive were missed"


@pytest.mark.parametrize("at_statement", range(1, 4))
def test_chunks_that_another_process_archives_during_a_read_are_not_missed(desk: Desk, at_statement: int) -> None:
    desk.say(*(bar(T0 + number * MINUTE, 100 + number) for number in range(60)), at=T0 + HOUR)
    log, view = StatementLog(desk.db), View(T0 + HOUR)
    tape = Tape(cast("Database", log), clock=desk.clock, fetch=desk.shelf.get)
    limits: dict[str, Any] = {"granularity_sec": 60, "since": T0, "view": view}
    before = tape.candles("BTC", **limits), tape.newest(Candle, "BTC", **limits)
    assert len(before[0]) == 60 and before[1] == before[0][-1]
    log.names.clear()

    def archive_half() -> None:
        if len(log.names) == at_statement:
            desk.retire(at=T0 + 40 * MINUTE)

    log.after = archive_half
    for _ in range(2):
        assert (tape.candles("BTC", **limits), tape.newest(Candle, "BTC", **limits)) == before
    assert desk.shelf.objects, "nothing was archived"
    desk.retire(at=T0 + DAY)
    assert (tape.candles("BTC", **limits), tape.newest(Candle, "BTC", **limits)) == before


def test_a_lost_object_is_said_and_named(desk: Desk) -> None:
    desk.say(Mid("BTC", T0, 1), at=T0)
    desk.retire(at=T0 + HOUR)
    (key,) = desk.shelf.objects
    desk.shelf.objects.clear()
    with pytest.raises(Damaged, match=f"the archive has lost {key}.*restore"):
        desk.tape.newest(Mid, "BTC", view=View(T0 + HOUR))


def _counted(get: Callable[[str], bytes | None], opened: list[str]) -> Callable[[str], bytes | None]:
    def counted(key: str) -> bytes | None:
        opened.append(key)
        return get(key)

    return counted
