"""The work of every hour: minutes become hourly bars, and old rows leave for the archive.

The tape notes which hours have got minutes, new or corrected, since their bars were made. So a correction reaches
the stored hour as a new revision however late it comes, also when the minutes of the hour have left for the
archive, and nothing is read of hours that did not change. Midpoints are archived for symbols on any watchlist
(`Watchlists`).

In virtual time all of it is one step of the market. Live, frames must not wait for it: hours are rolled up a few
symbols at a time, between two flushes, and old rows are moved by a thread (`RowMover`) with connections of its own. It
asks the archive, which may be far away or not answer at all; until the archive has given a file back whole, its rows
stay in the tape, where every machine reads them.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from tapebook.archive import put_cold
from tapebook.background import BackgroundCall
from tapebook.book.store import Book
from tapebook.clock import Clock, elapsed_seconds
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, HOUR, MINUTE, floor_to_step
from tapebook.errors import Busy, StoreFailed, TapebookError
from tapebook.ingest.tape_recovery import store_catalogue
from tapebook.settings.config import Config
from tapebook.sources import load_sources
from tapebook.tape.bars import roll_up
from tapebook.tape.families import CANDLES
from tapebook.tape.retention import RetentionPeriods, retire_in_steps
from tapebook.tape.source import channels_of
from tapebook.tape.view import UnrolledHour, View
from tapebook.wiring import Rooms


class Watchlists:
    """The symbols of all watchlists of a book, those of earlier versions of its agents too."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._seen: dict[str, int] = {}
        self._symbols: set[str] = set()

    def symbols(self) -> set[str]:
        """Every symbol that any version of any agent watches by now."""
        for newest, profile in self._book.agents(removed=True):
            # A version never changes, so each is read once.
            for version in range(self._seen.get(profile.name, 0) + 1, newest + 1):
                found = self._book.agent(profile.name, version=version)
                self._symbols.update(found[1].watchlist if found else ())
            self._seen[profile.name] = newest
        return self._symbols


COMPACTION_DELAY_MS = MINUTE
"""How long after the hour it is rolled up: by then the last minute of a quiet market is final too."""


# Read and committed in one step: a tenth of a second at most, when all of them are in the archive.
_HOURS_PER_STEP = 48


class Compaction:
    """The hour's work, and how far it has come."""

    def __init__(self, rooms: Rooms, *, keep: RetentionPeriods | None) -> None:
        """Without `keep`, rows are moved by somebody else."""
        self._rooms = rooms
        self._keep = keep
        self._watchlists = Watchlists(rooms.book)
        # What fell due before this moment was the business of an earlier process, what falls due at it is ours.
        self._hour = floor_to_step(rooms.clock.now() - 1 - COMPACTION_DELAY_MS, HOUR)
        self._retires = False
        self._retirement: Iterator[int] | None = None

    def is_due(self) -> bool:
        """Whether there is anything to do; a new hour begins when the work of the last one is done."""
        hour = floor_to_step(self._rooms.clock.now() - COMPACTION_DELAY_MS, HOUR)
        if hour > self._hour and not self._retires:
            self._hour, self._retires = hour, True
        return self._retires

    def do_due_work(self, *, at_once: int | None) -> None:
        """Does all that is due, or as much as concerns so many symbols or one chunk; what fails is due again."""
        while hours := self._hours_to_roll(at_once):
            self._roll_up(hours)
            if at_once:
                return
        if self._keep is None:
            self._retires = False
            return
        self._retire_some(self._keep)
        while self._retires and not at_once:
            self._retire_some(self._keep)

    def _hours_to_roll(self, at_once: int | None) -> list[UnrolledHour]:
        """The hours to be rolled up next: all of them, or some of the first so many symbols."""
        found = self._rooms.tape.unrolled_hours(before=self._hour, most=_HOURS_PER_STEP)
        symbols = list(dict.fromkeys(each.symbol for each in found))[:at_once]
        return [each for each in found if each.symbol in symbols]

    def _roll_up(self, hours: Sequence[UnrolledHour]) -> None:
        """Hourly bars of changed minutes, wherever those are now; a bar that comes out as it was leaves no trace."""
        bars: list[Candle] = []
        for symbol, mine in groupby(hours, key=attrgetter("symbol")):
            bars += self._bars_of(symbol, [each.hour_ts for each in mine])
        self._rooms.tape.commit_hours(bars, rolled=hours)

    def _bars_of(self, symbol: str, hours: Sequence[int]) -> list[Candle]:
        tape = self._rooms.tape
        # Several commits of one moment are known a little after it.
        view = View(max(self._rooms.clock.now(), tape.head()[1]))
        limits = {"since": hours[0] - HOUR, "until": hours[-1]}
        stored = {bar.bucket_ts: bar for bar in tape.candles(symbol, granularity_sec=3600, view=view, **limits)}
        changed = []
        for hour in hours:
            minutes = tape.candles(symbol, granularity_sec=60, since=hour, until=hour + HOUR - MINUTE, view=view)
            # An hour the tape knows only the end of is left out.
            if not minutes or not ({hour, hour - HOUR} & stored.keys() or self._is_whole(minutes[0], view)):
                continue
            (bar,) = roll_up(minutes, granularity_sec=3600)
            if bar != stored.get(hour):
                changed.append(bar)
            stored[hour] = bar
        return changed

    def _is_whole(self, first: Candle, view: View) -> bool:
        """Whether the hour of this minute is known from its beginning: it begins with it, or there are bars before."""
        hour = floor_to_step(first.bucket_ts, HOUR)
        limits = {"since": hour - DAY, "until": hour - MINUTE}
        return first.bucket_ts == hour or bool(
            self._rooms.tape.candles(first.symbol, granularity_sec=60, view=view, **limits)
        )

    def _retire_some(self, keep: RetentionPeriods) -> None:
        try:
            if self._retirement is None:
                self._retirement = self._begin_retirement(keep)
            self._retires = next(self._retirement, None) is not None
        except (StoreFailed, Busy):
            self._retirement = None
            raise
        if not self._retires:
            self._retirement = None

    def _begin_retirement(self, keep: RetentionPeriods) -> Iterator[int]:
        store_catalogue(self._rooms.tape, self._rooms.archive, self._rooms.tape_db)
        return retire_in_steps(
            self._rooms.tape_db,
            partial(put_cold, self._rooms.archive),
            keep=keep,
            now=self._rooms.clock.now(),
            watched=self._watchlists.symbols,
            families=self._rooms.tape.families,
        )


_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 30.0, 1_800.0
# Between two chunks that are deleted, whoever commits what came in goes first.
_PAUSE_SECONDS = 0.002
# A process that stops waits so long for a file that is on its way.
_LEAVE_SECONDS = 5.0


class RowMover:
    """Moves old rows to the archive once an hour, in a thread; what the archive refuses is tried again, ever later."""

    def __init__(self, clock: Clock, home: Path) -> None:
        self._clock = clock
        self._home = home
        self._call = BackgroundCall[int]("old rows")
        self._stop = threading.Event()
        self._hour = -1
        self._retry, self._retry_at = _FIRST_RETRY_SECONDS, 0.0
        self._problem: str | None = None
        self.moved = 0

    def move_if_due(self) -> str | None:
        """Begins when an hour is over; returns why rows could not be moved, until they could."""
        if self._call.has_ended:
            self._take_result()
        hour = self._clock.now() // HOUR
        if not self._call.is_pending and hour != self._hour and elapsed_seconds() >= self._retry_at:
            self._hour = hour
            self._call.start(partial(move_old_rows, self._home, self._clock, self._stop.is_set))
        return self._problem

    def close(self) -> None:
        """Stops between two chunks; a file that is still on its way counts for nothing."""
        self._stop.set()
        if self._call.wait(_LEAVE_SECONDS):
            self._take_result()

    def _take_result(self) -> None:
        try:
            self.moved += self._call.take_result()
            self._problem, self._retry = None, _FIRST_RETRY_SECONDS
        except (TapebookError, OSError) as error:
            self._problem = f"old rows stay in the tape: {error}"
            self._hour, self._retry_at = -1, elapsed_seconds() + self._retry
            self._retry = min(2 * self._retry, _LONGEST_RETRY_SECONDS)


def move_old_rows(home: Path, clock: Clock, is_stopped: Callable[[], bool]) -> int:
    """Moves what is old enough, with connections of its own; returns how many rows left."""
    moved = 0
    with closing(Rooms(home, clock=clock)) as rooms:
        # Before the first row leaves: a tape that is lost is begun again with the symbols of its files.
        store_catalogue(rooms.tape, rooms.archive, rooms.tape_db)
        for rows in retire_in_steps(
            rooms.tape_db,
            partial(put_cold, rooms.archive),
            keep=retention_by_channel(rooms.config),
            now=clock.now(),
            watched=Watchlists(rooms.book).symbols,
            families=rooms.tape.families,
            wait_ms=int(rooms.config.retention.cold_file_hours * HOUR),
        ):
            moved += rows
            if is_stopped():
                break
            if rows:
                time.sleep(_PAUSE_SECONDS)
    return moved


def retention_by_channel(config: Config) -> RetentionPeriods:
    """The retention settings in milliseconds, by channel of the sources that the settings name."""
    hours = config.retention
    classes = {
        "mids": int(hours.mids_hours * HOUR),
        "candles": int(hours.candles_hours * HOUR),
        "features": int(hours.features_hours * HOUR),
        "funding": int(hours.funding_hours * HOUR),
    }
    keep = {name: classes[channel.retention] for name, channel in channels_of(load_sources(config.sources)).items()}
    # Hourly bars are made here of a source's minutes.
    if CANDLES.channel in keep:
        keep |= {"candles_60": keep.pop(CANDLES.channel), "candles_3600": int(hours.hourly_candles_hours * HOUR)}
    return keep | {"commits": classes["features"]}
