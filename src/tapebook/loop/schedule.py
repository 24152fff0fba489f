"""Who is due, and what nobody scheduled in time: pure functions of the time and of what each pair did last."""

from collections.abc import Iterable, Mapping, Sequence

from tapebook.domain.agent import Deployment
from tapebook.domain.instants import floor

Pair = tuple[str, str]

MOST_MISSED = 288
"""Slots of a pair that are listed one by one after the desk was away: a day of five minutes."""


def due(deployments: Iterable[Deployment], done: Mapping[Pair, int], *, now: int) -> list[tuple[Deployment, str, int]]:
    """The agent–symbol pairs whose newest slot has not been decided, with that slot, in a fixed order."""
    found = []
    for deployment in deployments:
        slot = floor(now, deployment.agent.cadence_ms)
        pairs = ((deployment, symbol, slot) for symbol in deployment.agent.watchlist)
        # What was done of a later slot was done by a clock that was ahead.
        found += [pair for pair in pairs if done.get((deployment.id, pair[1])) != slot]
    return found


def missed(last: int, newest: int, *, cadence_ms: int, since: int) -> Sequence[int]:
    """The slots of a pair between its last one and its newest, and not before a moment, that nobody listed.

    Of more than `MOST_MISSED` there are the first and the last ones; the first is recorded with how many follow it.
    """
    first = max(floor(last, cadence_ms) + cadence_ms, -(-since // cadence_ms) * cadence_ms)
    slots = range(first, newest, cadence_ms)
    return slots if len(slots) <= MOST_MISSED else [slots[0], *slots[1 - MOST_MISSED :]]
