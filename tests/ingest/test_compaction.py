"""The hour's work: a little at a time says the same as all at once, and decisions still replay after rows have left."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.archive import put_cold
from tapebook.clock import VirtualClock
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.errors import StoreFailed
from tapebook.history.importer import assumed_known_at
from tapebook.home import DEMO_START
from tapebook.ingest.compaction import Compaction, Watchlists, retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.tape.families import ALL_FAMILIES, CANDLES
from tapebook.tape.retention import retire_rows
from tapebook.tape.seals import UnsealedCounts, check_tape
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tests.db.places import sql
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER, SYMBOLS
from tests.ingest.test_ingest import FULL, broken

OTHER = "NOBODY"


@pytest.fixture
def clock() -> VirtualClock:
    """A little before four in the morning."""
    return VirtualClock(BORN + 4 * HOUR - 1)


@pytest.fixture
def rooms(tmp_path: Path, clock: VirtualClock) -> Iterator[Rooms]:
    """A home with three hours of bars and midpoints, one symbol of which nobody watches."""
    opened = Rooms(weather.make_home(tmp_path / "home", candles_hours=1.0), clock=clock)
    for symbol in (*SYMBOLS, OTHER):
        minutes = range(BORN + HOUR, BORN + 4 * HOUR, MINUTE)
        opened.tape.commit([Candle(symbol, 60, at, 500, 900, 100, 300 + at % 97, 1.0, 2.0, 3) for at in minutes])
        opened.tape.commit([Mid(symbol, at, at % 89) for at in minutes])
    yield opened
    opened.close()


def hours(rooms: Rooms) -> dict[str, list[Candle]]:
    found = (rooms.tape.candles(symbol, granularity_sec=3600, since=0, view=View(FOREVER)) for symbol in SYMBOLS)
    return dict(zip(SYMBOLS, found, strict=True))


def rows(rooms: Rooms) -> int:
    return sum(int(rooms.tape_db.all(sql(f"SELECT COUNT(*) FROM {family.table}"))[0][0]) for family in ALL_FAMILIES)


def test_nothing_is_due_before_the_hour_and_its_delay_are_over(rooms: Rooms, clock: VirtualClock) -> None:
    tidy = Compaction(rooms, keep=retention_by_channel(rooms.config))
    assert not tidy.is_due()
    clock.advance(BORN + 4 * HOUR + MINUTE - 1)
    assert not tidy.is_due()
    clock.advance(BORN + 4 * HOUR + MINUTE)
    assert tidy.is_due()
    tidy.do_due_work(at_once=None)
    assert not tidy.is_due() and all(len(bars) == 3 for bars in hours(rooms).values())


def test_two_symbols_or_one_chunk_at_a_time(rooms: Rooms, clock: VirtualClock) -> None:
    before = weather.digest(rooms.tape, as_of=clock.now())
    clock.advance(BORN + 4 * HOUR + MINUTE)
    tidy = Compaction(rooms, keep=retention_by_channel(rooms.config))
    clock.advance(BORN + 5 * HOUR + MINUTE)
    assert tidy.is_due()
    rolled, moved = [], []
    for _ in range(4):
        tidy.do_due_work(at_once=2)
        rolled.append(sum(map(bool, hours(rooms).values())))
    assert rolled == [2, 4, 5, 6], "in the order of names, nobody's symbol among them"
    while tidy.is_due():
        left = rows(rooms)
        tidy.do_due_work(at_once=2)
        moved.append(left - rows(rooms))
        # Reading everything back takes a second.
        if len(moved) % 40 == 0 or not tidy.is_due():
            assert weather.digest(rooms.tape, as_of=BORN + 4 * HOUR - 1) == before
    assert max(moved) == 7 * CANDLES.span_ms // MINUTE and sum(moved) > 1_000, "one chunk of all symbols"
    assert rooms.tape.facts(Mid, OTHER, since=0, until=FOREVER, view=View(FOREVER)) == []
    assert len(rooms.tape.facts(Mid, "BTC", since=0, until=FOREVER, view=View(FOREVER))) == 180


@pytest.mark.parametrize(("at_once", "least"), [(None, 1), (2, 3)], ids=["in virtual time", "live"])
def test_what_a_full_disk_refused_is_done_afterwards(
    rooms: Rooms, clock: VirtualClock, at_once: int | None, least: int
) -> None:
    # Live, a thread moves old rows.
    tidy, refused = Compaction(rooms, keep=None if at_once else retention_by_channel(rooms.config)), 0
    clock.advance(BORN + 4 * HOUR + MINUTE)
    while tidy.is_due():
        before = rows(rooms), rooms.tape.head()
        with broken(rooms, FULL):
            try:
                tidy.do_due_work(at_once=at_once)
            except StoreFailed:
                refused += 1
                assert (rows(rooms), rooms.tape.head()) == before and tidy.is_due()
        tidy.do_due_work(at_once=at_once)
    assert refused >= least and all(len(bars) == 3 for bars in hours(rooms).values())


def tidied(rooms: Rooms, clock: VirtualClock, at: int) -> None:
    """A process of its own does the work of an hour."""
    tidy = Compaction(rooms, keep=retention_by_channel(rooms.config))
    clock.advance(at)
    assert tidy.is_due()
    tidy.do_due_work(at_once=None)


@pytest.mark.parametrize("later", [2 * HOUR, 30 * HOUR, 20 * DAY], ids=["today", "tomorrow", "when all rows have left"])
@pytest.mark.parametrize("killed", [False, True])
def test_a_late_minute_reaches_its_stored_hour(rooms: Rooms, clock: VirtualClock, later: int, killed: bool) -> None:
    hour = BORN + 2 * HOUR
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    tidied(rooms, clock, BORN + 4 * HOUR + later + MINUTE)
    before, then = hours(rooms), clock.now()
    assert [bar.high_e8 for bar in before["BTC"]] == [900] * 3 and not rooms.tape.unrolled_hours(before=FOREVER)
    corrected = Candle("BTC", 60, hour + 7 * MINUTE, 500, 1_200, 100, 300, 2.0, 2.0, 5)
    late = Candle("ETH", 60, hour + 90 * MINUTE, 1, 901, 1, 1, 1.0, 1.0, 1)
    rooms.tape.commit([corrected, late])
    if killed:
        # What came late is remembered by the tape, not by a process; the next one starts hours after.
        clock.advance(clock.now() + 5 * HOUR)
    tidied(rooms, clock, clock.now() + HOUR)
    after = hours(rooms)
    assert [bar.high_e8 for bar in after["BTC"]] == [900, 1_200, 900]
    assert after["BTC"][1].volume_base == 61.0 and after["BTC"][1].sample_count == 182
    assert [bar.high_e8 for bar in after["ETH"]] == [900, 900, 901]
    known = rooms.tape.head()[1]
    views = [View(known - 1), View(known)]
    as_of = [rooms.tape.candles("BTC", granularity_sec=3600, since=0, view=view) for view in views]
    assert as_of == [before["BTC"], after["BTC"]] and known == clock.now(), "known when it was made anew"
    others = [symbol for symbol in SYMBOLS if symbol not in ("BTC", "ETH")]
    assert [after[symbol] for symbol in others] == [before[symbol] for symbol in others]
    was = rooms.tape.candles("BTC", granularity_sec=3600, since=0, view=View(then))
    assert was == before["BTC"], "the past is read as it was known"
    head = rooms.tape.head()
    tidied(rooms, clock, clock.now() + HOUR)
    assert rooms.tape.head() == head, "and once"


def test_hours_of_a_long_outage_are_stored_when_their_minutes_come(rooms: Rooms, clock: VirtualClock) -> None:
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    clock.advance(BORN + 60 * HOUR)
    minutes = range(BORN + 4 * HOUR, BORN + 60 * HOUR, MINUTE)
    rooms.tape.commit([Candle("BTC", 60, at, 500, 900, 100, 300, 1.0, 2.0, 3) for at in minutes])
    tidied(rooms, clock, BORN + 60 * HOUR + MINUTE)
    assert len(hours(rooms)["BTC"]) == 59 and len(hours(rooms)["ETH"]) == 3


def test_imported_minutes_correct_a_stored_hour_and_store_no_other(rooms: Rooms, clock: VirtualClock) -> None:
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    old = [Candle("BTC", 60, BORN + at * MINUTE, 500, 900, 100, 300, 1.0, 2.0, 3) for at in range(60)]
    new = Candle("BTC", 60, BORN + 2 * HOUR, 500, 1_500, 100, 300, 1.0, 2.0, 3)
    rooms.tape.commit([*old, new], assumed=assumed_known_at)
    tidied(rooms, clock, BORN + 5 * HOUR + MINUTE)
    assert [bar.high_e8 for bar in hours(rooms)["BTC"]] == [900, 1_500, 900]


def test_features_and_the_hour_take_turns(rooms: Rooms, clock: VirtualClock) -> None:
    ingester = Ingester(rooms, FactBuffer(), keep=retention_by_channel(rooms.config))
    clock.advance(BORN + 4 * HOUR + MINUTE)
    features = sql("SELECT COUNT(*) FROM hyperliquid_volatility_profiles")
    seen = []
    for _ in range(6):
        ingester.do_due_work(at_once=2)
        seen.append((rooms.tape_db.all(features)[0][0], sum(map(bool, hours(rooms).values()))))
    assert seen == [(2, 0), (2, 2), (4, 2), (4, 4), (6, 4), (6, 5)]


def test_every_decision_replays_after_all_rows_have_left(tmp_path: Path, demo_minutes: Path) -> None:
    home = shutil.copytree(demo_minutes, tmp_path / "home")
    rooms = Rooms(home, clock=VirtualClock(DEMO_START + 24 * HOUR))
    try:
        agents, put = Watchlists(rooms.book), partial(put_cold, rooms.archive)
        nothing = dict.fromkeys(retention_by_channel(rooms.config), 0)
        moved = retire_rows(rooms.tape_db, put, keep=nothing, now=rooms.clock.now(), watched=agents.symbols)
        assert moved > 1_000 and rows(rooms) == 0
    finally:
        rooms.close()
    with app.open(home) as book:
        report = book.replay()
    assert report.checked > 10 and report.equal == report.checked


def bar(symbol: str, at: int, high: int = 900) -> Candle:
    return Candle(symbol, 60, at, 500, high, 100, 300, 1.0, 2.0, 3)


def is_whole(rooms: Rooms) -> bool:
    counts = UnsealedCounts()
    return not list(check_tape(rooms.tape_db, anchored={}, counts=counts, progress=lambda table, rows: None))


def test_a_running_hour_is_marked_and_sealed_once(rooms: Rooms, clock: VirtualClock) -> None:
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    marks, written = sql("SELECT symbol_id, hour_ts, seq FROM tape_unrolled_hours ORDER BY symbol_id"), []
    seal = sql("SELECT rows_sealed, digest FROM tape_seals WHERE table_name = 'tape_unrolled_hours'")
    for minute in range(4):
        clock.advance(BORN + (4 * 60 + minute + 1) * MINUTE)
        rooms.tape.commit([bar("BTC", BORN + (4 * 60 + minute) * MINUTE)])
        rooms.tape.commit([bar("ETH", BORN + (4 * 60 + minute) * MINUTE)])
        written.append((rooms.tape_db.all(marks), rooms.tape_db.all(seal)))
    assert len(written[0][0]) == 2 and written == written[:1] * 4 and is_whole(rooms)
    # The bar of its last minute comes when the hour is over: from then on a mark names the newest commit.
    clock.advance(BORN + 5 * HOUR + 1)
    rooms.tape.commit([bar("ETH", BORN + 5 * HOUR - MINUTE)])
    assert rooms.tape_db.all(marks)[1][2] == rooms.tape.head()[0] and is_whole(rooms)
    clock.advance(BORN + 5 * HOUR + MINUTE)
    read = rooms.tape.unrolled_hours(before=BORN + 5 * HOUR)
    rooms.tape.commit([bar("ETH", BORN + 5 * HOUR - 2 * MINUTE)])
    rooms.tape.commit_hours([], rolled=read)
    left = rooms.tape.unrolled_hours(before=FOREVER)
    assert [each.symbol for each in left] == ["ETH"], "what came after the hour was read is not forgotten"
    assert is_whole(rooms)


def test_an_hour_that_another_process_rolled_up_is_marked_again(rooms: Rooms, clock: VirtualClock) -> None:
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    rooms.tape.commit([bar("BTC", BORN + 4 * HOUR)])
    with closing(Rooms(rooms.home, clock=clock)) as other:
        other.tape.commit([bar("ETH", BORN + 4 * HOUR)])
        other.tape.commit_hours([], rolled=other.tape.unrolled_hours(before=FOREVER))
    assert not rooms.tape.unrolled_hours(before=FOREVER)
    rooms.tape.commit([bar("BTC", BORN + 4 * HOUR + MINUTE), bar("ETH", BORN + 4 * HOUR + MINUTE)])
    assert [each.symbol for each in rooms.tape.unrolled_hours(before=FOREVER)] == ["BTC", "ETH"] and is_whole(rooms)


def test_a_mark_of_a_commit_that_failed_is_not_taken_for_written(rooms: Rooms, clock: VirtualClock) -> None:
    tidied(rooms, clock, BORN + 4 * HOUR + MINUTE)
    rooms.tape.commit([bar("BTC", BORN + 4 * HOUR)])
    with broken(rooms, FULL), pytest.raises(StoreFailed):
        rooms.tape.commit([bar("ETH", BORN + 4 * HOUR)])
    rooms.tape.commit([bar("ETH", BORN + 4 * HOUR)])
    assert [each.symbol for each in rooms.tape.unrolled_hours(before=FOREVER)] == ["BTC", "ETH"] and is_whole(rooms)
