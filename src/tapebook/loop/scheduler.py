"""Lists the decisions that are due, each once; whoever asks twice changes nothing.

A decision is due when the newest bar it looks at is finished, or when it has waited for that long enough.
"""

from collections.abc import Sequence

from tapebook.book.work import Item
from tapebook.loop.bar_wait import bar_wait_ms, ready_slots
from tapebook.loop.roster import Roster
from tapebook.loop.schedule import Pair, due
from tapebook.loop.shadow import shadow_slot
from tapebook.loop.slot import Slot
from tapebook.wiring import Rooms


class Scheduler:
    """Watches the clock for every enabled agent."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._roster = Roster(rooms)
        self._limit = bar_wait_ms(rooms.config)
        self._listed: dict[Pair, int] = {}
        self.added = 0
        self.problem: str | None = None

    def turn(self) -> bool:
        """Lists what has become due; True when there was something."""
        now = self._rooms.clock.now()
        begun = [Slot(*pair) for pair in due(self._roster.enabled(), self._listed, now=now)]
        slots = ready_slots(self._rooms.tape, begun, limit=self._limit, now=now)
        self.added += self._rooms.work.add(_items(slots))
        self._listed |= {(slot.deployment.id, slot.symbol): slot.scheduled_for for slot in slots}
        return bool(slots)

    def words(self) -> str:
        """How it goes."""
        waiting = sum(self._rooms.work.counts().values())
        return f"{self.added:,} decisions listed, {waiting:,} waiting"

    def close(self) -> None:
        """Nothing is in hand."""


def _items(slots: Sequence[Slot]) -> list[Item]:
    beside = [shadow for shadow in map(shadow_slot, slots) if shadow is not None]
    return [
        Item(slot.run_id(), slot.deployment.id, slot.symbol, slot.scheduled_for, slot.trigger, slot.branch)
        for slot in [*slots, *beside]
    ]
