"""The log: places and times, one writer at a time, and tables in the same transaction."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from threading import Barrier, Thread

import pytest

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect
from tapebook.db.sqlite import SqliteDatabase
from tapebook.errors import BadInput, StaleWriter
from tapebook.log import Event, Head, Log, Projection, Stream, Write, store, verify_log
from tapebook.log.event import GENESIS
from tests.db.places import Connector
from tests.log.journal import (
    PACKAGES,
    PROJECTION,
    START,
    STREAMS,
    added,
    fill,
    noted,
    open_journal,
    rows_of,
)

STREAM = Stream("ann", "d1")
NO_ROWS: dict[str, list[object]] = {"journal_entries": [], "journal_tags": []}


class Hands:
    """A clock whose hands a test sets, forwards and backwards."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def now(self) -> int:
        """The next of the times."""
        return self._times.pop(0)


def test_empty_stream_ends_at_zero(database: Database) -> None:
    log = open_journal(database)
    assert log.head(STREAM) == Head(0, GENESIS, 0)
    assert list(log.events(STREAM)) == []
    assert log.streams() == []
    assert (log.seq_as_of(STREAM, START), log.event_count(STREAM)) == (0, 0)


def test_heads_are_those_of_one_owner(database: Database) -> None:
    log = open_journal(database)
    assert log.heads("ann") == {}
    for deployment, count in (("", 1), ("d1", 3), ("d2", 2), ("Z", 1)):
        log.append(Stream("ann", deployment), [added("a")] * count, expected_seq=0)
    log.append(Stream("bob", "d1"), [added("a")] * 9, expected_seq=0)
    assert log.heads("ann") == {"": 1, "d1": 3, "d2": 2, "Z": 1}


def test_append_numbers_and_chains_events(database: Database) -> None:
    log = open_journal(database)
    first = log.append(STREAM, [added("a", at=START - 9)], expected_seq=0)
    more = log.append(STREAM, [noted("b"), added("c")], expected_seq=1)
    events = first + more
    assert [(event.seq, event.kind, event.happened_at) for event in events] == [
        (1, "entry.added", START - 9),
        (2, "note.made", START),
        (3, "entry.added", START),
    ]
    assert [event.known_at for event in events] == [START, START + 1, START + 1]
    previous = [GENESIS, *(event.hash for event in events)]
    assert all(event.hash == event.hash_after(before) for event, before in zip(events, previous, strict=False))
    assert list(log.events(STREAM)) == events
    assert log.head(STREAM) == Head(3, events[-1].hash, START + 1)
    assert log.event_count(STREAM) == 3


def test_empty_append_writes_nothing_and_still_asks_for_the_place(database: Database) -> None:
    log = open_journal(database)
    assert log.append(STREAM, [], expected_seq=0) == []
    assert log.head(STREAM).seq == 0
    with pytest.raises(StaleWriter):
        log.append(STREAM, [], expected_seq=1)


@pytest.mark.parametrize(
    ("clock", "known"),
    [
        ((5, 6, 7), [5, 6, 7]),
        ((5, 5, 5), [5, 6, 7]),
        ((5, 3, 1), [5, 6, 7]),
        ((5, 100, 50), [5, 100, 101]),
        ((0, 0, 2), [1, 2, 3]),
    ],
)
def test_known_at_grows_whatever_the_clock_does(database: Database, clock: tuple[int, ...], known: list[int]) -> None:
    open_journal(database)
    log = Log(database, [PROJECTION], clock=Hands(*clock))
    for turn, at in enumerate(known):
        appended = log.append(STREAM, [noted("a"), noted("b")], expected_seq=2 * turn)
        assert [event.known_at for event in appended] == [at, at]


@pytest.mark.parametrize("expected_seq", [0, 1, 3, -1, 2**62])
def test_writer_that_read_another_head_is_stale(database: Database, expected_seq: int) -> None:
    log = open_journal(database)
    log.append(STREAM, [added("a"), noted("b")], expected_seq=0)
    head, rows = log.head(STREAM), rows_of(database)
    with pytest.raises(StaleWriter, match=f"stream ann/d1 is at 2, not {expected_seq}"):
        log.append(STREAM, [added("c")], expected_seq=expected_seq)
    assert (log.head(STREAM), rows_of(database)) == (head, rows)
    assert [event.seq for event in log.append(STREAM, [added("c")], expected_seq=2)] == [3]


def test_streams_are_listed_in_as_many_steps_however_long_they_are() -> None:
    """By the steps of SQLite's machine: a page asks for them every few seconds."""
    taken = []
    for count in (10, 5_000):
        steps: list[int] = []

        def count_step(steps: list[int] = steps) -> bool:
            steps.append(1)
            return False

        with closing(SqliteDatabase(":memory:", durable=False)) as database:
            log = open_journal(database)
            log.append(STREAM, [noted(str(number)) for number in range(count)], expected_seq=0)
            database._connection.set_progress_handler(count_step, 20)
            assert log.streams() == [STREAM]
        taken.append(len(steps))
    assert taken[1] <= taken[0] + 2, taken


def test_streams_are_independent(database: Database) -> None:
    clock = VirtualClock(START)
    log = open_journal(database, clock=clock)
    fill(log, clock)
    assert log.streams() == sorted(STREAMS)
    for stream in STREAMS:
        events = list(log.events(stream))
        assert [event.seq for event in events] == list(range(1, 11))
        assert {event.stream for event in events} == {stream}
    ann, _, bo = (log.head(stream) for stream in STREAMS)
    log.append(STREAMS[0], [noted("more")], expected_seq=10)
    assert log.head(STREAMS[2]) == bo and log.head(STREAMS[0]) != ann
    assert verify_log(log, database, packages=PACKAGES, anchors={}) == []


def test_table_rows_are_written_with_their_event(database: Database) -> None:
    log = open_journal(database)
    log.append(STREAM, [noted("a"), added("bc", tags=("x", "x"))], expected_seq=0)
    amount = 2 * 10**17
    entry = ("ann", "d1", 2, "bc", amount, amount / 3e8, b"bc", START, None)
    assert rows_of(database) == {"journal_entries": [entry], "journal_tags": [("ann", "d1", "x"), ("ann", "d1", "x")]}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_projector_that_raises_leaves_neither_event_nor_row(database: Database, error: type[BaseException]) -> None:
    def fail(event: Event) -> list[Write]:
        raise error(event.kind)

    open_journal(database)
    failing = Projection(tables=(), projectors={"note.made": fail})
    log = Log(database, [PROJECTION, failing], clock=VirtualClock(START))
    log.append(STREAM, [added("kept")], expected_seq=0)
    head, rows = log.head(STREAM), rows_of(database)
    with pytest.raises(error, match=r"note\.made"):
        log.append(STREAM, [added("a", tags=("x",)), noted("b"), added("c")], expected_seq=1)
    assert (log.head(STREAM), rows_of(database)) == (head, rows)
    log.append(STREAM, [added("d")], expected_seq=1)
    assert verify_log(log, database, packages=PACKAGES, anchors={}) == []


def test_refused_draft_leaves_nothing_of_its_append(database: Database) -> None:
    log = open_journal(database)
    with pytest.raises(BadInput):
        log.append(Stream("a/b"), [added("a")], expected_seq=0)
    with pytest.raises(BadInput):
        log.append(STREAM, [added("a"), added("b", at=2**63)], expected_seq=0)
    assert log.streams() == []
    assert rows_of(database) == NO_ROWS


def test_events_are_read_page_by_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAGE", 4)
    log = open_journal(database)
    for count in (3, 4, 5, 8, 9):
        stream = Stream("ann", f"d{count}")
        appended = log.append(stream, [noted(str(number)) for number in range(count)], expected_seq=0)
        assert list(log.events(stream)) == appended
        assert list(log.events(stream, after=2)) == appended[2:]
        assert list(log.events(stream, after=1, until=7)) == appended[1:7]
        assert list(log.events(stream, until=0)) == []


def test_more_events_than_a_page_holds_come_in_order(database: Database) -> None:
    log = open_journal(database)
    count = store._PAGE + 1
    log.append(STREAM, [noted(str(number)) for number in range(count)], expected_seq=0)
    assert [event.seq for event in log.events(STREAM)] == list(range(1, count + 1))


def test_seq_as_of_is_the_newest_known_then(database: Database) -> None:
    open_journal(database)
    log = Log(database, [PROJECTION], clock=Hands(100, 100, 200, 150))
    for turn in range(4):
        log.append(STREAM, [noted("a"), noted("b")], expected_seq=2 * turn)
    log_of_other = Log(database, [PROJECTION], clock=Hands(120))
    log_of_other.append(Stream("bo"), [noted("c")], expected_seq=0)
    moments = {99: 0, 100: 2, 101: 4, 199: 4, 200: 6, 201: 8, 10**15: 8, -1: 0}
    assert {at: log.seq_as_of(STREAM, at) for at in moments} == moments
    assert log.seq_as_of(Stream("bo"), 150) == 1


def race(writers: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """Runs writers at the same moment; what each raised."""
    barrier = Barrier(len(writers))
    raised: list[BaseException | None] = [None] * len(writers)

    def write(number: int) -> None:
        barrier.wait()
        try:
            writers[number]()
        except BaseException as error:
            raised[number] = error

    threads = [Thread(target=write, args=(number,)) for number in range(len(writers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_one_of_two_racing_writers_wins(connect_again: Connector) -> None:
    databases = [connect_again(), connect_again()]
    logs = [open_journal(db) for db in databases]
    for turn in range(15):
        seq = 2 * turn
        drafts = [added("a"), noted("b")]
        raised = race([partial(log.append, STREAM, drafts, expected_seq=seq) for log in logs])
        assert sorted(type(error).__name__ for error in raised) == ["NoneType", "StaleWriter"]
        assert logs[0].head(STREAM).seq == seq + 2
    assert verify_log(logs[0], databases[0], packages=PACKAGES, anchors={}) == []


class Meeting:
    """A clock that answers when two have asked: both are then past reading the head of their stream."""

    def __init__(self) -> None:
        self._barrier = Barrier(2, timeout=10)

    def now(self) -> int:
        """The start, once both are here."""
        self._barrier.wait()
        return START


def test_writers_that_read_the_same_head_meet_at_its_place(empty_postgres: str) -> None:
    """Only PostgreSQL lets two transactions read a head before either writes; SQLite's second one waits to begin."""
    with closing(connect(empty_postgres)) as first, closing(connect(empty_postgres)) as second:
        open_journal(first)
        clock = Meeting()
        logs = [Log(db, [PROJECTION], clock=clock) for db in (first, second)]
        for turn in range(10):
            raised = race([partial(log.append, STREAM, [added("a")], expected_seq=turn) for log in logs])
            stale = [error for error in raised if error]
            assert [type(error) for error in stale] == [StaleWriter]
            assert "another writer was first" in str(stale[0])
            assert logs[0].head(STREAM).seq == turn + 1
        assert verify_log(logs[0], first, packages=PACKAGES, anchors={}) == []


def test_racing_writers_of_two_streams_both_win(connect_again: Connector) -> None:
    logs = [open_journal(connect_again()) for _ in range(2)]
    for turn in range(5):
        pairs = zip(logs, (Stream("a"), Stream("b")), strict=True)
        raised = race([partial(log.append, stream, [added("a")], expected_seq=turn) for log, stream in pairs])
        assert raised == [None, None]


def test_both_databases_give_the_same_hashes(tmp_path_factory: pytest.TempPathFactory, empty_postgres: str) -> None:
    places = [":memory:", str(tmp_path_factory.mktemp("same") / "a.db"), empty_postgres]
    heads, rows = [], []
    for place in places:
        with closing(connect(place)) as db:
            clock = VirtualClock(START)
            log = open_journal(db, clock=clock)
            fill(log, clock)
            heads.append([(event.seq, event.hash) for stream in STREAMS for event in log.events(stream)])
            rows.append(rows_of(db))
    assert heads[0] == heads[1] == heads[2]
    assert rows[0] == rows[1] == rows[2]
    assert len(heads[0]) == 30
