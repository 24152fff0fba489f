"""Writes the past of a simulated world to a tape: bars and funding in bulk, the other sources by asking its servers.

Bars and rates are imported history: each is known when a live source would have known it. The other sources have no
history to import, so they ask the world's servers at the end of every day, and what they say is known then; the
hours between are no gaps. A process that is killed goes on with the first step the tape does not have. The bars of
weeks are drawn beside it.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import attrgetter

from tapebook.clock import VirtualClock
from tapebook.domain.market import Candle, FundingRate, Gap
from tapebook.domain.units import DAY, HOUR, SECOND
from tapebook.errors import StoreFailed
from tapebook.history.importer import assumed_known_at
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.ingest.live import run_sources
from tapebook.ingest.stepwise import polled_sources
from tapebook.tape.bars import roll_up
from tapebook.tape.source import Source
from tapebook.wiring import Rooms
from tapebook.world.drawing import bars_drawn_beside
from tapebook.world.market import World

PAST_STEP_MS = DAY
# Sooner than a process has begun, two days are drawn here.
_LEAST_DRAWN_BESIDE_MS = 3 * DAY


class _PastFacts(FactBuffer):
    """What the other sources say of the past, without the hours between two days: nobody was to hear those."""

    def add_gap(self, gap: Gap) -> None:
        """Keeps none."""


async def write_past(
    rooms: Rooms, clock: VirtualClock, world: World, *, until: int, progress: Callable[[int], None]
) -> None:
    """Writes the world from its start up to a moment, as far as the tape does not have it."""
    from tapebook.world.server import WorldServer

    if rooms.tape.head()[1] >= until:
        return
    server = WorldServer(world, spots=False)
    url = await server.start()
    intake = _PastFacts()
    ingester = Ingester(rooms, intake, keep=retention_by_channel(rooms.config))
    beside: list[Source] = []
    running: asyncio.Task[None] | None = None
    drawing = ExitStack()
    try:
        drawn: Iterator[list[Candle]] = iter(())
        if until - world.start >= _LEAST_DRAWN_BESIDE_MS:
            drawn = drawing.enter_context(bars_drawn_beside(world, every=PAST_STEP_MS, until=until))
        for at in range(world.start + PAST_STEP_MS, until + 1, PAST_STEP_MS):
            rows = server.skip_to(at, bars=next(drawn, ()))
            if rooms.tape.head()[1] >= at:
                continue
            # A millisecond before the step: who asks at it may know the bars, and a step that is made again too.
            clock.advance(at - 1)
            rooms.tape.commit([*rows, *_hours_of(rows)], assumed=assumed_known_at)
            clock.advance(at)
            if running is None:
                # Made here and not before: what is due is counted from the moment the clock shows.
                beside = polled_sources(
                    rooms.tape, clock, intake, url, config=rooms.config, tape_db=rooms.tape_db, sources=rooms.sources
                )
                running = asyncio.create_task(run_sources(beside))
            for source in beside:
                await source.barrier(at)
            if problem := ingester.flush():
                raise StoreFailed(problem)
            progress(at)
    finally:
        drawing.close()
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await server.stop()


def _hours_of(rows: Sequence[Candle | FundingRate]) -> list[Candle]:
    """The hourly bars of whole hours of minutes, as live ingestion stores them: a week of minutes is slow to read."""
    minutes = [row for row in rows if isinstance(row, Candle)]
    return [
        hour
        for _, own in groupby(minutes, key=attrgetter("symbol"))
        for hour in roll_up(own, granularity_sec=HOUR // SECOND)
    ]
