"""Which decision is to be made, and all that is ready for making it."""

from collections.abc import Iterable

import msgspec

from tapebook.book.runs import run_id
from tapebook.context import MarketShelf, Situation
from tapebook.domain.agent import Deployment
from tapebook.domain.memo import Memo
from tapebook.domain.packet import Packet
from tapebook.domain.run import Trigger
from tapebook.wiring import Rooms


class Slot(msgspec.Struct, frozen=True):
    """A symbol of a deployment at a moment of its schedule, on a branch."""

    deployment: Deployment
    symbol: str
    scheduled_for: int
    trigger: Trigger = "schedule"
    branch: str = "main"
    # How often the clock had gone back in the deployment's stream: a moment that comes again is another slot.
    turn: int = 0

    def run_id(self) -> str:
        """The id of the decision, the same on every attempt."""
        return _run_id(self)


def begun_slots(rooms: Rooms, pairs: Iterable[tuple[Deployment, str, int]]) -> list[Slot]:
    """The slots of pairs that are due."""
    turns: dict[str, int] = {}
    slots = []
    for deployment, symbol, scheduled_for in pairs:
        if deployment.id not in turns:
            turns[deployment.id] = rooms.book.turn(deployment.id)
        slots.append(Slot(deployment, symbol, scheduled_for, turn=turns[deployment.id]))
    return slots


def _made(slot: Slot) -> str:
    stream = f"{slot.deployment.owner}/{slot.deployment.id}" + (f"#{slot.turn}" if slot.turn else "")
    return run_id(stream, slot.symbol, scheduled_for=slot.scheduled_for, trigger=slot.trigger, branch=slot.branch)


# One decision asks for its id several times.
_run_id = Memo(_made)


class Look(msgspec.Struct, frozen=True):
    """One look at the market that decisions which are due together share: when, how far, and what was read, if kept."""

    as_of: int
    tape_seq: int
    shelf: MarketShelf | None = None


class Opened(msgspec.Struct, frozen=True):
    """A decision about to be made: what is known, the packet made of it, and why something is missing in it."""

    slot: Slot
    situation: Situation
    packet: Packet
    causes: tuple[str, ...] = ()
