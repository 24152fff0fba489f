"""The check of the log: silent about a whole one, and not about any of the mutations."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect
from tapebook.log import Draft, Event, Finding, Log, Stream, verify_log
from tapebook.log.event import GENESIS, chain_events
from tests.db.places import Connector, sql
from tests.log.journal import PACKAGES, PROJECTION, START, STREAMS, added, fill, noted, open_journal
from tests.log.mutations import Mutation, contents, every_mutation, made, restore

MUTATIONS = every_mutation()


def filled(db: Database) -> Log:
    """A log of thirty events in three streams."""
    clock = VirtualClock(START)
    log = open_journal(db, clock=clock)
    fill(log, clock)
    return log


def anchors_of(log: Log) -> dict[Stream, dict[int, str]]:
    """What an archive would have kept: two hashes of each stream, the newest among them."""
    return {
        stream: {event.seq: event.hash for event in log.events(stream) if event.seq in (4, 10)} for stream in STREAMS
    }


def check(log: Log, db: Database, anchors: Mapping[Stream, Mapping[int, str]] | None = None) -> list[Finding]:
    """The findings; text that cannot be read at all is one."""
    found = verify_log(log, db, packages=PACKAGES, anchors=anchors or {})
    assert all(each.remedy for each in found)
    return [Finding(each.where, each.problem) for each in found]


def tried(db: Database, mutations: list[Mutation]) -> tuple[int, list[str]]:
    """Makes each mutation on a whole log: how many were made, and those that were not found."""
    log = filled(db)
    whole = contents(db)
    count, missed = 0, []
    for mutation in mutations:
        if not made(db, mutation):
            continue
        count += 1
        if not check(log, db):
            missed.append(mutation.label)
        restore(db, whole)
    assert check(log, db) == []
    return count, missed


def test_whole_log_has_no_findings(database: Database) -> None:
    log = filled(database)
    anchors = anchors_of(log)
    assert [set(kept) for kept in anchors.values()] == [{4, 10}] * 3
    assert check(log, database) == check(log, database, anchors) == []


def test_empty_log_has_no_findings(database: Database) -> None:
    log = open_journal(database)
    assert check(log, database) == []
    assert check(log, database, {Stream("gone"): {1: "ab"}}) == [
        Finding("gone/#1", "the archive has an anchor here, but the stream ends at 0: it was cut off")
    ]


def test_every_mutation_is_found() -> None:
    with closing(connect(":memory:")) as db:
        count, missed = tried(db, MUTATIONS)
    assert missed == []
    assert count >= 1_000, f"only {count} of {len(MUTATIONS)} mutations could be made"


def test_sample_of_the_mutations_is_found_on_postgres(empty_postgres: str) -> None:
    with closing(connect(empty_postgres)) as db:
        count, missed = tried(db, MUTATIONS[::13])
    assert missed == []
    assert count >= 50, f"only {count} mutations could be made"


@pytest.mark.parametrize("column", ["owner", "deployment", "kind", "body", "hash"])
def test_text_that_is_no_utf8_is_found(column: str) -> None:
    with closing(connect(":memory:")) as db:
        log = filled(db)
        db.execute(sql(f"UPDATE log_events SET {column} = CAST(x'ff' AS TEXT) WHERE owner = 'bo' AND seq = 10"))
        assert len(check(log, db)) == 1


def cut(db: Database, *, owner: str, after: int) -> None:
    """Cuts a stream off after a place, together with the rows computed from what is lost; they have no tags."""
    with db.transaction():
        for table in ("log_events", "journal_entries"):
            db.execute(sql(f"DELETE FROM {table} WHERE owner = :owner AND seq > :after"), owner=owner, after=after)


@pytest.mark.parametrize("after", [9, 8])
def test_tail_cut_off_with_its_rows_is_found_by_anchors_alone(database: Database, after: int) -> None:
    """A chain says that nothing before its end was touched; where it ended, only something outside can know."""
    log = filled(database)
    anchors = anchors_of(log)
    cut(database, owner="bo", after=after)
    assert check(log, database) == [], "without anchors this cannot be seen"
    assert check(log, database, anchors) == [
        Finding("bo/d1#10", f"the archive has an anchor here, but the stream ends at {after}: it was cut off")
    ]


def test_tail_beyond_the_newest_anchor_is_not_protected_by_it(database: Database) -> None:
    log = filled(database)
    anchors = anchors_of(log)
    log.append(STREAMS[2], [noted("after the anchor")], expected_seq=10)
    cut(database, owner="bo", after=10)
    assert check(log, database, anchors) == []


def test_tail_cut_off_without_its_rows_is_found(database: Database) -> None:
    log = filled(database)
    database.execute(sql("DELETE FROM log_events WHERE owner = 'bo' AND seq > 9"))
    assert [found.where for found in check(log, database)] == ["journal_entries"]


def test_stream_that_vanished_with_its_rows_is_found_by_anchors_alone(database: Database) -> None:
    log = filled(database)
    anchors = anchors_of(log)
    with database.transaction():
        for table in ("log_events", "journal_entries", "journal_tags"):
            database.execute(sql(f"DELETE FROM {table} WHERE owner = 'bo'"))
    assert check(log, database) == []
    assert [found.where for found in check(log, database, anchors)] == ["bo/d1#10"]


def test_history_written_anew_is_found_by_anchors_alone(database: Database) -> None:
    """Whoever recomputes every hash makes a whole log of another history."""
    log = filled(database)
    anchors = anchors_of(log)
    events = list(log.events(STREAMS[2]))
    with database.transaction():
        database.execute(sql("DELETE FROM log_events WHERE owner = 'bo'"))
        database.many(
            sql("INSERT INTO log_events VALUES (:a, :b, :c, :d, :e, :f, :g, :h, :i, :j)"), list(rewritten(events))
        )
    assert check(log, database) == []
    assert check(log, database, anchors) == [Finding("bo/d1#4", "differs from the anchor in the archive")]


def rewritten(events: list[Event]) -> Iterator[tuple[object, ...]]:
    """The same events a millisecond earlier, chained anew."""
    previous = GENESIS
    for old in events:
        draft = Draft(old.kind, old.happened_at - 1, old.body)
        (event,) = chain_events(previous, [draft], stream=old.stream, seq=old.seq - 1, known_at=old.known_at)
        previous = event.hash
        yield (*msgspec.structs.astuple(event.stream), *msgspec.structs.astuple(event)[1:], None)


def test_anchor_that_differs_is_found(database: Database) -> None:
    log = filled(database)
    assert check(log, database, {STREAMS[0]: {1: "ab" * 32}}) == [
        Finding("ann/d1#1", "differs from the anchor in the archive")
    ]


def test_time_that_goes_back_is_found_though_its_hash_is_right(database: Database) -> None:
    log = open_journal(database)
    first, second = noted("a"), noted("b")
    (one,) = chain_events(GENESIS, [first], stream=STREAMS[0], seq=0, known_at=9)
    (two,) = chain_events(one.hash, [second], stream=STREAMS[0], seq=1, known_at=8)
    add = sql("INSERT INTO log_events VALUES (:a, :b, :c, :d, :e, :f, :g, :h, :i, :j)")
    database.many(add, [("ann", "d1", *msgspec.structs.astuple(event)[1:], None) for event in (one, two)])
    assert check(log, database) == [Finding("ann/d1#2", "known earlier than the event before it")]


def test_findings_say_where_and_what(database: Database) -> None:
    log = filled(database)
    database.execute(sql("UPDATE log_events SET body = '{}' WHERE owner = 'bo' AND seq = 3"))
    database.execute(sql("DELETE FROM log_events WHERE owner = 'ann' AND deployment = 'd1' AND seq = 6"))
    database.execute(sql("UPDATE log_events SET seq = 0 WHERE owner = 'ann' AND deployment = '' AND seq = 10"))
    assert check(log, database) == [
        Finding("ann/", "1 row with numbers that no event can have"),
        Finding("ann/d1#7", "event 6 is missing"),
        Finding("bo/d1#3", "the event or one before it was changed: its hash does not follow"),
    ]


def test_long_lists_of_rows_are_cut_short(database: Database) -> None:
    log = filled(database)
    database.execute(sql("UPDATE journal_entries SET title = 'x'"))
    findings = check(log, database)
    assert len(findings) == 6
    assert findings[0].problem.startswith("row 'ann', '', 1, 'x', ") and findings[0].problem.endswith(
        "is not in the log"
    )
    assert findings[-1] == Finding("journal_entries", "and 25 more rows")


def test_log_can_be_checked_while_others_write(connect_again: Connector) -> None:
    """After every stream that is read, somebody appends to it; that must not be taken for tampering."""
    db, other = connect_again(), connect_again()
    filled(db)
    writer = open_journal(other)

    class Disturbed(Log):
        def events(self, stream: Stream, **limits: Any) -> Iterator[Event]:
            yield from super().events(stream, **limits)
            writer.append(stream, [added("meanwhile")], expected_seq=writer.head(stream).seq)

    log = Disturbed(db, [PROJECTION], clock=VirtualClock(START))
    assert verify_log(log, db, packages=PACKAGES, anchors={}) == []
    assert writer.head(STREAMS[0]).seq == 12
    assert check(writer, other) == []
