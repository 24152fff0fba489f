"""A log that is alone knows without asking what its tables say."""

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.log import Draft, Log, Stream
from tapebook.log.sole import SoleLog
from tapebook.log.store import MIGRATIONS

STREAMS = [Stream("o", "a"), Stream("o", "b"), Stream("o")]
SETS = [frozenset("x"), frozenset("xy"), frozenset("z")]
KINDS = st.lists(st.sampled_from("xyzw"), min_size=1, max_size=3)
STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), KINDS | st.sampled_from(SETS)), max_size=20)


@given(STEPS)
def test_what_changed_last_is_what_the_table_says(steps: list[tuple[Stream, list[str] | frozenset[str]]]) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        sole, plain = SoleLog(db, [], clock=VirtualClock(5)), Log(db, [], clock=VirtualClock(5))
        for stream, what in steps:
            if isinstance(what, list):
                sole.append(stream, [Draft(kind, 1, "{}") for kind in what], expected_seq=plain.head(stream).seq)
            else:
                found = plain.newest_of_kinds(stream)
                assert sole.changed(stream, what) == max(found.get(kind, 0) for kind in what)
            assert sole.head(stream) == plain.head(stream)
