"""The layers of a home, as people and programs use them: what `Tapebook.horizons` gives.

It is a connection, so the seed's classes work on it: `ContextStore(tb)`, `ContextAggregator(tb, scope="btc-5m.paper")`.
Writes to the stream of a deployment wait for its lease, as every other writer does.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tapebook.errors import BadInput, UnknownName
from tapebook.home import fellow_writer
from tapebook.horizons import Connection, ContextAggregator, ContextLayer, ContextStore, Found
from tapebook.log import Draft
from tapebook.loop.deploy import deploy
from tapebook.loop.horizons import BookDays
from tapebook.loop.live import LiveView
from tapebook.wiring import Rooms

Moment = Callable[[int | str | None], int]
Naming = Callable[[str], str]


class HomeLayers(Connection):
    """The layers of every agent of a home. `moment` reads times, `scope_of` gives the deployment of an agent."""

    def __init__(self, rooms: Rooms, *, moment: Moment, scope_of: Naming) -> None:
        super().__init__(
            rooms.book_db,
            rooms.log,
            owner=rooms.book.owner,
            clock=rooms.clock,
            days=BookDays(rooms.book),
            live=LiveView(rooms),
            leases=rooms.leases,
        )
        self._rooms = rooms
        self._moment = moment
        self._scope_of = scope_of

    def now(self) -> int:
        """The moment the home is at."""
        return self._moment(None)

    def show(
        self, agent: str | None = None, *, layer: str | None = None, as_of: int | str | None = None
    ) -> list[dict[str, Any]]:
        """The newest timeframe of every layer, from all time to now; or of one layer all that is kept."""
        scope = self._scope_of(agent) if agent else ""
        store, at = ContextStore(self, scope=scope), None if as_of is None else self._moment(as_of)
        rows = []
        for one in [layer_named(layer)] if layer else list(ContextLayer):
            found = store.entries(one, as_of=at)
            newest = [each for each in found if layer or each.timeframe == found[0].timeframe]
            rows += [_entry(one, scope, each) for each in newest]
        return rows

    def rollup(self, agent: str | None = None) -> dict[str, bool]:
        """Brings the layers of an agent up to this moment; without one, those of all agents, and of all together.

        For each scope, whether there was anything new.
        """
        scopes = [self._scope_of(agent)] if agent else [*self._scopes(), ""]
        before = {scope: self.head(scope) for scope in scopes}
        for scope in scopes:
            ContextAggregator(self, scope=scope).run_all_aggregations()
        return {scope: self.head(scope) > seq for scope, seq in before.items()}

    def cleanup(self) -> dict[str, int]:
        """Drops what is past its time in every scope; how many keys of each layer."""
        counts = dict.fromkeys((layer.value for layer in ContextLayer), 0)
        for scope in [*self._scopes(), ""]:
            for layer, count in ContextStore(self, scope=scope).cleanup_expired_contexts().items():
                counts[layer.value] += count
        return counts

    def set(self, layer: str, timeframe: str, key: str, value: Any, *, agent: str | None = None) -> None:
        """Writes a value by the owner's hand: for one agent, or for all of them."""
        scope = self._scope_of(agent) if agent else ""
        with self._writing(scope):
            if agent:
                # A stream begins with its deployment.
                deploy(self._rooms, agent)
            ContextStore(self, scope=scope).set_context(layer_named(layer), timeframe, key, value)

    def append(self, scope: str, drafts: Sequence[Draft], *, expected_seq: int) -> None:
        """Writes events under the scope's lease; StaleWriter when the stream moved on."""
        if scope and drafts and not expected_seq:
            raise UnknownName(f"there is no deployment {scope!r} yet: it begins with its agent's first decision")
        with self._writing(scope):
            super().append(scope, drafts, expected_seq=expected_seq)

    def _scopes(self) -> list[str]:
        return [name for name, _ in self._rooms.book.deployments()]

    @contextmanager
    def _writing(self, scope: str) -> Iterator[None]:
        stream = self._rooms.book.stream(scope)
        # The owner's stream is nobody's to hold.
        if not scope or self._rooms.leases.of(stream):
            yield
            return
        with fellow_writer(self._rooms.home), self._rooms.leases.holding(stream):
            yield


def _entry(layer: ContextLayer, scope: str, found: Found) -> dict[str, Any]:
    return {
        "layer": layer.value,
        "timeframe": found.timeframe,
        "scope": scope,
        "key": found.key,
        "value": msgspec.json.decode(found.value),
        "origin": found.origin,
    }


def layer_named(name: str) -> ContextLayer:
    """A layer by its number or its whole name: L5, or L5_WEEKLY."""
    for layer in ContextLayer:
        if name.upper() in (layer.short, layer.value):
            return layer
    raise BadInput(f"{name!r} is no layer: write L1 (all time) to L7 (now), such as L5 for weeks")
