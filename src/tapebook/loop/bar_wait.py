"""How long a decision waits for its bars: until those up to its slot are finished, or as long as the settings allow."""

from collections.abc import Iterable

from tapebook.config import Config
from tapebook.domain.instants import SECOND
from tapebook.loop.slot import Slot
from tapebook.tape.finality import is_settled
from tapebook.tape.store import Tape, View

_Bar = tuple[str, int, int]


def bar_wait_ms(config: Config) -> int:
    """How long after its slot a decision is made at the latest, if nothing else holds it up."""
    return round(config.desk.bar_wait_seconds * SECOND)


def ready_slots(tape: Tape, slots: Iterable[Slot], *, limit: int, now: int) -> list[Slot]:
    """The slots that need not wait any longer: agents that look at the same bar ask for it once."""
    asked: dict[_Bar, bool] = {}
    ready = []
    for slot in slots:
        minutes, end = slot.deployment.agent.context.bar_minutes, slot.scheduled_for
        bar = slot.symbol, minutes, end
        if bar not in asked and now < end + limit:
            asked[bar] = is_settled(tape, slot.symbol, end, minutes=minutes, view=View(now))
        if now >= end + limit or asked[bar]:
            ready.append(slot)
    return ready
