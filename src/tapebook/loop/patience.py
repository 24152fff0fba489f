"""Waits for something outside: for an engine, while leases are kept alive; for a database that is away."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.decision import Answer
from tapebook.domain.instants import iso
from tapebook.errors import DatabaseAway
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms

DATABASE_AWAY, DATABASE_BACK = "database away", "database back"
"""How the lines begin that say so."""

_BETWEEN_SIGNS_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 0.1
# A server that starts is found soon enough, and many processes that wait for one do not hinder it.
_LONGEST_PAUSE_SECONDS = 2.0
_LOOK_SECONDS = 0.05

T = TypeVar("T")


def patiently(rooms: Rooms, opened: Opened) -> Answer:
    """The engine's answer."""
    engine = rooms.engine(opened.slot.deployment.agent)
    return waited_for(rooms, lambda: engine.decide(opened.packet))


def waited_for(rooms: Rooms, call: Callable[[], T]) -> T:
    """What a call gives that may take long and touches no database; the leases in hand get their signs of life."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(call)
        while not wait([asked], timeout=_BETWEEN_SIGNS_SECONDS).done:
            rooms.leases.beat_if_due()
    return asked.result()


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
    def is_over(self) -> bool:
        """Whether it is time to ask again; always so while the database answers."""
        return self._since is None or elapsed_seconds() >= self._try_at

    def begin(self, error: DatabaseAway) -> str:
        """Notes that the database does not answer; returns what to say of it, the same line until it does again."""
        now = elapsed_seconds()
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS) if self.is_away else _FIRST_PAUSE_SECONDS
        self._try_at = now + self._pause
        if self._since is None:
            self._since = now
            since, why = iso(SystemClock().now())[:19], str(error).partition("; ")[0]
            self._line = f"{DATABASE_AWAY} since {since}Z, trying again ({why})"
        return self._line

    def end(self) -> str | None:
        """Notes that the database answers; returns what to say of it, or None when it was not away."""
        if self._since is None:
            return None
        seconds, self._since = elapsed_seconds() - self._since, None
        return f"{DATABASE_BACK} after {seconds:.1f} s"

    def sleep(self, *, until: float | None, stopped: Callable[[], bool]) -> bool:
        """Sleeps until it is time to ask again; False when the time is over or a stop was asked for before that."""
        while not self.is_over:
            if stopped() or (until is not None and elapsed_seconds() >= until):
                return False
            time.sleep(_LOOK_SECONDS)
        return True


def when_database_answers(
    call: Callable[[], T], *, until: float | None, stopped: Callable[[], bool], say: Callable[[str], None]
) -> T:
    """What a call gives, tried again while the database is away; DatabaseAway when time or a stop ends the wait."""
    waiting = DatabaseWait()
    while True:
        try:
            found = call()
        except DatabaseAway as error:
            say(waiting.begin(error))
            if not waiting.sleep(until=until, stopped=stopped):
                raise
            continue
        back = waiting.end()
        if back is not None:
            say(back)
        return found
