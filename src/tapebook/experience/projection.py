"""The tables of experience: what each of its events writes. Nothing here reads a table or a clock."""

import base64
from typing import Any

import msgspec

from tapebook.db import Queries
from tapebook.domain.canonical import canonical
from tapebook.experience import events as ev
from tapebook.experience.pages import packed
from tapebook.log import Event, Projection, Write

_QUERIES = Queries.load("tapebook.experience", "projections.sql")

TABLES = (
    "experience_sights",
    "experience_outcomes",
    "experience_records",
    "experience_situations",
    "experience_fits",
    "experience_snapshots",
)


class _Written(msgspec.Struct):
    outcome: msgspec.Raw


def _place(event: Event) -> dict[str, Any]:
    return {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}


def _seen(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.SituationSeen)
    row = {"run_id": body.run_id, "symbol": body.symbol, "seen_at": event.happened_at, "sight_json": event.body}
    return [Write(_QUERIES.sight, _place(event) | row)]


def _learned(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.OutcomeLearned)
    # The outcome as it was written: a field that outcomes get later must not change the row of an old one.
    written = bytes(msgspec.json.decode(event.body, type=_Written).outcome).decode()
    row = {
        "trade_id": body.outcome.trade_id,
        "exited_at": body.outcome.exited_at,
        "result_ppm": body.outcome.result_ppm,
        "net_usd_e6": body.outcome.net_usd_e6,
        "situations": body.situations,
        "packed": None if body.reading is None else packed(body.reading, body.outcome).hex(),
        "outcome_json": written,
    }
    writes = [Write(_QUERIES.outcome, _place(event) | row)]
    return writes + [Write(_QUERIES.record, _place(event) | msgspec.structs.asdict(each)) for each in body.records]


def _packed(event: Event) -> list[Write]:
    body = ev.body_of(event, ev.SituationsPacked)
    return [Write(_QUERIES.page, _place(event) | {"page": body.page, "packed": base64.b64decode(body.rows)})]


def _fitted(event: Event) -> list[Write]:
    fit = ev.body_of(event, ev.SituationsFitted).fit
    row = {"first_situation": fit.first, "last_situation": fit.last, "fit_json": canonical(fit).decode()}
    return [Write(_QUERIES.fit, _place(event) | row)]


def _snapshot(event: Event) -> list[Write]:
    snapshot = ev.body_of(event, ev.SnapshotTaken).snapshot
    row = {"chunk": snapshot.chunk, "ended_at": snapshot.ended_at, "snapshot_json": canonical(snapshot).decode()}
    return [Write(_QUERIES.snapshot, _place(event) | row)]


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        ev.KINDS[ev.SituationSeen]: _seen,
        ev.KINDS[ev.OutcomeLearned]: _learned,
        ev.KINDS[ev.SituationsPacked]: _packed,
        ev.KINDS[ev.SituationsFitted]: _fitted,
        ev.KINDS[ev.SnapshotTaken]: _snapshot,
    },
)
