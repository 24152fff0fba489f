"""What is done once an hour: minutes become hourly bars, and old rows leave for the archive.

In virtual time all of it is one step of the market. Live, frames must not wait for it: then it is
done a few symbols and one chunk at a time, between two flushes.
"""

from collections.abc import Iterator, Sequence

from tapebook.archive import put_content
from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.errors import Busy, StoreFailed
from tapebook.loop.watchlists import Watchlists
from tapebook.tape.retention import Keep, retirement
from tapebook.tape.rollup import roll_up
from tapebook.tape.store import View
from tapebook.wiring import Rooms

TIDY_DELAY = MINUTE
"""How long after the hour it is rolled up: by then the last minute of a quiet market is final too."""


class Tidy:
    """The hour's work, and how far it has come."""

    def __init__(self, rooms: Rooms, *, keep: Keep) -> None:
        self._rooms = rooms
        self._keep = keep
        self._watchlists = Watchlists(rooms.book)
        # What fell due before this moment was the business of an earlier process, what falls due at it is ours.
        self._hour = floor(rooms.clock.now() - 1 - TIDY_DELAY, HOUR)
        self._unrolled: Sequence[str] = ()
        self._retires = False
        self._retirement: Iterator[int] | None = None

    def is_due(self) -> bool:
        """Whether there is anything to do; a new hour begins when the work of the last one is done."""
        hour = floor(self._rooms.clock.now() - TIDY_DELAY, HOUR)
        if hour > self._hour and not self._retires:
            self._hour, self._unrolled, self._retires = hour, self._rooms.tape.symbols(), True
        return self._retires

    def work(self, *, at_once: int | None) -> None:
        """Does all that is due, or as much as concerns so many symbols or one chunk; what fails is due again."""
        if self._unrolled:
            self._roll_up(self._unrolled[:at_once])
            self._unrolled = self._unrolled[at_once:] if at_once else ()
        elif at_once:
            self._retire_some()
        if not at_once:
            while self._retires:
                self._retire_some()

    def _roll_up(self, symbols: Sequence[str]) -> None:
        """Hourly bars of the last day; what has not changed leaves no trace."""
        tape, view = self._rooms.tape, View(self._rooms.clock.now())
        bars = []
        for symbol in symbols:
            minutes = tape.candles(symbol, granularity_sec=60, since=self._hour - 24 * HOUR, view=view)
            # An hour the tape knows only the end of is left out.
            first = -(-minutes[0].bucket_ts // HOUR) * HOUR if minutes else self._hour
            whole = (minute for minute in minutes if first <= minute.bucket_ts < self._hour)
            bars += roll_up(whole, granularity_sec=3600)
        tape.commit(bars)

    def _retire_some(self) -> None:
        if self._retirement is None:
            now, watched = self._rooms.clock.now(), self._watchlists.symbols
            self._retirement = retirement(self._rooms.tape_db, self._put, keep=self._keep, now=now, watched=watched)
        try:
            self._retires = next(self._retirement, None) is not None
        except (StoreFailed, Busy):
            self._retirement = None
            raise
        if not self._retires:
            self._retirement = None

    def _put(self, content: bytes) -> str:
        return put_content(self._rooms.archive, content)
