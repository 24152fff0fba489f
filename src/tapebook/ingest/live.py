"""Live ingestion: a source runs as a task, and its buffer is emptied a few times a second until it is stopped."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from tapebook.anchors import AnchorTimer, try_anchor_heads
from tapebook.archive import put_content
from tapebook.clock import elapsed_seconds
from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND, floor_to_step, iso_text
from tapebook.domain.market import Gap, Liquidity
from tapebook.errors import Busy, DatabaseAway, Retry, StoreFailed
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.log.store import is_clock_set_back
from tapebook.settings.config import Config
from tapebook.sources import hyperliquid
from tapebook.sources.hyperliquid.gaps import NO_BAR, channel_of
from tapebook.sources.hyperliquid.universe import dex_of
from tapebook.tape.recording import Recorder
from tapebook.tape.retention import RetentionPeriods
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.heartbeat import DatabaseWait
from tapebook.wiring import Rooms

# One commit holds the frames of a quarter of a second: a row per commit would wait for the disk each time.
FLUSH_SECONDS = 0.25
NO_CONNECTION = "no connection to the exchange"
"""How the line begins that says so."""

# What is due is done in between: so long at once, one step more at most, and then frames come first for so long.
_WORK_SECONDS = 0.02
_REST_SECONDS = 0.03

# What a start of the source asks for in any case, behind the newest bar; and what the exchange keeps, less a day.
_RESTART_LOOKBACK_MS = 55 * MINUTE
_MAX_HISTORY_MS = 60 * HOUR
# Rows of midpoints stay for half an hour; a dex that was silent for longer is not known to have been before.
_DEX_LOOKBACK_MS = 15 * MINUTE


class IngestProgress(msgspec.Struct, frozen=True):
    """How ingestion goes: rows by channel, gaps found, what is wrong just now, what is to be said once, and what the
    settings ask in vain.
    """

    market_time: int
    rows: dict[str, int]
    gaps: int
    problem: str | None
    notice: str | None = None
    unlisted: tuple[str, ...] = ()


def retention_by_channel(config: Config) -> RetentionPeriods:
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
        **dict.fromkeys(("books", "volatility", "pressure", "positioning", "commits"), features),
    }


def source_settings(config: Config, *, url: str | None, stepped: bool = False) -> hyperliquid.HyperliquidSourceSettings:
    """The settings of the source, from those of the home."""
    wanted = config.hyperliquid
    return hyperliquid.HyperliquidSourceSettings(
        base_url=url or wanted.url,
        dexes=wanted.dexes,
        symbols=wanted.symbols,
        spot=wanted.spot,
        weight_share=wanted.weight_share,
        book_change_factor=wanted.book_change_factor,
        history_ms=int(wanted.history_hours * HOUR),
        stepped=stepped,
    )


def resume_points(tape: Tape, *, now: int, history_ms: int, dexes: Iterable[str] = ()) -> dict[str, int]:
    """The newest bucket of each channel up to which the tape has all it can have, dex by dex.

    A process can be killed while it still fetches: then one symbol is complete and the next is not. So settled rates
    are asked for again as far back as a first start does, which costs as much as one; bars from the first long hole on.
    """
    since = now - min(history_ms, _MAX_HISTORY_MS)
    found = tape.newest_buckets()
    if dexes := tuple(dexes):
        found |= _newest_by_dex(tape, found, dexes, since=since)
    for channel in (channel_of("funding", dex) for dex in ("", *dexes)):
        if channel in found:
            found[channel] = min(found[channel], floor_to_step(since, HOUR))
    asked = _answered_gaps(tape, since=since, now=now)
    for symbol in tape.newest_by_symbol("contexts", since=since):
        channel = channel_of("candles", dex_of(symbol))
        hole = _first_long_gap(tape, symbol, since=floor_to_step(since, MINUTE), now=now, asked=asked.get(symbol, ()))
        if channel in found and hole is not None:
            found[channel] = min(found[channel], hole)
    return found


def newest_books(tape: Tape, *, now: int) -> dict[str, Liquidity]:
    """The newest book of each symbol that had one within the day."""
    # Several commits of one moment are known a little after it.
    view = View(max(now, tape.head()[1]))
    found = {
        symbol: tape.newest(Liquidity, symbol, view=view) for symbol in tape.newest_by_symbol("books", since=now - DAY)
    }
    return {symbol: book for symbol, book in found.items() if book is not None}


def _newest_by_dex(tape: Tape, newest: Mapping[str, int], dexes: Iterable[str], *, since: int) -> dict[str, int]:
    """The same channels dex by dex: one dex can have been silent while another was heard."""
    # What keeps a beat counts as missing for as far back as is looked; what can be asked for again, as far as is
    # asked.
    stored_dexes = {dex_of(symbol) for symbol in tape.symbols()}
    found = {}
    for channel in newest.keys() & {"mids", "contexts", "candles", "funding"}:
        first = newest[channel] - _DEX_LOOKBACK_MS if channel in ("mids", "contexts") else since
        by_symbol = tape.newest_by_symbol(channel, since=first)
        for dex in stored_dexes & {"", *dexes}:
            buckets = (bucket for symbol, bucket in by_symbol.items() if dex_of(symbol) == dex)
            found[channel_of(channel, dex)] = max(buckets, default=first)
    return found


def _answered_gaps(tape: Tape, *, since: int, now: int) -> dict[str, list[Gap]]:
    """By symbol, the candle gaps that the exchange has answered for: filled ones, and those it has no bars of."""
    found: dict[str, list[Gap]] = {}
    for each in tape.channel_gaps("candles", since=since, as_of=now):
        if each.filled_at is not None or each.gap.reason == NO_BAR:
            found.setdefault(each.gap.subject, []).append(each.gap)
    return found


def _first_long_gap(tape: Tape, symbol: str, *, since: int, now: int, asked: Sequence[Gap]) -> int | None:
    """The beginning of the first hole in a symbol's bars that a start does not look at anyway and nobody asked for."""
    # What is left open of an outage lies beside a part of it that was filled, so to touch such a part is enough.
    bars = tape.candles(symbol, granularity_sec=60, since=since, view=View(now))
    there = [since, *(bar.bucket_ts for bar in bars), floor_to_step(now, MINUTE)]
    for before, after in pairwise(there):
        if after - before <= _RESTART_LOOKBACK_MS:
            continue
        if not any(gap.from_ts <= after and before + MINUTE <= gap.to_ts for gap in asked):
            return before
    return None


async def ingest_live(
    rooms: Rooms, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Ingests until `seconds` have passed or the task is cancelled; what was received by then is committed.

    While the database is away, what is received waits in memory. Retry when the seconds are over and nothing was
    received: there was no connection, or nothing to be watched.
    """
    before, unheard = rooms.tape.rows_written(), None
    unlisted: tuple[str, ...] = ()
    recorder = _recorder(rooms)
    listening = _LiveIngest(rooms, recorder, url=url)
    anchors = AnchorTimer(rooms)
    end = None if seconds is None else elapsed_seconds() + seconds
    wait, newest = DatabaseWait(), IngestProgress(rooms.clock.now(), {}, 0, None)
    try:
        while end is None or elapsed_seconds() < end:
            try:
                line = await listening.restart_if_set_back() if wait.should_retry else None
            except DatabaseAway as error:
                line = wait.note_away(error)
            if line:
                report(msgspec.structs.replace(newest, problem=line))
            if listening.is_stopped:
                await asyncio.sleep(FLUSH_SECONDS)
                continue
            behind = await _until_the_next_flush(listening.running, None if wait.is_away else listening.ingester)
            if listening.running.done():
                # The source never ends by itself: whatever stopped it is raised here.
                listening.running.result()
            if not wait.should_retry:
                continue
            health = listening.source.health()
            unheard, unlisted = _connection_problem(health), _unlisted_settings(health)
            try:
                problem = listening.ingester.flush() or behind
                unrecorded = recorder.archive_due(rooms.clock.now()) if recorder else None
                problem = problem or unrecorded or anchors.anchor_if_due() or unheard
                newest = _progress(rooms, problem, unlisted=unlisted)
            except DatabaseAway as error:
                report(msgspec.structs.replace(newest, problem=wait.note_away(error)))
            else:
                report(msgspec.structs.replace(newest, notice=wait.note_back()))
    finally:
        await listening.stop()
        try:
            listening.ingester.close()
        finally:
            if recorder:
                recorder.close()
        unanchored = try_anchor_heads(rooms)
    if unanchored:
        report(_progress(rooms, unanchored, unlisted=unlisted))
    reasons = [unheard] if unheard else list(unlisted)
    if reasons and rooms.tape.rows_written() == before:
        raise Retry(f"nothing was received: {'; '.join(reasons)}")


class _LiveIngest:
    """A source at work and the ingester that takes what it brings, for as long as the clock goes forward."""

    def __init__(self, rooms: Rooms, recorder: Recorder | None, *, url: str | None) -> None:
        self._rooms, self._recorder, self._url = rooms, recorder, url
        self._intake = FactBuffer()
        self._set_back_s: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._latest = self._rooms.clock.now()
        if is_clock_set_back(self._rooms.tape.head()[1], self._latest):
            # A commit says that the clock was set back: what a source resumes from must not be ahead.
            self._rooms.tape.commit([])
        self.ingester = Ingester(self._rooms, self._intake, keep=retention_by_channel(self._rooms.config))
        self.source = _source(self._rooms, self._intake, self._recorder, url=self._url)
        self.running = asyncio.create_task(self.source.run())

    @property
    def is_stopped(self) -> bool:
        """Whether the source has ended because the clock was set back, and could not begin anew yet."""
        return self._set_back_s is not None

    async def restart_if_set_back(self) -> str | None:
        """Begins anew when the clock has gone back, for polls and bars are due by it; says that it has.

        DatabaseAway when it cannot yet: the next call goes on with it.
        """
        now = self._rooms.clock.now()
        if not self.is_stopped:
            if not is_clock_set_back(self._latest, now):
                self._latest = max(self._latest, now)
                return None
            self._set_back_s = (self._latest - now) // SECOND
            await self.stop()
        # What was received by then is written first: its commit says that the clock was set back.
        problem = self.ingester.flush()
        self._begin()
        back, self._set_back_s = self._set_back_s, None
        return problem or f"the clock was set back by {back} s, to {iso_text(now)}: ingestion has begun anew"

    async def stop(self) -> None:
        """Ends the source."""
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


def _source(
    rooms: Rooms, intake: FactBuffer, recorder: Recorder | None, *, url: str | None
) -> "hyperliquid.HyperliquidSource":
    settings = source_settings(rooms.config, url=url)
    return hyperliquid.create(
        settings,
        sink=intake,
        clock=rooms.clock.now,
        monotonic=rooms.clock.seconds,
        sleep=rooms.clock.sleep,
        resume=resume_points(rooms.tape, now=rooms.clock.now(), history_ms=settings.history_ms, dexes=settings.dexes),
        books=newest_books(rooms.tape, now=rooms.clock.now()),
        record=recorder,
    )


def _recorder(rooms: Rooms) -> Recorder | None:
    """What keeps raw payloads, if the settings ask for them."""
    if not rooms.config.archive.raw:
        return None
    return Recorder(rooms.tape_db, lambda content: put_content(rooms.archive, content))


async def _until_the_next_flush(running: "asyncio.Task[None]", ingester: Ingester | None) -> str | None:
    """Lets frames come in, and does what is due meanwhile, if it can be done now; says why it could not."""
    flush_at = elapsed_seconds() + FLUSH_SECONDS
    problem = None
    while not running.done() and (left := flush_at - elapsed_seconds()) > 0:
        works = ingester is not None and problem is None and ingester.is_behind()
        await asyncio.wait([running], timeout=min(left, _REST_SECONDS) if works else left)
        problem = _do_due_work(ingester) if ingester is not None and works else problem
    return problem


def _do_due_work(ingester: Ingester) -> str | None:
    """Keeps up with the time, or says why not: a full disk must not end what still listens."""
    stop_at = elapsed_seconds() + _WORK_SECONDS
    try:
        while ingester.is_behind() and elapsed_seconds() < stop_at:
            ingester.do_due_work(at_once=1)
    except DatabaseAway:
        # The commit that follows says so.
        return None
    except (StoreFailed, Busy) as error:
        return str(error)
    return None


def _connection_problem(health: "hyperliquid.Health") -> str | None:
    """Why nothing is heard, when no connection stands; the source goes on trying."""
    if health.connections_up or not health.recent_problems:
        return None
    return f"{NO_CONNECTION} ({health.recent_problems[-1]})"


def _unlisted_settings(health: "hyperliquid.Health") -> tuple[str, ...]:
    """What the settings ask for and the exchange does not list, a line each that says what to do."""
    lines = [f"the exchange lists no {name}: {SYMBOL_SETTINGS_REMEDY}" for name in health.unknown_names]
    if health.watched == 0 and not lines:
        lines.append(f"there is no perp to watch: {SYMBOL_SETTINGS_REMEDY}")
    return tuple(lines)


def _progress(rooms: Rooms, problem: str | None, *, unlisted: tuple[str, ...]) -> IngestProgress:
    rows = {channel.name: channel.rows for channel in rooms.tape.channels()}
    return IngestProgress(rooms.clock.now(), rows, rooms.tape.gap_count(), problem, unlisted=unlisted)


SYMBOL_SETTINGS_REMEDY = "correct `symbols` and `dexes` of [hyperliquid] in tapebook.toml"
"""What to do about a name that the exchange does not list."""
