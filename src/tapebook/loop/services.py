"""Runs deployments over a stream of market steps, in virtual time.

One step: its observations are committed, the clock moves to it, everything that is due then is
done, and only then the next step is asked for. A process that is killed anywhere comes back to
the step it had committed last and finishes it; so two runs over the same steps write the same
bytes, however often they were interrupted.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tapebook.clock import VirtualClock
from tapebook.context import MarketShelf
from tapebook.domain.agent import Deployment
from tapebook.domain.market import Observation
from tapebook.loop.execute import execute
from tapebook.loop.reconcile import reconcile
from tapebook.loop.schedule import Pair, due
from tapebook.loop.shadow import shadow_tick
from tapebook.loop.slot import Look, Slot
from tapebook.loop.tick import tick
from tapebook.wiring import Rooms


class Step(Protocol):
    """A moment of the market and what became known at it."""

    @property
    def at(self) -> int:
        """When it became known."""
        ...

    @property
    def observations(self) -> tuple[Observation, ...]:
        """What became known."""
        ...


class VirtualDesk:
    """All deployments of a home, driven by a market instead of a wall clock."""

    def __init__(self, rooms: Rooms, deployments: Sequence[Deployment], clock: VirtualClock) -> None:
        self._rooms = rooms
        self._deployments = deployments
        self._clock = clock
        self._done: dict[Pair, int] = {}
        self._shelf = MarketShelf()
        self.ticks = 0

    def run(self, steps: Iterable[Step], *, until: int, after_step: Callable[[], None]) -> None:
        """Goes through the steps up to a moment, after finishing what the last committed one may still owe."""
        if self._rooms.tape.head()[0]:
            self.work()
        for step in steps:
            if step.at > until:
                return
            self._clock.advance(step.at)
            self._rooms.tape.commit(step.observations)
            self.work()
            after_step()

    def work(self) -> None:
        """Everything that is due at this moment."""
        for deployment in self._deployments:
            if self._rooms.book.working_orders(deployment.id):
                execute(self._rooms, deployment)
                reconcile(self._rooms, deployment)
        look = Look(self._clock.now(), self._rooms.tape.head()[0], self._shelf)
        for deployment, symbol, at in due(self._deployments, self._done, now=look.as_of):
            slot = Slot(deployment, symbol, at)
            shadow_tick(self._rooms, slot, tick(self._rooms, slot, look=look))
            self._done[deployment.id, symbol] = at
            self.ticks += 1
