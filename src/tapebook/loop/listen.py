"""Live ingestion: a source runs as a task, and its intake is emptied a few times a second until it is stopped."""

import asyncio
from collections.abc import Callable, Container
from itertools import pairwise

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.config import Config
from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import AssetContext
from tapebook.errors import Busy, StoreFailed
from tapebook.loop.ingest import Ingester, Intake
from tapebook.loop.stage import WorldClock
from tapebook.tape.retention import Keep
from tapebook.tape.sources import hyperliquid
from tapebook.tape.store import Tape, View
from tapebook.wiring import Rooms

FLUSH_SECONDS = 0.25
# Between two flushes: some 80 ms, and 16 symbols a second, which is all perps in a quarter of a minute.
_DERIVED_AT_ONCE = 4

# What a start of the source asks for in any case, behind the newest bar; and what the exchange keeps, less a day.
_LOOKED_AT = 55 * MINUTE
_MOST_HISTORY = 60 * HOUR


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


def resume_of(tape: Tape, *, now: int, history_ms: int) -> dict[str, int]:
    """The newest bucket of each channel up to which the tape has all it can have.

    A process can be killed while it still fetches: then one symbol is complete and the next is not. So settled rates
    are asked for again as far back as a first start does, which costs as much as one; bars from the first long hole on.
    """
    found = tape.newest_buckets()
    since = now - min(history_ms, _MOST_HISTORY)
    if "funding" in found:
        found["funding"] = min(found["funding"], floor(since, HOUR))
    if "candles" in found:
        named = {(each.gap.subject, each.gap.from_ts) for each in tape.gaps(as_of=now) if each.gap.channel == "candles"}
        perps = [symbol for symbol in tape.symbols() if tape.newest(AssetContext, symbol, view=View(now))]
        holes = [_long_hole(tape, symbol, since=floor(since, MINUTE), now=now, named=named) for symbol in perps]
        found["candles"] = min([found["candles"], *(hole for hole in holes if hole is not None)])
    return found


def _long_hole(tape: Tape, symbol: str, *, since: int, now: int, named: Container[tuple[str, int]]) -> int | None:
    """The beginning of the first hole in a symbol's bars that a start does not look at anyway and no gap names."""
    bars = tape.candles(symbol, granularity_sec=60, since=since, view=View(now))
    there = [since, *(bar.bucket_ts for bar in bars), floor(now, MINUTE)]
    for before, after in pairwise(there):
        if after - before > _LOOKED_AT and (symbol, before + MINUTE) not in named:
            return before
    return None


async def listen(
    rooms: Rooms, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Ingests until `seconds` have passed or the task is cancelled; what was received by then is committed."""
    intake = Intake()
    ingester = Ingester(rooms, intake, keep=keep_of(rooms.config))
    settings = source_settings(rooms.config, url=url)
    source = hyperliquid.create(
        settings,
        sink=intake,
        clock=rooms.clock.now,
        monotonic=rooms.clock.seconds if isinstance(rooms.clock, WorldClock) else elapsed_seconds,
        sleep=rooms.clock.sleep if isinstance(rooms.clock, WorldClock) else asyncio.sleep,
        resume=resume_of(rooms.tape, now=rooms.clock.now(), history_ms=settings.history_ms),
    )
    running = asyncio.create_task(source.run())
    end = None if seconds is None else elapsed_seconds() + seconds
    try:
        while end is None or elapsed_seconds() < end:
            await asyncio.wait([running], timeout=FLUSH_SECONDS)
            if running.done():
                # The source never ends by itself: whatever stopped it is raised here.
                running.result()
            report(_progress(rooms, ingester.flush() or _kept_up(ingester) or _unheard(source.health())))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        ingester.close()


def _kept_up(ingester: Ingester) -> str | None:
    """Keeps up with the time, or says why not: a full disk must not end what still listens."""
    try:
        ingester.keep_up(at_once=_DERIVED_AT_ONCE)
    except (StoreFailed, Busy) as error:
        return str(error)
    return None


def _unheard(health: hyperliquid.Health) -> str | None:
    """Why nothing is heard, when no connection stands; the source goes on trying."""
    if health.connections_up or not health.recent_problems:
        return None
    return f"no connection to the exchange, still trying ({health.recent_problems[-1]})"


def _progress(rooms: Rooms, problem: str | None) -> IngestProgress:
    rows = {channel.name: channel.rows for channel in rooms.tape.channels()}
    return IngestProgress(rooms.clock.now(), rows, rooms.tape.gap_count(), problem)
