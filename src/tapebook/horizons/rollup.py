"""Rolls closed trades up into the layers, as events: days that changed since the last roll-up, and all above them.

1. `catch_up` reads the marks of the last roll-up, which say how far each deployment's trades were looked at. Whatever
   closed behind them, in whatever order and on whatever day, makes its day's leaf new; so a roll-up that was missed
   is made up for by the next, a late trade repairs its ancestors, and with nothing new nothing is written. Days that
   are not over yet may be left for later; then the marks stay before the first change of such a day. Days whose
   prices are not in the layers yet (`MarketDays`) are brought in beside them, traded or not.
2. `plan_rollup`, which is pure, puts aside leaves that are as they were, folds every period above a changed leaf
   again from its parts in the order of time (`_PARTS`), and lists the values that differ from what is stored.

Months and years are stored, weeks, quarters and all time are not. A stored sum is a fold of day leaves in another
grouping, and folding is associative: each layer is what the leaves of its days give, and no week is in any of them.
So one new trade costs the days of its week and month, the months of its quarter and year, and the years; it does not
matter how many trades there were.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Protocol

import msgspec

from tapebook.domain.units import DAY, floor_to_step
from tapebook.horizons import events as ev
from tapebook.horizons.aggregate import EMPTY_AGGREGATE, Aggregate, fold_spans
from tapebook.horizons.events import NO_VALUE, PeriodFold, TimeframeValues
from tapebook.horizons.layers import LAYER_OF, LAYER_SPECS, ContextLayer, Period, PeriodKind, parse_period, period_of
from tapebook.horizons.markets import MarketDays, market_days_due
from tapebook.horizons.store import Horizons, LayerCache
from tapebook.horizons.values import RollupTerms, Values, values_of
from tapebook.log import Draft

STEP_DAYS = 93
"""How many days are rolled up at once, so that leases are kept alive in between."""

# In this order: a kind stands behind its parts.
_PARTS: dict[PeriodKind, PeriodKind] = {
    "week": "day",
    "month": "day",
    "quarter": "month",
    "year": "month",
    "legacy": "year",
}
# Weeks and quarters are cheap to fold again, and their sums would be stored for nothing.
_KEPT: tuple[PeriodKind, ...] = ("day", "month", "year")


class StoredLayers(Protocol):
    """The sums and values that earlier roll-ups wrote."""

    def folds(self, kind: PeriodKind, within: Period) -> dict[Period, Aggregate]:
        """The sums of days, months or years inside a period."""
        ...

    def values(self, layer: ContextLayer, timeframe: str) -> Values:
        """The values that the newest roll-up wrote for a timeframe."""
        ...

    def is_kept(self, layer: ContextLayer, timeframe: str) -> bool:
        """Whether a timeframe was not dropped."""
        ...


class RollupPlan(msgspec.Struct, frozen=True):
    """Sums and values that are new; empty when nothing changed."""

    folds: tuple[PeriodFold, ...]
    told: tuple[TimeframeValues, ...]


def plan_rollup(
    leaves: Mapping[Period, Aggregate],
    stored: StoredLayers,
    *,
    terms: RollupTerms | None = None,
    again: Collection[Period] = (),
) -> RollupPlan:
    """The plan of some day leaves, each of them whole; `again` are periods whose values are looked at in any case."""
    # A leaf that is as it was changes nothing above it.
    wholes = {day: leaf for day, leaf in leaves.items() if leaf != _stored_fold(stored, day)}
    wholes |= {day: _stored_fold(stored, day) for day in again if day.kind == "day" and day not in leaves}
    for kind, part in _PARTS.items():
        parents = {period_of(kind, each.start) for each in wholes if each.kind == part}
        for parent in parents | {each for each in again if each.kind == kind}:
            parts = stored.folds(part, parent)
            parts |= {each: whole for each, whole in wholes.items() if each.kind == part and each.start in parent}
            wholes[parent] = fold_spans(parts[each] for each in sorted(parts))
    folds = [
        PeriodFold(period.kind, period.key, whole)
        for period, whole in sorted(wholes.items())
        if period.kind in _KEPT and whole != _stored_fold(stored, period)
    ]
    return RollupPlan(tuple(folds), tuple(_changed_values(wholes, stored, terms or RollupTerms())))


def _stored_fold(stored: StoredLayers, period: Period) -> Aggregate:
    return stored.folds(period.kind, period).get(period, EMPTY_AGGREGATE)


def _changed_values(
    wholes: Mapping[Period, Aggregate], stored: StoredLayers, terms: RollupTerms
) -> Iterator[TimeframeValues]:
    for period, whole in sorted(wholes.items(), key=lambda each: each[0]):
        layer, timeframe = LAYER_OF[period.kind], period.key
        # What was dropped for its age does not come back with a late trade.
        if not stored.is_kept(layer, timeframe):
            continue
        old, new = stored.values(layer, timeframe), values_of(period, whole, terms)
        # A period that never had anything has nothing to say.
        if not old and whole == EMPTY_AGGREGATE:
            continue
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        changed |= {key: NO_VALUE for key, value in old.items() if key not in new and value != NO_VALUE}
        if changed:
            yield TimeframeValues(layer, timeframe, changed)


# Beside the marks of deployments; no deployment can have this name.
MARKET_MARK = "@market"
"""The mark of the last day, counted since 1970, whose prices are in the layers."""

# A month of leaves per event, so that years of history do not become one.
_MOST_DAYS_PER_EVENT = 31


class ChangedDay(msgspec.Struct, frozen=True):
    """A day whose leaf is new: an instant of it, and the first event of a deployment that made it so."""

    source: str
    seq: int
    at: int


class LeafSource(Protocol):
    """Where leaves come from: the closed trades of a deployment, or of all (an empty scope)."""

    def heads(self, scope: str) -> Mapping[str, int]:
        """The deployments of a scope, each with its newest sequence number."""
        ...

    def changed_days(self, scope: str, *, after: Mapping[str, int], until: Mapping[str, int]) -> Iterable[ChangedDay]:
        """The days something became known of after one sequence number and up to another, by deployment."""
        ...

    def leaf(self, scope: str, day: Period, *, until: Mapping[str, int]) -> Aggregate:
        """The leaf of a day from all its trades known by then; see `leaf_of`."""
        ...


def catch_up(
    store: Horizons,
    days: LeafSource,
    scope: str,
    *,
    seq: int,
    at: int,
    terms: RollupTerms | None = None,
    before: int | None = None,
    most: int | None = None,
    market: MarketDays | None = None,
) -> list[Draft]:
    """The events that bring the layers of a scope up to date, as far as days began `before` a moment; none if they are.

    `at` is when it happens. No more than `most` days are brought in at once; the next call goes on with the others.
    """
    until, after = days.heads(scope), store.rollup_marks(scope)
    today = floor_to_step(at, DAY)
    due = market_days_due(after.get(MARKET_MARK), today=today) if market else []
    quoted = [period_of("day", number * DAY) for number in due]
    news = list(days.changed_days(scope, after=after, until=until))
    ripe = [each for each in news if before is None or each.at < before]
    # In the order in which they became known, so that the marks move on however few are brought in.
    traded = [period_of("day", each.at) for each in sorted(ripe, key=lambda each: each.seq)]
    dirty = list(dict.fromkeys([*traded, *quoted]))
    # Steps without a plan are passed over: a day that became known again as it was causes no event.
    step = most or max(1, len(dirty))
    for end in range(step, len(dirty) + step, step):
        stored = _PlannedLayers(store, scope, seq)
        leaves = {
            day: _leaf(days.leaf(scope, day, until=until), stored, day) for day in sorted(dirty[end - step : end])
        }
        if market:
            leaves |= {day: leaves[day].with_market(market.prices(day)) for day in quoted if day in leaves}
        plans = _plans(stored, leaves, terms)
        if plans:
            done = set(dirty[:end])
            left = [each for each in news if period_of("day", each.at) not in done]
            bodies = [ev.LayerRolled(plan.folds, plan.told) for plan in plans]
            # Only the last event moves the marks: a process killed between them does all of it again.
            marks = _new_marks(until, left)
            if read := [day.start // DAY for day in takewhile(done.__contains__, quoted)]:
                marks[MARKET_MARK] = read[-1]
            bodies[-1] = msgspec.structs.replace(bodies[-1], until=marks)
            return [ev.draft(at, body) for body in bodies]
    return []


def roll_up_finished_days(
    layers: LayerCache,
    days: LeafSource,
    scope: str,
    *,
    seq: int,
    now: int,
    terms: RollupTerms | None = None,
    market: MarketDays | None = None,
) -> list[Draft]:
    """The events that roll up days that are over, and late trades of such days; once a day a cleanup too.

    They are one step of `STEP_DAYS` at most: the next call goes on behind them.
    """
    today, store = floor_to_step(now, DAY), layers.store
    drafts = catch_up(store, days, scope, seq=seq, at=today, terms=terms, before=today, most=STEP_DAYS, market=market)
    if layers.cleaned.get(scope) != today:
        # Whatever the weekday, and whether anything was traded: a process that starts looks once.
        drafts += expire_layers(store, scope, seq=seq, now=today)[1]
        layers.cleaned[scope] = today
    if not drafts:
        layers.quiet[scope] = today, seq
    return drafts


def roll_up_period(
    store: Horizons,
    days: LeafSource,
    scope: str,
    period: Period,
    *,
    seq: int,
    at: int,
    terms: RollupTerms | None = None,
) -> list[Draft]:
    """Rolls up one period: its days that are new, or itself when it is a day, and its own values in any case."""
    until, after = days.heads(scope), store.rollup_marks(scope)
    news = days.changed_days(scope, after=after, until=until)
    dirty = {period_of("day", each.at) for each in news if each.at in period}
    if period.kind == "day":
        dirty.add(period)
    stored = _PlannedLayers(store, scope, seq)
    leaves = {day: _leaf(days.leaf(scope, day, until=until), stored, day) for day in sorted(dirty)}
    plans = _plans(stored, leaves, terms, again=(period,))
    return [ev.draft(at, ev.LayerRolled(plan.folds, plan.told)) for plan in plans]


def expire_layers(store: Horizons, scope: str, *, seq: int, now: int) -> tuple[dict[ContextLayer, int], list[Draft]]:
    """How many keys of each layer are past their time, by the end of their period, and the event that drops them."""
    firsts = {layer: spec.first_kept(now=now) for layer, spec in LAYER_SPECS.items()}
    counts = dict.fromkeys(LAYER_SPECS, 0)
    counts |= {layer: store.count_before(scope, layer, first, seq=seq) for layer, first in firsts.items() if first}
    kept = {layer: first for layer, first in firsts.items() if first and counts[layer]}
    return counts, [ev.draft(now, ev.LayerExpired(kept))] if kept else []


def rollup_values(store: Horizons, scope: str, layer: ContextLayer, timeframe: str, *, seq: int) -> Values:
    """The values of a timeframe that come from roll-ups, without curated and observed ones."""
    found = store.values(scope, layer, timeframe, seq=seq)
    return {each.key: each.value for each in found if each.origin == "rollup"}


def _leaf(traded: Aggregate, stored: StoredLayers, day: Period) -> Aggregate:
    """A leaf of trades with the prices its day has in the layers already: those are read once, when it is over."""
    prices = _stored_fold(stored, day).prices
    return traded.with_market(prices) if prices else traded


def _new_marks(until: Mapping[str, int], left: Iterable[ChangedDay]) -> dict[str, int]:
    """How far all is in the layers: no further than before the first news that was left for later."""
    marks = dict(until)
    for each in left:
        marks[each.source] = min(marks[each.source], each.seq - 1)
    return marks


def _plans(
    ahead: "_PlannedLayers",
    leaves: Mapping[Period, Aggregate],
    terms: RollupTerms | None,
    *,
    again: Collection[Period] = (),
) -> list[RollupPlan]:
    plans, order = [], sorted(leaves)
    for start in range(0, max(len(order), 1), _MOST_DAYS_PER_EVENT):
        batch = {day: leaves[day] for day in order[start : start + _MOST_DAYS_PER_EVENT]}
        plan = plan_rollup(batch, ahead, terms=terms, again=again)
        if plan.folds or plan.told:
            ahead.add(plan)
            plans.append(plan)
    return plans


# Sums are read a block at a time: one roll-up asks for a day, its week and its month.
_BLOCKS: dict[PeriodKind, PeriodKind] = {"day": "month", "month": "year", "year": "legacy"}


class _PlannedLayers:
    """What is stored, read once, and on top of it what earlier plans will have written."""

    def __init__(self, store: Horizons, scope: str, seq: int) -> None:
        self._store, self._scope, self._seq = store, scope, seq
        self._read: dict[tuple[PeriodKind, Period], dict[Period, Aggregate]] = {}
        self._folds: dict[Period, Aggregate] = {}
        self._values: dict[tuple[ContextLayer, str], Values] = {}

    def add(self, plan: RollupPlan) -> None:
        """Counts a plan as written."""
        self._folds |= {parse_period(fold.kind, fold.timeframe): fold.whole for fold in plan.folds}
        for group in plan.told:
            self._values.setdefault((group.layer, group.timeframe), {}).update(group.values)

    def folds(self, kind: PeriodKind, within: Period) -> dict[Period, Aggregate]:
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

    def _block(self, kind: PeriodKind, block: Period) -> dict[Period, Aggregate]:
        if (kind, block) not in self._read:
            self._read[kind, block] = self._store.folds(self._scope, kind, block)
        return self._read[kind, block]
