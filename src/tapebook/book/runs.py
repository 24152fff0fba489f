"""The identity of a run, the status its verdicts give it, and whether it may leave the book when it is old."""

from collections.abc import Sequence

from tapebook.book.events import KINDS, MarksObserved, RunDecided, body_of
from tapebook.domain.canonical import short_id
from tapebook.domain.run import RunStatus, Trigger, Verdict
from tapebook.log import Event

_PLACED_NOTHING: frozenset[RunStatus] = frozenset({"held", "rejected", "failed", "expired"})


def run_id(stream: str, symbol: str, *, scheduled_for: int, trigger: Trigger, branch: str) -> str:
    """The same decision has the same id on every attempt, so it cannot be made twice."""
    return short_id("run", stream, symbol, scheduled_for, trigger, branch)


def status_of(verdicts: Sequence[Verdict], *, orders: int, error: str | None) -> RunStatus:
    """What became of a decision at the moment it was made."""
    if error is not None:
        return "rejected"
    if orders:
        return "placed"
    for verdict in verdicts:
        if verdict.allowed:
            return "held"
    return "rejected" if verdicts else "held"


def may_leave(event: Event) -> bool:
    """Whether an event may leave for the archive: a decision that placed nothing, or what an account was worth.

    Orders, fills, postings and trades stay, with the decisions they came from.
    """
    if event.kind == KINDS[MarksObserved]:
        return True
    return event.kind == KINDS[RunDecided] and body_of(event, RunDecided).run.status in _PLACED_NOTHING
