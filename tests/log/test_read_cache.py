"""An answer that is kept is the one a new question gets."""

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.log import Draft, Log, ReadCache, Stream
from tapebook.log.single_writer import SingleWriterLog
from tapebook.log.store import MIGRATIONS

NAMES = st.sampled_from(["a", "b", ""])
STEPS = st.lists(st.tuples(NAMES, st.sampled_from("xyz") | st.integers(0, 6)), max_size=25)


@given(STEPS, st.booleans(), st.booleans())
def test_an_answer_is_that_of_its_moment_and_read_once_between_changes(
    steps: list[tuple[str, str | int]], alone: bool, narrowed: bool
) -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (MIGRATIONS,))
        log = (SingleWriterLog if alone else Log)(db, [], clock=VirtualClock(5))
        asked: list[tuple[str, int]] = []
        written: dict[str, list[str]] = {name: [] for name in ("a", "b", "")}

        def read(deployment: str, *, seq: int) -> tuple[str, int]:
            asked.append((deployment, seq))
            kinds = written[deployment][:seq]
            return deployment, max([place for place, kind in enumerate(kinds, 1) if kind != "z"], default=0)

        if narrowed:
            kept = ReadCache(log, "xyz").cached_read(read, owner="o", kinds="xy")
        else:
            kept = ReadCache(log, "xy").cached_read(read, owner="o")
        for name, step in steps:
            stream = Stream("o", name)
            head = log.head(stream).seq
            if isinstance(step, str):
                written[name].append(step)
                log.append(stream, [Draft(step, 1, "{}")], expected_seq=head)
            else:
                assert kept(name, seq=max(0, head - step)) == read(name, seq=max(0, head - step))
        asked.clear()
        for name in ("a", "b", "a", "b"):
            kept(name, seq=log.head(Stream("o", name)).seq)
        assert len(asked) <= 2


def test_without_a_log_nothing_is_kept() -> None:
    asked: list[int] = []

    def read(deployment: str, *, seq: int) -> int:
        asked.append(seq)
        return seq

    kept = ReadCache().cached_read(read, owner="o")
    assert [kept("a", seq=seq) for seq in (3, 3)] == asked == [3, 3]
