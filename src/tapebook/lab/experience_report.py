"""What a deployment's outcomes have taught it, as of a moment: whom it trusts, where it does well, how it came there.

Every rate and mean has n and its interval. A trend compares the newer half of the chunks with the older.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate
from tapebook.domain.instants import iso
from tapebook.domain.money import E6
from tapebook.experience.calibration import curve
from tapebook.experience.records import (
    ALL,
    ASSET,
    CONFIDENCE,
    PROVIDER,
    PROVIDER_REGIME,
    REGIME,
    Key,
    Record,
    within,
)
from tapebook.experience.snapshots import Snapshot, trajectory, trend_of
from tapebook.experience.weights import scale_ppm, weight
from tapebook.wiring import Rooms

Records = Mapping[Key, Record]
View = dict[str, Any]


def experience_report(rooms: Rooms, deployment: Deployment, *, seq: int, as_of: int) -> View:
    """Everything experience holds as of a sequence number, which was the newest at a moment."""
    room = rooms.experience
    records, snapshots = room.records(deployment.id, seq=seq), room.snapshots(deployment.id, seq=seq)
    settings, fit = deployment.agent.experience, room.fit(deployment.id, seq=seq)
    every = records.get((ALL, ""), Record(ALL, ""))
    return {
        "agent": deployment.agent.name,
        "deployment_id": deployment.id,
        "as_of": iso(as_of),
        "settings": msgspec.structs.asdict(settings),
        "outcomes": every.n,
        "situations": room.standing(deployment.id, seq=seq).situations,
        "fit": None if fit is None else {"first_situation": fit.first, "last_situation": fit.last},
        "all": _record_view(every),
        "providers": _providers(records, snapshots, prior=settings.prior_trades),
        "regimes": _named(records, REGIME, snapshots),
        "assets": _named(records, ASSET, snapshots),
        "calibration": _calibration(records, prior=settings.prior_trades),
        "snapshots": [_snapshot_view(each) for each in snapshots],
    }


def _providers(records: Records, snapshots: Sequence[Snapshot], *, prior: float) -> list[View]:
    scale = scale_ppm(records)
    regimes = sorted(record.name for record in records.values() if record.kind == REGIME)
    rows = []
    for view in _named(records, PROVIDER, snapshots):
        name = view["name"]
        overall, nowhere = records[PROVIDER, name], Record(PROVIDER_REGIME, name)
        heard = [(regime, records.get((PROVIDER_REGIME, within(name, regime)))) for regime in regimes]
        here = [
            {"regime": regime, "weight": _weight(overall, record, scale, prior), **_record_view(record)}
            for regime, record in heard
            if record is not None
        ]
        rows.append(view | {"weight": _weight(overall, nowhere, scale, prior), "regimes": here})
    return rows


def _weight(overall: Record, here: Record, scale: float, prior: float) -> float:
    return round(weight(overall, here, scale_ppm=scale, prior=prior), 2)


def _named(records: Records, kind: str, snapshots: Sequence[Snapshot]) -> list[View]:
    """The records of one kind by name, each with its trend over chunks."""
    lines = trajectory(snapshots, kind)
    found = sorted((record for record in records.values() if record.kind == kind), key=lambda record: record.name)
    return [
        {"name": record.name, **_record_view(record), "trend": _trend(lines.get(record.name, []))} for record in found
    ]


def _trend(chunks: Sequence[tuple[str, Record]]) -> View | None:
    found = trend_of([record for _, record in chunks])
    if found is None:
        return None
    return {"direction": found.direction, "chunks": len(chunks), "change_bps": _estimate(found.change_bps, 1)}


def _calibration(records: Records, *, prior: float) -> list[View]:
    counts = [(record.name, record.n, record.wins) for record in records.values() if record.kind == CONFIDENCE]
    return [
        {
            "confidence": point.bucket,
            "n": point.observed.n,
            "win_rate": _estimate(point.observed, 3),
            "believed": round(point.believed, 3),
        }
        for point in curve(counts, prior=prior)
    ]


def _snapshot_view(snapshot: Snapshot) -> View:
    moments = {"chunk": snapshot.chunk, "started_at": iso(snapshot.started_at), "ended_at": iso(snapshot.ended_at)}
    return moments | _record_view(snapshot.result) | {"sharpe": snapshot.sharpe_e4 / 10_000}


def _record_view(record: Record) -> View:
    return {
        "n": record.n,
        "won": record.wins,
        "net_usd": record.usd_e6 / E6,
        "win_rate": _estimate(record.win_rate, 3) if record.n else None,
        "mean_bps": _estimate(record.mean_bps, 1) if record.n >= 2 else None,
    }


def _estimate(estimate: Estimate, digits: int) -> View:
    return {name: round(getattr(estimate, name), digits) for name in ("value", "low", "high")}
