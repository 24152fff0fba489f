"""Chunks: every row lies in the chunk its bucket says, and rows of the time when chunks were longer are still found."""

from contextlib import closing
from operator import itemgetter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, Row, connect, migrate
from tapebook.db.database import _migration_files
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.units import HOUR, MINUTE
from tapebook.tape.families import ALL_FAMILIES, CANDLES, FAMILY_OF_TYPE, MIDS, Family
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import View
from tests.db.places import sql
from tests.tape.memory_archive import Shelf
from tests.tape.places import db as db
from tests.tape.places import empty_postgres as empty_postgres
from tests.tape.places import shared_postgres as shared_postgres

NOON = 500_000 * HOUR
VIEW = View(NOON + 9 * HOUR)


def bar(at: int, seconds: int = 60) -> Candle:
    return Candle("BTC", seconds, at, at % 7 + 1, at % 11 + 1, at % 5 + 1, at % 3 + 1, 1.0, 2.0, 3)


@given(st.lists(st.tuples(st.integers(0, 2**41), st.sampled_from([60, 3_600])), min_size=1, max_size=20))
def test_a_fact_a_row_and_a_question_agree_on_the_chunk(places: list[tuple[int, int]]) -> None:
    bars: list[Observation] = [bar(at, seconds) for at, seconds in places]
    mids: list[Observation] = [Mid("BTC", at, 1) for at, _ in places]
    assert CANDLES.chunks(bars) == [at // (seconds * 20_000) for at, seconds in places]
    assert CANDLES.chunks(bars) == [CANDLES.chunk(at, seconds) for at, seconds in places]
    assert MIDS.chunks(mids) == [at // 20_000 for at, _ in places] == [MIDS.chunk(at) for at, _ in places]
    for facts in (bars, mids):
        family = FAMILY_OF_TYPE[type(facts[0])]
        rows = [(-1, 1, *msgspec.structs.astuple(fact)[family.own], 0, 0, 1) for fact in facts]
        assert [family.chunk_of(row) for row in rows] == family.chunks(facts)


@given(st.data())
def test_rows_of_a_frame_and_of_many_moments_stand_in_the_order_of_their_key(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(ALL_FAMILIES))
    moments = data.draw(st.integers(1, 2))
    # Chunk, symbol, and the key of a fact; what follows tells rows of one key apart.
    places = st.tuples(st.just(1), st.integers(1, 9), *[st.integers(1, moments)] * family.key_width)
    rows = [(*place, number) for number, place in enumerate(data.draw(st.lists(places, max_size=30)))]
    expected = sorted(rows, key=lambda row: row[: 2 + family.key_width])
    shared = family.sort_rows(rows)
    assert rows == expected, "of equal keys the first stays first"
    for name in shared:
        assert len(set(map(itemgetter(family.queries.add.params.index(name)), rows))) == 1, name


@pytest.mark.parametrize("family", ALL_FAMILIES, ids=lambda family: family.channel)
def test_rows_are_read_as_they_lie(family: Family) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        for query in (family.queries.newest, family.queries.between):
            plan = " ".join(str(row) for row in db.all(sql(f"EXPLAIN QUERY PLAN {query.sqlite.replace('?', '0')}")))
            assert "chunk=? AND symbol_id=? AND bucket_ts" in plan and "TEMP B-TREE" not in plan, query.name


VOLUMES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 9), st.sampled_from([-0.0, 0.0]))


@given(st.lists(st.tuples(VOLUMES, VOLUMES), min_size=1, max_size=9))
def test_exact_values_are_floats_and_never_zero_below_zero(volumes: list[tuple[float, float]]) -> None:
    rows: list[Row] = [(1, 1, 60, 0, 5, 9, 1, 3, base, quote, 3, 0, 0, 1) for base, quote in volumes]
    exact = CANDLES.exact_values(rows)
    expected = [(*row[:8], float(row[8]) + 0.0, float(row[9]) + 0.0, *row[10:]) for row in rows]
    assert list(map(repr, exact)) == list(map(repr, expected))


def old_rows(family: Family, facts: list[Observation], *, seq: int) -> list[Row]:
    """Rows in chunks of twenty buckets."""
    spans = [fact.granularity_sec * 20_000 if isinstance(fact, Candle) else 100_000 for fact in facts]
    return [
        (fact.bucket_ts // span, 1, *msgspec.structs.astuple(fact)[family.own], 0, NOON, seq)
        for fact, span in zip(facts, spans, strict=True)
    ]


def archive(db: Database, shelf: Shelf, family: Family, rows: list[Row]) -> None:
    """Every chunk of rows as an object of its own."""
    note = sql(
        "INSERT INTO tape_archived (table_name, granularity_sec, chunk, archive_key, rows_moved) "
        "VALUES (:table_name, :granularity_sec, :chunk, :archive_key, :rows_moved)"
    )
    for chunk in sorted({row[0] for row in rows}):
        there = [row for row in rows if row[0] == chunk]
        key, seconds = shelf.put("old", msgspec.json.encode(there)), there[0][2] if family.has_granularity else 0
        where = {"table_name": family.table, "granularity_sec": seconds, "chunk": chunk}
        db.execute(note, **where, archive_key=key, rows_moved=len(there))


def test_rows_in_chunks_of_twenty_are_found_here_and_in_the_archive(db: Database) -> None:
    mids = [Mid("BTC", NOON + number * 5_000, number + 1) for number in range(90)]
    minutes = [bar(NOON + number * MINUTE) for number in range(90)]
    hours = [bar(NOON - 90 * HOUR + number * HOUR, 3_600) for number in range(90)]
    shelf = Shelf()
    db.execute_script("INSERT INTO tape_symbols (symbol_id, symbol) VALUES (1, 'BTC')")
    for family, facts in ((MIDS, mids), (CANDLES, minutes), (CANDLES, hours)):
        archive(db, shelf, family, old_rows(family, [*facts[:45]], seq=1))
        db.many(family.queries.add, old_rows(family, [*facts[45:]], seq=2))
    moved = db.all(sql("SELECT SUM(rows_moved) FROM tape_archived"))
    db.execute_script(dict(_migration_files(MIGRATIONS))["0005_chunks.sql"])
    assert db.all(sql("SELECT SUM(rows_moved) FROM tape_archived")) == moved
    tape = Tape(db, clock=VirtualClock(NOON), fetch=shelf.get)
    assert tape.facts(Mid, "BTC", since=0, until=NOON + HOUR, view=VIEW) == mids
    assert tape.candles("BTC", granularity_sec=60, since=0, view=VIEW) == minutes
    assert tape.candles("BTC", granularity_sec=3_600, since=0, view=VIEW) == hours
    for number in (0, 1, 19, 20, 21, 44, 45, 46, 89):
        assert tape.newest(Mid, "BTC", view=View(NOON + number * 5_000)) == mids[number]
        since = NOON + number * MINUTE
        found = tape.candles("BTC", granularity_sec=60, since=since, until=since, view=VIEW)
        assert found == [minutes[number]]
