"""Old rows leave in whole chunks, once, and what is read does not change by it, wherever the process is killed."""

from collections.abc import Callable
from contextlib import closing
from typing import cast

import msgspec
import pyarrow as arrow
import pytest
from pyarrow import parquet

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query, connect, migrate
from tapebook.db.copies import copy_to_file, load_file
from tapebook.domain.market import AssetContext, Candle, FundingRate, Gap, Liquidity, Mid, Observation
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.errors import StoreFailed
from tapebook.ingest.compaction import retention_by_channel
from tapebook.settings.config import Config
from tapebook.tape.cold import ColdRows
from tapebook.tape.families import ALL_FAMILIES, CANDLES, MIDS
from tapebook.tape.retention import retire_in_steps, retire_rows
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.db.places import sql
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

KEEP = retention_by_channel(Config())

T0 = 1_767_571_200_000
NOW = T0 + 2 * DAY
SYMBOLS = ("BTC", "ETH")


class Killed(BaseException):
    """What a kill looks like from inside."""


def everything() -> tuple[str, ...]:
    """All symbols are watched."""
    return SYMBOLS


Days = Callable[[Shelf], Tape]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a tape with a fact of every kind every ten minutes of two days, some of them corrected later."""
    path, clock = str(tmp_path_factory.mktemp("tape") / "lived.db"), VirtualClock(T0)
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        tape = Tape(db, clock=clock)
        for at in range(T0, NOW, 10 * MINUTE):
            clock.advance(at)
            tape.commit([fact for symbol in SYMBOLS for fact in facts(symbol, at)])
            if at % HOUR == 0:
                clock.advance(at + MINUTE)
                tape.commit([candle("BTC", at, close_e8=at % 1_000 + 7)])
        copy_to_file(db, path, (MIGRATIONS,))
    return path


@pytest.fixture
def two_days(db: Database, lived: str) -> Days:
    """`two_days(shelf)` is the test's database with those days in it, as a tape that reads from a shelf too."""

    def load(shelf: Shelf) -> Tape:
        load_file(lived, db, (MIGRATIONS,))
        return Tape(db, clock=VirtualClock(NOW - 10 * MINUTE), fetch=shelf.get)

    return load


def facts(symbol: str, at: int) -> list[Observation]:
    found: list[Observation] = [Mid(symbol, at, at % 991), candle(symbol, at, close_e8=at % 1_000)]
    found.append(Liquidity(symbol, at, 5, 1.5, 1.0, 2.0, 3.0, 0.25))
    found.append(AssetContext(symbol, at, 1, 2, 3.5, 4, 5))
    if at % HOUR == 0:
        found.append(FundingRate(symbol, at, 1, 2))
        found.append(candle(symbol, at, close_e8=9, granularity_sec=3600))
    return found


def candle(symbol: str, at: int, *, close_e8: int, granularity_sec: int = 60) -> Candle:
    return Candle(symbol, granularity_sec, at, 10, 2_000, 1, close_e8, 1.0, 2.0, 3)


def read(tape: Tape) -> list[object]:
    """Everything a reader can ask, at moments from before the beginning to after the end."""
    return [read_mids(tape, symbol) for symbol in SYMBOLS] + read_others(tape)


def moments() -> list[View]:
    return [View(as_of) for as_of in range(T0 - HOUR, NOW + DAY, 5 * HOUR + MINUTE)]


def read_mids(tape: Tape, symbol: str) -> list[object]:
    found: list[object] = [tape.newest(Mid, symbol, view=view) for view in moments()]
    for view in moments():
        found.append(tape.facts(Mid, symbol, since=view.as_of - 7 * HOUR, until=view.as_of, view=view))
    return found


def read_others(tape: Tape) -> list[object]:
    found: list[object] = []
    for view in moments():
        for symbol in SYMBOLS:
            found += [tape.candles(symbol, granularity_sec=span, since=T0, view=view) for span in (60, 3600)]
            found.append(tape.facts(Liquidity, symbol, since=T0, view=view))
            found.append(tape.facts(AssetContext, symbol, since=T0, view=view))
            found.append(tape.newest(Liquidity, symbol, view=view))
            found.append(tape.funding_at(symbol, hour=T0 + 3 * HOUR, view=view))
    return found


def count(db: Database) -> dict[str, int]:
    return {family.table: db.all(sql(f"SELECT COUNT(*) FROM {family.table}"))[0][0] for family in ALL_FAMILIES}


def test_what_is_read_does_not_change_and_only_old_chunks_leave(db: Database, two_days: Days) -> None:
    shelf = Shelf()
    tape = two_days(shelf)
    before, rows = read(tape), sum(count(db).values())
    moved = retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything)
    assert moved > 500 and sum(count(db).values()) == rows - moved
    assert read(tape) == before
    # The chunk in which the limit lies stays whole.
    for family, keep in ((MIDS, KEEP["mids"]), (CANDLES, KEEP["candles_60"])):
        where = " WHERE granularity_sec = 60" if family is CANDLES else ""
        oldest = db.all(sql(f"SELECT MIN(bucket_ts) FROM {family.table}{where}"))[0][0]
        assert NOW - keep - family.span_ms <= oldest


def test_retiring_twice_moves_nothing_the_second_time(db: Database, two_days: Days) -> None:
    shelf = Shelf()
    two_days(shelf)
    retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything)
    objects = dict(shelf.objects)
    assert retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything) == 0 and shelf.objects == objects


def test_a_row_that_comes_while_the_archive_is_written_is_not_lost(db: Database, two_days: Days) -> None:
    shelf = Shelf()
    tape, late = two_days(shelf), list[int]()

    def put(folder: str, content: bytes) -> str:
        late.append(5_000 + len(late))
        tape.commit([candle("BTC", T0, close_e8=late[-1])])
        return shelf.put(folder, content)

    def newest_close() -> int:
        return tape.candles("BTC", granularity_sec=60, since=T0, until=T0, view=View(NOW + DAY))[0].close_e8

    retire_rows(db, put, keep=KEEP, now=NOW, watched=everything)
    assert late and newest_close() == late[-1]
    before = read(tape)
    assert retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything) > 0, "what was left now leaves"
    assert read(tape) == before and newest_close() == late[-1]


def test_an_archive_that_refuses_keeps_every_row_where_it_is(db: Database, two_days: Days) -> None:
    shelf = Shelf()
    tape = two_days(shelf)
    before, rows = read(tape), count(db)
    taken = 1

    def put(folder: str, content: bytes) -> str:
        if len(shelf.objects) >= taken:
            raise StoreFailed("No space left on device")
        return shelf.put(folder, content)

    for _ in range(2):
        with pytest.raises(StoreFailed):
            retire_rows(db, put, keep=KEEP, now=NOW, watched=everything)
        assert read(tape) == before
    gone = sum(rows.values()) - sum(count(db).values())
    (noted,) = db.all(sql("SELECT COUNT(DISTINCT archive_key), SUM(rows_moved) FROM tape_archived"))
    assert noted[0] == taken and noted[1] == gone, "what left is what the archive has"
    retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything)
    assert read(tape) == before


@pytest.mark.parametrize("act", [0, 3, *(pytest.param(act, marks=pytest.mark.proof) for act in (1, 2))])
def test_a_kill_between_archive_and_delete_is_harmless(db: Database, two_days: Days, act: int) -> None:
    shelf = Shelf()
    tape = two_days(shelf)
    before = read(tape)
    with pytest.raises(Killed):
        retire_rows(cast(Database, Fragile(db, act)), shelf.put, keep=KEEP, now=NOW, watched=everything)
    assert read(tape) == before, "after the kill"
    retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything)
    assert read(tape) == before, "after the next start"
    # The bytes that were archived before the kill were archived again, under the same key.
    kept = {row[0] for row in db.all(sql("SELECT archive_key FROM tape_archived"))}
    assert set(shelf.objects) == kept


def test_imported_rows_never_leave(db: Database, two_days: Days) -> None:
    shelf = Shelf()
    tape = two_days(shelf)
    old = [Mid("SOL", T0 + 5_000 * number, number) for number in range(100)]
    old_bars = [candle("SOL", T0 + MINUTE * number, close_e8=number) for number in range(100)]
    tape.commit([*old, *old_bars], assumed=lambda fact: fact.bucket_ts + MINUTE)
    # An observed row of the same chunk leaves without them.
    retire_rows(db, shelf.put, keep=dict.fromkeys(KEEP, 0), now=NOW + DAY, watched=everything)
    left = count(db)
    assert left[MIDS.table] == 100 and left[CANDLES.table] == 100 and sum(left.values()) == 200
    assert tape.facts(Mid, "SOL", since=T0, until=NOW, view=View(NOW)) == old
    assert tape.facts(Mid, "SOL", since=T0, until=NOW, view=View(T0 + 2 * MINUTE)) == old[:13]


def test_midpoints_of_symbols_nobody_watches_are_gone_and_all_else_is_read_as_before(
    db: Database, two_days: Days
) -> None:
    shelf = Shelf()
    tape = two_days(shelf)
    all_mids = tape.facts(Mid, "BTC", since=T0, until=NOW, view=View(NOW))
    before = read_mids(tape, "ETH"), read_others(tape)
    rows = sum(count(db).values())
    moved = retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=lambda: {"ETH"})
    assert sum(count(db).values()) == rows - moved, "rows that are deleted are counted too"
    assert (read_mids(tape, "ETH"), read_others(tape)) == before
    kept = tape.facts(Mid, "BTC", since=T0, until=NOW, view=View(NOW))
    assert kept == all_mids[-len(kept) :] and 3 <= len(kept) <= 5, "the last half hour, and the rest of a chunk"
    archived = db.all(sql(f"SELECT SUM(rows_moved) FROM tape_archived WHERE table_name = '{MIDS.table}'"))[0][0]
    assert archived == len(all_mids) - len(kept), "of two symbols one is archived"


def test_who_watches_is_asked_chunk_by_chunk_and_again_before_rows_are_deleted(db: Database, two_days: Days) -> None:
    """A symbol that is added to a watchlist while rows leave loses no row that is still here."""
    shelf = Shelf()
    tape = two_days(shelf)
    watched: set[str] = set()
    steps = retire_in_steps(db, shelf.put, keep=KEEP, now=NOW, watched=lambda: watched)
    gone = 0
    while gone < 20:
        gone += next(steps)
    watched.add("BTC")
    assert gone == 20 and not shelf.objects
    assert sum(steps) > 100, "other families"
    assert retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=lambda: watched) > 500
    assert len(tape.facts(Mid, "BTC", since=T0, until=NOW, view=View(NOW))) == 2 * 144 - 10


def test_few_rows_wait_for_others_and_a_file_is_of_one_month_and_one_family(db: Database) -> None:
    shelf, clock, day = Shelf(), VirtualClock(T0), 24 * HOUR
    tape = Tape(db, clock=clock, fetch=shelf.get)
    bars = [candle("BTC", T0 + at, close_e8=at % 97) for at in range(0, 40 * day, 3 * HOUR)]
    clock.advance(T0 + 40 * day)
    tape.commit([*bars, *(FundingRate("BTC", bar.bucket_ts, 3, 4) for bar in bars)])
    before, keep = read(tape), dict.fromkeys(KEEP, 0)
    soon = sum(retire_in_steps(db, shelf.put, keep=keep, now=T0 + HOUR, watched=everything, wait_ms=day))
    assert soon == 0 and not shelf.objects, "they wait for a day, or for a file that is full"
    assert sum(retire_in_steps(db, shelf.put, keep=keep, now=T0 + 40 * day, watched=everything, wait_ms=day)) > 600
    folders = sorted(key.rpartition("/")[0] for key in shelf.objects)
    months = ("2026-01", "2026-02")
    assert folders == [f"cold/tape/{name}/{month}" for name in ("candles_60", "funding") for month in months]
    assert read(tape) == before
    (first, *_) = shelf.objects.values()
    table = parquet.read_table(arrow.BufferReader(first))
    assert set(table["symbol"].to_pylist()) == {"BTC"} and table.num_rows > 200, "any tool reads it"


def test_what_an_older_tapebook_archived_is_read(db: Database, two_days: Days) -> None:
    """A JSON list of rows, one object for each chunk."""
    shelf = Shelf()
    tape = two_days(shelf)
    before = read(tape)
    retire_rows(db, shelf.put, keep=KEEP, now=NOW, watched=everything)
    ids = {name: number for name, number, _ in db.all(sql("SELECT symbol, symbol_id, kind FROM tape_symbols"))}
    for key, content in shelf.objects.items():
        family = next(each for each in ALL_FAMILIES if f"tape/{each.channel}" in key)
        cold = ColdRows(family, content, ids)
        shelf.objects[key] = msgspec.json.encode(cold.rows_of_chunks(cold.chunk_counts()))
    assert read(Tape(db, clock=VirtualClock(NOW), fetch=shelf.get)) == before


def test_steps_are_small_and_sum_up(db: Database, two_days: Days) -> None:
    shelf, whole = Shelf(), Shelf()
    tape = two_days(shelf)
    before = read(tape)
    steps = []
    for moved in retire_in_steps(db, shelf.put, keep=KEEP, now=NOW, watched=everything):
        steps.append(moved)
        if len(steps) % 50 == 0:
            assert read(tape) == before, "between two steps"
    assert max(steps) <= 42, "one chunk: at most twenty buckets of two symbols, and corrections"
    assert retire_rows(db, whole.put, keep=KEEP, now=NOW, watched=everything) == 0 and sum(steps) > 500


def test_imported_history_is_passed_over_in_small_steps(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOW))
    old = [candle("BTC", T0 + CANDLES.span_ms * n, close_e8=n) for n in range(100)]
    tape.commit(old, assumed=lambda fact: NOW)
    assert list(retire_in_steps(db, Shelf().put, keep=KEEP, now=NOW + 9 * DAY, watched=everything)) == [0] * 5


def test_commits_are_forgotten_but_the_first_the_newest_and_imported_ones(db: Database) -> None:
    shelf, clock = Shelf(), VirtualClock(T0)
    tape = Tape(db, clock=clock, fetch=shelf.get)
    for n in range(30):
        clock.advance(T0 + n * HOUR)
        tape.commit([Mid("BTC", T0 + n * HOUR, n)], assumed=(lambda fact: fact.bucket_ts) if n == 7 else None)
    tape.commit([], gaps=[Gap("h", "mids", "*", T0, NOW, "x")])
    before, head, first = read(tape), tape.head(), tape.first_known_at()
    keep = {**KEEP, "commits": 10 * HOUR}
    retire_rows(db, shelf.put, keep=keep, now=T0 + 29 * HOUR, watched=everything)
    left = [row[0] for row in db.all(sql("SELECT seq FROM tape_commits ORDER BY seq"))]
    assert left == [1, 8, *range(20, 32)]
    retire_rows(db, shelf.put, keep=keep, now=NOW + DAY, watched=everything)
    assert [row[0] for row in db.all(sql("SELECT seq FROM tape_commits ORDER BY seq"))] == [1, 8, 31]
    assert (tape.head(), tape.first_known_at(), read(tape)) == (head, first, before)
    assert tape.commit([Mid("BTC", NOW, 5)]) == 32, "numbers go on"


def test_the_commits_of_imports_are_found_without_looking_at_the_others(db: Database) -> None:
    query = CANDLES.queries.chunk_rows
    if "SQLite" not in db.description:
        db.execute_script("ANALYZE tape_commits; SET enable_seqscan = off")
    word = "EXPLAIN QUERY PLAN" if "SQLite" in db.description else "EXPLAIN"
    plan = " ".join(str(row) for row in db.all(sql(f"{word} {query.sqlite.replace('?', '0')}")))
    assert "tape_commits_assumed" in plan


class Fragile:
    """A database that dies before its N-th change."""

    def __init__(self, db: Database, acts: int) -> None:
        self._db = db
        self._left = acts

    def execute(self, query: Query, **params: object) -> None:
        """Dies, or executes."""
        if not self._left:
            raise Killed
        self._left -= 1
        self._db.execute(query, **params)

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)
