"""A market hour through the whole of ingestion in virtual time, and what happens when the disk refuses."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.market import Gap, Mid, MidFrame
from tapebook.domain.units import HOUR, MINUTE, floor_to_step
from tapebook.errors import Busy, StoreFailed
from tapebook.ingest import ingester
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.tape.bars import roll_up
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tapebook.world.server import Faults
from tests.db.places import sql
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER, SYMBOLS

START = BORN + 2 * HOUR
END = START + HOUR + 5 * MINUTE


class Ingested:
    """A home after an hour, and what it said on the way."""

    def __init__(self, folder: Path) -> None:
        # Bars leave after half an hour, so that features are computed from archived rows too.
        self.home = weather.make_home(folder / "home", mids_hours=0.25, candles_hours=0.5)
        self.seen: dict[int, str] = {}
        asyncio.run(self._scene())

    async def _scene(self) -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url, weather.listening(self.home, server, url) as listener:

            def look(at: int) -> None:
                # One step before the hour's end rows have not left that have left two minutes later.
                if at % (10 * MINUTE) in (0, 9 * MINUTE + 55_000):
                    known_at = listener.rooms.tape.head()[1]
                    self.seen[known_at] = weather.digest(listener.rooms.tape, as_of=known_at)

            await listener.play(END, after_step=look)
            self.problems = listener.source.health().problems


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return Ingested(tmp_path_factory.mktemp("ingested"))


@pytest.fixture
def rooms(ingested: Ingested) -> Iterator[Rooms]:
    with weather.opened(ingested.home, at=END) as opened:
        yield opened


def test_every_channel_has_its_rows(ingested: Ingested, rooms: Rooms) -> None:
    minutes, coins = (END - START) // MINUTE, len(SYMBOLS)
    rows = {channel.name: channel.rows for channel in rooms.tape.channels()}
    assert rows["mids"] == coins * (minutes * 12 + 1)
    assert rows["contexts"] == coins * (minutes + 1) and rows["predicted"] == 3 * rows["contexts"] - minutes - 1
    # Every round, and in between what changed enough, at most once a minute.
    assert coins * (minutes // 5 + 1) <= rows["books"] <= coins * (minutes + 1)
    assert rows["funding"] == coins * 3, "the hour before the start, its own, and that of the run"
    assert not ingested.problems and not rooms.tape.gaps(as_of=FOREVER)


def test_features_are_derived_every_five_minutes(rooms: Rooms) -> None:
    wanted = set(range(floor_to_step(START, HOUR) + 10 * MINUTE, END + 1, 5 * MINUTE))
    for table in ("hyperliquid_funding_pressure", "hyperliquid_volatility_profiles"):
        for number in range(1, len(SYMBOLS) + 1):
            query = f"SELECT bucket_ts, known_at FROM {table} WHERE symbol_id = {number}"
            found = rooms.tape_db.all(sql(query))
            assert wanted <= {bucket for bucket, _ in found}
            assert all(bucket <= known_at < bucket + 5_000 for bucket, known_at in found), "derived from the future"


def test_hourly_bars_are_the_minutes_rolled_up(rooms: Rooms) -> None:
    view = View(FOREVER)
    for symbol in SYMBOLS:
        # Of the hour before, the tape knows the end at most: that hour has no bar.
        minutes = rooms.tape.candles(symbol, granularity_sec=60, since=START - HOUR, until=START + HOUR - 1, view=view)
        hours = rooms.tape.candles(symbol, granularity_sec=3600, since=0, view=view)
        assert len(hours) == 2 and hours == roll_up(minutes, granularity_sec=3600)


def test_rows_have_left_and_everything_is_read_as_before(ingested: Ingested, rooms: Rooms) -> None:
    query = "SELECT table_name, SUM(rows_moved) FROM tape_archived GROUP BY table_name"
    moved = {row[0]: row[1] for row in rooms.tape_db.all(sql(query))}
    assert moved["hyperliquid_mid_prices"] > 2_500 and moved["hyperliquid_candles"] > 300
    assert moved["hyperliquid_asset_contexts"] > 60
    left = rooms.tape_db.all(sql("SELECT MIN(bucket_ts) FROM hyperliquid_mid_prices"))[0][0]
    assert END - left < 25 * MINUTE, "a quarter of an hour stays, and what came since the hour"
    assert len(ingested.seen) > 10
    for moment, before in ingested.seen.items():
        assert weather.digest(rooms.tape, as_of=moment) == before


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Rooms]:
    """The rooms of an empty home."""
    home = weather.make_home(tmp_path / "home")
    with weather.opened(home, at=START) as opened:
        yield opened


@contextmanager
def broken(rooms: Rooms, error: Exception) -> Iterator[None]:
    """The tape's disk refuses every commit: the transaction is begun, and its end fails."""
    begin = rooms.tape_db.transaction

    @contextmanager
    def refused() -> Iterator[None]:
        with begin():
            yield
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rooms.tape_db, "transaction", refused)
        yield


FULL = StoreFailed("cannot write tape.db (database or disk is full); make room")
GAP = Gap("hyperliquid", "mids", "*", START - MINUTE, START, "no frame")


def ingester_of(rooms: Rooms, **more: Any) -> tuple[FactBuffer, Ingester]:
    intake = FactBuffer()
    return intake, Ingester(rooms, intake, keep=retention_by_channel(rooms.config), **more)


@pytest.mark.parametrize("error", [FULL, Busy("tape.db is held by another process")])
def test_a_full_disk_keeps_everything_and_a_later_flush_writes_it_in_order(quiet: Rooms, error: Exception) -> None:
    intake, ingester = ingester_of(quiet)
    intake.add_observations([Mid("BTC", START, 10)])
    intake.add_gap(GAP)
    with broken(quiet, error):
        assert ingester.flush() == f"{error} (waiting: 1 fact)"
        intake.add_observations([Mid("BTC", START, 11), Mid("ETH", START, 3)])
        assert ingester.flush() == f"{error} (waiting: 3 facts)"
        assert quiet.tape.head() == (0, 0) and not quiet.tape.gaps(as_of=FOREVER)
    assert ingester.flush() is None and len(intake) == 0
    assert quiet.tape.newest(Mid, "BTC", view=View(START)) == Mid("BTC", START, 11), "the later word was lost"
    assert quiet.tape.newest(Mid, "ETH", view=View(START)) == Mid("ETH", START, 3)
    assert [each.gap for each in quiet.tape.gaps(as_of=FOREVER)] == [GAP]


def test_a_frame_that_waits_counts_by_its_symbols(quiet: Rooms) -> None:
    intake, ingester = ingester_of(quiet)
    intake.add_observations([MidFrame(START, ("BTC", "ETH"), (1, 2)), Mid("SOL", START, 3)])
    with broken(quiet, FULL):
        assert ingester.flush() == f"{FULL} (waiting: 3 facts)"
    assert ingester.flush() is None and len(intake) == 0
    assert quiet.tape.newest(Mid, "ETH", view=View(START)) == Mid("ETH", START, 2)


def test_what_does_not_fit_into_memory_either_is_an_error(quiet: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingester, "MAX_PENDING_FACTS", 1)
    intake, writer = ingester_of(quiet)
    intake.add_observations([Mid("BTC", START, 10), Mid("ETH", START, 2)])
    with broken(quiet, FULL), pytest.raises(StoreFailed, match="disk is full"):
        writer.flush()


def test_the_last_flush_says_what_it_could_not_write(quiet: Rooms) -> None:
    intake, ingester = ingester_of(quiet)
    intake.add_observations([Mid("BTC", START, 10)])
    with broken(quiet, FULL), pytest.raises(StoreFailed, match="disk is full"):
        ingester.close()


def test_what_was_due_while_the_disk_was_full_is_done_afterwards(ingested: Ingested) -> None:
    """A moment and an hour fall due, twice in vain."""
    clock = VirtualClock(END + 5 * MINUTE)
    rooms = Rooms(ingested.home, clock=clock)
    _, ingester = ingester_of(rooms)
    clock.advance(floor_to_step(END, HOUR) + HOUR + 5 * MINUTE)
    with broken(rooms, FULL):
        for _ in range(2):
            with pytest.raises(StoreFailed):
                ingester.do_due_work()
    before = rooms.tape.head()[0]
    ingester.do_due_work()
    assert rooms.tape.head()[0] > before
    after = rooms.tape.head()
    ingester.do_due_work()
    assert rooms.tape.head() == after, "what is done is not done again"
    rooms.close()


def test_features_can_be_derived_a_few_symbols_at_a_time(ingested: Ingested) -> None:
    clock = VirtualClock(END + MINUTE - 1)
    rooms = Rooms(ingested.home, clock=clock)
    _, ingester = ingester_of(rooms)
    clock.advance(END + MINUTE)
    query = sql(f"SELECT COUNT(*) FROM hyperliquid_volatility_profiles WHERE bucket_ts = {END + MINUTE}")
    rows = []
    for _ in range(4):
        ingester.do_due_work(at_once=2)
        rows.append(rooms.tape_db.all(query)[0][0])
    assert rows == [2, 4, 6, 6]
    rooms.close()
