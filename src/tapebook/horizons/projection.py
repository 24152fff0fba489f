"""The tables of layers: what each event of this room writes. Nothing here reads a table or a clock."""

from typing import Any

import msgspec

from tapebook.db import Queries
from tapebook.horizons import events as ev
from tapebook.log import Event, Projection, Write

_QUERIES = Queries.load("tapebook.horizons", "projections.sql")

TABLES = (
    *("context_keys", "context_versions", "context_changes"),
    *("context_folds", "context_marks", "context_cutoffs"),
)


class _Fold(msgspec.Struct):
    kind: str
    timeframe: str
    whole: msgspec.Raw


class _Rolled(msgspec.Struct):
    folds: tuple[_Fold, ...]


def _place(event: Event) -> dict[str, Any]:
    return {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}


def _rolled(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.LayerRolled)
    writes = [_change(event), *(write for told in body.told for write in _values(event, told, "rollup"))]
    # Sums as they were written: a field that aggregates get later must not change the row of an old one.
    for fold in msgspec.json.decode(event.body, type=_Rolled).folds:
        row = {"kind": fold.kind, "timeframe": fold.timeframe, "whole_json": bytes(fold.whole).decode()}
        writes.append(Write(_QUERIES.fold, _place(event) | row))
    for source, until in body.until.items():
        writes.append(Write(_QUERIES.mark, _place(event) | {"source": source, "until_seq": until}))
    return writes


def _curated(event: Event) -> list[Write]:
    return [_change(event), *_values(event, ev.body_of(event, ev.LayerCurated).told, "curated")]


def _observed(event: Event) -> list[Write]:
    return [_change(event), *_values(event, ev.body_of(event, ev.LayerObserved).told, "observed")]


def _expired(event: Event) -> list[Write]:
    kept = ev.body_of(event, ev.LayerExpired).first_kept
    rows = ({"layer": layer.value, "first_kept": first} for layer, first in kept.items())
    return [_change(event), *(Write(_QUERIES.cutoff, _place(event) | row) for row in rows)]


def _change(event: Event) -> Write:
    return Write(_QUERIES.change, _place(event))


def _values(event: Event, told: ev.Told, origin: ev.Origin) -> list[Write]:
    place = _place(event) | {"layer": told.layer.value, "timeframe": told.timeframe}
    place |= {"origin": origin, "known_at": event.known_at}
    writes = []
    for key, value in told.values.items():
        row = place | {"key": key, "value": value}
        writes += [Write(_QUERIES.key, row), Write(_QUERIES.version, row)]
    return writes


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        ev.KINDS[ev.LayerRolled]: _rolled,
        ev.KINDS[ev.LayerCurated]: _curated,
        ev.KINDS[ev.LayerObserved]: _observed,
        ev.KINDS[ev.LayerExpired]: _expired,
    },
)
