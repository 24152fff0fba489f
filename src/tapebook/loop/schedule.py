"""Who is due: a pure function of the time and of what each pair did last."""

from collections.abc import Iterable, Mapping

from tapebook.domain.agent import Deployment
from tapebook.domain.instants import floor

Pair = tuple[str, str]


def due(deployments: Iterable[Deployment], done: Mapping[Pair, int], *, now: int) -> list[tuple[Deployment, str, int]]:
    """The agent–symbol pairs whose newest slot has not been decided, with that slot, in a fixed order."""
    found = []
    for deployment in deployments:
        slot = floor(now, deployment.agent.cadence_ms)
        pairs = ((deployment, symbol, slot) for symbol in deployment.agent.watchlist)
        found += [pair for pair in pairs if done.get((deployment.id, pair[1]), -1) < slot]
    return found
