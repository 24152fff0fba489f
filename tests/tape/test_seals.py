"""Checksums of the tape: whole tapes are clean however they came about, and no change of a row goes unnoticed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query
from tapebook.domain.market import (
    AssetContext,
    Candle,
    Delisting,
    FeatureRow,
    FundingRate,
    Gap,
    Liquidity,
    Mid,
    MidFrame,
    Observation,
    PredictedFunding,
)
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.log import Finding
from tapebook.tape.families import ALL_FAMILIES
from tapebook.tape.quarantine import RefusedObservation
from tapebook.tape.recording import Recorder
from tapebook.tape.retention import retire_rows
from tapebook.tape.seals import (
    BY_COMMIT,
    BY_ROW,
    WHOLE,
    Seal,
    SealPlace,
    SealWriter,
    UnsealedCounts,
    check_tape,
    tape_mark,
)
from tapebook.tape.source import SourceProblem
from tapebook.tape.store import Tape
from tests.db.places import sql
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres
from tests.tape.random_tapes import KEEP_NOTHING, random_tape

T0 = 20_834 * DAY


def check(
    db: Database, anchored: Mapping[SealPlace, Seal] | None = None, counts: UnsealedCounts | None = None
) -> list[Finding]:
    """What is found in a tape."""
    return list(
        check_tape(db, anchored=anchored or {}, counts=counts or UnsealedCounts(), progress=lambda table, rows: None)
    )


def facts(symbol: str, at: int) -> list[Observation]:
    """One of each kind; floats as an integer and as a zero below zero, which no database gives back."""
    return [
        Mid(symbol, at, 100),
        Candle(symbol, 60, at, 1, 2, 1, 2, 3, -0.0, 4),
        Candle(symbol, 3600, at, 1, 2, 1, 2, 3.5, 2.5, 4),
        Liquidity(symbol, at, 5, 1.5, 1, 2.0, 3.0, -0.0),
        AssetContext(symbol, at, 1, 2, 3.5, 4, 5),
        FundingRate(symbol, at, 1, 2),
        PredictedFunding(symbol, at, "HlPerp", 5, None, at + HOUR),
        *(FeatureRow(symbol, at, '{"regime":"normal"}', name) for name in ("volatility", "pressure", "positioning")),
    ]


def filled(db: Database) -> Tape:
    """A tape with something in each of its tables: revisions, what came twice, imports, gaps, and chunks that left."""
    clock, shelf = VirtualClock(T0), Shelf()
    tape = Tape(db, clock=clock, fetch=shelf.get)
    for hour in range(4):
        at = T0 + hour * HOUR
        clock.advance(at)
        tape.commit([fact for symbol in ("BTC", "ETH") for fact in facts(symbol, at)])
        again = [Mid("BTC", at, 100), Mid("BTC", at, 107), Mid("BTC", at, 107), Mid("SOL", at, hour), Mid("BTC", at, 9)]
        tape.commit([*again, MidFrame(at + 5_000, ("SOL", "BTC", "ETH"), (3, 2, 1))])
        tape.commit([], gaps=[Gap("x", "candles", "BTC", at, at + 5 * MINUTE, "away")])
        tape.commit([], filled=[Gap("x", "candles", "BTC", at + MINUTE, at + 2 * MINUTE, "away")])
    retire_rows(db, shelf.put, keep=KEEP_NOTHING | {"commits": HOUR}, now=T0 + 3 * HOUR, watched=lambda: ("BTC",))
    bars = [Candle("BTC", 300, at, 1, 2, 1, 2, 3.0, 4.0, 5) for at in range(T0, T0 + DAY, 5 * MINUTE)]
    tape.commit(bars, assumed=_ended)
    tape.commit([Delisting("ETH", T0, 5)])
    tape.note_problems([SourceProblem("x", "row", "BTC", "unreadable")])
    recorder = Recorder(db, shelf.put_content)
    recorder(T0, '{"a":1}')
    recorder.close()
    # A clock that was ahead and goes back: what it had stamped is said again, in one commit with what is new.
    clock.advance(T0 + 9 * HOUR)
    tape.commit([fact for symbol in ("BTC", "ETH") for fact in facts(symbol, T0 + 4 * HOUR)])
    back = Tape(db, clock=VirtualClock(T0 + 5 * HOUR), fetch=shelf.get, may_go_back=lambda before, now: now)
    refused = [RefusedObservation("mids", "BTC", T0 + 5 * HOUR, 10**9, T0 + 5 * HOUR, "a jump")]
    back.commit(facts("BTC", T0 + 5 * HOUR), refused=refused)
    return back


def _ended(fact: Observation) -> int:
    return fact.bucket_ts + 5 * MINUTE


@contextmanager
def undone(db: Database) -> Iterator[None]:
    """Lets a test change rows and takes it back."""
    with pytest.raises(ZeroDivisionError), db.transaction():
        yield
        raise ZeroDivisionError


def columns(db: Database, table: str) -> list[str]:
    """The columns of a table."""
    if db.description.startswith("SQLite"):
        return [row[1] for row in db.all(sql(f"PRAGMA table_info({table})"))]
    query = f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
    return [row[0] for row in db.all(sql(query))]


@pytest.mark.parametrize("seed", range(12))
def test_whole_tapes_are_clean(seed: int) -> None:
    with random_tape(seed) as made:
        counts = UnsealedCounts()
        assert check(made.db, counts=counts) == []
        assert counts.rows == 0


def test_a_changed_value_or_a_lost_row_is_found_in_every_table(db: Database) -> None:
    filled(db)
    assert check(db) == []
    tables = [family.table for family in ALL_FAMILIES] + [*BY_COMMIT, *BY_ROW, *WHOLE, "tape_commits"]
    # The snapshot is those rows of the registry that no commit wrote: its first row is one of them.
    tables.remove("tape_registry_seed")
    missed = []
    for table in tables:
        (count,) = db.all(sql(f"SELECT COUNT(*) FROM {table}"))[0]
        assert count, f"{table} is empty: nothing of it was tried"
        row = dict(zip(names := columns(db, table), db.all(Query.whole_table(table))[0], strict=True))
        for column in names:
            value = row[column]
            if value is None:
                continue
            other = f"'{value}x'" if isinstance(value, str) else f"{value} + 1000003"
            chosen = " AND ".join(f"{name} = :{name}" for name in names if row[name] is not None)
            with undone(db):
                db.execute(sql(f"UPDATE {table} SET {column} = {other} WHERE {chosen}"), **row)
                missed += [] if inside(db) else [f"{table}.{column}"]
        with undone(db):
            db.execute(sql(f"DELETE FROM {table} WHERE {chosen}"), **row)
            missed += [] if inside(db) else [f"a row of {table}"]
    assert missed == []
    assert check(db) == []


def inside(db: Database) -> bool:
    """Whether something is found while a transaction is open."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(db), "snapshot", lambda self: _nothing())
        return bool(check(db))


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def test_a_lost_commit_is_found(db: Database) -> None:
    filled(db)
    (newest,) = db.all(sql("SELECT MAX(seq) FROM tape_commits"))[0]
    db.execute(sql("DELETE FROM tape_commits WHERE seq = :seq"), seq=newest - 1)
    (found,) = check(db)
    assert (found.where, found.problem) == (f"tape_commits, commit {newest - 1}", "it is missing")


def test_rows_older_than_checksums_are_counted_and_never_an_alarm(db: Database) -> None:
    tape = filled(db)
    head = tape.head()[0]
    with db.transaction():
        db.execute_script("DELETE FROM tape_seals; UPDATE tape_commits SET checksum = NULL;")
        db.execute(sql(f"INSERT INTO tape_seals VALUES ('', 0, 0, 0, '', {head})"))
    counts = UnsealedCounts()
    assert check(db, counts=counts) == []
    assert counts.rows > 300 and counts.compared == 0
    # What is added to an old chunk seals all of it, and it may leave.
    at = T0 + 3 * HOUR
    tape.commit([Candle("BTC", 300, at, 9, 9, 9, 9, 9.0, 9.0, 9)], assumed=_ended)
    tape.commit([Mid("BTC", at, 11)], gaps=[Gap("x", "candles", "ETH", at, at + MINUTE, "away")])
    counts = UnsealedCounts()
    assert check(db, counts=counts) == []
    assert counts.rows and counts.compared > 20
    retire_rows(db, Shelf().put, keep=KEEP_NOTHING, now=T0 + DAY, watched=lambda: ("BTC",))
    assert check(db) == []


def test_a_row_that_was_forged_with_its_checksum_differs_from_the_anchor(db: Database) -> None:
    tape = filled(db)
    anchored = {each[:3]: Seal(*each[3:]) for each in tape_mark(db, after=0).seals}
    tape.commit([Mid("BTC", T0 + 3 * HOUR, 12)])
    assert check(db, anchored) == []
    mids = ALL_FAMILIES[0]
    with db.transaction():
        (chunk,) = db.all(sql(f"SELECT MAX(chunk) FROM {mids.table}"))[0]
        rows = db.all(mids.queries.whole_chunk, chunk=chunk)
        seals = SealWriter(db)
        seals.remove_rows(mids, rows, granularity_sec=0, chunk=chunk)
        db.execute(sql(f"UPDATE {mids.table} SET price_e8 = price_e8 + 1 WHERE chunk = :chunk"), chunk=chunk)
        forged = sorted(db.all(mids.queries.whole_chunk, chunk=chunk), key=mids.key_of)
        for seq in sorted({row[-1] for row in forged}):
            seals.add_rows(mids, [row for row in forged if row[-1] == seq], seq=seq)
    assert check(db) == []
    (found,) = check(db, anchored)
    assert found.problem == "rows and their checksum differ from the anchor in the archive"
