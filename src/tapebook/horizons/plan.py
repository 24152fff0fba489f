"""What new day leaves change: the sums of their ancestors, and the values of every timeframe they lie in. Pure.

1. leaves that are as they were are put aside;
2. every period above a changed leaf is merged again, from its parts in the order of time (`_PARTS`);
3. of the values of these periods, those that differ from what is stored are told.

Months and years are kept, weeks, quarters and all time are not. A kept sum is a merge of day leaves in another
grouping, and merging is associative: each layer is what the leaves of its days give, and no week is in any of them.
So one new trade costs the days of its week and month, the months of its quarter and year, and the years; it does
not matter how many trades there were.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

import msgspec

from tapebook.horizons.aggregate import EMPTY, Aggregate, fold
from tapebook.horizons.events import Fold, Told
from tapebook.horizons.layers import LAYER_OF, ContextLayer
from tapebook.horizons.period import Kind, Period, period_of
from tapebook.horizons.values import Terms, Values, values_of

GONE = "null"

# In this order: a kind stands behind its parts.
_PARTS: dict[Kind, Kind] = {"week": "day", "month": "day", "quarter": "month", "year": "month", "legacy": "year"}
_KEPT: tuple[Kind, ...] = ("day", "month", "year")


class Stored(Protocol):
    """What earlier roll-ups left."""

    def folds(self, kind: Kind, within: Period) -> dict[Period, Aggregate]:
        """The sums of days, months or years inside a period."""
        ...

    def values(self, layer: ContextLayer, timeframe: str) -> Values:
        """What the roll-up last said of a timeframe."""
        ...

    def is_kept(self, layer: ContextLayer, timeframe: str) -> bool:
        """Whether a timeframe was not dropped."""
        ...


class Plan(msgspec.Struct, frozen=True):
    """Sums and values that are new; empty when nothing changed."""

    folds: tuple[Fold, ...]
    told: tuple[Told, ...]


def roll_up(
    leaves: Mapping[Period, Aggregate], stored: Stored, *, terms: Terms | None = None, again: Collection[Period] = ()
) -> Plan:
    """The plan of some day leaves, each of them whole; `again` are periods whose values are looked at in any case."""
    wholes = {day: leaf for day, leaf in leaves.items() if leaf != _known(stored, day)}
    wholes |= {day: _known(stored, day) for day in again if day.kind == "day" and day not in leaves}
    for kind, part in _PARTS.items():
        parents = {period_of(kind, each.start) for each in wholes if each.kind == part}
        for parent in parents | {each for each in again if each.kind == kind}:
            parts = stored.folds(part, parent)
            parts |= {each: whole for each, whole in wholes.items() if each.kind == part and each.start in parent}
            wholes[parent] = fold(parts[each] for each in sorted(parts))
    folds = [
        Fold(period.kind, period.key, whole)
        for period, whole in sorted(wholes.items())
        if period.kind in _KEPT and whole != _known(stored, period)
    ]
    return Plan(tuple(folds), tuple(_told(wholes, stored, terms or Terms())))


def _known(stored: Stored, period: Period) -> Aggregate:
    return stored.folds(period.kind, period).get(period, EMPTY)


def _told(wholes: Mapping[Period, Aggregate], stored: Stored, terms: Terms) -> Iterator[Told]:
    for period, whole in sorted(wholes.items(), key=lambda each: each[0]):
        layer, timeframe = LAYER_OF[period.kind], period.key
        if not stored.is_kept(layer, timeframe):
            continue
        old, new = stored.values(layer, timeframe), values_of(period, whole, terms)
        # A period that never had anything has nothing to say.
        if not old and whole == EMPTY:
            continue
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        changed |= {key: GONE for key, value in old.items() if key not in new and value != GONE}
        if changed:
            yield Told(layer, timeframe, changed)
