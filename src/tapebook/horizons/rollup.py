"""From the ledger to the layers, as events: what closed since the last roll-up, and everything above it.

The marks of the last roll-up say how far each deployment's trades were looked at. Whatever closed behind them, in
whatever order and on whatever day, makes its day's leaf new; so a roll-up that was missed is made up for by the
next, a late trade repairs its ancestors, and with nothing new nothing is written.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from tapebook.horizons import events as ev
from tapebook.horizons.aggregate import Aggregate
from tapebook.horizons.layers import SPECS, ContextLayer
from tapebook.horizons.period import Kind, Period, parse_period, period_of
from tapebook.horizons.plan import Plan, roll_up
from tapebook.horizons.store import Horizons
from tapebook.horizons.values import Terms, Values
from tapebook.log import Draft

# A month of leaves per event, so that years of history do not become one.
_MOST_DAYS = 31


class Days(Protocol):
    """Where leaves come from: the closed trades of a deployment, or of all (an empty scope)."""

    def heads(self, scope: str) -> Mapping[str, int]:
        """The deployments of a scope, each with its newest sequence number."""
        ...

    def changed(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> Iterable[int]:
        """The exits of trades that became known after one sequence number and up to another, as instants."""
        ...

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """The leaf of a day from all its trades known by then; see `leaf_of`."""
        ...


def catch_up(store: Horizons, days: Days, scope: str, *, seq: int, now: int, terms: Terms | None = None) -> list[Draft]:
    """The events that bring the layers of a scope up to date; none when they are."""
    until, after = days.heads(scope), store.marks(scope)
    exits = days.changed(scope, after=after, until=until)
    dirty = sorted({period_of("day", instant) for instant in exits})
    leaves = {day: days.leaf(scope, day, until=until) for day in dirty}
    plans = _plans(_Ahead(store, scope, seq), leaves, terms)
    if not plans:
        return []
    bodies = [ev.LayerRolled(plan.folds, plan.told) for plan in plans]
    bodies[-1] = msgspec.structs.replace(bodies[-1], until=dict(until))
    return [ev.draft(now, body) for body in bodies]


def roll_again(
    store: Horizons, days: Days, scope: str, period: Period, *, seq: int, now: int, terms: Terms | None = None
) -> list[Draft]:
    """The same for one period: its days that are new, or itself when it is a day, and its own values in any case."""
    until, after = days.heads(scope), store.marks(scope)
    exits = days.changed(scope, after=after, until=until)
    dirty = {period_of("day", instant) for instant in exits if instant in period}
    if period.kind == "day":
        dirty.add(period)
    leaves = {day: days.leaf(scope, day, until=until) for day in sorted(dirty)}
    plans = _plans(_Ahead(store, scope, seq), leaves, terms, again=(period,))
    return [ev.draft(now, ev.LayerRolled(plan.folds, plan.told)) for plan in plans]


def expire(store: Horizons, scope: str, *, seq: int, now: int) -> tuple[dict[ContextLayer, int], list[Draft]]:
    """How many keys of each layer are past their time, by the end of their period, and the event that drops them."""
    firsts = {layer: spec.first_kept(now=now) for layer, spec in SPECS.items()}
    counts = dict.fromkeys(SPECS, 0)
    counts |= {layer: store.count_before(scope, layer, first, seq=seq) for layer, first in firsts.items() if first}
    kept = {layer: first for layer, first in firsts.items() if first and counts[layer]}
    return counts, [ev.draft(now, ev.LayerExpired(kept))] if kept else []


def rollup_values(store: Horizons, scope: str, layer: ContextLayer, timeframe: str, *, seq: int) -> Values:
    """What the roll-up, and nobody else, says of a timeframe."""
    found = store.values(scope, layer, timeframe, seq=seq)
    return {each.key: each.value for each in found if each.origin == "rollup"}


def _plans(
    ahead: "_Ahead", leaves: Mapping[Period, Aggregate], terms: Terms | None, *, again: Collection[Period] = ()
) -> list[Plan]:
    plans, order = [], sorted(leaves)
    for start in range(0, max(len(order), 1), _MOST_DAYS):
        batch = {day: leaves[day] for day in order[start : start + _MOST_DAYS]}
        plan = roll_up(batch, ahead, terms=terms, again=again)
        if plan.folds or plan.told:
            ahead.add(plan)
            plans.append(plan)
    return plans


class _Ahead:
    """What is stored, and on top of it what earlier plans will have written."""

    def __init__(self, store: Horizons, scope: str, seq: int) -> None:
        self._store, self._scope, self._seq = store, scope, seq
        self._folds: dict[Period, Aggregate] = {}
        self._values: dict[tuple[ContextLayer, str], Values] = {}

    def add(self, plan: Plan) -> None:
        """Counts a plan as written."""
        self._folds |= {parse_period(fold.kind, fold.timeframe): fold.whole for fold in plan.folds}
        for told in plan.told:
            self._values.setdefault((told.layer, told.timeframe), {}).update(told.values)

    def folds(self, kind: Kind, within: Period) -> dict[Period, Aggregate]:
        """The sums of a kind inside a period."""
        inside = {each for each in self._folds if each.kind == kind and each.start in within}
        return self._store.folds(self._scope, kind, within) | {each: self._folds[each] for each in inside}

    def values(self, layer: ContextLayer, timeframe: str) -> Values:
        """What the roll-up last said of a timeframe."""
        stored = rollup_values(self._store, self._scope, layer, timeframe, seq=self._seq)
        return stored | self._values.get((layer, timeframe), {})

    def is_kept(self, layer: ContextLayer, timeframe: str) -> bool:
        """Whether a timeframe was not dropped."""
        return timeframe >= self._store.first_kept(self._scope, layer, seq=self._seq)
