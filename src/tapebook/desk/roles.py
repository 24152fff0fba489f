"""Runs one role of the desk, turn after turn, until its time is over or it is asked to stop."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol

import msgspec

from tapebook.anchors import AnchorTimer
from tapebook.book.decision_queue import DecisionQueue
from tapebook.clock import Clock, elapsed_seconds
from tapebook.database_wait import DatabaseWait
from tapebook.desk.backup import Backups
from tapebook.desk.executor import Executor
from tapebook.desk.librarian import Librarian
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import Worker
from tapebook.domain.units import iso_text
from tapebook.errors import DatabaseAway, Retry
from tapebook.log import Leases
from tapebook.log.store import is_clock_set_back
from tapebook.uploads import SpoolUploads
from tapebook.wiring import Rooms

RoleName = Literal["scheduler", "worker", "executor", "librarian", "backup"]
ROLES: tuple[RoleName, ...] = ("scheduler", "worker", "executor", "librarian")
"""The roles of every desk; one whose settings name a place for backups has that role too."""

# How long a role with nothing to do waits before it looks again.
_PAUSE_SECONDS = 0.1
# A worker is told of work; what others have left undone it finds by looking.
_LONGEST_WAIT_SECONDS = 1.0


class RoleProgress(msgspec.Struct, frozen=True):
    """How a role goes, what is wrong just now, if anything, and what is to be said once."""

    role: str
    words: str
    problem: str | None
    notice: str | None = None


class Role(Protocol):
    """What takes turns."""

    problem: str | None

    def turn(self) -> bool:
        """Does what is to be done; True when there may be more at once."""
        ...

    def progress_line(self) -> str:
        """How many things it has done, in words."""
        ...

    def close(self) -> None:
        """Leaves what is in hand to others."""
        ...


class StopSignal:
    """Raised by SIGTERM and SIGINT; nothing is interrupted, the turn at hand is finished."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def run_role(
    rooms: Rooms, name: RoleName, *, stop: StopSignal, seconds: float | None, report: Callable[[RoleProgress], None]
) -> None:
    """Takes turns until it is told to stop, or `seconds` have passed; then leaves everything to others.

    A database that is away is waited for; DatabaseAway when it still is at the end of the time.
    """
    end = None if seconds is None else elapsed_seconds() + seconds
    wait, away, anchors = DatabaseWait(), None, AnchorTimer(rooms)
    uploads = SpoolUploads(rooms.archive, rooms.config, rooms.home)
    role, words, unanchored, clock = None, "nothing was done", None, _ClockWatch(rooms.clock)
    try:
        while not stop.asked and (end is None or elapsed_seconds() < end):
            try:
                role = _current_role(role, rooms, name, clock=clock, report=report)
                more = _take_turn(role, rooms.leases, recover=wait.is_away)
                # The other roles have nothing to send, and a librarian packs by itself.
                waiting = uploads.upload_if_due() if name == "worker" else None
                unanchored = anchors.anchor_if_due()
                role.problem = role.problem or unanchored or waiting
                words = role.progress_line()
            except DatabaseAway as error:
                away = error
                report(RoleProgress(name, words, wait.note_away(error)))
                wait.sleep_until_retry(until=end, stopped=lambda: stop.asked)
                continue
            report(RoleProgress(name, words, role.problem, wait.note_back()))
            if not more:
                _wait_for_work(
                    rooms.work, name, seconds=_LONGEST_WAIT_SECONDS if end is None else end - elapsed_seconds()
                )
        if away is not None and wait.is_away and not stop.asked:
            raise away
        if isinstance(role, Worker) and not wait.is_away:
            role.drain_answers()
            words = role.progress_line()
    finally:
        # Without a database nothing can be released: others find out by themselves.
        with suppress(DatabaseAway):
            if role is not None:
                role.close()
            unanchored = anchors.close()
    report(RoleProgress(name, words, (role.problem if role else None) or unanchored))


def _wait_for_work(work: DecisionQueue, name: RoleName, *, seconds: float) -> None:
    """A pause; a worker's ends when decisions are listed."""
    if name != "worker":
        time.sleep(_PAUSE_SECONDS)
        return
    with suppress(DatabaseAway):
        # The next turn says that it is away.
        work.wait_for_more(seconds=max(0.0, min(seconds, _LONGEST_WAIT_SECONDS)))


class _ClockWatch:
    """Notices when the clock of a home has gone back since the last look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = clock.now()

    def set_back_to(self) -> int | None:
        """The time of a clock that was set back."""
        now = self._clock.now()
        is_back = is_clock_set_back(self._latest, now)
        self._latest = now if is_back else max(self._latest, now)
        return now if is_back else None


def _current_role(
    role: Role | None,
    rooms: Rooms,
    name: RoleName,
    *,
    clock: _ClockWatch,
    report: Callable[[RoleProgress], None],
) -> Role:
    """The role; a new one when the clock was set back, for what it remembers of the time is that of another clock."""
    back = clock.set_back_to()
    if role is not None and back is not None:
        role.close()
        report(RoleProgress(name, role.progress_line(), f"the clock was set back to {iso_text(back)}"))
        role = None
    return role or _new_role(rooms, name)


def _take_turn(role: Role, leases: Leases, *, recover: bool) -> bool:
    if recover:
        leases.recover_after_outage()
    role.problem = None
    try:
        return role.turn()
    except DatabaseAway:
        raise
    except Retry as error:
        # Somebody else was in the way: nothing was written, and the next turn tries again.
        role.problem = str(error)
        return False


def _new_role(rooms: Rooms, name: RoleName) -> Role:
    if name == "worker":
        return Worker(rooms)
    if name == "librarian":
        return Librarian(rooms)
    if name == "backup":
        return Backups(rooms)
    return Scheduler(rooms) if name == "scheduler" else Executor(rooms)
