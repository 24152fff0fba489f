"""Lists the decisions that are due, each once; whoever asks twice changes nothing.

Slots that passed while nobody scheduled are listed too, before the newest one: their time is over, so the worker that
takes them records them as expired. A pair begins with its first slot, so it has missed nothing before that one; nor
has it while its agent was disabled or did not watch the symbol.
A decision is due when the newest bar it looks at is finished, or when it has waited for that long enough.
"""

from collections.abc import Sequence

from tapebook.book.work import Item
from tapebook.domain.text import plural
from tapebook.loop.bar_wait import bar_wait_ms, ready_slots
from tapebook.loop.roster import Roster
from tapebook.loop.schedule import Pair, due, missed
from tapebook.loop.shadow import shadow_slot
from tapebook.loop.slot import Slot, begun_slots
from tapebook.wiring import Rooms

# After a long absence there are many: so many are written at once, that workers need not wait long.
_TOGETHER = 2_000


class Scheduler:
    """Watches the clock for every enabled agent."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._roster = Roster(rooms)
        self._limit = bar_wait_ms(rooms.config)
        self._listed: dict[Pair, int] = {}
        self.added = self.missed = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Lists what has become due; True when there was something."""
        now = self._rooms.clock.now()
        begun = begun_slots(self._rooms, due(self._roster.enabled(), self._listed, now=now))
        slots = ready_slots(self._rooms.tape, begun, limit=self._limit, now=now)
        late = [_item(passed) for slot in slots for passed in self._missed(slot)]
        # Oldest first: one that is killed here is found where it stopped.
        for first in range(0, len(late), _TOGETHER):
            self.missed += self._rooms.work.add(late[first : first + _TOGETHER])
        self.added += self._rooms.work.add(_items(slots))
        self._listed |= {(slot.deployment.id, slot.symbol): slot.scheduled_for for slot in slots}
        return bool(slots)

    def words(self) -> str:
        """How it goes."""
        waiting = sum(self._rooms.work.counts().values())
        late = f", {self.missed:,} found that were missed" if self.missed else ""
        return f"{plural(self.added, 'decision')} listed, {waiting:,} waiting{late}"

    def close(self) -> None:
        """Nothing is in hand."""

    def _missed(self, slot: Slot) -> list[Slot]:
        """The slots of a pair that passed since its last one, oldest first."""
        deployment, symbol, cadence = slot.deployment, slot.symbol, slot.deployment.agent.cadence_ms
        last = self._listed.get((deployment.id, symbol))
        if last is None:
            last = self._rooms.work.newest_slot(deployment.id, symbol)
        if last is None or last + cadence >= slot.scheduled_for:
            return []
        since = self._watched_since(deployment.agent.name, symbol)
        passed = missed(last, slot.scheduled_for, cadence_ms=cadence, since=since)
        return [Slot(deployment, symbol, at, turn=slot.turn) for at in passed]

    def _watched_since(self, agent: str, symbol: str) -> int:
        """Since when an agent has been enabled and watched a symbol without a break."""
        since = 0
        for known_at, profile in self._rooms.book.agent_history(agent):
            if not profile.enabled or symbol not in profile.watchlist:
                break
            since = known_at
        return since


def _items(slots: Sequence[Slot]) -> list[Item]:
    beside = [shadow for shadow in map(shadow_slot, slots) if shadow is not None]
    return [_item(slot) for slot in [*slots, *beside]]


def _item(slot: Slot) -> Item:
    return Item(slot.run_id(), slot.deployment.id, slot.symbol, slot.scheduled_for, slot.trigger, slot.branch)
