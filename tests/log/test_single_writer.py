"""A log that is alone knows without asking what its tables say."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.db.buffered import BufferedDatabase
from tapebook.errors import StaleWriter
from tapebook.log import Draft, Event, LateDraft, Log, Stream
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import MIGRATIONS, QUERIES

STREAMS = [Stream("o", "a"), Stream("o", "b"), Stream("o")]
SETS = [frozenset("x"), frozenset("xy"), frozenset("z")]
KINDS = st.lists(st.sampled_from("xyzw"), min_size=1, max_size=3)
READS = ["", "", "", "head", "events", "table"]
STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), KINDS | st.sampled_from(SETS)), max_size=20)


@given(STEPS)
def test_what_changed_last_is_what_the_table_says(steps: list[tuple[Stream, list[str] | frozenset[str]]]) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        sole, plain = SingleWriterLog(db, [], clock=VirtualClock(5)), Log(db, [], clock=VirtualClock(5))
        for stream, what in steps:
            if isinstance(what, list):
                sole.append(stream, [Draft(kind, 1, "{}") for kind in what], expected_seq=plain.head(stream).seq)
            else:
                found = plain.newest_of_kinds(stream)
                newest = max(found.get(kind, 0) for kind in what)
                assert sole.last_change_seq(stream, what, seq=sole.head(stream).seq) == newest
            assert sole.head(stream) == plain.head(stream)


@given(st.lists(st.tuples(st.sampled_from(STREAMS), KINDS, st.integers(0, 9)), max_size=20), st.booleans())
def test_events_are_those_of_any_log(appends: list[tuple[Stream, list[str], int]], together: bool) -> None:
    with closing(connect(":memory:")) as one, closing(connect(":memory:")) as other:
        clocks, seen = (VirtualClock(5), VirtualClock(5)), list[Event]()
        sole, plain = SingleWriterLog(BufferedDatabase(one), [], clock=clocks[0]), Log(other, [], clock=clocks[1])
        sole.add_follower(seen.append)
        for db in (one, other):
            migrate(db, (MIGRATIONS,))

        def write(log: Log, clock: VirtualClock) -> list[Event]:
            events = []
            for stream, kinds, pause in appends:
                clock.advance(clock.now() + pause)
                drafts = [Draft(kind, pause, f'{{"at":{pause}}}') for kind in kinds]
                events += log.append(stream, drafts, expected_seq=log.head(stream).seq)
            return events

        if together:
            with sole.one_transaction():
                mine = write(sole, clocks[0])
        else:
            mine = write(sole, clocks[0])
        assert mine == seen == write(plain, clocks[1])
        for stream in STREAMS:
            stored = list(Log(one, [], clock=clocks[0]).events(stream))
            assert stored == list(sole.events(stream)) == list(plain.events(stream))


def test_a_place_that_is_taken_is_refused_and_nothing_remembered() -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        log = SingleWriterLog(db, [], clock=VirtualClock(5))
        log.append(STREAMS[0], [Draft("x", 1, "{}")], expected_seq=0)
        with pytest.raises(StaleWriter, match="is at 1, not 0"):
            log.append(STREAMS[0], [Draft("x", 1, "{}")], expected_seq=0)
        assert log.head(STREAMS[0]) == Log(db, [], clock=VirtualClock(5)).head(STREAMS[0])


LATE_STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), KINDS, st.booleans(), st.sampled_from(READS)), max_size=90)


@given(LATE_STEPS)
def test_events_whose_bodies_are_late_are_stored_like_any(steps: list[tuple[Stream, list[str], bool, str]]) -> None:
    with closing(connect(":memory:")) as one, closing(connect(":memory:")) as other:
        for db in (one, other):
            migrate(db, (MIGRATIONS,))
        buffered, seen, finished, texts = BufferedDatabase(one), list[Event](), list[Event](), dict[str, str]()
        sole, plain = SingleWriterLog(buffered, [], clock=VirtualClock(5)), Log(other, [], clock=VirtualClock(5))
        buffered.call_before_reads(sole.finish_waiting)
        sole.add_follower(seen.append, finished=finished.append)
        with sole.one_transaction():
            for number, (stream, kinds, late, read) in enumerate(steps):
                whole = [Draft(kind, 1, f'{{"whole":{number}}}') for kind in kinds]
                drafts = list[Draft](whole)
                if late:
                    drafts[0] = LateDraft(kinds[0], 1, f"late {number}", finish=lambda body=whole[0].body: body)
                    texts[f"late {number}"] = whole[0].body
                seq = sole.append(stream, drafts, expected_seq=plain.head(stream).seq)[-1].seq
                assert seq == plain.append(stream, whole, expected_seq=plain.head(stream).seq)[-1].seq
                if read == "head":
                    assert sole.head(stream) == plain.head(stream)
                elif read == "events":
                    assert list(sole.events(stream)) == list(plain.events(stream))
                elif read == "table":
                    buffered.all(QUERIES.heads, owner="o")
                    assert not sole._waiting
        stored = Log(one, [], clock=VirtualClock(5))
        for stream in STREAMS:
            assert list(stored.events(stream)) == list(plain.events(stream))
        assert [(event.seq, texts.get(event.body, event.body)) for event in seen] == [
            (event.seq, event.body) for event in _in_order(plain, seen)
        ]
        assert all(event.hash for event in finished) and len(finished) == len(texts)


def _in_order(log: Log, seen: list[Event]) -> list[Event]:
    """The stored events, in the order in which they were seen."""
    stored = {(event.stream, event.seq): event for stream in STREAMS for event in log.events(stream)}
    return [stored[event.stream, event.seq] for event in seen]


def test_a_late_body_that_cannot_be_made_leaves_nothing_behind() -> None:
    def fails() -> str:
        raise ValueError("no body")

    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        log = SingleWriterLog(BufferedDatabase(db), [], clock=VirtualClock(5))
        with pytest.raises(ValueError, match="no body"), log.one_transaction():
            log.append(STREAMS[0], [LateDraft("x", 1, "late", finish=fails)], expected_seq=0)
            log.append(STREAMS[0], [Draft("y", 1, "{}")], expected_seq=1)
        assert log.head(STREAMS[0]).seq == 0 and list(log.events(STREAMS[0])) == []
        log.append(STREAMS[0], [Draft("y", 1, "{}")], expected_seq=0)
        assert [event.kind for event in log.events(STREAMS[0])] == ["y"]


def test_any_log_works_out_a_late_body_at_once() -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        log = Log(db, [], clock=VirtualClock(5))
        (event,) = log.append(STREAMS[0], [LateDraft("x", 1, "late", finish=lambda: "{}")], expected_seq=0)
        assert event.body == "{}" and list(log.events(STREAMS[0])) == [event]
