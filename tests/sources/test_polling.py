"""The shell around polled sources: patience, throttle, and crawls that go on where they stopped, kill or no kill."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.market import FeatureRow, RegistryRecord
from tapebook.domain.units import HOUR, MINUTE, SECOND, parse_instant
from tapebook.ingest.ingester import FactBuffer
from tapebook.sources import load_sources
from tapebook.sources._polling import HttpRequest, PolledSource
from tapebook.tape.registry import ASSETS, MACRO_CHANNELS, PREDICTION_CHANNELS
from tapebook.tape.source import ProgressTable, Source, SourceContext
from tapebook.tape.view import NO_WATERMARK, View
from tapebook.wiring import Rooms
from tapebook.world.market import World
from tapebook.world.server import Faults, WorldServer
from tests.db.places import sql

BORN = parse_instant("2026-01-05T00:00:00Z")
START = BORN + 2 * HOUR
BESIDE = ("polymarket", "defillama")
SUBJECTS = ("polymarket/BTC", "polymarket/ETH", "global/defi", "chain/bitcoin", "stablecoin/1")


class Sources:
    """A home and the sources beside the exchange, which can be killed and begun anew."""

    def __init__(self, folder: Path, server: WorldServer, url: str) -> None:
        folder.mkdir()
        settings = 'sources = ["hyperliquid", "polymarket", "defillama"]\n[polymarket]\nsearch = false\n'
        (folder / "tapebook.toml").write_text(settings, "utf-8")
        self.clock, self.server, self._url, self._folder = VirtualClock(START - SECOND), server, url, folder
        self._begin()
        self.rooms.tape.commit([RegistryRecord("WORLD", START, '{"kind":"perp","live":true}', ASSETS)])

    def _begin(self) -> None:
        self.rooms, self._intake = Rooms(self._folder, clock=self.clock), FactBuffer()
        self._sources: list[Source] = [self._create(name) for name in BESIDE]

    def _create(self, name: str) -> Source:
        (adapter,) = load_sources([name])
        progress = ProgressTable(self.rooms.tape_db).parts(name)
        context = SourceContext(
            *(self._intake, self.rooms.tape, self.clock.now, lambda: 0.0, asyncio.sleep),
            url=self._url,
            stepped=True,
            progress=progress,
        )
        return adapter.create(self.rooms.config.source_section(name), context)

    async def step(self, at: int, *, dies: bool = False) -> None:
        """Moves to a moment, asks, and commits; a process that dies has asked in vain."""
        self.clock.advance(at)
        for source in self._sources:
            await source.barrier(at)
        if not dies:
            waiting = self._intake.drain_pending()
            self.rooms.tape.commit(waiting.facts, gaps=waiting.gaps, kinds=waiting.kinds)
            ProgressTable(self.rooms.tape_db).note(waiting.progress)

    async def kill(self) -> None:
        """Ends it, and begins anew with what is on the disk."""
        await self.close()
        self._begin()

    async def close(self) -> None:
        for source in self._sources:
            assert isinstance(source, PolledSource)
            if source._http is not None:
                await source._http.close()
        self.rooms.close()

    def rows(self) -> dict[str, list[FeatureRow]]:
        """All that was delivered, by subject and channel."""
        return {
            f"{subject} {channel}": self.rooms.tape.facts(channel, subject, since=0, view=View(NO_WATERMARK))
            for subject in SUBJECTS
            for channel in (*PREDICTION_CHANNELS, *MACRO_CHANNELS)
        }


def played(folder: Path, play: Callable[[Sources], Awaitable[None]], **options: Any) -> dict[str, list[FeatureRow]]:
    """Runs a play with all sources; gives what was delivered."""
    found: dict[str, list[FeatureRow]] = {}

    async def run() -> None:
        server = WorldServer(World(7, start=BORN), history_ms=2 * HOUR, **options)
        url = await server.start()
        await server.advance(START)
        sources = Sources(folder, server, url)
        try:
            await play(sources)
            found.update(sources.rows())
        finally:
            await sources.close()
            await server.stop()

    asyncio.run(run())
    return found


# The servers go down while a crawl is under way: Gamma between two of its lists, the CLOB and the stablecoins later.
DOWN = Faults(
    down=(
        ("clob", START - MINUTE, START + 2 * HOUR + 10 * MINUTE),
        ("stablecoins", START - MINUTE, START + 25 * MINUTE),
        ("gamma", START + 3 * HOUR, START + 5 * HOUR),
        ("llama", START + 3 * HOUR, START + 5 * HOUR),
    )
)
STEPS = [START + minutes * MINUTE for minutes in range(0, 6 * 60, 10)]


async def undisturbed(sources: Sources) -> None:
    for at in STEPS:
        await sources.server.advance(at)
        await sources.step(at)


async def killed(sources: Sources) -> None:
    for place, at in enumerate(STEPS):
        await sources.server.advance(at)
        if place % 3 == 1:
            await sources.step(at, dies=True)
            await sources.kill()
        await sources.step(at)


def test_crawls_go_on_where_they_stopped_and_kills_change_nothing(tmp_path: Path) -> None:
    """Failed while a crawl was kept in memory alone: a killed one began its hour again, with later prices."""
    asked: list[list[tuple[str, str]]] = []

    async def counted(sources: Sources) -> None:
        await undisturbed(sources)
        asked.append(sources.server._beside.asked)

    calm = played(tmp_path / "calm", counted, faults=DOWN)
    assert played(tmp_path / "storm", killed, faults=DOWN) == calm
    pages = [query for path, query in asked[0] if path == "/gamma/events/keyset" and "closed=false" in query]
    late = calm["polymarket/BTC immediate_markets"]
    # The books were out of reach for two hours: no page was asked for again, and the rows are as old as the pages.
    first = late[0]
    assert first.bucket_ts == START and len(pages) < 3 * len(late) + 24
    assert [row.bucket_ts // HOUR for row in late] == [
        *(START // HOUR + hour for hour in (0, 2, 5)),
    ], "hours that nobody could ask about are gaps"
    totals = calm["global/defi capital_base"]
    assert [row.bucket_ts for row in totals][:2] == [START + 30 * MINUTE, START + HOUR], "a snapshot of one hour"


def test_progress_is_gone_when_a_source_has_delivered_and_unreadable_progress_is_made_anew(tmp_path: Path) -> None:
    async def play(sources: Sources) -> None:
        await sources.step(START)
        assert {part for name in BESIDE for part in ProgressTable(sources.rooms.tape_db).parts(name)} <= {0}
        write = "INSERT INTO tape_source_progress (source, part, state_json) VALUES ('polymarket', 1, '{\"of\":7}')"
        with sources.rooms.tape_db.transaction():
            sources.rooms.tape_db.execute(sql(write))
        await sources.kill()
        problems = sources._intake._problems
        assert [(each.source, each.kind) for each in problems] == [("polymarket", "progress")]
        await sources.server.advance(START + HOUR)
        await sources.step(START + HOUR)
        assert sources.rooms.tape.newest_buckets()["immediate_markets"] == START + HOUR

    played(tmp_path / "home", play)


class Questions:
    """A session that has a number of questions and remembers when they were answered."""

    def __init__(self, count: int) -> None:
        self.left, self.answered = count, list[int]()

    def next_request(self, now: int) -> HttpRequest | None:
        return HttpRequest("number", "http://127.0.0.1:9/") if self.left else None

    def handle_answer(self, request: HttpRequest, body: bytes, now: int) -> str | None:
        self.left -= 1
        self.answered.append(now)
        return None

    def skip_request(self, request: HttpRequest, why: str, now: int) -> None:
        raise AssertionError(why)

    def restore(self, parts: Any, now: int) -> None:
        assert not parts

    def start_state(self) -> str | None:
        return None


@pytest.mark.parametrize("per_second", [0.5, 2.0])
def test_after_an_outage_the_throttle_holds(per_second: float) -> None:
    """Questions that waited for hours are asked no faster than any others."""
    clock = VirtualClock(START)

    async def sleep(seconds: float) -> None:
        clock.advance(clock.now() + round(seconds * SECOND))

    session = Questions(20)
    context = SourceContext(FactBuffer(), None, clock.now, lambda: 0.0, sleep)  # type: ignore[arg-type]
    source = PolledSource("numbers", session, context, per_second=per_second)

    async def answer(request: HttpRequest) -> bytes:
        return b"{}"

    source._ask = answer  # type: ignore[method-assign]
    asyncio.run(source.barrier(clock.now()))
    steps = {later - sooner for sooner, later in zip(session.answered, session.answered[1:], strict=False)}
    assert len(session.answered) == 20 and min(steps) >= SECOND / per_second
