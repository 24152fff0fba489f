"""Scheduler, worker and executor taking turns in one thread and in virtual time, so that every act of theirs can be
counted. The processes of `tapebook up` call the same turns.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapebook.clock import VirtualClock
from tapebook.desk.executor import Executor
from tapebook.desk.scheduler import Scheduler
from tapebook.desk.worker import Worker
from tapebook.domain.agent import AgentProfile
from tapebook.wiring import Rooms
from tapebook.world.market import WorldStep


class Here:
    """A pool that asks at once, in this thread."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> None:
        """Calls it."""
        call(*args)


class Crew:
    """A desk of one process each, in one thread. Who held leases before is long dead."""

    def __init__(self, rooms: Rooms, clock: VirtualClock, agents: Sequence[AgentProfile]) -> None:
        self._rooms = rooms
        self._clock = clock
        for profile in agents:
            rooms.book.save_agent(profile, at=clock.now())
        self._seconds = 0.0
        rooms.leases._elapsed = lambda: self._seconds
        rooms.leases.watch_others()
        self._seconds += 2 * rooms.config.desk.lease_seconds
        self._scheduler = Scheduler(rooms)
        self._worker = Worker(rooms, pool=Here())
        self._executor = Executor(rooms)

    def run(self, steps: Iterable[WorldStep], *, until: int) -> None:
        """Goes through the steps up to a moment, after finishing what the last one may still owe."""
        if self._rooms.tape.head()[0]:
            self.work()
        for step in steps:
            if step.at > until:
                return
            self._clock.advance(step.at)
            self._rooms.tape.commit(step.observations)
            self.work()

    def work(self) -> None:
        """Everything that is due at this moment."""
        while self._executor.turn():
            pass
        self._scheduler.turn()
        while self._worker.turn(wait_seconds=0):
            pass
