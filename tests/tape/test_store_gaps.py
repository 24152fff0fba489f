"""Gaps are versions: what was known of one at a moment stays what is read of that moment, whatever comes later."""

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.db.database import _migration_files
from tapebook.domain.market import Gap
from tapebook.domain.units import HOUR, MINUTE
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import NO_WATERMARK, RecordedGap
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql
from tests.matrix import examples

NOON = 500_000 * HOUR
EMPTY = "DELETE FROM tape_commits; DELETE FROM tape_gaps;"


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database without tables, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        yield opened


@pytest.fixture
def db(empty: Database) -> Database:
    """A database with the tape's tables."""
    migrate(empty, (MIGRATIONS,))
    return empty


def gap(begins: int, ends: int, *, channel: str = "mids", reason: str = "no frame") -> Gap:
    """A gap between two minutes after noon."""
    return Gap("hyperliquid", channel, "*", NOON + begins * MINUTE, NOON + ends * MINUTE, reason)


def test_a_gap_that_grows_and_is_filled_is_read_as_it_was_known(db: Database) -> None:
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    commits: list[tuple[list[Gap], list[Gap]]] = [
        ([gap(0, 1)], []),
        ([gap(0, 3, reason="still no frame")], []),
        ([gap(0, 3)], [gap(7, 8)]),
        ([], [gap(0, 3)]),
        ([], [gap(0, 3)]),
        ([gap(0, 5)], []),
    ]
    counts = []
    for step, (noted, filled) in enumerate(commits):
        clock.advance(NOON + step)
        tape.commit([], gaps=noted, filled=filled)
        counts.append(tape.gap_count())
    assert counts == [1, 1, 1, 0, 0, 1]
    assert tape.head()[0] == 4, "what says nothing new is no commit"
    # The reason and the moment of finding are those of the beginning; what grew after it was filled is open again.
    told = [[(each.gap, each.found_at, each.filled_at) for each in tape.gaps(as_of=NOON + n)] for n in range(-1, 6)]
    first, longer, longest = (gap(0, end) for end in (1, 3, 5))
    over = (longer, NOON, NOON + 3)
    open_again = (longest, NOON, None)
    assert told == [[], [(first, NOON, None)], *[[(longer, NOON, None)]] * 2, *[[over]] * 2, [open_again]]


def test_what_is_said_twice_in_one_commit_is_one_version(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    tape.commit([], gaps=[gap(0, 1), gap(0, 2), gap(0, 1)], filled=[gap(0, 9)])
    assert tape.gaps(as_of=NOON) == [RecordedGap(gap(0, 2), NOON, NOON)]
    assert db.all(sql("SELECT COUNT(*) FROM tape_gaps"))[0][0] == 1 and tape.gap_count() == 0


# Few places, so that gaps are noted again, grow, are filled, and are filled before they are there.
GAPS = st.builds(gap, st.integers(0, 2), st.integers(3, 6), channel=st.sampled_from(["mids", "books"]))
COMMITS = st.lists(
    st.tuples(st.integers(0, 3), st.lists(GAPS, max_size=3), st.lists(GAPS, max_size=2)), min_size=1, max_size=10
)


def test_reads_of_the_past_equal_what_was_read_then(db: Database) -> None:
    @settings(max_examples=examples(60) if "SQLite" in db.description else 20)
    @given(COMMITS)
    def check(commits: list[tuple[int, list[Gap], list[Gap]]]) -> None:
        db.execute_script(EMPTY)
        clock = VirtualClock(NOON)
        tape, naive = Tape(db, clock=clock), NaiveGaps()
        live: dict[int, list[RecordedGap]] = {}
        for pause, noted, filled in commits:
            clock.advance(clock.now() + pause)
            before = tape.head()
            tape.commit([], gaps=noted, filled=filled)
            changed = naive.commit(noted, filled, at=tape.head()[1])
            assert changed == (tape.head() != before)
            live[tape.head()[1]] = tape.gaps(as_of=tape.head()[1])
            assert live[tape.head()[1]] == naive.known()
            assert tape.gap_count() == sum(each.filled_at is None for each in naive.known())
        for known_at, seen in live.items():
            assert tape.gaps(as_of=known_at) == seen
        assert tape.gaps(as_of=NO_WATERMARK) == naive.known()
        assert tape.gaps(as_of=NO_WATERMARK, most=1) == naive.known()[:1]

    check()


class NaiveGaps:
    """The gaps of now as a dictionary that is overwritten."""

    def __init__(self) -> None:
        self._gaps: dict[tuple[int, str], RecordedGap] = {}

    def commit(self, noted: list[Gap], filled: list[Gap], *, at: int) -> bool:
        """Takes a commit; whether it said anything new."""
        before = dict(self._gaps)
        for one in noted:
            known = self._gaps.get((one.from_ts, one.channel))
            if known is None or one.to_ts > known.gap.to_ts:
                found_at = known.found_at if known else at
                self._gaps[one.from_ts, one.channel] = RecordedGap(one, found_at, None)
        for one in filled:
            touched = [each for each in self.known() if each.filled_at is None and _touches(each.gap, one)]
            for each in touched:
                self._split(each, one, at=at)
        return before != self._gaps

    def _split(self, known: RecordedGap, filled: Gap, *, at: int) -> None:
        cut = msgspec.structs.replace
        begins, ends = max(known.gap.from_ts, filled.from_ts), min(known.gap.to_ts, filled.to_ts)
        if known.gap.from_ts < begins:
            before = cut(known.gap, to_ts=begins)
            self._gaps[before.from_ts, before.channel] = RecordedGap(before, known.found_at, None)
        there = self._gaps.get((ends, known.gap.channel))
        if ends < known.gap.to_ts and not (there and there.filled_at is None and there.gap.to_ts >= known.gap.to_ts):
            after = cut(known.gap, from_ts=ends)
            found_at = min(known.found_at, there.found_at) if there and there.filled_at is None else known.found_at
            self._gaps[ends, after.channel] = RecordedGap(after, found_at, None)
        part = cut(known.gap, from_ts=begins, to_ts=ends)
        self._gaps[begins, part.channel] = RecordedGap(part, known.found_at, at)

    def known(self) -> list[RecordedGap]:
        """All of them, oldest first."""
        return [self._gaps[place] for place in sorted(self._gaps)]


def _touches(gap: Gap, other: Gap) -> bool:
    return gap.channel == other.channel and gap.from_ts < other.to_ts and other.from_ts < gap.to_ts


def test_a_gap_that_is_filled_in_part_is_split_and_the_rest_stays_open(db: Database) -> None:
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    tape.commit([], gaps=[gap(0, 6, channel="candles")])
    clock.advance(NOON + 10)
    tape.commit([], filled=[gap(1, 2, channel="candles"), gap(4, 9, channel="candles")])
    parts = [gap(*bounds, channel="candles") for bounds in ((0, 1), (1, 2), (2, 4), (4, 6))]
    filled = [None, NOON + 10, None, NOON + 10]
    found = [RecordedGap(part, NOON, at) for part, at in zip(parts, filled, strict=True)]
    assert tape.gaps(as_of=NOON + 10) == found == tape.channel_gaps("candles", since=NOON, as_of=NOON + 10)
    assert tape.gaps(as_of=NOON) == [RecordedGap(gap(0, 6, channel="candles"), NOON, None)], "as it was known then"
    assert tape.gaps(as_of=NOON + 10, after=tape.head()[0]) == []
    assert tape.gap_count() == 2 and tape.filled_gap_count() == 2


def test_gaps_recorded_before_they_were_versions_are_kept(empty: Database) -> None:
    scripts = dict(_migration_files(MIGRATIONS))
    empty.execute_script(scripts["0001_tape.sql"])
    columns = "source, channel, subject, from_ts, to_ts, reason, found_at, found_seq, filled_at, filled_seq"
    rows = ["'h', 'mids', '*', 0, 9, 'a', 100, 1, NULL, NULL", "'h', 'books', '*', 5, 9, 'b', 100, 1, 200, 4"]
    rows.append("'h', 'mids', '*', 20, 30, 'c', 200, 4, 200, 4")
    for row in rows:
        empty.execute_script(f"INSERT INTO tape_gaps ({columns}) VALUES ({row})")
    empty.execute_script(scripts["0002_gap_versions.sql"])
    tape = Tape(empty, clock=VirtualClock(NOON))
    one, two, three = (
        Gap("h", "mids", "*", 0, 9, "a"),
        Gap("h", "books", "*", 5, 9, "b"),
        Gap("h", "mids", "*", 20, 30, "c"),
    )
    assert tape.gaps(as_of=99) == []
    assert tape.gaps(as_of=199) == [RecordedGap(one, 100, None), RecordedGap(two, 100, None)]
    filled = [RecordedGap(two, 100, 200), RecordedGap(three, 200, 200)]
    assert tape.gaps(as_of=200) == [RecordedGap(one, 100, None), *filled]
    assert tape.gap_count() == 1
