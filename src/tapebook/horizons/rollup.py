"""From the ledger to the layers, as events: what closed since the last roll-up, and everything above it.

The marks of the last roll-up say how far each deployment's trades were looked at. Whatever closed behind them, in
whatever order and on whatever day, makes its day's leaf new; so a roll-up that was missed is made up for by the
next, a late trade repairs its ancestors, and with nothing new nothing is written.

A roll-up may leave days for later that are not over yet; then the marks stay before the first news of such a day.
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


class News(msgspec.Struct, frozen=True):
    """A day whose leaf is new: an instant of it, and the first event of a deployment that made it so."""

    source: str
    seq: int
    at: int


class Days(Protocol):
    """Where leaves come from: the closed trades of a deployment, or of all (an empty scope)."""

    def heads(self, scope: str) -> Mapping[str, int]:
        """The deployments of a scope, each with its newest sequence number."""
        ...

    def changed(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> Iterable[News]:
        """The days something became known of after one sequence number and up to another, by deployment."""
        ...

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """The leaf of a day from all its trades known by then; see `leaf_of`."""
        ...


def catch_up(
    store: Horizons,
    days: Days,
    scope: str,
    *,
    seq: int,
    at: int,
    terms: Terms | None = None,
    before: int | None = None,
    most: int | None = None,
) -> list[Draft]:
    """The events that bring the layers of a scope up to date, as far as days began `before` a moment; none if they are.

    `at` is when it happens. No more than `most` days are brought in at once; the next call goes on with the others.
    """
    until, after = days.heads(scope), store.marks(scope)
    news = list(days.changed(scope, after=after, until=until))
    ripe = [each for each in news if before is None or each.at < before]
    # In the order in which they became known, so that the marks move on however few are brought in.
    dirty = list(dict.fromkeys(period_of("day", each.at) for each in sorted(ripe, key=lambda each: each.seq)))
    step = most or max(1, len(dirty))
    for end in range(step, len(dirty) + step, step):
        leaves = {day: days.leaf(scope, day, until=until) for day in sorted(dirty[end - step : end])}
        plans = _plans(_Ahead(store, scope, seq), leaves, terms)
        if plans:
            done = set(dirty[:end])
            left = [each for each in news if period_of("day", each.at) not in done]
            bodies = [ev.LayerRolled(plan.folds, plan.told) for plan in plans]
            bodies[-1] = msgspec.structs.replace(bodies[-1], until=_marks(until, left))
            return [ev.draft(at, body) for body in bodies]
    return []


def roll_again(
    store: Horizons, days: Days, scope: str, period: Period, *, seq: int, at: int, terms: Terms | None = None
) -> list[Draft]:
    """The same for one period: its days that are new, or itself when it is a day, and its own values in any case."""
    until, after = days.heads(scope), store.marks(scope)
    news = days.changed(scope, after=after, until=until)
    dirty = {period_of("day", each.at) for each in news if each.at in period}
    if period.kind == "day":
        dirty.add(period)
    leaves = {day: days.leaf(scope, day, until=until) for day in sorted(dirty)}
    plans = _plans(_Ahead(store, scope, seq), leaves, terms, again=(period,))
    return [ev.draft(at, ev.LayerRolled(plan.folds, plan.told)) for plan in plans]


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


def _marks(until: Mapping[str, int], left: Iterable[News]) -> dict[str, int]:
    """How far all is in the layers: no further than before the first news that was left for later."""
    marks = dict(until)
    for each in left:
        marks[each.source] = min(marks[each.source], each.seq - 1)
    return marks


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


# Sums are read a block at a time: one roll-up asks for a day, its week and its month.
_BLOCKS: dict[Kind, Kind] = {"day": "month", "month": "year", "year": "legacy"}


class _Ahead:
    """What is stored, read once, and on top of it what earlier plans will have written."""

    def __init__(self, store: Horizons, scope: str, seq: int) -> None:
        self._store, self._scope, self._seq = store, scope, seq
        self._read: dict[tuple[Kind, Period], dict[Period, Aggregate]] = {}
        self._folds: dict[Period, Aggregate] = {}
        self._values: dict[tuple[ContextLayer, str], Values] = {}

    def add(self, plan: Plan) -> None:
        """Counts a plan as written."""
        self._folds |= {parse_period(fold.kind, fold.timeframe): fold.whole for fold in plan.folds}
        for told in plan.told:
            self._values.setdefault((told.layer, told.timeframe), {}).update(told.values)

    def folds(self, kind: Kind, within: Period) -> dict[Period, Aggregate]:
        """The sums of a kind inside a period."""
        start, end = within.start, within.end
        blocks = {period_of(_BLOCKS[kind], instant) for instant in (start, end - 1)}
        found = {each: whole for block in blocks for each, whole in self._block(kind, block).items()}
        found |= {each: whole for each, whole in self._folds.items() if each.kind == kind}
        return {each: whole for each, whole in found.items() if start <= each.start < end}

    def values(self, layer: ContextLayer, timeframe: str) -> Values:
        """What the roll-up last said of a timeframe."""
        stored = rollup_values(self._store, self._scope, layer, timeframe, seq=self._seq)
        return stored | self._values.get((layer, timeframe), {})

    def is_kept(self, layer: ContextLayer, timeframe: str) -> bool:
        """Whether a timeframe was not dropped."""
        return timeframe >= self._store.first_kept(self._scope, layer, seq=self._seq)

    def _block(self, kind: Kind, block: Period) -> dict[Period, Aggregate]:
        if (kind, block) not in self._read:
            self._read[kind, block] = self._store.folds(self._scope, kind, block)
        return self._read[kind, block]
