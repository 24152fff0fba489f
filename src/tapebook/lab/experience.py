"""The experience of a home's agents: report, export, import and rebuild; what `Tapebook.experience` gives.

The report says, as of a moment, whom a deployment trusts, where it does well and how it came there. Every rate and
mean has n and its interval. A trend compares the newer half of the chunks with the older.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tapebook.desk.agents import deploy_agent
from tapebook.domain.agent import Deployment
from tapebook.domain.estimate import Estimate
from tapebook.domain.instants import iso_text
from tapebook.domain.money import E6
from tapebook.errors import BadInput, Damaged
from tapebook.experience import files
from tapebook.experience.events import draft_snapshot_taken
from tapebook.experience.features import unpack_features
from tapebook.experience.rebuild import RebuildComparison, rebuild_and_compare, restore_tables
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
    provider_weight,
    records_by_chunk,
    result_scale_ppm,
    trend_of,
)
from tapebook.home import exclusive_lock, shared_lock
from tapebook.log import Draft
from tapebook.tick.memory import outcomes_due
from tapebook.wiring import Rooms

Records = Mapping[RecordKey, Record]
ReportView = dict[str, Any]


def experience_report(rooms: Rooms, deployment: Deployment, *, seq: int, as_of: int) -> ReportView:
    """Everything experience holds as of a sequence number, which was the newest at a moment."""
    room = rooms.experience
    records, snapshots = room.records(deployment.id, seq=seq), room.snapshots(deployment.id, seq=seq)
    settings, fit = deployment.agent.experience, room.fit_as_of(deployment.id, seq=seq)
    every = records.get((ALL, ""), Record(ALL, ""))
    return {
        "agent": deployment.agent.name,
        "deployment_id": deployment.id,
        "as_of": iso_text(as_of),
        "settings": msgspec.structs.asdict(settings),
        "outcomes": every.n,
        "situations": room.records_as_of(deployment.id, seq=seq).situations,
        "fit": None if fit is None else {"first_situation": fit.first, "last_situation": fit.last},
        "all": _record_view(every),
        "providers": _provider_views(records, snapshots, prior=settings.prior_trades),
        "regimes": _named_views(records, REGIME, snapshots),
        "assets": _named_views(records, ASSET, snapshots),
        "calibration": _calibration_views(records, prior=settings.prior_trades),
        "snapshots": [_snapshot_view(each) for each in snapshots],
    }


def _provider_views(records: Records, snapshots: Sequence[ChunkSnapshot], *, prior: float) -> list[ReportView]:
    scale = result_scale_ppm(records)
    regimes = sorted(record.name for record in records.values() if record.kind == REGIME)
    rows = []
    for view in _named_views(records, PROVIDER, snapshots):
        name = view["name"]
        overall, nowhere = records[PROVIDER, name], Record(PROVIDER_REGIME, name)
        by_regime = [(regime, records.get((PROVIDER_REGIME, provider_in_regime(name, regime)))) for regime in regimes]
        here = [
            {"regime": regime, "weight": _rounded_weight(overall, record, scale, prior), **_record_view(record)}
            for regime, record in by_regime
            if record is not None
        ]
        rows.append(view | {"weight": _rounded_weight(overall, nowhere, scale, prior), "regimes": here})
    return rows


def _rounded_weight(overall: Record, here: Record, scale: float, prior: float) -> float:
    return round(provider_weight(overall, here, scale_ppm=scale, prior=prior), 2)


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


def _snapshot_view(snapshot: ChunkSnapshot) -> ReportView:
    moments = {
        "chunk": snapshot.chunk,
        "started_at": iso_text(snapshot.started_at),
        "ended_at": iso_text(snapshot.ended_at),
    }
    return moments | _record_view(snapshot.result) | {"sharpe": snapshot.sharpe_e4 / 10_000}


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


ParseMoment = Callable[[int | str | None], int]
FindDeployment = Callable[[str], Deployment]


class ExperienceFiles(msgspec.Struct, frozen=True):
    """What was written to a folder, or read from one; what was there already is not counted as new."""

    folder: str
    outcomes: int
    snapshots: int
    new_outcomes: int = 0
    new_snapshots: int = 0


class RebuiltExperience(msgspec.Struct, frozen=True):
    """What was computed again from the outcomes, and what had differed; that is put right."""

    outcomes: int
    situations: int
    records: int
    fits: int
    differences: tuple[str, ...]


class HomeExperience:
    """Experience by the name of an agent. `moment` reads times, `find` gives the deployment of an agent."""

    def __init__(self, rooms: Rooms, *, moment: ParseMoment, find: FindDeployment) -> None:
        self._rooms = rooms
        self._moment = moment
        self._find = find

    def show(self, agent: str, *, as_of: int | str | None = None) -> dict[str, Any]:
        """Whom an agent trusts and where it does well, now or as of a moment."""
        deployment, at, book = self._find(agent), self._moment(as_of), self._rooms.book
        seq = book.head(deployment.id) if as_of is None else book.seq_as_of(deployment.id, at)
        return experience_report(self._rooms, deployment, seq=seq, as_of=at)

    def export(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Writes every outcome and snapshot to a new folder, one JSON file each, and the records beside them."""
        room, name = self._rooms.experience, self._find(agent).id
        seq = self._rooms.book.head(name)
        history = list(room.history(name, seq=seq))
        outcomes = [
            (each.outcome, unpack_features(bytes.fromhex(each.packed)) if each.packed else None) for each in history
        ]
        snapshots = room.snapshots(name, seq=seq)[::-1]
        files.export_folder(Path(folder), outcomes, snapshots, records=room.records(name, seq=seq))
        return ExperienceFiles(str(folder), len(outcomes), len(snapshots))

    def import_files(self, agent: str, folder: str | Path) -> ExperienceFiles:
        """Learns what a folder holds, all of it or nothing; what is known already is left alone."""
        contents = files.read_folder(Path(folder))
        self._check_contents(contents, Path(folder))
        with self._locked_for_writing(agent) as deployment, self._rooms.log.one_transaction():
            return self._learn_contents(deployment, contents, str(folder))

    def rebuild(self, agent: str) -> RebuiltExperience:
        """Computes everything derived again from the outcomes; a table that differs is written anew from the log."""
        name = self._find(agent).id
        found = self._rebuild_all(name)
        if found.differences:
            with exclusive_lock(self._rooms.home):
                restore_tables(self._rooms.log, self._rooms.book_db, self._rooms.book.stream(name))
            self._rooms.experience.forget_cached(name)
            left = self._rebuild_all(name).differences
            if left:
                raise Damaged(f"{left[0]}, and the log says so too: run `tapebook verify`, and restore a backup")
        return RebuiltExperience(found.outcomes, found.situations, found.records, found.fits, found.differences)

    def _rebuild_all(self, deployment: str) -> RebuildComparison:
        return rebuild_and_compare(self._rooms.experience, deployment, seq=self._rooms.book.head(deployment))

    @contextmanager
    def _locked_for_writing(self, agent: str) -> Iterator[Deployment]:
        stream = self._rooms.book.stream(self._find(agent).id)
        with shared_lock(self._rooms.home), self._rooms.leases.holding(stream):
            yield deploy_agent(self._rooms, agent)

    def _check_contents(self, contents: files.ExperienceFolder, folder: Path) -> None:
        """Nothing is learned from a folder of which not all can be read, or that tells of what has not happened yet."""
        now = self._moment(None)
        late = [outcome for outcome, _ in contents.outcomes if outcome.exited_at > now]
        problems = [
            *contents.problems,
            *(f"outcome_{each.trade_id}.json: it ends after {iso_text(now)}" for each in late),
        ]
        if problems:
            more = f" (and {len(problems) - 1} more files)" if len(problems) > 1 else ""
            raise BadInput(f"{folder / problems[0]}{more}; nothing was imported")
        if not contents.outcomes and not contents.snapshots:
            raise BadInput(f"{folder} has neither an outcome_*.json nor a snapshot_*.json: name an exported folder")

    def _learn_contents(self, deployment: Deployment, contents: files.ExperienceFolder, folder: str) -> ExperienceFiles:
        room, name, counted = self._rooms.experience, deployment.id, (len(contents.outcomes), len(contents.snapshots))
        # Trades that ended and were not learned from yet come first, or they would be passed over.
        seq = self._rooms.book.head(name)
        while due := outcomes_due(self._rooms, deployment, seq=seq):
            seq = self._append(deployment, due)
        known = room.snapshots(name, seq=seq)
        snapshots = [draft_snapshot_taken(each) for each in contents.snapshots if each not in known]
        seq = self._append(deployment, snapshots)
        new = [each for each in contents.outcomes if not room.is_learned(name, each[0].trade_id)]
        # The newest by itself: with it come the pages and the fit of all before it.
        for part in (new[:-1], new[-1:]):
            seq = self._append(deployment, room.learn_outcomes(name, part, seq=seq))
        return ExperienceFiles(folder, *counted, len(new), len(snapshots))

    def _append(self, deployment: Deployment, drafts: Sequence[Draft]) -> int:
        """Writes events, if there are any; returns where the stream ends."""
        book = self._rooms.book
        seq = book.head(deployment.id)
        return book.append(deployment.id, drafts, expected_seq=seq)[-1].seq if drafts else seq
