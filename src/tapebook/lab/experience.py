"""The report of an agent's experience.

It says, as of a moment, whom a deployment trusts, where it does well and how it came there. Trust is that of paper
twins, the same that weighs votes. Every rate and mean has n and its interval. A trend compares the newer half of the
chunks with the older.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate
from tapebook.domain.targets import FULL_E4
from tapebook.domain.units import E6, iso_text
from tapebook.experience.records import (
    ALL,
    ASSET,
    CONFIDENCE,
    PROVIDER,
    PROVIDER_REGIME,
    REGIME,
    ChunkSnapshot,
    Record,
    RecordKey,
    calibration_curve,
    provider_in_regime,
    records_by_chunk,
    trend_of,
)
from tapebook.experience.store import Forgetting
from tapebook.experience.twins import E9, SymbolTwins, weights_e4
from tapebook.tick.memory import members_of, runs_of
from tapebook.wiring import Rooms

Records = Mapping[RecordKey, Record]
ReportView = dict[str, Any]


def experience_report(rooms: Rooms, deployment: Deployment, *, seq: int, as_of: int) -> ReportView:
    """Everything experience holds as of a sequence number, which was the newest at a moment."""
    room = rooms.experience
    records, snapshots = room.records(deployment.id, seq=seq), room.snapshots(deployment.id, seq=seq)
    settings = deployment.agent.experience
    # A home of before has a fit of its trades alone.
    fit = room.moments.fit_as_of(deployment.id, seq=seq) or room.fit_as_of(deployment.id, seq=seq)
    every = records.get((ALL, ""), Record(ALL, ""))
    # Where no version had members there are no twins, and the whole log would be read to find that out.
    versions = [deployment.agent, *(profile for _, profile in rooms.book.agent_history(deployment.agent.name))]
    runs = runs_of(rooms.book, rooms.log, deployment.id)
    asked = any(members_of(each, rooms.config.engine.default) for each in versions)
    by_symbol = room.twins.as_of(deployment.id, seq=seq, runs=runs) if asked else {}
    twins = [by_symbol[symbol] for symbol in sorted(by_symbol)]
    return {
        "agent": deployment.agent.name,
        "deployment_id": deployment.id,
        "as_of": iso_text(as_of),
        # What is left out of a profile while it is off is off.
        "settings": {"calibrated_sizing": False, **msgspec.to_builtins(settings)},
        "outcomes": every.n,
        "situations": room.situation_count(deployment.id, seq=seq),
        "fit": None if fit is None else {"first_situation": fit.first, "last_situation": fit.last},
        "all": _record_view(every),
        "members": _member_views(twins),
        "providers": _provider_views(records, snapshots, twins),
        "regimes": _named_views(records, REGIME, snapshots),
        "assets": _named_views(records, ASSET, snapshots),
        "calibration": _calibration_views(records, prior=settings.prior_trades),
        "snapshots": [_chunk_view(each) for each in snapshots],
        "forgotten": [forgetting_view(each) for each in room.forgettings(deployment.id, seq=seq)],
    }


def _member_views(twins: Sequence[SymbolTwins]) -> list[ReportView]:
    """The members of an ensemble with the trust in each and its twin's account: all symbols, and one by one."""
    # Members may have changed: who votes in one symbol alone is there too.
    names = dict.fromkeys(account.name for each in twins for account in each.accounts)
    rows = []
    for name in names:
        symbols: list[ReportView] = [
            {
                "symbol": each.symbol,
                "regime": each.mark.regime,
                "weight": _trust_in([each], name, each.mark.regime),
                "gain_bps": _gain_bps(account.gain_e9),
                "changes": account.changes,
            }
            for each in twins
            if (account := each.account(name)) is not None
        ]
        rows.append(
            {
                "name": name,
                "weight": _trust_in(twins, name),
                "gain_bps": round(sum(each["gain_bps"] for each in symbols) / len(symbols), 1),
                "changes": sum(each["changes"] for each in symbols),
                "symbols": symbols,
            }
        )
    return rows


def _provider_views(
    records: Records, snapshots: Sequence[ChunkSnapshot], twins: Sequence[SymbolTwins]
) -> list[ReportView]:
    regimes = sorted(record.name for record in records.values() if record.kind == REGIME)
    rows = []
    for view in _named_views(records, PROVIDER, snapshots):
        name = view["name"]
        by_regime = [(regime, records.get((PROVIDER_REGIME, provider_in_regime(name, regime)))) for regime in regimes]
        here = [
            {"regime": regime, "weight": _trust_in(twins, name, regime), **_record_view(record)}
            for regime, record in by_regime
            if record is not None
        ]
        rows.append(view | {"weight": _trust_in(twins, name), "regimes": here})
    return rows


def _trust_in(twins: Sequence[SymbolTwins], name: str, regime: str = "") -> float | None:
    """The trust in a member, as the mean over symbols, in one regime or whatever the regime; None without a twin."""
    found = [shares[name] for each in twins if name in (shares := weights_e4(each, regime))]
    return round(sum(found) / len(found) / FULL_E4, 4) if found else None


def _gain_bps(gain_e9: int) -> float:
    return round(gain_e9 * 10_000 / E9, 1)


def _named_views(records: Records, kind: str, snapshots: Sequence[ChunkSnapshot]) -> list[ReportView]:
    """The records of one kind by name, each with its trend over chunks."""
    lines = records_by_chunk(snapshots, kind)
    found = sorted((record for record in records.values() if record.kind == kind), key=lambda record: record.name)
    return [
        {"name": record.name, **_record_view(record), "trend": _trend_view(lines.get(record.name, []))}
        for record in found
    ]


def _trend_view(chunks: Sequence[tuple[str, Record]]) -> ReportView | None:
    found = trend_of([record for _, record in chunks])
    if found is None:
        return None
    return {"direction": found.direction, "chunks": len(chunks), "change_bps": _estimate_view(found.change_bps, 1)}


def _calibration_views(records: Records, *, prior: float) -> list[ReportView]:
    counts = [(record.name, record.n, record.wins) for record in records.values() if record.kind == CONFIDENCE]
    return [
        {
            "confidence": point.bucket,
            "n": point.observed.n,
            "win_rate": _estimate_view(point.observed, 3),
            "believed": round(point.believed, 3),
        }
        for point in calibration_curve(counts, prior=prior)
    ]


def snapshot_view(snapshot: ChunkSnapshot) -> ReportView:
    """What a chunk achieved, and what of that by provider, regime and asset."""
    parts = {
        f"{kind}s": [{"name": part.name, **_record_view(part)} for part in snapshot.parts if part.kind == kind]
        for kind in (PROVIDER, REGIME, ASSET)
    }
    return _chunk_view(snapshot) | parts


def _chunk_view(snapshot: ChunkSnapshot) -> ReportView:
    moments = {
        "chunk": snapshot.chunk,
        "started_at": iso_text(snapshot.started_at),
        "ended_at": iso_text(snapshot.ended_at),
    }
    return moments | _record_view(snapshot.result) | {"sharpe": snapshot.sharpe_e4 / 10_000}


def forgetting_view(forgetting: Forgetting) -> ReportView:
    """What was forgotten by one event, and when that was taken back."""
    terms = forgetting.terms
    return {
        "id": forgetting.forget_id,
        "at": iso_text(forgetting.at),
        "outcomes": forgetting.outcomes,
        "source": terms.source or None,
        "provider": terms.provider or None,
        "since": None if terms.since is None else iso_text(terms.since),
        "until": None if terms.until is None else iso_text(terms.until),
        "reason": forgetting.reason,
        "undone_at": None if forgetting.undone_at is None else iso_text(forgetting.undone_at),
    }


def _record_view(record: Record) -> ReportView:
    return {
        "n": record.n,
        "won": record.wins,
        "net_usd": record.usd_e6 / E6,
        "win_rate": _estimate_view(record.win_rate, 3) if record.n else None,
        "mean_bps": _estimate_view(record.mean_bps, 1) if record.n >= 2 else None,
    }


def _estimate_view(estimate: Estimate, digits: int) -> ReportView:
    return {name: round(getattr(estimate, name), digits) for name in ("value", "low", "high")}
