"""The source on the world's server: what the world did is what the tape is told, in fair weather and foul.

Two rooms meet here, as they will in the demo: the world moves a step, the source takes it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tapebook.domain.market import AssetContext, Candle, FundingRate, Gap, Liquidity, Mid
from tapebook.domain.units import HOUR, MINUTE, parse_instant
from tapebook.sources.hyperliquid import HyperliquidSourceSettings, create
from tapebook.sources.hyperliquid.client import HyperliquidSource
from tapebook.world.market import World, symbol_history
from tapebook.world.server import Faults, WorldServer
from tapebook.world.server.service import advance_in_real_time
from tests.sources.hyperliquid.recorder import Recorder, source_of

BORN = parse_instant("2026-01-05T00:00:00Z")
SYMBOLS = ("BTC", "ETH", "DOGE", "kPEPE")
STEP = 5_000
# Wire timeouts are real seconds: short ones, so that silence in the world costs no time here.
FAST = {"pong_s": 0.15, "request_s": 1.0, "spot": False, "symbols": SYMBOLS, "stepped": True, "funding_delay_ms": 0}


class Stage:
    """A world, its server, and one source after another on it."""

    def __init__(self, server: WorldServer, url: str, **settings: Any) -> None:
        self.server = server
        self.sink = Recorder()
        self.settings = HyperliquidSourceSettings(base_url=url, **{**FAST, **settings})
        self.source: HyperliquidSource
        # The step at which the server begins is published by the first advance.
        self.begun = False

    @asynccontextmanager
    async def source_at_work(self, **resume: int) -> AsyncIterator[None]:
        """Runs a source; leaving is as sudden as a kill, nothing is said goodbye to."""
        self.source = source_of(self.settings, sink=self.sink, clock=lambda: self.server.now, resume=resume)
        task = asyncio.create_task(self.source.run())
        try:
            # The first barrier returns when the subscriptions stand: nothing that is sent after it is missed.
            await self.source.barrier(self.server.now)
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def play(self, span: int) -> None:
        """Moves the world on, step by step, with a barrier after each."""
        first = self.server.now + (STEP if self.begun else 0)
        self.begun = True
        for at in range(first, self.server.now + span + 1, STEP):
            await self.server.advance(at)
            await self.source.barrier(at)

    def newest(self) -> dict[str, int]:
        """What a store would say it has of each channel."""
        kinds = {Mid: "mids", Candle: "candles", Liquidity: "books", AssetContext: "contexts", FundingRate: "funding"}
        found: dict[str, int] = {}
        for fact in self.sink.facts:
            if channel := kinds.get(type(fact)):
                found[channel] = max(found.get(channel, 0), fact.bucket_ts)
        return found


def staged(script: Callable[[Stage], Awaitable[None]], *, faults: Faults | None = None, **settings: Any) -> Stage:
    """Runs a script on a world that is two hours old."""

    async def scene() -> Stage:
        world = World(7, start=BORN, symbols=SYMBOLS)
        server = WorldServer(world, faults=faults or Faults(), history_ms=2 * HOUR)
        stage = Stage(server, await server.start(), **settings)
        try:
            async with asyncio.timeout(60):
                await script(stage)
        finally:
            await server.stop()
        return stage

    return asyncio.run(scene())


def told(since: int, until: int) -> list[Any]:
    """What the world itself says happened from one moment up to another, both included."""
    world = World(7, start=BORN, symbols=SYMBOLS)
    found: list[Any] = []
    for step in world.steps(after=since - 1):
        if step.at > until:
            return found
        found += step.observations
    raise AssertionError("a world has no end")


def final_bars(since: int, until: int) -> dict[tuple[str, int], tuple[int, ...]]:
    """The traded bars that ended between two moments."""
    world = World(7, start=BORN, symbols=SYMBOLS)
    bars = [
        fact
        for symbol in SYMBOLS
        for fact in symbol_history(world, symbol, until=until, after=since)
        if isinstance(fact, Candle) and fact.sample_count
    ]
    return {(bar.symbol, bar.bucket_ts): shape(bar) for bar in bars}


def shape(bar: Candle) -> tuple[int, ...]:
    return bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8, bar.sample_count


def shapes(sink: Recorder, since: int, until: int) -> dict[tuple[str, int], tuple[int, ...]]:
    return {place: shape(bar) for place, bar in sink.bars().items() if since <= bar.bucket_ts and bar.end <= until}


async def quarter(stage: Stage) -> None:
    """A quarter of an hour from the first step on."""
    async with stage.source_at_work():
        await stage.server.advance(stage.server.now)
        await stage.source.barrier(stage.server.now)
        await stage.play(15 * MINUTE + STEP)


@pytest.fixture(scope="module")
def fair() -> Stage:
    """A quarter of an hour of fair weather."""
    return staged(quarter)


START = BORN + 2 * HOUR


def test_every_mid_is_the_worlds(fair: Stage) -> None:
    wanted = [fact for fact in told(START, fair.server.now) if isinstance(fact, Mid)]
    assert sorted(fair.sink.of(Mid), key=str) == sorted(wanted, key=str)


def test_every_bar_is_the_worlds_and_comes_once(fair: Stage) -> None:
    # The hour before the start was backfilled.
    since, until = START - HOUR, START + 15 * MINUTE
    assert shapes(fair.sink, since, until) == final_bars(since, until)
    assert len(fair.sink.of(Candle)) == len(fair.sink.bars()), "a bar was revised"


def test_contexts_books_and_funding_are_the_worlds(fair: Stage) -> None:
    world = told(START, fair.server.now)
    contexts = {(fact.symbol, fact.bucket_ts): fact for fact in fair.sink.of(AssetContext)}
    assert len(contexts) == 16 * len(SYMBOLS)
    for fact in (fact for fact in world if isinstance(fact, AssetContext)):
        assert contexts[fact.symbol, fact.bucket_ts] == fact
    books = {(fact.symbol, fact.bucket_ts): fact for fact in fair.sink.of(Liquidity)}
    made = [fact for fact in world if isinstance(fact, Liquidity)]
    rounds = {(symbol, at) for symbol, at in books if at % (5 * MINUTE) == 0}
    assert rounds == {(fact.symbol, fact.bucket_ts) for fact in made} < set(books), "and some that had changed"
    for book in made:
        found = books[book.symbol, book.bucket_ts]
        assert found.depth_usd_100bps == pytest.approx(book.depth_usd_100bps, rel=0.25)
        assert found.imbalance == pytest.approx(book.imbalance, abs=0.2)
    rates = [fact for fact in told(START - HOUR, START) if isinstance(fact, FundingRate)]
    assert sorted(fair.sink.of(FundingRate), key=str) == sorted(rates, key=str)


def test_fair_weather_has_no_gaps_and_no_problems(fair: Stage) -> None:
    health = fair.source.health()
    assert not fair.sink.gaps and not health.problems
    assert (health.connections, health.reconnects, health.questions_waiting) == (2, 0, 0)


def test_two_runs_tell_the_same_in_the_same_order(fair: Stage) -> None:
    assert staged(quarter).sink.calls == fair.sink.calls


def missing_runs(sink: Recorder) -> list[tuple[int, int]]:
    """The runs of buckets without a mid, after the first there is."""
    there = sorted({mid.bucket_ts for mid in sink.of(Mid)})
    return [(before + STEP, after) for before, after in pairwise(there) if after - before > STEP]


@pytest.mark.parametrize("seed", range(2))
def test_in_a_storm_every_bar_comes_and_every_gap_is_named_exactly(seed: int) -> None:
    """An hour and a half; at the end fair weather, so that every audit has passed."""
    until = START + 95 * MINUTE
    worse = {"correct": 0.0, "timeout_ms": 0, "drop": 1 / 80, "stall": 1 / 160}
    storm = msgspec.structs.replace(Faults.storm(seed), window=(START, START + 30 * MINUTE), **worse)

    async def script(stage: Stage) -> None:
        async with stage.source_at_work():
            await stage.play(until - START)

    stage = staged(script, faults=storm)
    assert {fault.kind for fault in stage.server.injected_faults} >= {
        "drop",
        "corrupt",
        "too_many",
        "error",
        "duplicate",
    }
    assert shapes(stage.sink, START - HOUR, until - MINUTE) == final_bars(START - HOUR, until - MINUTE)
    named = [(gap.from_ts, gap.to_ts) for gap in stage.sink.gaps if gap.channel == "mids"]
    assert named == missing_runs(stage.sink)
    contexts = {fact.bucket_ts for fact in stage.sink.of(AssetContext)}
    unseen = {bucket for bucket in range(START, until + 1, MINUTE) if bucket not in contexts}
    gaps = [gap for gap in stage.sink.gaps if gap.channel == "contexts"]
    assert unseen == {bucket for gap in gaps for bucket in range(gap.from_ts, gap.to_ts, MINUTE)}
    assert not [gap for gap in stage.sink.gaps if gap.channel == "funding"]
    assert not stage.sink.unfilled(), "every outage of candles was repaired"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_seen_to_be_lost_is_repaired_without_an_audit(seed: int) -> None:
    until = START + 40 * MINUTE
    seen: dict[str, Any] = {"drop": 1 / 60, "silence": 1 / 120, "duplicate": 0.05, "corrupt": 0.05}
    weather = Faults(seed=seed, window=(START, START + 25 * MINUTE), too_many=0.1, error=0.1, **seen)

    async def script(stage: Stage) -> None:
        async with stage.source_at_work():
            await stage.play(until - START)

    stage = staged(script, faults=weather, audit=False)
    assert stage.source.health().reconnects > 5
    assert shapes(stage.sink, START - HOUR, until - MINUTE) == final_bars(START - HOUR, until - MINUTE)


def test_the_outage_of_a_killed_process_is_named_once_and_its_bars_come_back() -> None:
    async def script(stage: Stage) -> None:
        async with stage.source_at_work():
            await stage.play(3 * MINUTE + 20_000)
        await stage.server.advance(START + 14 * MINUTE + 30_000)
        async with stage.source_at_work(**stage.newest()):
            await stage.play(2 * MINUTE)
        async with stage.source_at_work(**stage.newest()):
            await stage.play(3 * MINUTE)

    stage = staged(script)
    candles = [gap for gap in stage.sink.gaps if gap.channel == "candles"]
    assert {(gap.from_ts, gap.to_ts) for gap in candles} == {(START + 3 * MINUTE, START + 14 * MINUTE)}
    assert not stage.sink.unfilled()
    assert [gap for gap in stage.sink.gaps if gap not in candles] == [
        Gap("hyperliquid", "contexts", "*", START + 4 * MINUTE, START + 14 * MINUTE, "not running"),
        Gap("hyperliquid", "books", "*", START + 5 * MINUTE, START + 10 * MINUTE, "not running"),
        Gap("hyperliquid", "mids", "*", START + 205_000, START + 875_000, "not running"),
    ]
    until = START + 19 * MINUTE
    assert shapes(stage.sink, START - HOUR, until) == final_bars(START - HOUR, until)


def test_a_world_that_runs_faster_is_followed_with_faster_seconds() -> None:
    """No barriers: the source watches by itself, at the world's pace."""
    speed = 60.0

    async def scene() -> tuple[Recorder, HyperliquidSource]:
        server = WorldServer(World(7, start=BORN, symbols=SYMBOLS), history_ms=2 * HOUR)
        began, sink = time.monotonic(), Recorder()

        def hurried() -> float:
            return began + speed * (time.monotonic() - began)

        async def nap(seconds: float) -> None:
            await asyncio.sleep(seconds / speed)

        settings = HyperliquidSourceSettings(base_url=await server.start(), spot=False, symbols=SYMBOLS)
        clock = WorldTime(hurried)
        source = create(settings, sink=sink, clock=clock, monotonic=hurried, sleep=nap)
        task = asyncio.create_task(source.run())
        while source.health().connections_up < 2:
            await asyncio.sleep(0.01)
        clock.begin()
        await advance_in_real_time(
            server, speed=speed, monotonic=time.monotonic, sleep=asyncio.sleep, until=START + 3 * MINUTE
        )
        await asyncio.sleep(0.1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await server.stop()
        return sink, source

    sink, source = asyncio.run(scene())
    assert not source.health().problems and not [gap for gap in sink.gaps if gap.channel != "mids"]
    since, until = START - HOUR, START + 2 * MINUTE
    assert shapes(sink, since, until) == final_bars(since, until)
    assert {fact.bucket_ts for fact in sink.of(AssetContext)} >= {START + minute * MINUTE for minute in range(3)}
    assert len({mid.bucket_ts for mid in sink.of(Mid)}) > 30


class WorldTime:
    """The world's time between its steps too, as a client follows it that only knows speed and start."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._began: float | None = None

    def begin(self) -> None:
        """The world begins to move."""
        self._began = self._seconds()

    def __call__(self) -> int:
        return START + (round((self._seconds() - self._began) * 1_000) if self._began is not None else 0)


def test_a_builder_dex_spots_and_outcomes_are_watched_when_asked_for() -> None:
    async def script(stage: Stage) -> None:
        async with stage.source_at_work():
            await stage.play(2 * MINUTE)

    stage = staged(
        script, dexes=("xyz",), symbols=(), spot=True, outcomes=True, candle_symbols=("BTC", "@107", "xyz:TSLA")
    )
    symbols = {mid.symbol for mid in stage.sink.of(Mid)}
    assert {"BTC", "@107", "PURR/USDC", "#1710", "xyz:TSLA"} <= symbols and not {"MATIC", "FTM"} & symbols
    assert {bar.symbol for bar in stage.sink.of(Candle)} == {"BTC", "@107", "xyz:TSLA"}
    assert {"BTC", "xyz:TSLA"} <= {fact.symbol for fact in stage.sink.of(Liquidity)}
    assert not stage.source.health().problems and not stage.sink.gaps
