"""A log that is alone knows without asking what its tables say."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.db.buffered import BufferedDatabase
from tapebook.errors import StaleWriter
from tapebook.log import Draft, Event, Log, Stream
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import MIGRATIONS

STREAMS = [Stream("o", "a"), Stream("o", "b"), Stream("o")]
SETS = [frozenset("x"), frozenset("xy"), frozenset("z")]
KINDS = st.lists(st.sampled_from("xyzw"), min_size=1, max_size=3)
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
