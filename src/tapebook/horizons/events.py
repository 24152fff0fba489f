"""The events of the layers (rolled up, written by hand, expired) and the tables they are projected to.

Projecting reads no table and no clock.
"""

from typing import Literal, TypeVar

import msgspec

from tapebook.db import Queries
from tapebook.horizons.aggregate import Aggregate
from tapebook.horizons.layers import ContextLayer, PeriodKind
from tapebook.log import Draft, Event, Projection, Write

Body = TypeVar("Body", bound=msgspec.Struct)

Origin = Literal["rollup", "curated", "observed", "live"]
"""Who wrote a value: the roll-up; a person, above the leaf layers; whoever saw it, in the leaf layers; or nobody: what
is live is computed when it is asked for."""


# A key that had a value and has none any more is written as null: a version can only be superseded, not removed.
NO_VALUE = "null"


class TimeframeValues(msgspec.Struct, frozen=True):
    """Values of one timeframe by key, each as JSON text; `null` when the key has none any more."""

    layer: ContextLayer
    timeframe: str
    values: dict[str, str]


class PeriodFold(msgspec.Struct, frozen=True):
    """The new sum of a day, a month or a year."""

    kind: PeriodKind
    timeframe: str
    whole: Aggregate


class LayerRolled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a roll-up changed, and nothing else.

    `until` says up to which sequence number of which deployment closed trades were looked at; a roll-up of a few
    chosen days says nothing.
    """

    folds: tuple[PeriodFold, ...]
    told: tuple[TimeframeValues, ...]
    until: dict[str, int] = {}


class LayerCurated(msgspec.Struct, frozen=True):
    """Values above the leaf layers, written by a person; they stand beside the roll-up and are never summed."""

    owner: str
    told: TimeframeValues


class LayerObserved(msgspec.Struct, frozen=True):
    """Values of the leaf layers: positions, prices and volatility of this moment, or the sums of a day."""

    told: TimeframeValues


class LayerExpired(msgspec.Struct, frozen=True):
    """From now on, timeframes before these are gone."""

    first_kept: dict[ContextLayer, str]


EVENT_KINDS: dict[type[msgspec.Struct], str] = {
    LayerRolled: "layer.rolled",
    LayerCurated: "layer.curated",
    LayerObserved: "layer.observed",
    LayerExpired: "layer.expired",
}


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.from_body(EVENT_KINDS[type(body)], happened_at, body)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)


_QUERIES = Queries.load("tapebook.horizons", "projections.sql")

TABLES = (
    *("context_keys", "context_versions", "context_changes"),
    *("context_folds", "context_marks", "context_cutoffs"),
)


class _RawFold(msgspec.Struct):
    kind: str
    timeframe: str
    whole: msgspec.Raw


class _RawFolds(msgspec.Struct):
    folds: tuple[_RawFold, ...]


def _project_rolled(event: Event) -> list[Write]:
    body = body_of(event, LayerRolled)
    writes = [_change_write(event), *(write for group in body.told for write in _value_writes(event, group, "rollup"))]
    # Sums as they were written: a field that aggregates get later must not change the row of an old one.
    for fold in msgspec.json.decode(event.body, type=_RawFolds).folds:
        row = {"kind": fold.kind, "timeframe": fold.timeframe, "whole_json": bytes(fold.whole).decode()}
        writes.append(Write(_QUERIES.fold, event.columns() | row))
    for source, until in body.until.items():
        writes.append(Write(_QUERIES.mark, event.columns() | {"source": source, "until_seq": until}))
    return writes


def _project_curated(event: Event) -> list[Write]:
    return [_change_write(event), *_value_writes(event, body_of(event, LayerCurated).told, "curated")]


def _project_observed(event: Event) -> list[Write]:
    return [_change_write(event), *_value_writes(event, body_of(event, LayerObserved).told, "observed")]


def _project_expired(event: Event) -> list[Write]:
    kept = body_of(event, LayerExpired).first_kept
    rows = ({"layer": layer.value, "first_kept": first} for layer, first in kept.items())
    return [_change_write(event), *(Write(_QUERIES.cutoff, event.columns() | row) for row in rows)]


def _change_write(event: Event) -> Write:
    return Write(_QUERIES.change, event.columns())


def _value_writes(event: Event, group: TimeframeValues, origin: Origin) -> list[Write]:
    place = event.columns() | {"layer": group.layer.value, "timeframe": group.timeframe, "origin": origin}
    writes = []
    for key, value in group.values.items():
        row = place | {"key": key, "value": value}
        writes += [Write(_QUERIES.key, row), Write(_QUERIES.version, row)]
    return writes


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        EVENT_KINDS[LayerRolled]: _project_rolled,
        EVENT_KINDS[LayerCurated]: _project_curated,
        EVENT_KINDS[LayerObserved]: _project_observed,
        EVENT_KINDS[LayerExpired]: _project_expired,
    },
)
