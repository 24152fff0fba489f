"""Live ingestion as a process: killed in a storm, killed while it fetches, without a source, without a disk."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from tapebook.api import app
from tapebook.clock import ScaledClock, VirtualClock, elapsed_seconds
from tapebook.desk.health import health_checks
from tapebook.domain.market import AssetContext, Candle, FundingRate, Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import DatabaseAway, HomeError, Retry, StoreFailed, TapebookError, UnknownName
from tapebook.ingest.ingester import PendingFacts
from tapebook.ingest.live import IngestProgress, ingest_live
from tapebook.sources.hyperliquid.tape_reads import resume_points
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tapebook.world.server import Faults, catalog
from tapebook.world.server.service import advance_in_real_time
from tests.desk.storms import storm
from tests.ingest import ingest_harness as weather
from tests.ingest.ingest_harness import BORN, FOREVER, SYMBOLS
from tests.ingest.test_ingest import FULL, broken

START = BORN + 3 * HOUR


@pytest.mark.soak
def test_a_storm_and_kills_lose_nothing_that_can_be_had_again(tmp_path: Path) -> None:
    frames = dict.fromkeys(("corrupt", "duplicate", "reorder"), 0.1)
    outcome = storm(tmp_path, seed=3, minutes=15, speed=90.0, lives=(1.0, 2.5), correct=0.1, **frames)
    assert outcome.kills >= 3 and len(outcome.faults) >= 5
    outcome.assert_whole()


def test_a_kill_while_history_is_fetched_loses_none_of_it(tmp_path: Path) -> None:
    """The first process could commit no more than what it had of one symbol; an hour later it starts again."""
    home = weather.make_home(tmp_path / "home", history_hours=2.0)

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            async with weather.listening(home, server, url) as first:
                await server.advance(START)
                await first.source.barrier(START)
                waiting = first.intake.drain_pending()
                early = [
                    fact
                    for fact in waiting.facts
                    if getattr(fact, "symbol", "") == "BTC" or fact.bucket_ts > START - 3 * MINUTE
                ]
                first.intake.put_back(PendingFacts(early, waiting.gaps))
                first.ingester.flush()
            await server.advance(START + 2 * MINUTE)
            async with weather.listening(home, server, url) as second:
                await second.play(START + 4 * MINUTE)

    asyncio.run(scene())
    with weather.opened(home) as rooms:
        minutes = weather.bars(rooms.tape, since=START - 2 * HOUR, until=START)
        quiet = {(symbol, START - 2 * HOUR + n * MINUTE) for symbol in SYMBOLS for n in range(120)} - minutes.keys()
        assert len(quiet) < 10, "minutes are missing that were traded"
        rates = {rate.symbol: 0 for rate in weather.rates(rooms.tape, since=0, until=START)}
        assert set(rates) == set(SYMBOLS)
        for symbol in SYMBOLS:
            settled = rooms.tape.facts(FundingRate, symbol, since=0, view=View(FOREVER))
            assert [rate.bucket_ts for rate in settled] == [START - 2 * HOUR, START - HOUR, START]


def test_a_complete_tape_is_resumed_at_its_end(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home", history_hours=2.0)
    server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
    weather.undisturbed(home, server, until=START + 2 * MINUTE, calm=0)
    with weather.opened(home) as rooms:
        now = rooms.tape.head()[1]
        newest = {channel.name: channel.newest_bucket_ts for channel in rooms.tape.channels()}
        found = resume_points(rooms.tape, now=now, history_ms=2 * HOUR)
        assert found == newest | {"funding": START - 2 * HOUR}
        longer = resume_points(rooms.tape, now=now, history_ms=24 * HOUR)
        assert longer["candles"] == now - now % MINUTE - 24 * HOUR, "what is older was never there to be seen"


def test_a_builder_dex_is_resumed_where_it_was_heard_last(tmp_path: Path) -> None:
    now = BORN + 9 * HOUR
    clock = VirtualClock(now - 8 * HOUR)
    rooms = Rooms(weather.make_home(tmp_path / "home"), clock=clock)

    def say(symbol: str, since: int, until: int) -> None:
        rooms.tape.commit([Mid(symbol, at, 1) for at in range(since, until, 5_000)])
        rooms.tape.commit([AssetContext(symbol, at, 1, 1, 1.0, 1, 1) for at in range(since, until, MINUTE)])
        rooms.tape.commit([Candle(symbol, 60, at, 1, 1, 1, 1, 1.0, 1.0, 1) for at in range(since, until, MINUTE)])

    say("BTC", now - 3 * HOUR, now)
    say("xyz:T", now - 3 * HOUR, now - 5 * MINUTE)
    say("old:S", now - 3 * HOUR, now - 2 * HOUR)
    found = resume_points(rooms.tape, now=now, history_ms=3 * HOUR, dexes=("xyz", "old", "new"))
    assert {name: now - bucket for name, bucket in found.items()} == {
        **{"mids": 5_000, "contexts": MINUTE, "candles": MINUTE},
        **{"mids:xyz": 5 * MINUTE + 5_000, "contexts:xyz": 6 * MINUTE, "candles:xyz": 6 * MINUTE},
        # As far back as is looked, there was nothing; bars are asked for from the hole on.
        **{"mids:old": 15 * MINUTE + 5_000, "contexts:old": 16 * MINUTE, "candles:old": 2 * HOUR + MINUTE},
    }
    assert resume_points(rooms.tape, now=now, history_ms=3 * HOUR).keys() == {"mids", "contexts", "candles"}
    rooms.close()


@pytest.mark.sqlite_file("breaks the connection to a file")
def test_a_full_disk_is_reported_and_nothing_received_meanwhile_is_lost(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    said: list[IngestProgress] = []

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            rooms = Rooms(home, clock=ScaledClock(server.now, speed=60.0))
            running = asyncio.create_task(ingest_live(rooms, url=url, seconds=3.0, report=said.append))
            moving = asyncio.create_task(
                advance_in_real_time(
                    server, speed=60.0, monotonic=elapsed_seconds, sleep=asyncio.sleep, until=START + 5 * MINUTE
                )
            )
            with broken(rooms, FULL):
                await asyncio.sleep(1.5)
            await running
            moving.cancel()
            rooms.close()

    asyncio.run(scene())
    problems = [progress.problem for progress in said]
    assert problems[3] is not None and problems[3].startswith(str(FULL)) and problems[-1] is None
    with weather.opened(home) as rooms:
        assert len(rooms.tape.facts(Mid, "BTC", since=START, until=START + 80_000, view=View(FOREVER))) > 8
        assert not weather.ledgers(rooms.tape)["mids"].unnamed


def test_a_disk_that_is_full_to_the_end_is_an_error(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            rooms = Rooms(home, clock=ScaledClock(server.now, speed=0.0))
            with broken(rooms, FULL), closing(rooms):
                await ingest_live(rooms, url=url, seconds=0.6, report=lambda progress: None)

    with pytest.raises(StoreFailed, match="disk is full"):
        asyncio.run(scene())


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield int(held.getsockname()[1])


def one_line(error: TapebookError) -> str:
    said = str(error)
    assert "\n" not in said and len(said) < 200
    return said


def test_a_source_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(HomeError) as found:
            asyncio.run(app.ingest(home, url=url, seconds=1, report=lambda progress: None))
    assert "nothing answers" in one_line(found.value) and "tapebook world" in str(found.value)


def test_a_source_that_stays_away_is_reported_while_it_is_tried_again(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    said: list[IngestProgress] = []
    with socket.socket() as free, weather.opened(home, at=START) as rooms:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(Retry) as found:
            asyncio.run(ingest_live(rooms, url=url, seconds=0.6, report=said.append))
    problem = said[-1].problem
    assert problem is not None and problem.startswith("no connection to the exchange (refused: names")
    assert "\n" not in problem and one_line(found.value) == f"nothing was received: {problem}"


@contextmanager
def misread(meta: bytes) -> Iterator[None]:
    """While it lasts, the world's list of perps is another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "meta_response", lambda *args, **options: msgspec.Raw(meta))
        yield


def ingested(home: Path, *, seconds: float) -> list[IngestProgress]:
    """What is said while a home listens to a world for some seconds."""
    said: list[IngestProgress] = []

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            rooms = Rooms(home, clock=ScaledClock(server.now, speed=1.0))
            try:
                await ingest_live(rooms, url=url, seconds=seconds, report=said.append)
            finally:
                rooms.close()

    asyncio.run(scene())
    return said


class _SetBack(ScaledClock):
    """A clock that somebody sets back."""

    behind = 0

    def now(self) -> int:
        """The world's time, less so much."""
        return super().now() - self.behind


def test_a_clock_set_back_while_the_database_is_away_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, said = weather.make_home(tmp_path / "home"), list[IngestProgress]()

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            clock = _SetBack(server.now, speed=1.0)
            rooms = Rooms(home, clock=clock)
            refusals = iter(range(3))

            def head() -> tuple[int, int]:
                if clock.behind and next(refusals, None) is not None:
                    raise DatabaseAway("PostgreSQL does not answer; it restarts")
                return whole()

            def report(now: IngestProgress) -> None:
                said.append(now)
                if now.rows and not clock.behind:
                    clock.behind = 2 * HOUR

            whole = rooms.tape.head
            monkeypatch.setattr(rooms.tape, "head", head)
            try:
                await ingest_live(rooms, url=url, seconds=3.0, report=report)
                assert next(refusals, None) is None and len(rooms.tape.set_backs()) == 1
            finally:
                rooms.close()

    asyncio.run(scene())
    lines = [each.problem or each.notice or "" for each in said]
    assert any(line.startswith("database away since") for line in lines)
    assert any("the clock was set back by" in line and "begun anew" in line for line in lines)
    assert any(line.startswith("database back after") for line in lines)


def test_a_world_that_starts_again_is_listened_to_at_once(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    newest = []

    async def scene(ahead: int) -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            rooms = Rooms(home, clock=ScaledClock(server.now + ahead, speed=60.0))
            moving = asyncio.create_task(
                advance_in_real_time(
                    server, speed=60.0, monotonic=elapsed_seconds, sleep=asyncio.sleep, until=START + 9 * MINUTE
                )
            )
            await ingest_live(rooms, url=url, seconds=1.5, report=lambda progress: None)
            moving.cancel()
            newest.append(rooms.tape.newest(Mid, "BTC", view=View(rooms.clock.now())))
            assert len(rooms.tape.set_backs()) == (0 if ahead else 1)
            rooms.close()

    asyncio.run(scene(6 * HOUR))
    asyncio.run(scene(0))
    first, second = newest
    assert first is not None and first.bucket_ts > START + 5 * HOUR
    assert second is not None and START <= second.bucket_ts < START + HOUR


def settings(home: Path, text: str) -> Path:
    weather.make_home(home)
    (home / "tapebook.toml").write_text(f"[hyperliquid]\n{text}\n", "utf-8")
    return home


def failures(home: Path) -> list[str]:
    """What the doctor says that is not well with the market."""
    with weather.opened(home, at=START + MINUTE) as rooms:
        return [
            check.detail for check in health_checks(rooms) if not check.ok and check.name in ("problems", "watchlists")
        ]


def test_a_misspelt_symbol_is_said_and_fails_the_doctor_until_it_is_corrected(tmp_path: Path) -> None:
    home = settings(tmp_path / "home", 'symbols = ["BTC", "ETHH", "xyz:TSLA"]')
    said = ingested(home, seconds=1.0)[-1]
    assert [line.partition(":")[0] for line in said.unlisted] == [
        "the exchange lists no ETHH",
        "the exchange lists no xyz",
    ]
    found = [line for line in failures(home) if line.startswith("hyperliquid: unknown ")]
    assert len(found) == 2
    assert "the exchange lists no ETHH; correct `symbols`" in "".join(found)
    assert any(line.startswith("watcher watches ETH, of which the tape has nothing") for line in failures(home))
    settings_now = home / "tapebook.toml"
    settings_now.write_text('[hyperliquid]\nsymbols = ["BTC"]\n', "utf-8")
    assert not [line for line in failures(home) if line.startswith("hyperliquid: unknown ")]


def test_symbols_that_are_all_misspelt_are_an_error(tmp_path: Path) -> None:
    home = settings(tmp_path / "home", 'symbols = ["BTCC"]')
    with pytest.raises(Retry, match="nothing was received: the exchange lists no BTCC: correct `symbols`"):
        ingested(home, seconds=0.8)
    assert any(line.startswith("hyperliquid: unknown BTCC") for line in failures(home))


@pytest.mark.parametrize(
    "meta", [b'{"universe":[]}', b'{"universe":[{"name":5},{"nom":"BTC"}]}', b'{"universe":[{"name":7}]}']
)
def test_an_exchange_without_names_is_an_error(meta: bytes, tmp_path: Path) -> None:
    home = settings(tmp_path / "home", "spot = false")
    with misread(meta), pytest.raises(Retry, match="nothing was received"):
        ingested(home, seconds=0.8)
    assert any("lists no perp that can be watched" in line for line in failures(home))


def test_names_that_cannot_be_read_fail_the_doctor(tmp_path: Path) -> None:
    home = settings(tmp_path / "home", "spot = false")
    with misread(b'{"perps":[]}'), pytest.raises(Retry, match=r"nothing was received: .*meta"):
        ingested(home, seconds=0.8)
    assert any(line.startswith("hyperliquid: malformed meta") for line in failures(home))


def test_a_port_that_is_taken_is_said_in_one_line(taken_port: int) -> None:
    with pytest.raises(HomeError) as found:
        asyncio.run(app.serve_world(seed=7, port=taken_port, speed=1.0, storm=False, on_ready=lambda url: None))
    assert f"port {taken_port} cannot be used" in one_line(found.value) and "`port=`" in str(found.value)


def test_a_symbol_nobody_has_heard_of_is_said_in_one_line(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")
    with app.open(home) as book, pytest.raises(UnknownName) as found:
        book.market("NOPE")
    assert "'NOPE'" in one_line(found.value) and "tapebook ingest" in str(found.value)


def test_a_home_is_ingested_by_one_process(tmp_path: Path) -> None:
    home = weather.make_home(tmp_path / "home")

    async def scene() -> None:
        server = weather.world_server(seed=7, faults=Faults(), history_ms=START - BORN)
        async with weather.served(server) as url:
            first = asyncio.create_task(app.ingest(home, url=url, seconds=30, report=lambda progress: None))
            await asyncio.sleep(0.5)
            try:
                await app.ingest(home, url=url, seconds=1, report=lambda progress: None)
            finally:
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)

    with pytest.raises(HomeError, match="is in use by process"):
        asyncio.run(scene())
