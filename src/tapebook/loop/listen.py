"""Live ingestion: a source runs as a task, and its intake is emptied a few times a second until it is stopped."""

import asyncio
from collections.abc import Callable

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.config import Config
from tapebook.domain.instants import HOUR
from tapebook.loop.ingest import Ingester, Intake
from tapebook.tape.retention import Keep
from tapebook.tape.sources import hyperliquid
from tapebook.wiring import Rooms

FLUSH_SECONDS = 0.25


class IngestProgress(msgspec.Struct, frozen=True):
    """How ingestion goes: rows by channel, gaps found, and what is wrong just now, if anything."""

    market_time: int
    rows: dict[str, int]
    gaps: int
    problem: str | None


def keep_of(config: Config) -> Keep:
    """The retention settings in milliseconds, by channel."""
    hours = config.retention
    minutes, features = int(hours.candles_hours * HOUR), int(hours.features_hours * HOUR)
    return {
        "mids": int(hours.mids_hours * HOUR),
        "candles_60": minutes,
        "contexts": minutes,
        "predicted": minutes,
        "candles_3600": int(hours.hourly_candles_hours * HOUR),
        "funding": int(hours.funding_hours * HOUR),
        **dict.fromkeys(("books", "volatility", "pressure", "positioning"), features),
    }


def source_settings(config: Config, *, url: str | None, stepped: bool = False) -> hyperliquid.HyperliquidSettings:
    """The settings of the source, from those of the home."""
    wanted = config.hyperliquid
    return hyperliquid.HyperliquidSettings(
        base_url=url or wanted.url,
        dexes=wanted.dexes,
        symbols=wanted.symbols,
        spot=wanted.spot,
        weight_share=wanted.weight_share,
        history_ms=int(wanted.history_hours * HOUR),
        stepped=stepped,
    )


async def listen(
    rooms: Rooms, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Ingests until `seconds` have passed or the task is cancelled; what was received by then is committed."""
    intake = Intake()
    ingester = Ingester(rooms, intake, keep=keep_of(rooms.config))
    source = hyperliquid.create(
        source_settings(rooms.config, url=url),
        sink=intake,
        clock=rooms.clock.now,
        monotonic=elapsed_seconds,
        sleep=asyncio.sleep,
        resume={channel.name: channel.newest_bucket_ts for channel in rooms.tape.channels()},
    )
    running = asyncio.create_task(source.run())
    end = None if seconds is None else elapsed_seconds() + seconds
    try:
        while end is None or elapsed_seconds() < end:
            await asyncio.wait([running], timeout=FLUSH_SECONDS)
            if running.done():
                # The source never ends by itself: whatever stopped it is raised here.
                running.result()
            problem = ingester.flush()
            ingester.keep_up()
            report(_progress(rooms, problem))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ingester.flush()


def _progress(rooms: Rooms, problem: str | None) -> IngestProgress:
    rows = {channel.name: channel.rows for channel in rooms.tape.channels()}
    return IngestProgress(rooms.clock.now(), rows, rooms.tape.gap_count(), problem)
