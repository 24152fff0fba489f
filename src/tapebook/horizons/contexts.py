"""ContextStore: the layers as keys and values, read at this moment or as of any other.

    store = ContextStore(conn)
    store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 1234.56)
    store.get_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl")

Where the roll-up and somebody else both have a value of one key, the roll-up's stands under the key, for it can be
computed again, and the other one beside it as `<key>_curated` or `<key>_observed`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tapebook.errors import BadInput
from tapebook.horizons import events as ev
from tapebook.horizons.connection import Connection, Opened, connection_of
from tapebook.horizons.layers import SPECS, ContextLayer, check_key, is_leaf, value_text
from tapebook.horizons.plan import GONE
from tapebook.horizons.rollup import expire
from tapebook.horizons.store import Found, Horizons
from tapebook.log import Draft


class ContextStore:
    """The layers of a deployment, or of all of them together (an empty scope)."""

    def __init__(self, conn: Connection | Opened, *, scope: str = "") -> None:
        self._conn = connection_of(conn)
        self._scope = scope

    def set_context(self, layer: ContextLayer, timeframe: str, key: str, value: Any) -> None:
        """Writes a value that JSON can hold. Above the days it is the owner's comment: marked, and never summed."""
        seq, now = self._conn.head(self._scope), self._conn.now()
        told = told_of(layer, timeframe, {key: value})
        first = self._conn.store.first_kept(self._scope, layer, seq=seq)
        if timeframe < first:
            raise BadInput(f"{timeframe} of {layer} is past its time: the oldest that is kept is {first}")
        self._conn.append(self._scope, [written(told, owner=self._conn.owner, at=now)], expected_seq=seq)

    def get_context(
        self,
        layer: ContextLayer,
        timeframe: str,
        key: str,
        *,
        origin: ev.Origin | None = None,
        as_of: int | None = None,
        seq: int | None = None,
    ) -> Any:
        """One value, or None; of a certain origin when asked."""
        SPECS[layer].period(timeframe)
        found = self._conn.store.values(self._scope, layer, timeframe, seq=self._seq(as_of, seq))
        if origin:
            found = [each for each in found if each.origin == origin]
        return beside(each for each in found if each.key == key).get(key)

    def get_all_contexts(
        self, layer: ContextLayer, timeframe: str | None = None, *, as_of: int | None = None, seq: int | None = None
    ) -> dict[str, Any]:
        """Every key of a timeframe; or every key of a layer, each of the latest timeframe that has it."""
        known = self._seq(as_of, seq)
        if timeframe is None:
            return beside(self._conn.store.newest(self._scope, layer, seq=known))
        SPECS[layer].period(timeframe)
        return beside(self._conn.store.values(self._scope, layer, timeframe, seq=known))

    def get_latest_timeframe(
        self, layer: ContextLayer, *, as_of: int | None = None, seq: int | None = None
    ) -> str | None:
        """The latest timeframe of a layer: by its own time, whichever was written last."""
        return self._conn.store.latest(self._scope, layer, seq=self._seq(as_of, seq))

    def cleanup_expired_contexts(self) -> dict[ContextLayer, int]:
        """Drops what is past its retention, counted from the end of its period; returns how many keys of each layer.

        Later reads do not see them. Reads as of an earlier moment do: a decision made then must replay.
        """
        seq = self._conn.head(self._scope)
        counts, drafts = expire(self._conn.store, self._scope, seq=seq, now=self._conn.now())
        self._conn.append(self._scope, drafts, expected_seq=seq)
        return counts

    def _seq(self, as_of: int | None, seq: int | None) -> int:
        if seq is not None:
            return seq
        return self._conn.head(self._scope) if as_of is None else self._conn.seq_as_of(self._scope, as_of)


def told_of(layer: ContextLayer, timeframe: str, values: Mapping[str, Any]) -> ev.Told:
    """Checked values of a timeframe; BadInput says what is wrong with them."""
    SPECS[layer].period(timeframe)
    for key in values:
        check_key(key)
    return ev.Told(layer, timeframe, {key: value_text(value) for key, value in values.items()})


def written(told: ev.Told, *, owner: str, at: int) -> Draft:
    """The event of values by hand: observed in the leaf layers, curated above them."""
    return ev.draft(at, ev.LayerObserved(told) if is_leaf(told.layer) else ev.LayerCurated(owner, told))


def observed(store: Horizons, scope: str, day: str, values: Mapping[str, Any], *, seq: int, at: int) -> list[Draft]:
    """The event of what a tick saw, such as `live_price_BTC`, in L7; only what differs from the values before."""
    told = told_of(ContextLayer.L7_REALTIME, day, values)
    known = {each.key: each.value for each in store.values(scope, told.layer, day, seq=seq)}
    new = {key: value for key, value in told.values.items() if known.get(key) != value}
    return [written(ev.Told(told.layer, day, new), owner=store.owner, at=at)] if new else []


def beside(found: Iterable[Found]) -> dict[str, Any]:
    """Values by key, the roll-up's first; those that are gone are left out."""
    shown: dict[str, Any] = {}
    for each in sorted(found, key=lambda each: (each.key, each.origin != "rollup", each.origin)):
        if each.value != GONE:
            shown[f"{each.key}_{each.origin}" if each.key in shown else each.key] = msgspec.json.decode(each.value)
    return shown
