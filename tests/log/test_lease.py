"""Leases: one writer per stream, taken over only from the silent, and nothing written by who lost one."""

import threading
from threading import Barrier, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tapebook.db import Database
from tapebook.errors import Busy, StaleWriter
from tapebook.log import Lease, Leases, Log, Stream
from tests.db.places import Connector, sql
from tests.log.journal import added, open_journal, rows_of
from tests.matrix import examples

STREAM, OTHER = Stream("ann", "d1"), Stream("ann", "d2")
TTL = 10.0


class Watch:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.seconds += seconds


def leases(database: Database, holder: str, watch: Watch | None = None) -> Leases:
    """The leases of a process of that name."""
    watch = watch or Watch()
    return Leases(database, holder=holder, ttl_seconds=TTL, elapsed=watch, sleep=watch.sleep)


def take(found: Leases, *streams: Stream, most: int = 10) -> list[Lease]:
    """Looks, then takes."""
    found.watch_others()
    return found.acquire(streams, most=most)


def test_free_stream_is_taken_once(database: Database) -> None:
    open_journal(database)
    ann, bo = leases(database, "ann's"), leases(database, "bo's")
    assert take(ann, STREAM) == [Lease(STREAM, "ann's", 1)]
    assert ann.in_hand.get(STREAM) == Lease(STREAM, "ann's", 1)
    assert take(ann, STREAM) == take(bo, STREAM) == []
    assert take(bo, STREAM, OTHER) == [Lease(OTHER, "bo's", 1)]
    assert (ann.in_hand.get(OTHER), bo.in_hand.get(STREAM)) == (None, None)


def test_holders_are_those_of_an_owner(database: Database) -> None:
    open_journal(database)
    ann, bo = leases(database, "ann's"), leases(database, "bo's")
    take(ann, STREAM)
    assert bo.holders(STREAM.owner) == ["ann's"] and bo.holders("somebody else") == []
    ann.release_all()
    assert bo.holders(STREAM.owner) == []


def test_released_stream_goes_on_with_the_next_epoch(database: Database) -> None:
    open_journal(database)
    ann, bo = leases(database, "ann's"), leases(database, "bo's")
    ann.release(take(ann, STREAM, OTHER))
    assert ann.in_hand.get(STREAM) is None
    assert take(bo, STREAM) == [Lease(STREAM, "bo's", 2)]
    bo.release_all()
    assert take(ann, STREAM, OTHER) == [Lease(STREAM, "ann's", 3), Lease(OTHER, "ann's", 2)]


def test_no_more_are_taken_than_asked_for(database: Database) -> None:
    open_journal(database)
    many = [Stream("ann", f"d{number}") for number in range(7)]
    ann = leases(database, "ann's")
    assert [lease.stream for lease in take(ann, *many, most=3)] == many[:3]
    assert [lease.stream for lease in take(ann, *many, most=3)] == many[3:6]


def test_silent_holder_is_taken_over_after_the_watchers_own_time(database: Database) -> None:
    open_journal(database)
    watch = Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    (mine,) = take(ann, STREAM)
    assert take(bo, STREAM) == []
    watch.seconds += TTL
    assert take(bo, STREAM) == []
    watch.seconds += 0.1
    assert take(bo, STREAM) == [Lease(STREAM, "bo's", 2)]
    assert ann.heartbeat() == [mine] and ann.in_hand.get(STREAM) is None
    ann.release([mine])
    assert bo.heartbeat() == [] and bo.in_hand.get(STREAM)


@pytest.mark.parametrize("sign", ["beat", "write", "epoch"])
def test_a_sign_of_life_begins_the_wait_anew(database: Database, sign: str) -> None:
    log, watch = open_journal(database), Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    (mine,) = take(ann, STREAM)
    take(bo, STREAM)
    for turn in range(3):
        watch.seconds += TTL
        if sign == "beat":
            assert ann.heartbeat() == []
        elif sign == "write":
            log.append(STREAM, [added("a")], expected_seq=turn, lease=mine)
        else:
            ann.release_all()
            take(ann, STREAM)
        assert take(bo, STREAM) == []
    watch.seconds += TTL + 0.1
    assert len(take(bo, STREAM)) == 1


def test_first_look_is_never_enough(database: Database) -> None:
    open_journal(database)
    take(leases(database, "dead"), STREAM)
    watch = Watch()
    watch.seconds = 10**9
    late = leases(database, "late", watch)
    assert take(late, STREAM) == []
    watch.seconds += TTL + 1
    assert len(take(late, STREAM)) == 1


def test_beats_are_given_three_times_per_ttl(database: Database) -> None:
    open_journal(database)
    watch = Watch()
    ann = leases(database, "ann's", watch)
    take(ann, STREAM)
    beats = []
    for _ in range(100):
        watch.seconds += TTL / 100
        ann.heartbeat_if_due()
        beats.append(database.all(sql("SELECT beat FROM leases"))[0][0])
    assert beats[-1] in (2, 3)


def test_lost_lease_writes_nothing(database: Database) -> None:
    log, watch = open_journal(database), Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    (mine,) = take(ann, STREAM)
    log.append(STREAM, [added("a")], expected_seq=0, lease=mine)
    take(bo, STREAM)
    watch.seconds += TTL + 1
    (theirs,) = take(bo, STREAM)
    rows, head = rows_of(database), log.head(STREAM)
    with pytest.raises(StaleWriter, match="the lease of ann/d1 was lost"):
        log.append(STREAM, [added("b")], expected_seq=1, lease=mine)
    assert (rows_of(database), log.head(STREAM)) == (rows, head)
    assert [event.seq for event in log.append(STREAM, [added("b")], expected_seq=1, lease=theirs)] == [2]


def test_writer_without_a_lease_writes_only_where_nobody_holds_one(database: Database) -> None:
    log, ann = open_journal(database), leases(database, "ann's")
    log.append(STREAM, [added("a")], expected_seq=0)
    take(ann, STREAM)
    with pytest.raises(StaleWriter, match="in the hands of ann's"):
        log.append(STREAM, [added("b")], expected_seq=1)
    log.append(OTHER, [added("a")], expected_seq=0)
    ann.release_all()
    assert log.append(STREAM, [added("b")], expected_seq=1)[0].seq == 2


def test_who_lost_a_lease_does_not_write_without_one(database: Database) -> None:
    open_journal(database)
    watch = Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    (mine,) = take(ann, STREAM)
    take(bo, STREAM)
    watch.seconds += TTL + 1
    bo.release(take(bo, STREAM))
    assert ann.for_write(STREAM) == mine and ann.for_write(OTHER) is None
    ann.heartbeat()
    with pytest.raises(StaleWriter, match="another process has worked on it since"):
        ann.for_write(STREAM)
    ann.release([mine])
    assert ann.for_write(STREAM) is None
    (again,) = take(ann, STREAM)
    assert ann.for_write(STREAM) == again and again.epoch == 3


def test_several_leases_are_fenced_together(database: Database) -> None:
    open_journal(database)
    watch = Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    both = take(ann, STREAM, OTHER)
    with database.transaction():
        ann.fence_writes(both)
    take(bo, OTHER)
    watch.seconds += TTL + 1
    take(bo, OTHER)
    with pytest.raises(StaleWriter), database.transaction():
        ann.fence_writes(both)


def test_holding_waits_for_the_dead_and_refuses_for_the_living(database: Database) -> None:
    open_journal(database)
    watch = Watch()
    ann, bo = leases(database, "ann's"), leases(database, "bo's", watch)
    take(ann, STREAM)
    begun = watch.seconds
    with bo.holding(STREAM) as lease:
        assert lease.epoch == 2 and TTL < watch.seconds - begun < TTL + 1
    assert database.all(sql("SELECT holder FROM leases")) == [("",)]
    assert len(ann.heartbeat()) == 1 == len(take(ann, STREAM))

    def beating(seconds: float) -> None:
        watch.sleep(seconds)
        ann.heartbeat()

    alive = Leases(database, holder="bo's", ttl_seconds=TTL, elapsed=watch, sleep=beating)
    with pytest.raises(Busy, match="ann/d1 is in the hands of ann's"), alive.holding(STREAM):
        pass
    assert ann.heartbeat() == []


@pytest.mark.parametrize("dead", [False, True])
def test_of_many_at_once_one_takes_a_stream(connect_again: Connector, dead: bool) -> None:
    open_journal(connect_again())
    watch = Watch()
    if dead:
        take(leases(connect_again(), "dead"), STREAM, OTHER)
    takers = [leases(connect_again(), f"taker {number}", watch) for number in range(6)]
    for taker in takers:
        taker.watch_others()
    watch.seconds += TTL + 1
    barrier, won = Barrier(len(takers)), []

    def compete(taker: Leases) -> None:
        barrier.wait()
        won.extend(taker.acquire([STREAM, OTHER], most=2))

    threads = [Thread(target=compete, args=(taker,)) for taker in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((lease.stream, lease.epoch) for lease in won) == [(STREAM, 1 + dead), (OTHER, 1 + dead)]


def test_nobody_takes_a_stream_in_the_middle_of_a_write(connect_again: Connector) -> None:
    """The write has checked its lease and not committed yet: a take-over waits, and then sees a sign of life."""
    writer, taker = connect_again(), connect_again()
    open_journal(writer)
    watch = Watch()
    ann, bo = leases(writer, "ann's"), leases(taker, "bo's", watch)
    mine = take(ann, STREAM)
    bo.watch_others()
    watch.seconds += TTL + 1
    taken: list[Lease] = []
    thread = Thread(target=lambda: taken.extend(bo.acquire([STREAM], most=1)))
    with writer.transaction():
        ann.fence_writes(mine)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert taken == [] and ann.heartbeat() == []


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["take", "beat", "release", "write", "wait", "look"])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_only_the_newest_epoch_writes(database: Database, steps: list[tuple[int, str]]) -> None:
    """A model: the holder is whoever took last; a write succeeds exactly for that one."""
    log = fresh(database)
    watch = Watch()
    crew = [leases(database, f"p{number}", watch) for number in range(3)]
    memory: dict[int, Lease] = {}
    epoch = 0
    for who, what in steps:
        one = crew[who]
        if what == "wait":
            watch.seconds += TTL / 2 + 1
        elif what == "look":
            one.watch_others()
        elif what == "beat":
            one.heartbeat()
        elif what == "release":
            one.release_all()
        elif what == "take":
            for lease in one.acquire([STREAM], most=1):
                assert lease.epoch == epoch + 1
                epoch, memory[who] = lease.epoch, lease
        elif who in memory:
            before = log.head(STREAM).seq
            standing = one.in_hand.get(STREAM) == memory[who] and memory[who].epoch == epoch
            try:
                log.append(STREAM, [added("a")], expected_seq=before, lease=memory[who])
                assert standing
            except StaleWriter:
                assert not standing and log.head(STREAM).seq == before


def fresh(database: Database) -> Log:
    """A journal with nothing in it."""
    log = open_journal(database)
    with database.transaction():
        for table in ("leases", "log_events", "journal_entries", "journal_tags"):
            database.execute(sql(f"DELETE FROM {table}"))
    return log


def test_a_long_call_gets_heartbeats_and_gives_what_it_gives(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine may think for longer than a lease lives."""
    fresh(database)
    ann, beaten = leases(database, "ann's", Watch()), threading.Event()

    def beat() -> list[Lease]:
        beaten.set()
        return []

    monkeypatch.setattr(ann, "heartbeat_if_due", beat)
    monkeypatch.setattr("tapebook.log.lease._LOOK_SECONDS", 0.01)
    assert ann.call_with_heartbeat(lambda: beaten.wait(60))
    with pytest.raises(ZeroDivisionError):
        ann.call_with_heartbeat(lambda: 1 // 0)
