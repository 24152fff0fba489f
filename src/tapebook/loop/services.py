"""Runs deployments over a stream of market steps, in virtual time.

One step: the clock moves to it, its observations are committed, everything that is due then is
done, and only then the next step is asked for. A decision is due when its newest bar is finished;
one that has waited long enough before the next step is made between the two. A process that is
killed anywhere comes back to the step it had committed last and finishes it; so two runs over the
same steps write the same bytes, however often they were interrupted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tapebook.clock import VirtualClock
from tapebook.context import MarketShelf
from tapebook.domain.agent import Deployment
from tapebook.domain.market import Observation
from tapebook.loop.bar_wait import bar_wait_ms, ready_slots
from tapebook.loop.execute import execute
from tapebook.loop.reconcile import reconcile
from tapebook.loop.schedule import Pair, due
from tapebook.loop.shadow import shadow_tick
from tapebook.loop.slot import Look, begun_slots
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
    """All deployments of a home, driven by a market instead of a wall clock.

    `since` says of deployments that began on the way when they did: slots before that are nobody's.
    """

    def __init__(
        self,
        rooms: Rooms,
        deployments: Sequence[Deployment],
        clock: VirtualClock,
        *,
        since: Mapping[str, int] | None = None,
    ) -> None:
        self._rooms = rooms
        self._deployments = deployments
        self._clock = clock
        self._done: dict[Pair, int] = {}
        self._since = since or {}
        self._shelf = MarketShelf()
        self._limit = bar_wait_ms(rooms.config)
        self._decided_at = {deployment.id: self._last_decision(deployment) for deployment in deployments}
        self.ticks = 0

    def run(self, steps: Iterable[Step], *, until: int, after_step: Callable[[], None]) -> None:
        """Goes through the steps up to a moment, after finishing what the last committed one may still owe."""
        if self._rooms.tape.head()[0]:
            self.work()
        for step in steps:
            if step.at > until:
                return
            self.end_waits(before=step.at)
            self._clock.advance(step.at)
            self._rooms.tape.commit(step.observations)
            self.work()
            after_step()

    def work(self) -> None:
        """Everything that is due at this moment."""
        now = self._clock.now()
        for deployment in self._deployments:
            # What was decided after this step, by a process that was killed then, is finished when that moment comes.
            if self._decided_at[deployment.id] <= now and self._rooms.book.working_orders(deployment.id):
                execute(self._rooms, deployment)
                reconcile(self._rooms, deployment)
        self._decide()

    def end_waits(self, *, before: int) -> None:
        """Makes the decisions that have waited long enough for their bar before a moment, each when its wait ends."""
        waiting = self._due(self._clock.now())
        for moment in sorted({at + self._limit for _, _, at in waiting}):
            if self._clock.now() <= moment < before:
                self._clock.advance(moment)
                self._decide()

    def _decide(self) -> None:
        look = Look(self._clock.now(), self._rooms.tape.head()[0], self._shelf)
        slots = begun_slots(self._rooms, self._due(look.as_of))
        for slot in ready_slots(self._rooms.tape, slots, limit=self._limit, now=look.as_of):
            shadow_tick(self._rooms, slot, tick(self._rooms, slot, look=look))
            self._done[slot.deployment.id, slot.symbol] = slot.scheduled_for
            self.ticks += 1

    def _due(self, now: int) -> list[tuple[Deployment, str, int]]:
        found = due(self._deployments, self._done, now=now)
        return [each for each in found if each[2] >= self._since.get(each[0].id, 0)] if self._since else found

    def _last_decision(self, deployment: Deployment) -> int:
        """When the newest decision of a deployment was made; 0 without any."""
        book, seq = self._rooms.book, self._rooms.book.head(deployment.id)
        runs = [book.last_run(deployment.id, symbol, seq=seq) for symbol in deployment.agent.watchlist]
        return max([run.as_of for run in runs if run is not None], default=0)
