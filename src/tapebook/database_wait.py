"""Waits for a database that is away, and says once that it is."""

import time
from collections.abc import Callable
from typing import TypeVar

from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.domain.units import iso_text
from tapebook.errors import DatabaseAway

DATABASE_AWAY, DATABASE_BACK = "database away", "database back"
"""How the lines begin that say so."""

_FIRST_PAUSE_SECONDS = 0.1
# A server that starts is found soon enough, and many processes that wait for one do not hinder it.
_LONGEST_PAUSE_SECONDS = 2.0
_LOOK_SECONDS = 0.05

T = TypeVar("T")


class DatabaseWait:
    """Since when a database has been away, and when it is tried again: later each time."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._line = ""
        self._pause = 0.0
        self._try_at = 0.0

    @property
    def is_away(self) -> bool:
        """Whether the database did not answer when it was last asked."""
        return self._since is not None

    @property
    def should_retry(self) -> bool:
        """Whether it is time to ask again; always so while the database answers."""
        return self._since is None or elapsed_seconds() >= self._try_at

    def note_away(self, error: DatabaseAway) -> str:
        """Notes that the database does not answer; returns what to say of it, the same line until it does again."""
        now = elapsed_seconds()
        # A restart takes seconds, an outage hours: asked often at first, then ever less.
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS) if self.is_away else _FIRST_PAUSE_SECONDS
        self._try_at = now + self._pause
        if self._since is None:
            self._since = now
            since, why = iso_text(SystemClock().now())[:19], str(error).partition("; ")[0]
            # One line for the whole outage, so that whoever prints only what is new prints it once.
            self._line = f"{DATABASE_AWAY} since {since}Z, trying again ({why})"
        return self._line

    def note_back(self) -> str | None:
        """Notes that the database answers; returns what to say of it, or None when it was not away."""
        if self._since is None:
            return None
        seconds, self._since = elapsed_seconds() - self._since, None
        return f"{DATABASE_BACK} after {seconds:.1f} s"

    def sleep_until_retry(self, *, until: float | None, stopped: Callable[[], bool]) -> bool:
        """Sleeps until it is time to ask again; False when the time is over or a stop was asked for before that."""
        while not self.should_retry:
            if stopped() or (until is not None and elapsed_seconds() >= until):
                return False
            time.sleep(_LOOK_SECONDS)
        return True


def when_database_answers(
    call: Callable[[], T], *, until: float | None, stopped: Callable[[], bool], report: Callable[[str], None]
) -> T:
    """What a call gives, tried again while the database is away; DatabaseAway when time or a stop ends the wait."""
    waiting = DatabaseWait()
    while True:
        try:
            found = call()
        except DatabaseAway as error:
            report(waiting.note_away(error))
            if not waiting.sleep_until_retry(until=until, stopped=stopped):
                raise
            continue
        back = waiting.note_back()
        if back is not None:
            report(back)
        return found
