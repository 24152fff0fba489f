"""The tape: commits in order, rows that are never rewritten, and reads that see what was known and no more."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.clock import VirtualClock
from tapebook.db import Database, Query, Row, connect, migrate
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, Mid, MidFrame, Observation
from tapebook.domain.units import E8, HOUR, MINUTE
from tapebook.tape.families import KnownAt
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import NO_WATERMARK, View
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.matrix import examples
from tests.tape.naive import NaiveTape

NOON = 500_000 * HOUR
# Any, since a type variable cannot stand for "one of these".
FAMILIES: tuple[Any, ...] = (Mid, Liquidity, AssetContext, FundingRate)
EMPTY = """
DELETE FROM tape_commits;
DELETE FROM hyperliquid_mid_prices;
DELETE FROM hyperliquid_candles;
DELETE FROM hyperliquid_liquidity_profiles;
DELETE FROM hyperliquid_asset_contexts;
DELETE FROM hyperliquid_funding_rates;
DELETE FROM tape_channels;
DELETE FROM tape_symbols;
"""


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tape's tables, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (MIGRATIONS,))
        yield opened


def mid(minutes: float, price: int = 100, symbol: str = "BTC") -> Mid:
    """A midpoint so many minutes after noon."""
    return Mid(symbol, NOON + round(minutes * MINUTE), price * E8)


def bar(minutes: int, close: int = 100, *, seconds: int = 60) -> Candle:
    """A bar that begins so many minutes after noon."""
    return Candle("BTC", seconds, NOON + minutes * MINUTE, E8, E8, E8, close * E8, 1.5, 150.0, 3)


def test_empty_tape(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    assert (tape.head(), tape.rows_written(), tape.first_known_at(), tape.symbols()) == ((0, 0), 0, 0, [])
    assert (tape.channels(), tape.gaps(as_of=NOON), tape.gap_count()) == ([], [], 0)
    assert tape.newest(Mid, "BTC", view=View(NOON)) is None
    assert tape.facts(Mid, "BTC", since=0, until=NOON, view=View(NOON)) == []
    assert tape.candles("BTC", granularity_sec=60, since=0, view=View(NOON)) == []


def test_commits_count_up_even_when_the_clock_stands_still(db: Database) -> None:
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    seen: list[tuple[int, int]] = []
    for to in (NOON, NOON, NOON, NOON + 1, NOON + 2, NOON + 10, NOON + 10):
        clock.advance(to)
        assert tape.commit([mid(len(seen))]) == len(seen) + 1
        seen.append(tape.head())
    assert [seq for seq, _ in seen] == [1, 2, 3, 4, 5, 6, 7]
    # The clock is followed as soon as it is ahead again.
    assert [known_at - NOON for _, known_at in seen] == [0, 1, 2, 3, 4, 10, 11]
    assert tape.first_known_at() == NOON


def test_commit_is_all_or_nothing(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    with pytest.raises(KeyError):
        tape.commit([mid(0), "not a fact"])  # type: ignore[list-item]
    assert (tape.head(), tape.rows_written()) == ((0, 0), 0)
    assert tape.commit([mid(0)]) == 1


def test_rows_are_counted_when_they_say_something_new(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    counts = []
    commits: list[list[Observation]] = [
        [mid(0), mid(0), mid(1)],
        [mid(0)],
        [mid(0, 101)],
        [mid(0, 100), bar(0)],
        [bar(0)],
        [bar(0, 9)],
    ]
    for facts in commits:
        tape.commit(facts)
        counts.append(tape.rows_written())
    # A repetition is none, a correction is one, and so is taking it back.
    assert counts == [2, 2, 3, 5, 5, 6]


def test_late_correction_is_not_seen_by_who_looked_before(db: Database) -> None:
    clock = VirtualClock(NOON + 3 * MINUTE)
    tape = Tape(db, clock=clock)
    tape.commit([bar(0), bar(1), bar(2)])
    before = View(NOON + 5 * MINUTE, tape.head()[0])
    clock.advance(NOON + 4 * MINUTE)
    tape.commit([bar(1, close=77)])

    def closes(view: View) -> list[int]:
        return [each.close_e8 // E8 for each in tape.candles("BTC", granularity_sec=60, since=NOON, view=view)]

    assert closes(before) == [100, 100, 100]
    assert closes(View(NOON + 4 * MINUTE - 1)) == [100, 100, 100]
    assert closes(View(NOON + 4 * MINUTE)) == [100, 77, 100]


@pytest.mark.parametrize("seconds", [60, 300])
def test_bar_is_not_seen_before_its_end(db: Database, seconds: int) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    tape.commit([bar(0, seconds=seconds)])
    end = NOON + seconds * 1_000
    assert tape.candles("BTC", granularity_sec=seconds, since=NOON, view=View(end - 1)) == []
    assert tape.candles("BTC", granularity_sec=seconds, since=NOON, view=View(end)) == [bar(0, seconds=seconds)]
    assert tape.candles("BTC", granularity_sec=seconds, since=NOON + 1, view=View(end)) == []
    assert tape.candles("BTC", granularity_sec=seconds + 1, since=NOON, view=View(end)) == []


def test_settled_rate_of_one_hour(db: Database) -> None:
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    tape.commit([FundingRate("BTC", NOON, 1, 0), FundingRate("ETH", NOON, 9, 0)])
    clock.advance(NOON + HOUR)
    tape.commit([FundingRate("BTC", NOON + HOUR, 2, 0), FundingRate("BTC", NOON, 3, 0)])

    def rate(hour: int, view: View) -> int | None:
        found = tape.funding_at("BTC", hour=hour, view=view)
        return None if found is None else found.rate_e12

    now = View(NOON + HOUR)
    assert [rate(NOON + hours * HOUR, now) for hours in (-1, 0, 1, 2)] == [None, 3, 2, None]
    assert rate(NOON, View(NOON + HOUR - 1)) == rate(NOON, View(NOON + HOUR, 1)) == 1
    assert rate(NOON + HOUR, View(NOON + HOUR, 1)) is None


def test_symbols_are_all_the_tape_has_heard_of(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    names = ["kPEPE", "BTC", "ETH", "xyz:GOLD"]
    tape.commit([Candle(name, 60, NOON + step, 1, 1, 1, 1, 0.0, 0.0, 0) for name in names for step in (0, 60_000)])
    tape.commit([mid(0, symbol="SOL")])
    assert tape.symbols() == ["BTC", "ETH", "SOL", "kPEPE", "xyz:GOLD"]


def test_extreme_values_come_back_as_they_went_in(db: Database) -> None:
    tape = Tape(db, clock=VirtualClock(NOON))
    most = 2**63 - 1
    facts: list[Observation] = [
        Mid("é→", NOON, most),
        Candle("é→", 60, NOON - HOUR, 1, most, 0, 1, 1e308, 5e-324, most),
        Liquidity("é→", NOON, 1, 0.1 + 0.2, 1e300, 0.0, 123456.789, -1.0),
        AssetContext("é→", NOON, -most, most, 1e15, 1, 1),
        FundingRate("é→", NOON, -most, 0),
    ]
    tape.commit(facts)
    tape.commit(facts)
    found: list[Observation | None] = [tape.newest(family, "é→", view=View(NOON + HOUR)) for family in FAMILIES]
    assert found == [fact for fact in facts if not isinstance(fact, Candle)]
    assert tape.candles("é→", granularity_sec=60, since=0, view=View(NOON)) == [facts[1]]
    assert tape.rows_written() == len(facts)


# Few places and few values: repetitions, corrections, corrections taken back and late rows all come about.
SYMBOLS = st.sampled_from(["BTC", "ETH"])
BUCKETS = st.integers(0, 6).map(lambda step: NOON + step * MINUTE)
VALUES = st.sampled_from([1, 2])
FLOATS = st.sampled_from([0.5, 2.0])
FACTS: st.SearchStrategy[Observation] = st.one_of(
    st.builds(Mid, SYMBOLS, BUCKETS, VALUES),
    st.builds(
        Candle, SYMBOLS, st.sampled_from([60, 120]), BUCKETS, VALUES, VALUES, VALUES, VALUES, FLOATS, FLOATS, VALUES
    ),
    st.builds(Liquidity, SYMBOLS, BUCKETS, VALUES, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS),
    st.builds(AssetContext, SYMBOLS, BUCKETS, VALUES, VALUES, FLOATS, VALUES, VALUES),
    st.builds(FundingRate, SYMBOLS, BUCKETS, VALUES, VALUES),
)
COMMITS = st.lists(st.tuples(st.integers(0, 2 * MINUTE), st.lists(FACTS, max_size=8)), min_size=1, max_size=8)


def test_reads_as_of_any_moment_and_commit(db: Database) -> None:
    @settings(max_examples=examples(60 if "SQLite" in db.description else 25))
    @given(COMMITS, st.data())
    def check(commits: list[tuple[int, list[Observation]]], data: st.DataObject) -> None:
        db.execute_script(EMPTY)
        clock = VirtualClock(NOON)
        tape, naive, written = Tape(db, clock=clock), NaiveTape(), 0
        for pause, facts in commits:
            clock.advance(clock.now() + pause)
            seq = tape.commit(facts)
            written += naive.commit(facts, seq=seq, known_at=tape.head()[1])
        assert tape.rows_written() == written
        moments = st.sampled_from([known_at for _, known_at in naive.commits]) | BUCKETS
        for _ in range(4):
            as_of = data.draw(moments) + data.draw(st.sampled_from([-1, 0, 1]))
            watermark = data.draw(st.sampled_from([*range(len(commits) + 1), NO_WATERMARK]))
            check_view(tape, naive, View(as_of, watermark), since=data.draw(BUCKETS))

    check()


def check_view(tape: Tape, naive: NaiveTape, view: View, *, since: int) -> None:
    """Every read of the tape equals the naive one."""
    for symbol in ("BTC", "ETH"):
        for family in FAMILIES:
            assert tape.newest(family, symbol, view=view) == naive.newest(family, symbol, view=view)
        until = since + 3 * MINUTE
        found = tape.facts(Mid, symbol, since=since, until=until, view=view)
        assert found == naive.mids(symbol, since=since, until=until, view=view)
        for seconds in (60, 120):
            bars = tape.candles(symbol, granularity_sec=seconds, since=since, view=view)
            assert bars == naive.candles(symbol, granularity_sec=seconds, since=since, view=view)
            assert all(each.end <= view.as_of for each in bars)


FRAMES = st.builds(
    lambda bucket, prices: MidFrame(bucket, tuple(prices), tuple(prices.values())),
    BUCKETS,
    st.dictionaries(st.sampled_from(["BTC", "ETH", "SOL"]), VALUES, max_size=3),
)
ANY_MIDS = st.lists(FRAMES | st.builds(Mid, SYMBOLS, BUCKETS, VALUES) | FACTS, max_size=6)


def test_a_frame_of_midpoints_is_written_as_its_midpoints_would_be(db: Database) -> None:
    """Alone, among other facts, again, and differing from what is there; every row to its revision and times."""
    tables = ("hyperliquid_mid_prices", "tape_commits", "tape_channels", "tape_symbols")

    def written(commits: list[list[Observation | MidFrame]], assumed: KnownAt | None) -> list[list[Row]]:
        db.execute_script(EMPTY)
        clock = VirtualClock(NOON)
        tape = Tape(db, clock=clock)
        for number, facts in enumerate(commits):
            clock.advance(NOON + number * MINUTE)
            tape.commit(facts, assumed=assumed)
        return [sorted(db.all(Query.whole_table(table))) for table in tables]

    @settings(max_examples=examples(60) if "SQLite" in db.description else 20)
    @given(st.lists(ANY_MIDS, max_size=4), st.booleans())
    def check(commits: list[list[Observation | MidFrame]], imported: bool) -> None:
        assumed = (lambda fact: fact.bucket_ts + len(fact.symbol)) if imported else None
        singles: list[list[Observation | MidFrame]] = [
            [single for fact in facts for single in (fact if isinstance(fact, MidFrame) else [fact])]
            for facts in commits
        ]
        assert written(commits, assumed) == written(singles, assumed)

    check()


def test_what_comes_later_changes_nothing_that_was_seen(db: Database) -> None:
    @settings(max_examples=examples(20) if "SQLite" in db.description else 8)
    @given(COMMITS, COMMITS)
    def check(first: list[tuple[int, list[Observation]]], later: list[tuple[int, list[Observation]]]) -> None:
        db.execute_script(EMPTY)
        clock = VirtualClock(NOON)
        tape = Tape(db, clock=clock)
        for pause, facts in first:
            clock.advance(clock.now() + pause)
            tape.commit(facts)
        seq, known_at = tape.head()
        by_commit, by_time = View(NOON + HOUR, seq), View(known_at)
        seen = everything(tape, by_commit), everything(tape, by_time)
        for pause, facts in later:
            clock.advance(clock.now() + pause)
            tape.commit(facts)
        assert (everything(tape, by_commit), everything(tape, by_time)) == seen

    check()


def everything(tape: Tape, view: View) -> list[object]:
    """All that can be read under a view."""
    found: list[object] = []
    for symbol in ("BTC", "ETH"):
        found += [tape.newest(family, symbol, view=view) for family in FAMILIES]
        found += tape.facts(Mid, symbol, since=0, until=NOON + HOUR, view=view)
        found += tape.candles(symbol, granularity_sec=60, since=0, view=view)
    return found


def test_known_rows_are_every_revision_that_a_view_sees(db: Database) -> None:
    """In which commit they came is left out, so that two tapes with the same rows give the same."""
    clock = VirtualClock(NOON)
    tape = Tape(db, clock=clock)
    tape.commit([bar(-30), bar(-20, seconds=300), mid(-1, symbol="ETH")])
    clock.advance(NOON + MINUTE)
    tape.commit([bar(-30, 101), mid(0)])

    def rows(since: int, view: View) -> dict[tuple[str, int], list[tuple[int, int]]]:
        found = tape.known_rows("BTC", since=since, view=view)
        return {(table, length): [(row[1], row[-1]) for row in each] for table, length, each in found if each}

    minutes, fives = ("hyperliquid_candles", 60), ("hyperliquid_candles", 300)
    begun = [NOON - 30 * MINUTE, NOON - 20 * MINUTE]
    early = {minutes: [(begun[0], NOON)], fives: [(begun[1], NOON)]}
    assert rows(0, View(NOON)) == rows(0, View(NOON + HOUR, watermark=1)) == early
    later = rows(0, View(NOON + HOUR))
    assert later[minutes] == [(begun[0], NOON), (begun[0], NOON + MINUTE)]
    assert list(later) == [("hyperliquid_mid_prices", 0), minutes, fives]
    assert minutes not in rows(begun[0] + 1, View(NOON + HOUR))
    assert list(tape.known_rows("SOL", since=0, view=View(NOON + HOUR))) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-30, 30), st.integers(-30, 30)), max_size=12))
def test_a_part_of_the_bars_read_last_is_what_a_tape_that_read_nothing_gives(
    steps: list[tuple[int, int, int]],
) -> None:
    with closing(connect(":memory:", durable=False)) as db:
        migrate(db, (MIGRATIONS,))
        tape, known = Tape(db, clock=(clock := VirtualClock(NOON))), View(NOON + HOUR, 0)
        for kind, first, last in steps:
            if kind < 3:
                # Bars that come later, corrections of what was read among them, and a view that sees them.
                clock.advance(clock.now() + 1)
                tape.commit([bar(minute, close=last + 99) for minute in range(first, first + 5)])
            if kind in (0, 3):
                known = View(NOON + HOUR, tape.head()[0] + (kind == 3))
            where: Any = {"since": NOON + first * MINUTE, "until": NOON + last * MINUTE, "view": known}
            fresh = Tape(db, clock=clock)
            for seconds in (60, 300):
                assert tape.candles("BTC", granularity_sec=seconds, **where) == fresh.candles(
                    "BTC", granularity_sec=seconds, **where
                )
