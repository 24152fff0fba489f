"""The events of experience: their bodies, the functions that draft them, and the tables they are projected to.

Drafting is pure, given what was known before. Projecting reads no table and no clock.
"""

import base64
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from tapebook.db import Queries
from tapebook.domain.canonical import canonical_json
from tapebook.experience.features import (
    PAGE_ROWS,
    ROW_BYTES,
    FeatureVector,
    Fit,
    MarketFeatures,
    conditions_of,
    feature_vector_of,
    pack_situation,
)
from tapebook.experience.records import ChunkSnapshot, Outcome, Record, RecordKey, updated_records
from tapebook.experience.twins import SymbolTwins
from tapebook.log import Draft, Event, Projection, Write

Body = TypeVar("Body", bound=msgspec.Struct)


class SituationSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an opening run saw, written with its decision: a moment, or before renderer 5 a reading."""

    run_id: str
    symbol: str
    reading: FeatureVector
    conditions: tuple[tuple[str, str], ...]
    moment: FeatureVector | None = None


class OutcomeLearned(msgspec.Struct, frozen=True, omit_defaults=True):
    """A closed trade, and the new version of every record it counts for.

    `situations` is how many of the outcomes so far, this one included, came with a reading; `moment` is the vector of
    a run of renderer 5 or later that entered it. `source` names the import that brought it; it is empty for a trade of
    the account itself, and for what was imported before imports had names.
    """

    outcome: Outcome
    records: tuple[Record, ...]
    situations: int
    reading: FeatureVector | None
    moment: FeatureVector | None = None
    source: str = ""


class ForgetTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which outcomes are meant: those that meet every term that is given, by exits from `since` to before `until`."""

    source: str = ""
    provider: str = ""
    since: int | None = None
    until: int | None = None


class OutcomesForgotten(msgspec.Struct, frozen=True):
    """Outcomes that count no longer from here on, and the records without them."""

    forget_id: str
    terms: ForgetTerms
    reason: str
    trade_ids: tuple[str, ...]
    records: tuple[Record, ...]


class OutcomesRemembered(msgspec.Struct, frozen=True):
    """What was forgotten counts again from here on: the records with it."""

    forget_id: str
    records: tuple[Record, ...]


class MomentNoted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the market looked like at a decision: the vector and the price at the end of the newest bar.

    Moments of a deployment are numbered from 1. `moves` are what the market did after earlier ones: the number of a
    moment, which of the spans has passed since, and the move in millionths. `costs_ppm` is what entering and leaving a
    position costs by the settings of then.
    """

    number: int
    symbol: str
    at: int
    price_e8: int
    costs_ppm: int
    vector: FeatureVector
    moves: tuple[tuple[int, int, int], ...] = ()


class MomentsFitted(msgspec.Struct, frozen=True):
    """How the vectors of moments are scaled from now on."""

    fit: Fit


class SituationsPacked(msgspec.Struct, frozen=True):
    """A full page of situations once more, in base64, so that opening a home does not read them one by one."""

    page: int
    rows: str


class SituationsFitted(msgspec.Struct, frozen=True):
    """How readings become vectors from now on."""

    fit: Fit


class SnapshotTaken(msgspec.Struct, frozen=True):
    """What a chunk achieved."""

    snapshot: ChunkSnapshot


class TwinsKept(msgspec.Struct, frozen=True):
    """The twins of an ensemble's members in every symbol, as the runs before this event give them."""

    twins: tuple[SymbolTwins, ...]


EVENT_KINDS: dict[type[msgspec.Struct], str] = {
    SituationSeen: "situation.seen",
    OutcomeLearned: "experience.learned",
    SituationsPacked: "situation.packed",
    SituationsFitted: "situation.fitted",
    SnapshotTaken: "experience.snapshot",
    MomentNoted: "moment.noted",
    MomentsFitted: "moment.fitted",
    TwinsKept: "experience.twins",
    OutcomesForgotten: "experience.forgotten",
    OutcomesRemembered: "experience.remembered",
}


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.from_body(EVENT_KINDS[type(body)], happened_at, body)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)


class SeenFeatures(msgspec.Struct, frozen=True):
    """What the decision saw that entered a trade: a moment, or before renderer 5 a reading; nothing if none did."""

    reading: FeatureVector | None = None
    moment: FeatureVector | None = None


def draft_moment_seen(
    run_id: str, symbol: str, moment: FeatureVector, *, conditions: tuple[tuple[str, str], ...], at: int
) -> Draft:
    """What an opening run saw: appended with its decision, and joined to the outcome when the trade ends."""
    return draft(at, SituationSeen(run_id, symbol, (), conditions, moment))


def draft_situation_seen(run_id: str, symbol: str, features: MarketFeatures) -> Draft:
    """What an opening run saw: appended with its decision, and joined to the outcome when the trade ends."""
    return draft(features.as_of, SituationSeen(run_id, symbol, feature_vector_of(features), conditions_of(features)))


def outcome_learned_body(
    outcome: Outcome, known: Mapping[RecordKey, Record], *, situations: int, seen: SeenFeatures, source: str = ""
) -> OutcomeLearned:
    """An outcome with the next version of its records; `situations` counts those before it."""
    count = situations + (seen.reading is not None)
    return OutcomeLearned(outcome, updated_records(known, outcome), count, seen.reading, seen.moment, source)


def draft_page_packed(page: int, rows: bytes | bytearray, *, at: int) -> Draft:
    """A full page of situations."""
    if len(rows) != PAGE_ROWS * ROW_BYTES:
        raise ValueError(f"page {page} has {len(rows)} bytes, not {PAGE_ROWS * ROW_BYTES}")
    return draft(at, SituationsPacked(page, base64.b64encode(rows).decode()))


def draft_fit(fit: Fit, *, at: int) -> Draft:
    """A new fit."""
    return draft(at, SituationsFitted(fit))


def draft_snapshot_taken(snapshot: ChunkSnapshot) -> Draft:
    """A snapshot of a chunk."""
    return draft(snapshot.ended_at, SnapshotTaken(snapshot))


_QUERIES = Queries.load("tapebook.experience", "projections.sql")

TABLES = (
    "experience_sights",
    "experience_outcomes",
    "experience_records",
    "experience_situations",
    "experience_fits",
    "experience_snapshots",
    "experience_moments",
    "experience_moment_fits",
    "experience_trade_moments",
    "experience_twins",
    "experience_forgettings",
    "experience_forgotten",
)


class _RawOutcome(msgspec.Struct):
    outcome: msgspec.Raw


def _project_seen(event: Event) -> list[Write]:
    body = body_of(event, SituationSeen)
    row = {"run_id": body.run_id, "symbol": body.symbol, "seen_at": event.happened_at, "sight_json": event.body}
    return [Write(_QUERIES.sight, event.columns() | row)]


def _project_learned(event: Event) -> list[Write]:
    body = body_of(event, OutcomeLearned)
    # The outcome as it was written: a field that outcomes get later must not change the row of an old one.
    written = bytes(msgspec.json.decode(event.body, type=_RawOutcome).outcome).decode()
    row = {
        "trade_id": body.outcome.trade_id,
        "exited_at": body.outcome.exited_at,
        "result_ppm": body.outcome.result_ppm,
        "net_usd_e6": body.outcome.net_usd_e6,
        "situations": body.situations,
        "packed": None if body.reading is None else pack_situation(body.reading, body.outcome).hex(),
        "source": body.source,
        "outcome_json": written,
    }
    writes = [Write(_QUERIES.outcome, event.columns() | row)]
    if body.moment is not None:
        writes.append(Write(_QUERIES.trade_moment, event.columns() | _trade_moment_row(body.outcome, body.moment)))
    return writes + [Write(_QUERIES.record, event.columns() | msgspec.structs.asdict(each)) for each in body.records]


def _trade_moment_row(outcome: Outcome, moment: FeatureVector) -> dict[str, str | int]:
    return {
        "symbol": outcome.symbol,
        "side": 1 if outcome.side == "long" else -1,
        "entered_at": outcome.entered_at,
        "result_ppm": outcome.result_ppm,
        "vector_json": canonical_json(moment).decode(),
    }


def _project_moment(event: Event) -> list[Write]:
    body = body_of(event, MomentNoted)
    row = {"number": body.number, "symbol": body.symbol, "noted_at": body.at, "moment_json": event.body}
    row["costs_ppm"] = body.costs_ppm
    return [Write(_QUERIES.moment, event.columns() | row)]


def _project_moment_fit(event: Event) -> list[Write]:
    fit = body_of(event, MomentsFitted).fit
    row = {"last_moment": fit.last, "fit_json": canonical_json(fit).decode()}
    return [Write(_QUERIES.moment_fit, event.columns() | row)]


def _project_packed(event: Event) -> list[Write]:
    body = body_of(event, SituationsPacked)
    return [Write(_QUERIES.page, event.columns() | {"page": body.page, "packed": base64.b64decode(body.rows)})]


def _project_fitted(event: Event) -> list[Write]:
    fit = body_of(event, SituationsFitted).fit
    row = {"first_situation": fit.first, "last_situation": fit.last, "fit_json": canonical_json(fit).decode()}
    return [Write(_QUERIES.fit, event.columns() | row)]


def _project_snapshot(event: Event) -> list[Write]:
    snapshot = body_of(event, SnapshotTaken).snapshot
    row = {"chunk": snapshot.chunk, "ended_at": snapshot.ended_at, "snapshot_json": canonical_json(snapshot).decode()}
    return [Write(_QUERIES.snapshot, event.columns() | row)]


class _RawTwins(msgspec.Struct):
    twins: msgspec.Raw


def _project_twins(event: Event) -> list[Write]:
    # As it was written: a field that twins get later must not change the row of old ones.
    written = bytes(msgspec.json.decode(event.body, type=_RawTwins).twins).decode()
    return [Write(_QUERIES.twins, event.columns() | {"kept_at": event.happened_at, "twins_json": written})]


def _project_forgotten(event: Event) -> list[Write]:
    body = body_of(event, OutcomesForgotten)
    row = {"undone": 0, "outcomes": len(body.trade_ids), "terms_json": canonical_json(body.terms).decode()}
    of_event = event.columns() | {"forget_id": body.forget_id}
    writes = [Write(_QUERIES.forgetting, of_event | row | {"happened_at": event.happened_at, "reason": body.reason})]
    writes += [Write(_QUERIES.forgotten, of_event | {"trade_id": each}) for each in body.trade_ids]
    return writes + [Write(_QUERIES.record, event.columns() | msgspec.structs.asdict(each)) for each in body.records]


def _project_remembered(event: Event) -> list[Write]:
    body = body_of(event, OutcomesRemembered)
    # Terms and outcomes stand with the event that it takes back.
    row = {"forget_id": body.forget_id, "undone": 1, "outcomes": 0, "terms_json": "{}", "reason": ""}
    writes = [Write(_QUERIES.forgetting, event.columns() | row | {"happened_at": event.happened_at})]
    return writes + [Write(_QUERIES.record, event.columns() | msgspec.structs.asdict(each)) for each in body.records]


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        EVENT_KINDS[SituationSeen]: _project_seen,
        EVENT_KINDS[OutcomeLearned]: _project_learned,
        EVENT_KINDS[SituationsPacked]: _project_packed,
        EVENT_KINDS[SituationsFitted]: _project_fitted,
        EVENT_KINDS[SnapshotTaken]: _project_snapshot,
        EVENT_KINDS[MomentNoted]: _project_moment,
        EVENT_KINDS[MomentsFitted]: _project_moment_fit,
        EVENT_KINDS[TwinsKept]: _project_twins,
        EVENT_KINDS[OutcomesForgotten]: _project_forgotten,
        EVENT_KINDS[OutcomesRemembered]: _project_remembered,
    },
)
