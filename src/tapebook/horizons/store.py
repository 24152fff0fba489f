"""Layers in the database: any key as of any sequence number, and the sums the next roll-up goes on from.

Ticks ask through `LayerCache`. What a decision is told changes when something of the layers is written, or at midnight;
a roll-up can be due when a trade ended, or at midnight. Until then the cache answers both with one lookup. It changes
no byte: a new process gives the same.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.agent import LayerRow
from tapebook.domain.units import DAY, floor_to_step
from tapebook.horizons.aggregate import Aggregate
from tapebook.horizons.events import NO_VALUE, Origin
from tapebook.horizons.layers import ContextLayer, Period, PeriodKind, parse_period, period_of
from tapebook.horizons.rows import HeldNow, held_rows, layer_rows, running_day_rows
from tapebook.log import ReadCache, Stream

MIGRATIONS = "tapebook.horizons"

_QUERIES = Queries.load("tapebook.horizons")
# Every timeframe sorts between these.
_FIRST, _LAST = "", "~"


class LayerValue(msgspec.Struct, frozen=True):
    """A key with its value as JSON, who wrote it, and of which timeframe it is."""

    key: str
    origin: Origin
    value: str
    timeframe: str


class Horizons:
    """The layers of one owner. A scope is a deployment, or empty: all of them together."""

    def __init__(self, db: Database, *, owner: str, answers: ReadCache | None = None) -> None:
        self._db = db
        self.owner = owner
        self._values: dict[str, tuple[tuple[int, int], dict[tuple[ContextLayer, str], tuple[LayerValue, ...]]]] = {}
        self._answers = answers or ReadCache()
        self.last_change = self._answers.cached_read(self._read_last_change, owner=owner)

    def values(self, scope: str, layer: ContextLayer, timeframe: str, *, seq: int) -> Sequence[LayerValue]:
        """Every key of a timeframe; none when a cleanup had dropped it by then.

        Where changes are remembered, what was read since the newest is kept: packets are told it, and the next roll-up
        compares with it.
        """
        changed, kept = self._answers.last_change(Stream(self.owner, scope), seq=seq), self._values.get(scope)
        if changed is None:
            return self._read_values(scope, layer, timeframe, seq=seq)
        if kept is None or kept[0] != changed:
            kept = self._values[scope] = changed, {}
        found = kept[1].get((layer, timeframe))
        if found is None:
            found = kept[1][layer, timeframe] = self._read_values(scope, layer, timeframe, seq=seq)
        return found

    def _read_values(self, scope: str, layer: ContextLayer, timeframe: str, *, seq: int) -> tuple[LayerValue, ...]:
        rows = self._db.all(_QUERIES.values, **self._where(scope, layer), timeframe=timeframe, seq=seq)
        return tuple([LayerValue(*row) for row in rows])

    def newest_values(self, scope: str, layer: ContextLayer, *, seq: int) -> list[LayerValue]:
        """Every key of a layer, each of the newest timeframe that has it."""
        first = self.first_kept(scope, layer, seq=seq)
        rows = self._db.all(_QUERIES.newest, **self._where(scope, layer), first_kept=first, seq=seq)
        return [LayerValue(*row) for row in rows]

    def latest_timeframe(
        self, scope: str, layer: ContextLayer, *, seq: int, last: str = _LAST, origin: Origin | None = None
    ) -> str | None:
        """The newest timeframe of a layer up to `last`, by its time and not by when it was written."""
        where = self._where(scope, layer) | {"last": last, "seq": seq, "origin": origin or ""}
        row = self._db.one(_QUERIES.latest, **where)
        return row[0] if row else None

    def timeframes(self, scope: str, layer: ContextLayer, *, seq: int) -> list[str]:
        """Every timeframe of a layer that is kept, newest first."""
        where = self._where(scope, layer) | {"first_kept": self.first_kept(scope, layer, seq=seq), "seq": seq}
        return [row[0] for row in self._db.all(_QUERIES.timeframes, **where)]

    def first_kept(self, scope: str, layer: ContextLayer, *, seq: int) -> str:
        """The oldest timeframe that no cleanup had dropped; empty when there was none yet."""
        row = self._db.one(_QUERIES.cutoff, **self._where(scope, layer), seq=seq)
        return row[0] if row else _FIRST

    def count_before(self, scope: str, layer: ContextLayer, timeframe: str, *, seq: int) -> int:
        """How many keys are kept of timeframes before one."""
        first = self.first_kept(scope, layer, seq=seq)
        where = self._where(scope, layer) | {"first": first, "last": timeframe, "seq": seq}
        row = self._db.one(_QUERIES.keys_between, **where)
        return row[0] if row else 0

    def folds(self, scope: str, kind: PeriodKind, within: Period) -> dict[Period, Aggregate]:
        """The newest sums of a kind inside a period."""
        first, last = period_of(kind, within.start).key, period_of(kind, within.end - 1).key
        where = {"owner": self.owner, "deployment": scope, "kind": kind, "first": first, "last": last}
        return {parse_period(kind, row[0]): _decoded_aggregate(row[1]) for row in self._db.all(_QUERIES.folds, **where)}

    def rollup_marks(self, scope: str) -> dict[str, int]:
        """Up to which event of each deployment closed trades are in the layers."""
        rows = self._db.all(_QUERIES.marks, owner=self.owner, deployment=scope)
        return {row[0]: row[1] for row in rows}

    def observed_days(self, scope: str, *, after: int, until: int) -> list[str]:
        """The days whose sums somebody wrote between two sequence numbers."""
        where = self._where(scope, ContextLayer.L6_DAILY)
        return [row[0] for row in self._db.all(_QUERIES.observed_days, **where, after=after, until=until)]

    def _read_last_change(self, deployment: str, *, seq: int) -> int:
        """The newest event up to a sequence number that wrote anything of a scope; 0 when there is none."""
        row = self._db.one(_QUERIES.changed, owner=self.owner, deployment=deployment, seq=seq)
        return row[0] if row else 0

    def _where(self, scope: str, layer: ContextLayer) -> dict[str, str | int]:
        return {"owner": self.owner, "deployment": scope, "layer": layer.value}


@lru_cache(maxsize=256)
def _decoded_aggregate(text: str) -> Aggregate:
    """Kept, since every day of a month is read again until it is over."""
    return msgspec.json.decode(text, type=Aggregate)


_CacheKey = tuple[int, int, int, bool]
"""All that the rows of a scope depend on: its newest change, the owner's, the day, and which keys are told."""


class LayerCache:
    """The layers of one owner, for reading and rolling up again and again."""

    def __init__(self, store: Horizons) -> None:
        self.store = store
        self._rows: dict[str, tuple[_CacheKey, tuple[LayerRow, ...]]] = {}
        self._now_rows: dict[str, tuple[tuple[int, int, HeldNow], tuple[LayerRow, ...]]] = {}
        # By scope: when, and at which sequence number, there was nothing to roll up, and the day of the last cleanup.
        self.quiet: dict[str, tuple[int, int]] = {}
        self.cleaned: dict[str, int] = {}

    def packet_rows(
        self, scope: str, *, seq: int, as_of: int, curated: int = 0, now: HeldNow | None = None
    ) -> tuple[LayerRow, ...]:
        """What a decision is told; see `layer_rows`. `now` is that of a packet with `market_phases`."""
        changed = self.store.last_change(scope, seq=seq)
        first: tuple[LayerRow, ...] = ()
        if now and (now.ended.trades or len(now.positions) > 1):
            running, told = (changed, as_of // DAY, now), self._now_rows.get(scope)
            if told is None or told[0] != running:
                values = self._newest_values(scope, seq=seq, as_of=as_of) if len(now.positions) > 1 else {}
                rows = (*running_day_rows(now.ended, as_of=as_of), *held_rows(now.positions, values, as_of=as_of))
                told = self._now_rows[scope] = running, rows
            first = told[1]
        if not changed and not curated:
            return first
        known, kept = (changed, curated, as_of // DAY, now is not None), self._rows.get(scope)
        if kept is None or kept[0] != known:
            rows = layer_rows(self.store, scope, seq=seq, as_of=as_of, curated=curated, market_phases=now is not None)
            kept = self._rows[scope] = known, rows
        return (*first, *kept[1]) if first else kept[1]

    def _newest_values(self, scope: str, *, seq: int, as_of: int) -> dict[str, Any]:
        """The sectors of the newest week, and the correlations of the newest month that has some."""
        found: dict[str, Any] = {}
        month = period_of("month", as_of)
        places = [(ContextLayer.L4_MONTHLY, period.key) for period in (period_of("month", month.start - 1), month)]
        week = self.store.latest_timeframe(scope, ContextLayer.L5_WEEKLY, seq=seq, origin="rollup")
        for layer, timeframe in [*places, (ContextLayer.L5_WEEKLY, week)]:
            stored = self.store.values(scope, layer, timeframe, seq=seq) if timeframe else ()
            found |= {each.key: msgspec.json.decode(each.value) for each in stored if each.value != NO_VALUE}
        return found

    def nothing_to_roll_up_at(self, scope: str, *, now: int) -> int | None:
        """The sequence number at which there was last nothing to roll up; None when that was on another day.

        As long as no trade of an earlier day ended after it, there still is nothing.
        """
        today, seq = self.quiet.get(scope, (None, 0))
        return seq if today == floor_to_step(now, DAY) else None
