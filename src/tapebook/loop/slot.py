"""Which decision is to be made, and all that is ready for making it."""

import msgspec

from tapebook.book.runs import run_id
from tapebook.context import MarketShelf, Situation
from tapebook.domain.agent import Deployment
from tapebook.domain.memo import Memo
from tapebook.domain.packet import Packet
from tapebook.domain.run import Trigger


class Slot(msgspec.Struct, frozen=True):
    """A symbol of a deployment at a moment of its schedule, on a branch."""

    deployment: Deployment
    symbol: str
    scheduled_for: int
    trigger: Trigger = "schedule"
    branch: str = "main"

    def run_id(self) -> str:
        """The id of the decision, the same on every attempt."""
        return _run_id(self)


def _made(slot: Slot) -> str:
    stream = f"{slot.deployment.owner}/{slot.deployment.id}"
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
