"""Events in few bytes: whatever was packed comes back, and what was changed is found."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged, StaleWriter
from tapebook.log import Draft, Event, Finding, Log, Stream, verify_log
from tapebook.log.event import (
    DICTIONARIES,
    GENESIS,
    chain_events,
    pack_body,
    pack_events,
    parquet_of_events,
    unpack_body,
    unpack_events,
)
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import MIGRATIONS
from tests.db.places import sql

STREAM, OTHER = Stream("o", "d"), Stream("o")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40)
LONG = '{"reason":"' + " ".join(f"word{number}" for number in range(120)) + '"}'


@pytest.fixture
def database(database: Database) -> Iterator[Database]:
    migrate(database, (MIGRATIONS,))
    yield database


def open_log(db: Database, *, archive: dict[str, bytes] | None = None) -> Log:
    return Log(db, [], clock=VirtualClock(1_000), fetch=({} if archive is None else archive).get)


def filled(log: Log, count: int, *, stream: Stream = STREAM) -> list[Event]:
    """Events of three kinds, each known a little later than the one before, some with long bodies."""
    clock = log._clock
    assert isinstance(clock, VirtualClock)
    events = list[Event]()
    for number in range(count):
        clock.advance(clock.now() + 10)
        body = LONG if number % 3 == 0 else f'{{"n":{number}}}'
        events += log.append(stream, [Draft(f"k{number % 3}", number, body)], expected_seq=len(events))
    return events


def findings(log: Log, db: Database) -> list[Finding]:
    return verify_log(log, db, packages=(MIGRATIONS,), anchors={})


@given(st.lists(st.tuples(TEXTS, st.integers(-9, 2**40), TEXTS, st.booleans()), min_size=1, max_size=20), st.booleans())
def test_what_is_packed_comes_back(told: list[tuple[str, int, str, bool]], cold: bool) -> None:
    drafts = [Draft(kind, at, body) for kind, at, body, _ in told]
    events = chain_events(GENESIS, drafts, stream=STREAM, seq=0, known_at=7)
    links = list(zip([GENESIS, *(event.hash for event in events)], events, strict=False))
    # Some stay behind, so that a pack has gaps.
    kept = [link for link, (*_, stays) in zip(links, told, strict=True) if not stays] or links
    assert unpack_events(parquet_of_events(kept) if cold else pack_events(kept), STREAM) == [event for _, event in kept]


@given(st.text(max_size=2_000))
def test_a_body_comes_back(body: str) -> None:
    packed = pack_body(body)
    assert (packed is None) == (len(body) < 300)
    assert packed is None or unpack_body(packed) == body


def test_dictionaries_are_never_edited() -> None:
    """What was written with one could not be read any more: a better dictionary gets a number of its own."""
    assert {codec: sha256_hex(text) for codec, text in DICTIONARIES.items()} == {
        1: "3a77c1d2ecc4cc38bb04d01e4caf30f8efc16e6b8f0f0248fae85da93cf78241",
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01", b"\x09abc", b"\x01\xff\xff\xff", b"PAR1", b"PAR1torn", pack_events([])[:-1], pack_events([]) + b"x"],
)
def test_what_is_no_pack_is_refused(content: bytes) -> None:
    with pytest.raises(Damaged, match="cannot be read"):
        unpack_events(content, STREAM)
    with pytest.raises(Damaged, match="cannot be read"):
        unpack_body(content)


def test_a_sole_writer_packs_and_any_log_reads_and_goes_on(database: Database) -> None:
    sole = SingleWriterLog(database, [], clock=VirtualClock(1_000))
    with sole.one_transaction():
        events = filled(sole, 1_300)
        assert list(sole.events(STREAM, after=1_290)) == events[1_290:]
        assert sole.event(STREAM, 3) == events[2] and sole.event(STREAM, 1_300) == events[-1]
    assert database.all(sql("SELECT COUNT(*) FROM log_events")) == [(0,)]
    assert database.all(sql("SELECT first_seq, last_seq FROM log_packs ORDER BY first_seq")) == [
        (1, 512),
        (513, 1_024),
        (1_025, 1_300),
    ]
    plain = open_log(database)
    (more,) = plain.append(STREAM, [Draft("k9", 1, LONG)], expected_seq=1_300)
    again = SingleWriterLog(database, [], clock=VirtualClock(100_000))
    (last,) = again.append(STREAM, [Draft("k1", 1, "{}")], expected_seq=1_301)
    assert list(plain.events(STREAM)) == [*events, more, last]
    assert list(plain.events(STREAM, after=510, until=515)) == events[510:515]
    assert (plain.event_count(STREAM), plain.streams(), plain.head(STREAM).hash) == (1_302, [STREAM], last.hash)
    assert plain.newest_of_kinds(STREAM) == {"k0": 1_300, "k1": 1_302, "k2": 1_299, "k9": 1_301}
    assert again.last_change_seq(STREAM, frozenset({"k2", "k9"}), seq=2_000) == 1_301
    moments = [events[0].known_at - 1, *(event.known_at for event in events), last.known_at + 5]
    # Every seventh, and those at both ends of every pack.
    chosen = sorted({*range(0, 1_302, 7), 1, 511, 512, 513, 1_023, 1_024, 1_025, 1_299, 1_300, 1_301})
    assert [plain.seq_as_of(STREAM, moments[n]) for n in chosen] == [n if n <= 1_300 else 1_302 for n in chosen]
    assert findings(plain, database) == []


def test_what_is_undone_is_not_remembered(database: Database) -> None:
    sole = SingleWriterLog(database, [], clock=VirtualClock(1_000))
    sole.append(STREAM, [Draft("k", 1, "{}")], expected_seq=0)
    with pytest.raises(RuntimeError, match="enough"), sole.one_transaction():
        sole.append(STREAM, [Draft("k", 2, "{}")], expected_seq=1)
        raise RuntimeError("enough")
    assert [event.happened_at for event in sole.events(STREAM)] == [1]
    assert sole.head(STREAM) == open_log(database).head(STREAM)


CHANGES = {
    "another hash": "UPDATE log_packs SET hash = 'ab' WHERE first_seq = 1",
    "another end": "UPDATE log_packs SET last_seq = last_seq - 1 WHERE first_seq = 1",
    "another count": "UPDATE log_packs SET events = events + 1 WHERE first_seq = 1",
    "another time": "UPDATE log_packs SET known_at = known_at - 1 WHERE first_seq = 1",
    "another first time": "UPDATE log_packs SET first_known_at = 1 WHERE first_seq = 1",
    "another place": "UPDATE log_packs SET first_seq = 2 WHERE first_seq = 1",
    "another stream": "UPDATE log_packs SET deployment = 'x' WHERE first_seq = 1",
    "no content": "UPDATE log_packs SET content = NULL WHERE first_seq = 1",
    "the content of another": "UPDATE log_packs SET content = (SELECT content FROM log_packs WHERE first_seq = 513)",
    "a key without an object": "UPDATE log_packs SET archive_key = 'sha256/none' WHERE first_seq = 1",
    "gone": "DELETE FROM log_packs WHERE first_seq = 1",
    "a row beside it": "INSERT INTO log_events VALUES ('o', 'd', 3, 'k', 1, 1, 1, '{}', 'ab', NULL)",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_pack_is_found(database: Database, change: str) -> None:
    sole = SingleWriterLog(database, [], clock=VirtualClock(1_000))
    with sole.one_transaction():
        filled(sole, 600)
    database.execute(sql(CHANGES[change]))
    assert len(findings(open_log(database), database)) >= 1


def test_every_flip_in_a_packed_body_is_found(database: Database) -> None:
    log = open_log(database)
    filled(log, 4)
    ((packed,),) = database.all(sql("SELECT packed FROM log_events WHERE seq = 4"))
    body = bytes(packed)
    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1 << place % 8]) + body[place + 1 :]
        database.execute(sql("UPDATE log_events SET packed = :packed WHERE seq = 4"), packed=changed)
        assert findings(log, database), f"byte {place}"
    database.execute(sql("UPDATE log_events SET packed = :packed, body = '{}' WHERE seq = 4"), packed=body)
    assert [found.where for found in findings(log, database)] == ["o/d#4"]


def retire(
    log: Log, archive: dict[str, bytes], *, after: int = 0, most: int = 50, before: int = 10**9
) -> tuple[int, int]:
    def put(content: bytes) -> str:
        archive[sha256_hex(content)] = content
        return sha256_hex(content)

    return log.archive_events(
        STREAM, after=after, before=before, leaves=lambda event: event.kind != "k2", put=put, most=most
    )


def test_old_events_leave_and_nobody_notices(database: Database) -> None:
    archive: dict[str, bytes] = {}
    log = open_log(database, archive=archive)
    events = filled(log, 100)
    assert retire(log, archive) == (50, 34)
    assert retire(log, archive, after=50, before=events[79].known_at) == (79, 19)
    assert retire(log, archive, after=79, before=events[79].known_at) == (79, 0)
    assert database.all(sql("SELECT COUNT(*) FROM log_events")) == [(100 - 34 - 19,)]
    fresh = open_log(database, archive=archive)
    assert list(fresh.events(STREAM)) == events
    assert [fresh.event(STREAM, seq) for seq in range(1, 101)] == events
    assert [fresh.seq_as_of(STREAM, event.known_at) for event in events] == list(range(1, 101))
    assert [fresh.seq_as_of(STREAM, event.known_at - 1) for event in events] == list(range(100))
    assert (fresh.event_count(STREAM), fresh.newest_of_kinds(STREAM)) == (100, {"k0": 100, "k1": 98, "k2": 99})
    assert findings(fresh, database) == []


def test_a_whole_stream_may_have_left(database: Database) -> None:
    archive: dict[str, bytes] = {}
    log = open_log(database, archive=archive)
    events = filled(log, 2)
    assert retire(log, archive) == (2, 2)
    assert log.head(STREAM).hash == events[-1].hash and log.streams() == [STREAM]
    (more,) = log.append(STREAM, [Draft("k", 1, "{}")], expected_seq=2)
    assert list(log.events(STREAM)) == [*events, more] and findings(log, database) == []


def test_what_the_archive_lost_or_changed_is_named(database: Database) -> None:
    archive: dict[str, bytes] = {}
    log = open_log(database, archive=archive)
    filled(log, 30)
    retire(log, archive)
    (key,) = archive
    content = archive.pop(key)
    (lost,) = findings(open_log(database, archive=archive), database)
    assert lost.where == "o/d" and f"the archive has no {key}" in lost.problem
    archive[key] = pack_events([(GENESIS, event) for event in unpack_events(content, STREAM)[:5]])
    (changed,) = findings(open_log(database, archive=archive), database)
    assert "events 1 to 29 of o/d: the pack they are in was changed" in changed.problem


def test_two_who_move_the_same_lose_nothing(database: Database) -> None:
    """The second finds the pack there, or the rows gone, and leaves all as it is."""
    archive: dict[str, bytes] = {}
    log = open_log(database, archive=archive)
    events = filled(log, 60)

    def raced(content: bytes) -> str:
        retire(open_log(database, archive=archive), archive)
        return sha256_hex(content)

    with pytest.raises(StaleWriter, match="somebody else moves"):
        log.archive_events(STREAM, after=0, before=10**9, leaves=lambda event: event.kind != "k2", put=raced, most=50)
    assert list(open_log(database, archive=archive).events(STREAM)) == events


def test_a_move_that_fails_moved_nothing(database: Database) -> None:
    log = open_log(database)
    events = filled(log, 9)

    def full(content: bytes) -> str:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        log.archive_events(STREAM, after=0, before=10**9, leaves=lambda event: True, put=full, most=50)
    assert database.all(sql("SELECT COUNT(*) FROM log_events")) == [(9,)]
    assert list(log.events(STREAM)) == events


def test_reading_while_events_leave_misses_none() -> None:
    archive: dict[str, bytes] = {}
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        log = open_log(db, archive=archive)
        events = filled(log, 2_500)
        reading = open_log(db, archive=archive).events(STREAM)
        first = [next(reading) for _ in range(3)]
        retire(log, archive, most=2_400)
        assert [*first, *reading] == events
