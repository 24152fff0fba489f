"""Ingestion from the simulated world over real sockets, one step at a time, in virtual time.

A step: the clock moves, the world's server sends the frames of that moment, the source takes them all (its barrier
says when), the other sources of the settings ask the world's other servers what is due, and the tape commits all of it
in one transaction. Nothing depends on how fast frames travel, so two runs
over one seed write the same bytes.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from tapebook.clock import VirtualClock, elapsed_seconds
from tapebook.db import Database
from tapebook.domain.units import MINUTE, SECOND, floor_to_step
from tapebook.errors import StoreFailed
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.ingest.live import run_sources
from tapebook.settings.config import Config
from tapebook.sources import hyperliquid
from tapebook.sources.hyperliquid.settings import source_settings
from tapebook.sources.hyperliquid.tape_reads import live_markets, newest_books
from tapebook.tape.source import ProgressTable, Source, SourceAdapter, SourceContext
from tapebook.tape.store import Tape
from tapebook.wiring import Rooms
from tapebook.world.market import World

if TYPE_CHECKING:
    from tapebook.world.server import Faults

STEP_MS = 5 * SECOND
# The source that the world moves by itself; all others ask.
_FIRST = hyperliquid.SOURCE.name


class SteppedFeed:
    """A world, its server and a source that listens to it, all in this process."""

    def __init__(
        self,
        rooms: Rooms,
        clock: VirtualClock,
        world: World,
        *,
        history_ms: int,
        fetch_ms: int | None = None,
        delistings: Mapping[str, int] | None = None,
        faults: "Faults | None" = None,
    ) -> None:
        # Loaded by those who serve: HTTP takes longer to load than all else together.
        from tapebook.world.server import Faults, WorldServer

        self._rooms = rooms
        self._clock = clock
        self._server = WorldServer(world, history_ms=history_ms, delistings=delistings, faults=faults or Faults())
        # How much of the world's history the source asks for when the tape has nothing it heard itself.
        self._fetch_ms = history_ms if fetch_ms is None else fetch_ms
        self._intake = FactBuffer()
        self._first = world.start + history_ms
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "SteppedFeed":
        try:
            await self._open()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _open(self) -> None:
        """Starts the server where the tape ends, and the source beside it."""
        url = await self._server.start()
        reached = self.newest_step()
        if reached is not None:
            await self._server.advance(reached)
            self._move_clock(reached)
        # Made here and not before: what is due is counted from the moment the clock shows.
        keep = retention_by_channel(self._rooms.config)
        self._ingester = Ingester(self._rooms, self._intake, keep=keep, derive_every=5 * MINUTE)
        self._source = self._stepped_source(url)
        self._beside = polled_sources(
            self._rooms.tape,
            self._clock,
            self._intake,
            url,
            config=self._rooms.config,
            tape_db=self._rooms.tape_db,
            sources=self._rooms.sources,
        )
        self._running = asyncio.create_task(run_sources([self._source, *self._beside]))
        if reached is None:
            # Connected before the first frame is sent; what is fetched here is committed with the first step.
            await self._source.barrier(self._clock.now())
        else:
            # A process that was killed may have left the last step unfinished; doing it again leaves no trace.
            await self._commit_step(reached)

    async def _close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._server.stop()

    def newest_step(self) -> int | None:
        """The newest step the tape has; None before the first one."""
        seq, known_at = self._rooms.tape.head()
        return floor_to_step(known_at, STEP_MS) if seq else None

    def next_step(self) -> int:
        """The step after the newest one."""
        reached = self.newest_step()
        return self._first if reached is None else reached + STEP_MS

    async def play_step(self, at: int) -> None:
        """Plays one step and commits all it sent."""
        self._move_clock(at)
        await self._server.advance(at)
        await self._commit_step(at)

    def _move_clock(self, at: int) -> None:
        # What people do while the market stands is written a little after its last step.
        self._clock.advance(max(at, self._clock.now()))

    async def _commit_step(self, at: int) -> None:
        if self._running is not None and self._running.done():
            # The source never ends by itself: whatever stopped it is raised here.
            self._running.result()
        await self._source.barrier(at)
        for source in self._beside:
            await source.barrier(at)
        problem = self._ingester.flush()
        if problem:
            raise StoreFailed(problem)
        self._ingester.do_due_work()

    def _stepped_source(self, url: str) -> "hyperliquid.HyperliquidSource":
        settings = source_settings(self._rooms.config.hyperliquid, url=url, stepped=True)
        return hyperliquid.create(
            msgspec.structs.replace(settings, spot=False, symbols=(), history_ms=self._fetch_ms),
            sink=self._intake,
            clock=self._clock.now,
            monotonic=elapsed_seconds,
            sleep=asyncio.sleep,
            # Steps are committed whole, so the newest bucket of a channel says all.
            resume=self._rooms.tape.newest_buckets(),
            books=newest_books(self._rooms.tape, now=self._clock.now()),
            listed=live_markets(self._rooms.tape),
        )


def polled_sources(
    tape: Tape,
    clock: VirtualClock,
    intake: FactBuffer,
    url: str,
    *,
    config: Config,
    tape_db: Database,
    sources: Sequence[SourceAdapter],
) -> list[Source]:
    """The sources of the settings that ask the servers of a world when they are told to; all but the first."""
    found = []
    for adapter in sources:
        if adapter.name == _FIRST:
            continue
        context = SourceContext(
            sink=intake,
            tape=tape,
            clock=clock.now,
            monotonic=elapsed_seconds,
            sleep=asyncio.sleep,
            url=url,
            stepped=True,
            progress=ProgressTable(tape_db).parts(adapter.name),
        )
        found.append(adapter.create(config.source_section(adapter.name), context))
    return found
