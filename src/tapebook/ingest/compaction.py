"""The work of every hour: minutes become hourly bars, and old rows leave for the archive.

The tape notes which hours have got minutes, new or corrected, since their bars were made. So a correction reaches
the stored hour as a new revision however late it comes, also when the minutes of the hour have left for the
archive, and nothing is read of hours that did not change. Midpoints are archived for symbols on any watchlist
(`Watchlists`).

In virtual time all of it is one step of the market. Live, frames must not wait for it: then it is done a few
symbols and one chunk at a time, between two flushes.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from tapebook.archive import put_content
from tapebook.book.store import Book
from tapebook.domain.instants import DAY, HOUR, MINUTE, floor_to_step
from tapebook.domain.market import Candle
from tapebook.errors import Busy, StoreFailed
from tapebook.tape.bars import roll_up
from tapebook.tape.retention import RetentionPeriods, retire_in_steps
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

    def __init__(self, rooms: Rooms, *, keep: RetentionPeriods) -> None:
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
        self._retire_some()
        while self._retires and not at_once:
            self._retire_some()

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

    def _retire_some(self) -> None:
        if self._retirement is None:
            now, watched = self._rooms.clock.now(), self._watchlists.symbols
            self._retirement = retire_in_steps(
                self._rooms.tape_db, self._put, keep=self._keep, now=now, watched=watched
            )
        try:
            self._retires = next(self._retirement, None) is not None
        except (StoreFailed, Busy):
            self._retirement = None
            raise
        if not self._retires:
            self._retirement = None

    def _put(self, content: bytes) -> str:
        return put_content(self._rooms.archive, content)
