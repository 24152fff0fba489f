"""ContextStore: the layers as keys and values, read at this moment or as of any other.

    store = ContextStore(conn)
    store.set_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl", 1234.56)
    store.get_context(ContextLayer.L6_DAILY, "2026-02-04", "total_pnl")

Where the roll-up and somebody else both have a value of one key, the roll-up's stands under the key, for it can be
computed again, and the other one beside it as `<key>_curated` or `<key>_observed`. The same in L7 for what is `live`:
in a home its positions, prices and volatilities are not stored but computed as of the moment that is asked for.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tapebook.errors import BadInput
from tapebook.horizons import events as ev
from tapebook.horizons.connection import Connection, Opened, connection_of
from tapebook.horizons.layers import SPECS, ContextLayer, check_key, is_leaf, value_text
from tapebook.horizons.period import period_of
from tapebook.horizons.plan import GONE
from tapebook.horizons.rollup import expire
from tapebook.horizons.store import Found
from tapebook.log import Draft

COMPUTED = ("rollup", "live")


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
        found = self._found(layer, timeframe, self._when(as_of, seq), key=key)
        if origin:
            found = [each for each in found if each.origin == origin]
        return beside(each for each in found if each.key == key).get(key)

    def get_all_contexts(
        self, layer: ContextLayer, timeframe: str | None = None, *, as_of: int | None = None, seq: int | None = None
    ) -> dict[str, Any]:
        """Every key of a timeframe; or every key of a layer, each of the latest timeframe that has it."""
        when = self._when(as_of, seq)
        if timeframe is not None:
            return beside(self._found(layer, timeframe, when))
        live = {each.key: each for each in self._live(layer, when)}
        newest = self._conn.store.newest(self._scope, layer, seq=when.seq)
        old = [each for each in newest if each.key in live and each.timeframe < live[each.key].timeframe]
        return beside([*live.values(), *(each for each in newest if each not in old)])

    def get_latest_timeframe(
        self, layer: ContextLayer, *, as_of: int | None = None, seq: int | None = None
    ) -> str | None:
        """The latest timeframe of a layer: by its own time, whichever was written last."""
        when = self._when(as_of, seq)
        stored = self._conn.store.latest(self._scope, layer, seq=when.seq)
        return max([stored or "", *(each.timeframe for each in self._live(layer, when))]) or None

    def entries(self, layer: ContextLayer, *, as_of: int | None = None, seq: int | None = None) -> list[Found]:
        """Everything of a layer that is kept, the newest timeframe first, with who wrote it."""
        when = self._when(as_of, seq)
        frames = set(self._conn.store.timeframes(self._scope, layer, seq=when.seq))
        frames |= {each.timeframe for each in self._live(layer, when)}
        found = [each for frame in sorted(frames, reverse=True) for each in self._found(layer, frame, when)]
        return [each for each in found if each.value != GONE]

    def cleanup_expired_contexts(self) -> dict[ContextLayer, int]:
        """Drops what is past its retention, counted from the end of its period; returns how many keys of each layer.

        Later reads do not see them. Reads as of an earlier moment do: a decision made then must replay.
        """
        seq = self._conn.head(self._scope)
        counts, drafts = expire(self._conn.store, self._scope, seq=seq, now=self._conn.now())
        self._conn.append(self._scope, drafts, expected_seq=seq)
        return counts

    def _found(self, layer: ContextLayer, timeframe: str, when: "_When", *, key: str | None = None) -> list[Found]:
        SPECS[layer].period(timeframe)
        stored = self._conn.store.values(self._scope, layer, timeframe, seq=when.seq)
        return [*self._live(layer, when, timeframe=timeframe, key=key), *stored]

    def _live(
        self, layer: ContextLayer, when: "_When", *, timeframe: str | None = None, key: str | None = None
    ) -> list[Found]:
        """What is computed of a day of L7: as it was at its end, or is by now; nothing once it is past its time."""
        if layer is not ContextLayer.L7_REALTIME or self._conn.live is None:
            return []
        spec, today = SPECS[layer], period_of("day", when.at)
        day = today if timeframe is None else spec.period(timeframe)
        if day > today or day.key < (spec.first_kept(now=when.at) or ""):
            return []
        values = self._conn.live.values(self._scope, at=min(when.at, day.end - 1), key=key)
        return [Found(name, "live", value_text(value), day.key) for name, value in values.items()]

    def _when(self, as_of: int | None, seq: int | None) -> "_When":
        if seq is not None:
            return _When(seq, self._conn.known_at(self._scope, seq))
        if as_of is not None:
            return _When(self._conn.seq_as_of(self._scope, as_of), as_of)
        return _When(self._conn.head(self._scope), self._conn.now())


class _When(msgspec.Struct, frozen=True):
    """How far a read may see: the newest event, and the moment it is asked for."""

    seq: int
    at: int


def told_of(layer: ContextLayer, timeframe: str, values: Mapping[str, Any]) -> ev.Told:
    """Checked values of a timeframe; BadInput says what is wrong with them."""
    SPECS[layer].period(timeframe)
    for key in values:
        check_key(key)
    return ev.Told(layer, timeframe, {key: value_text(value) for key, value in values.items()})


def written(told: ev.Told, *, owner: str, at: int) -> Draft:
    """The event of values by hand: observed in the leaf layers, curated above them."""
    return ev.draft(at, ev.LayerObserved(told) if is_leaf(told.layer) else ev.LayerCurated(owner, told))


def beside(found: Iterable[Found]) -> dict[str, Any]:
    """Values by key, those that were computed first; those that are gone are left out."""
    shown: dict[str, Any] = {}
    for each in sorted(found, key=lambda each: (each.key, each.origin not in COMPUTED, each.origin)):
        if each.value != GONE:
            shown[f"{each.key}_{each.origin}" if each.key in shown else each.key] = msgspec.json.decode(each.value)
    return shown
