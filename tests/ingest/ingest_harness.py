"""A seeded world behind its server, a home that ingests it, and what must be true of the tape afterwards.

`undisturbed` ingests in this process, step by step in virtual time. `Storm` lets the world run
many times faster than real time while `tapebook ingest` is killed and started again on one home.
"""

import asyncio
import hashlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

from tapebook.clock import VirtualClock, elapsed_seconds
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import AssetContext, Candle, FundingRate, Gap, Liquidity, Mid
from tapebook.domain.units import HOUR, MINUTE, SECOND, parse_instant
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.sources import hyperliquid
from tapebook.sources.hyperliquid.settings import source_settings
from tapebook.sources.hyperliquid.tape_reads import resume_points
from tapebook.tape.store import Tape
from tapebook.tape.view import NO_WATERMARK, View
from tapebook.wiring import Rooms
from tapebook.world.cadence import STEP
from tapebook.world.market import World
from tapebook.world.server import Faults, WorldServer
from tapebook.world.server.service import advance_in_real_time
from tests.replay.storm import ROOT, environment

BORN = parse_instant("2026-01-05T00:00:00Z")
SYMBOLS = ("BTC", "ETH", "SOL", "HYPE", "DOGE", "kPEPE")
FOREVER = 2**62
CALM = 4 * MINUTE
"""How long the last process lives: enough of the world's time for all that is owed, on a busy machine too."""
RESTART_EVERY = 40 * MINUTE


def make_home(folder: Path, *, history_hours: float = 1.0, **retention: float) -> Path:
    """A home for the world's perps, with an agent that watches all of them."""
    folder.mkdir(parents=True)
    kept = "\n".join(f"{name} = {hours}" for name, hours in retention.items())
    symbols = msgspec.json.encode(SYMBOLS).decode()
    text = f"[hyperliquid]\nsymbols = {symbols}\nhistory_hours = {history_hours}\n[retention]\n{kept}\n"
    (folder / "tapebook.toml").write_text(text, "utf-8")
    with opened(folder, at=BORN) as rooms:
        rooms.book.save_agent(AgentProfile("watcher", SYMBOLS), at=BORN)
    return folder


@contextmanager
def opened(home: Path, *, at: int = 0) -> Iterator[Rooms]:
    """The rooms of a home whose time stands still."""
    rooms = Rooms(home, clock=VirtualClock(at))
    try:
        yield rooms
    finally:
        rooms.close()


class Listener:
    """An ingester in this process, in virtual time: the world moves a step, the home takes it."""

    def __init__(self, server: WorldServer, url: str, rooms: Rooms, clock: VirtualClock) -> None:
        self.server, self.rooms, self._clock = server, rooms, clock
        self.intake = FactBuffer()
        self.ingester = Ingester(rooms, self.intake, keep=retention_by_channel(rooms.config))
        settings = source_settings(rooms.config.hyperliquid, url=url, stepped=True)
        # A server that says nothing does so in virtual time, but a pong is waited for in real seconds.
        settings = msgspec.structs.replace(settings, pong_s=0.15, request_s=1.0)
        self.source = hyperliquid.create(
            settings,
            sink=self.intake,
            clock=clock.now,
            monotonic=elapsed_seconds,
            sleep=_nap,
            resume=resume_points(rooms.tape, now=clock.now(), history_ms=settings.history_ms),
        )

    async def play(self, until: int, *, after_step: Callable[[int], None] = lambda at: None) -> None:
        """Plays from where the server is, its first step included."""
        for at in range(self.server.now, until + 1, STEP):
            await self.server.advance(at)
            self._clock.advance(at)
            await self.source.barrier(at)
            assert self.ingester.flush() is None
            self.ingester.do_due_work()
            after_step(at)


async def _nap(seconds: float) -> None:
    await asyncio.sleep(seconds / 20)


@asynccontextmanager
async def served(server: WorldServer) -> AsyncIterator[str]:
    """A server at work."""
    try:
        yield await server.start()
    finally:
        await server.stop()


@asynccontextmanager
async def listening(home: Path, server: WorldServer, url: str) -> AsyncIterator[Listener]:
    """A listener at work; leaving is as sudden as a kill."""
    clock = VirtualClock(server.now)
    rooms = Rooms(home, clock=clock)
    listener = Listener(server, url, rooms, clock)
    running = asyncio.create_task(listener.source.run())
    try:
        await listener.source.barrier(server.now)
        yield listener
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        rooms.close()


def undisturbed(home: Path, server: WorldServer, *, until: int, calm: int) -> None:
    """Ingests a world up to a moment. From time to time, and at last at `calm`, a new process begins.

    A start looks at the last hour again, which is how bars are learnt that were corrected late.
    """

    async def scene() -> None:
        async with served(server) as url:
            while server.now < until:
                async with listening(home, server, url) as listener:
                    await listener.play(min(until, server.now + RESTART_EVERY))
            await server.advance(max(calm, server.now))
            async with listening(home, server, url) as listener:
                await listener.play(server.now + CALM)

    asyncio.run(scene())


class Storm:
    """A world that runs `speed` times as fast as real time, and an ingester that is killed again and again."""

    def __init__(self, home: Path, server: WorldServer, *, speed: float, seed: int) -> None:
        self.home, self.server = home, server
        self.kills = 0
        self.seen: dict[int, str] = {}
        self._speed = speed
        self._chance = random.Random(seed)
        self._url = ""

    def rage(self, *, until: int, calm: int, lives: tuple[float, float]) -> None:
        """Kills every few seconds of real time up to a moment; then one process lives from `calm` on for a while."""
        asyncio.run(self._scene(until, calm, lives))

    async def _scene(self, until: int, calm: int, lives: tuple[float, float]) -> None:
        async with served(self.server) as self._url:
            async with self._moving():
                while self.server.now < until:
                    await self._life(self._chance.uniform(*lives))
                    self.look()
            await self.server.advance(max(calm, self.server.now))
            async with self._moving():
                await self._last_life()
            self.look()

    @asynccontextmanager
    async def _moving(self) -> AsyncIterator[None]:
        """The world runs."""
        pacing = asyncio.create_task(
            advance_in_real_time(self.server, speed=self._speed, monotonic=elapsed_seconds, sleep=asyncio.sleep)
        )
        await asyncio.sleep(0)
        try:
            yield
        finally:
            pacing.cancel()
            await asyncio.gather(pacing, return_exceptions=True)

    async def _life(self, seconds: float) -> None:
        victim = await self._started(600)
        try:
            await asyncio.sleep(seconds)
            assert victim.returncode is None, f"it ended by itself: {await _said(victim)}"
        finally:
            if victim.returncode is None:
                victim.kill()
        await victim.communicate()
        self.kills += 1

    async def _last_life(self) -> None:
        """Lives on for a while after its first commit, however long a busy machine takes to start it."""
        victim = await self._started(600)
        born, end = self.server.now, FOREVER
        try:
            while self.server.now < end:
                await asyncio.sleep(0.2)
                assert victim.returncode is None, f"it ended by itself: {await _said(victim)}"
                self.look()
                if end == FOREVER and max(self.seen, default=0) > born:
                    end = self.server.now + CALM
        finally:
            if victim.returncode is None:
                victim.terminate()
        await victim.communicate()

    async def _started(self, seconds: float) -> asyncio.subprocess.Process:
        words = ["ingest", "--url", self._url, "--seconds", str(seconds), "--home", str(self.home)]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tapebook", *words, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe
        )

    def look(self) -> None:
        """Remembers what the tape says at the newest moment it knows of."""
        with opened(self.home) as rooms:
            known_at = rooms.tape.head()[1]
            if known_at:
                self.seen[known_at] = digest(rooms.tape, as_of=known_at)


async def _said(victim: asyncio.subprocess.Process) -> str:
    out, error = await victim.communicate()
    return (out + error).decode()


def digest(tape: Tape, *, as_of: int) -> str:
    """What the tape says as of a moment: bars, mids and the newest facts of every symbol."""
    view = View(as_of)
    parts: list[object] = []
    for symbol in SYMBOLS:
        parts += tape.candles(symbol, granularity_sec=60, since=as_of - 3 * HOUR, view=view)
        parts += tape.facts(Mid, symbol, since=as_of - 2 * HOUR, until=as_of, view=view)
        parts += [tape.newest(Mid, symbol, view=view), tape.newest(Liquidity, symbol, view=view)]
        parts += [tape.newest(AssetContext, symbol, view=view), tape.newest(FundingRate, symbol, view=view)]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def bars(tape: Tape, *, since: int, until: int) -> dict[tuple[str, int], Candle]:
    """The minutes from one moment up to another as known at the end."""
    found: dict[tuple[str, int], Candle] = {}
    for symbol in SYMBOLS:
        minutes = tape.candles(symbol, granularity_sec=60, since=since, until=until - MINUTE, view=View(FOREVER))
        found |= {(symbol, minute.bucket_ts): minute for minute in minutes}
    return found


def rates(tape: Tape, *, since: int, until: int) -> list[FundingRate]:
    """The settled rates from one moment to another as known at the end."""
    found = [tape.facts(FundingRate, symbol, since=since, view=View(FOREVER)) for symbol in SYMBOLS]
    return [rate for each in found for rate in each if rate.bucket_ts <= until]


class Ledger(msgspec.Struct, frozen=True):
    """A channel's rows against its gaps: buckets that are missing and not named, named and there, named twice.

    `excused` counts the single missing buckets that the channel's beat allows.
    """

    unnamed: list[tuple[str, int]]
    false: list[tuple[str, int]]
    twice: list[tuple[str, int]]
    named: int
    excused: int


Buckets = Callable[[Tape, str], list[int]]


def ledger(tape: Tape, channel: str, *, buckets: Buckets, step: int) -> Ledger:
    """Compares rows and gaps of a channel, symbol by symbol."""
    slack = SLACK.get(channel, 0)
    gaps = [each.gap for each in tape.gaps(as_of=NO_WATERMARK) if each.gap.channel == channel]
    found = Ledger([], [], [], len(gaps), 0)
    excused = 0
    for symbol in SYMBOLS:
        there = buckets(tape, symbol)
        covered = _covered(gaps, symbol, step=step)
        found.false.extend((symbol, bucket) for bucket in there if bucket in covered)
        found.twice.extend((symbol, bucket) for bucket, times in covered.items() if times > 1)
        for before, after in pairwise(there):
            missing = [bucket for bucket in range(before + step, after, step) if bucket not in covered]
            if len(missing) <= slack:
                excused += len(missing)
            else:
                found.unnamed.extend((symbol, bucket) for bucket in missing)
    return msgspec.structs.replace(found, excused=excused)


def _covered(gaps: list[Gap], symbol: str, *, step: int) -> Counter[int]:
    mine = [gap for gap in gaps if gap.subject in ("*", symbol)]
    return Counter(bucket for gap in mine for bucket in range(gap.from_ts, gap.to_ts, step))


def _mids(tape: Tape, symbol: str) -> list[int]:
    return [fact.bucket_ts for fact in tape.facts(Mid, symbol, since=0, view=View(FOREVER))]


def _contexts(tape: Tape, symbol: str) -> list[int]:
    return [fact.bucket_ts for fact in tape.facts(AssetContext, symbol, since=0, view=View(FOREVER))]


def _books(tape: Tape, symbol: str) -> list[int]:
    # Without those that were kept between two rounds because they had changed.
    found = [fact.bucket_ts for fact in tape.facts(Liquidity, symbol, since=0, view=View(FOREVER))]
    return [bucket for bucket in found if bucket % (5 * MINUTE) == 0]


BEATS: dict[str, tuple[Buckets, int]] = {
    "mids": (_mids, 5 * SECOND),
    "contexts": (_contexts, MINUTE),
    "books": (_books, 5 * MINUTE),
}
SLACK = {"mids": 1}
"""A frame a little late leaves one bucket empty: the source does not call that an outage."""


def ledgers(tape: Tape) -> dict[str, Ledger]:
    """The ledgers of all channels that keep a beat."""
    return {channel: ledger(tape, channel, buckets=buckets, step=step) for channel, (buckets, step) in BEATS.items()}


def market_faults(storm: Faults) -> Faults:
    """What a storm does to the market itself: bars that come late and bars that are corrected."""
    return Faults(seed=storm.seed, window=storm.window, late=storm.late, correct=storm.correct)


def world_server(*, seed: int, faults: Faults, history_ms: int) -> WorldServer:
    """A server of the seeded world, `history_ms` after its birth."""
    return WorldServer(World(seed, start=BORN, symbols=SYMBOLS), faults=faults, history_ms=history_ms)
