"""Old rows leave in whole chunks, once, and what is read does not change by it, wherever the process is killed."""

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from tapebook.clock import VirtualClock
from tapebook.config import Config
from tapebook.db import Database, Query, connect, migrate
from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, Observation
from tapebook.loop.listen import keep_of
from tapebook.tape.families import ALL, CANDLES, MIDS
from tapebook.tape.retention import retire
from tapebook.tape.store import MIGRATIONS, Tape, View
from tests.db.places import sql
from tests.tape.shelf import Shelf

KEEP = keep_of(Config())

T0 = 1_767_571_200_000
NOW = T0 + 2 * DAY
SYMBOLS = ("BTC", "ETH")


class Killed(BaseException):
    """What a kill looks like from inside."""


@pytest.fixture
def db() -> Iterator[Database]:
    with closing(connect(":memory:")) as opened:
        migrate(opened, (MIGRATIONS,))
        yield opened


def two_days(db: Database, shelf: Shelf) -> Tape:
    """A tape with a fact of every kind every ten minutes, some of them corrected later."""
    clock = VirtualClock(T0)
    tape = Tape(db, clock=clock, fetch=shelf.get)
    for at in range(T0, NOW, 10 * MINUTE):
        clock.advance(at)
        tape.commit([fact for symbol in SYMBOLS for fact in facts(symbol, at)])
        if at % HOUR == 0:
            clock.advance(at + MINUTE)
            tape.commit([candle("BTC", at, close_e8=at % 1_000 + 7)])
    return tape


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
    found: list[object] = []
    for as_of in range(T0 - HOUR, NOW + DAY, 5 * HOUR + MINUTE):
        view = View(as_of)
        for symbol in SYMBOLS:
            found.append(tape.mids(symbol, since=as_of - 7 * HOUR, until=as_of, view=view))
            found += [tape.candles(symbol, granularity_sec=span, since=T0, view=view) for span in (60, 3600)]
            found.append(tape.facts(Liquidity, symbol, since=T0, view=view))
            found.append(tape.facts(AssetContext, symbol, since=T0, view=view))
            found += [tape.newest(Mid, symbol, view=view), tape.newest(Liquidity, symbol, view=view)]
            found.append(tape.funding_at(symbol, hour=T0 + 3 * HOUR, view=view))
    return found


def count(db: Database) -> dict[str, int]:
    return {family.table: db.all(sql(f"SELECT COUNT(*) FROM {family.table}"))[0][0] for family in ALL}


def test_what_is_read_does_not_change_and_only_old_chunks_leave(db: Database) -> None:
    shelf = Shelf()
    tape = two_days(db, shelf)
    before, rows = read(tape), sum(count(db).values())
    moved = retire(db, shelf.put, keep=KEEP, now=NOW)
    assert moved > 500 and sum(count(db).values()) == rows - moved
    assert read(tape) == before
    # The chunk in which the limit lies stays whole: at most twenty buckets more than asked for.
    limits = ((MIDS, KEEP["mids"], 100_000), (CANDLES, KEEP["candles_60"], 20 * MINUTE))
    for family, keep, span in limits:
        where = " WHERE granularity_sec = 60" if family is CANDLES else ""
        oldest = db.all(sql(f"SELECT MIN(bucket_ts) FROM {family.table}{where}"))[0][0]
        assert NOW - keep - span <= oldest


def test_retiring_twice_moves_nothing_the_second_time(db: Database) -> None:
    shelf = Shelf()
    two_days(db, shelf)
    retire(db, shelf.put, keep=KEEP, now=NOW)
    objects = dict(shelf.objects)
    assert retire(db, shelf.put, keep=KEEP, now=NOW) == 0 and shelf.objects == objects


@pytest.mark.parametrize("act", range(8))
def test_a_kill_between_archive_and_delete_is_harmless(db: Database, act: int) -> None:
    shelf = Shelf()
    tape = two_days(db, shelf)
    before = read(tape)
    with pytest.raises(Killed):
        retire(cast(Database, Fragile(db, act)), shelf.put, keep=KEEP, now=NOW)
    assert read(tape) == before, "after the kill"
    retire(db, shelf.put, keep=KEEP, now=NOW)
    assert read(tape) == before, "after the next start"
    # The bytes that were archived before the kill were archived again, under the same key.
    kept = {row[0] for row in db.all(sql("SELECT archive_key FROM tape_archived"))}
    assert set(shelf.objects) == kept


def test_imported_rows_never_leave(db: Database) -> None:
    shelf = Shelf()
    tape = two_days(db, shelf)
    old = [Mid("SOL", T0 + 5_000 * number, number) for number in range(100)]
    old_bars = [candle("SOL", T0 + MINUTE * number, close_e8=number) for number in range(100)]
    tape.commit([*old, *old_bars], assumed=lambda fact: fact.bucket_ts + MINUTE)
    # An observed row of the same chunk leaves without them.
    retire(db, shelf.put, keep=dict.fromkeys(KEEP, 0), now=NOW + DAY)
    left = count(db)
    assert left[MIDS.table] == 100 and left[CANDLES.table] == 100 and sum(left.values()) == 200
    assert tape.mids("SOL", since=T0, until=NOW, view=View(NOW)) == old
    assert tape.mids("SOL", since=T0, until=NOW, view=View(T0 + 2 * MINUTE)) == old[:13]


class Fragile:
    """A database that dies before its N-th change."""

    def __init__(self, db: Database, acts: int) -> None:
        self._db = db
        self._left = acts

    def run(self, query: Query, **params: object) -> None:
        """Dies, or executes."""
        if not self._left:
            raise Killed
        self._left -= 1
        self._db.run(query, **params)

    def __getattr__(self, name: str) -> object:
        return getattr(self._db, name)
