"""One role of the desk, turn after turn, until its time is over or it is told to stop."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol, get_args

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.domain.instants import iso
from tapebook.errors import DatabaseAway, Retry
from tapebook.log.set_back import gone_back
from tapebook.loop.executor import Executor
from tapebook.loop.librarian import Librarian
from tapebook.loop.maintain import AnchorTimer, anchor_problem
from tapebook.loop.patience import DatabaseWait
from tapebook.loop.scheduler import Scheduler
from tapebook.loop.workers import Worker
from tapebook.wiring import Rooms

RoleName = Literal["scheduler", "worker", "executor", "librarian"]
ROLES: tuple[RoleName, ...] = get_args(RoleName)

# How long a role with nothing to do waits before it looks again.
_PAUSE_SECONDS = 0.1


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

    def words(self) -> str:
        """How it goes."""
        ...

    def close(self) -> None:
        """Leaves what is in hand to others."""
        ...


class StopSign:
    """Raised by SIGTERM and SIGINT; nothing is interrupted, the turn at hand is finished."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSign":
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


def serve(
    rooms: Rooms, name: RoleName, *, stop: StopSign, seconds: float | None, report: Callable[[RoleProgress], None]
) -> None:
    """Takes turns until it is told to stop, or `seconds` have passed; then leaves everything to others.

    A database that is away is waited for; DatabaseAway when it still is at the end of the time.
    """
    end = None if seconds is None else elapsed_seconds() + seconds
    wait, away, anchors = DatabaseWait(), None, AnchorTimer(rooms)
    role, words, unanchored, clock = None, "nothing was done", None, _ClockWatch(rooms)
    try:
        while not stop.asked and (end is None or elapsed_seconds() < end):
            try:
                role = _current(role, rooms, name, clock=clock, report=report)
                more = _turn(role, rooms, recover=wait.is_away)
                role.problem = role.problem or anchors.if_due()
                words = role.words()
            except DatabaseAway as error:
                away = error
                report(RoleProgress(name, words, wait.begin(error)))
                wait.sleep(until=end, stopped=lambda: stop.asked)
                continue
            report(RoleProgress(name, words, role.problem, wait.end()))
            if not more:
                time.sleep(_PAUSE_SECONDS)
        if away is not None and wait.is_away and not stop.asked:
            raise away
        if isinstance(role, Worker) and not wait.is_away:
            role.drain()
            words = role.words()
    finally:
        # Without a database nothing can be released: others find out by themselves.
        with suppress(DatabaseAway):
            if role is not None:
                role.close()
            unanchored = anchor_problem(rooms)
    report(RoleProgress(name, words, (role.problem if role else None) or unanchored))


class _ClockWatch:
    """Notices when the clock of a home has gone back since the last look."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._latest = rooms.clock.now()

    def set_back_to(self) -> int | None:
        """The time of a clock that was set back."""
        now = self._rooms.clock.now()
        is_back = gone_back(self._latest, now)
        self._latest = now if is_back else max(self._latest, now)
        return now if is_back else None


def _current(
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
        report(RoleProgress(name, role.words(), f"the clock was set back to {iso(back)}"))
        role = None
    return role or _role(rooms, name)


def _turn(role: Role, rooms: Rooms, *, recover: bool) -> bool:
    if recover:
        rooms.leases.recover()
    role.problem = None
    try:
        return role.turn()
    except DatabaseAway:
        raise
    except Retry as error:
        # Somebody else was in the way: nothing was written, and the next turn tries again.
        role.problem = str(error)
        return False


def _role(rooms: Rooms, name: RoleName) -> Role:
    if name == "worker":
        return Worker(rooms)
    if name == "librarian":
        return Librarian(rooms)
    return Scheduler(rooms) if name == "scheduler" else Executor(rooms)
