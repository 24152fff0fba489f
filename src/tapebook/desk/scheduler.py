"""Lists the decisions that are due, each once; whoever asks twice changes nothing.

1. `due_pairs` gives the newest slot of every agent and symbol that is not decided, `missed_slots` those that passed
   while nobody scheduled: both are pure functions of the time and of what each pair did last;
2. `ready_slots` waits for bars: a decision is due when the newest bar it looks at is finished, or when it has
   waited as long as the settings allow;
3. `Scheduler` writes them as work. Missed slots come first: their time is over, so the worker that takes them
   records them as expired. A pair has missed nothing before its first slot, nor while its agent was disabled or did
   not watch the symbol.
"""

from collections.abc import Iterable, Mapping, Sequence

from tapebook.book.decision_queue import QueuedDecision
from tapebook.desk.agents import DeploymentDirectory
from tapebook.domain.agent import Deployment
from tapebook.domain.text import plural
from tapebook.domain.units import SECOND, floor_to_step
from tapebook.settings.config import Config
from tapebook.tape.bars import is_settled
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.decide import Slot, slots_of_pairs
from tapebook.tick.story import shadow_slot
from tapebook.wiring import Rooms

Pair = tuple[str, str]

MAX_MISSED_SLOTS = 288
"""Slots of a pair that are listed one by one after the desk was away: a day of five minutes."""


def due_pairs(
    deployments: Iterable[Deployment], done: Mapping[Pair, int], *, now: int
) -> list[tuple[Deployment, str, int]]:
    """The agent–symbol pairs whose newest slot has not been decided, with that slot, in a fixed order."""
    found = []
    for deployment in deployments:
        slot = floor_to_step(now, deployment.agent.cadence_ms)
        pairs = ((deployment, symbol, slot) for symbol in deployment.agent.watchlist)
        # What was done of a later slot was done by a clock that was ahead.
        found += [pair for pair in pairs if done.get((deployment.id, pair[1])) != slot]
    return found


# Pure, so that a desk that was away for a year is tested in a millisecond.
def missed_slots(last: int, newest: int, *, cadence_ms: int, since: int) -> Sequence[int]:
    """The slots of a pair between its last one and its newest, and not before a moment, that nobody listed.

    Of more than `MAX_MISSED_SLOTS` there are the first and the last ones; the first says how many follow it.
    """
    first = max(floor_to_step(last, cadence_ms) + cadence_ms, -(-since // cadence_ms) * cadence_ms)
    slots = range(first, newest, cadence_ms)
    return slots if len(slots) <= MAX_MISSED_SLOTS else [slots[0], *slots[1 - MAX_MISSED_SLOTS :]]


_BarKey = tuple[str, int, int]


def bar_wait_ms(config: Config) -> int:
    """How long after its slot a decision is made at the latest, if nothing else holds it up."""
    return round(config.desk.bar_wait_seconds * SECOND)


def ready_slots(tape: Tape, slots: Iterable[Slot], *, limit: int, now: int) -> list[Slot]:
    """The slots that need not wait any longer: agents that look at the same bar ask for it once."""
    asked: dict[_BarKey, bool] = {}
    ready = []
    for slot in slots:
        minutes, end = slot.deployment.agent.context.bar_minutes, slot.scheduled_for
        bar = slot.symbol, minutes, end
        if bar not in asked and now < end + limit:
            asked[bar] = is_settled(tape, slot.symbol, end, minutes=minutes, view=View(now))
        if now >= end + limit or asked[bar]:
            ready.append(slot)
    return ready


# After a long absence there are many: so many are written at once, that workers need not wait long.
_ITEMS_PER_APPEND = 2_000


class Scheduler:
    """Watches the clock for every enabled agent."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._roster = DeploymentDirectory(rooms.book, rooms.work, rooms.broker)
        self._limit = bar_wait_ms(rooms.config)
        self._listed: dict[Pair, int] = {}
        self.added = self.missed = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Lists what has become due; True when there was something."""
        now = self._rooms.clock.now()
        begun = slots_of_pairs(self._rooms.book, due_pairs(self._roster.enabled_deployments(), self._listed, now=now))
        slots = ready_slots(self._rooms.tape, begun, limit=self._limit, now=now)
        late = [_item_of_slot(passed) for slot in slots for passed in self._missed_slots(slot)]
        # Oldest first: one that is killed here is found where it stopped.
        for first in range(0, len(late), _ITEMS_PER_APPEND):
            self.missed += self._rooms.work.enqueue(late[first : first + _ITEMS_PER_APPEND])
        self.added += self._rooms.work.enqueue(_items_with_shadows(slots))
        self._listed |= {(slot.deployment.id, slot.symbol): slot.scheduled_for for slot in slots}
        return bool(slots)

    def progress_line(self) -> str:
        """The progress in one line."""
        waiting = sum(self._rooms.work.counts_by_state().values())
        late = f", {self.missed:,} found that were missed" if self.missed else ""
        return f"{plural(self.added, 'decision')} listed, {waiting:,} waiting{late}"

    def close(self) -> None:
        """Nothing is in hand."""

    def _missed_slots(self, slot: Slot) -> list[Slot]:
        """The slots of a pair that passed since its last one, oldest first."""
        deployment, symbol, cadence = slot.deployment, slot.symbol, slot.deployment.agent.cadence_ms
        last = self._listed.get((deployment.id, symbol))
        if last is None:
            last = self._rooms.work.newest_slot(deployment.id, symbol)
        if last is None or last + cadence >= slot.scheduled_for:
            return []
        since = self._watched_since(deployment.agent.name, symbol)
        passed = missed_slots(last, slot.scheduled_for, cadence_ms=cadence, since=since)
        return [Slot(deployment, symbol, at, turn=slot.turn) for at in passed]

    def _watched_since(self, agent: str, symbol: str) -> int:
        """Since when an agent has been enabled and watched a symbol without a break."""
        since = 0
        for known_at, profile in self._rooms.book.agent_history(agent):
            if not profile.enabled or symbol not in profile.watchlist:
                break
            since = known_at
        return since


def _items_with_shadows(slots: Sequence[Slot]) -> list[QueuedDecision]:
    beside = [shadow for shadow in map(shadow_slot, slots) if shadow is not None]
    return [_item_of_slot(slot) for slot in [*slots, *beside]]


def _item_of_slot(slot: Slot) -> QueuedDecision:
    return QueuedDecision(slot.run_id(), slot.deployment.id, slot.symbol, slot.scheduled_for, slot.trigger, slot.branch)
