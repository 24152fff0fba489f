"""The identity of a run, and the status its verdicts give it."""

from collections.abc import Sequence

from tapebook.domain.canonical import short_id
from tapebook.domain.run import RunStatus, Trigger, Verdict


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
