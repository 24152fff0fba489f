"""One role of the desk, turn after turn, until its time is over or it is told to stop."""

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol, get_args

import msgspec

from tapebook.clock import elapsed_seconds
from tapebook.domain.instants import iso
from tapebook.errors import Retry
from tapebook.log.set_back import gone_back
from tapebook.loop.executor import Executor
from tapebook.loop.librarian import Librarian
from tapebook.loop.scheduler import Scheduler
from tapebook.loop.workers import Worker
from tapebook.wiring import Rooms

RoleName = Literal["scheduler", "worker", "executor", "librarian"]
ROLES: tuple[RoleName, ...] = get_args(RoleName)

# How long a role with nothing to do waits before it looks again.
_PAUSE_SECONDS = 0.1


class RoleProgress(msgspec.Struct, frozen=True):
    """How a role goes, and what is wrong just now, if anything."""

    role: str
    words: str
    problem: str | None


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
    """Takes turns until it is told to stop, or `seconds` have passed; then leaves everything to others."""
    role, latest = _role(rooms, name), rooms.clock.now()
    end = None if seconds is None else elapsed_seconds() + seconds
    try:
        while not stop.asked and (end is None or elapsed_seconds() < end):
            now = rooms.clock.now()
            if gone_back(latest, now):
                # What it remembers of the time is that of another clock: it begins anew.
                role.close()
                role, latest = _role(rooms, name), now
                report(RoleProgress(name, role.words(), f"the clock was set back to {iso(now)}"))
            latest = max(latest, now)
            more = _turn(role)
            report(RoleProgress(name, role.words(), role.problem))
            if not more:
                time.sleep(_PAUSE_SECONDS)
        if isinstance(role, Worker):
            role.drain()
    finally:
        role.close()
    report(RoleProgress(name, role.words(), role.problem))


def _turn(role: Role) -> bool:
    role.problem = None
    try:
        return role.turn()
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
