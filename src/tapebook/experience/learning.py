"""What an event teaches, as events of ours: pure, given what was known before."""

import base64
from collections.abc import Mapping

from tapebook.experience import events as ev
from tapebook.experience.fits import Fit
from tapebook.experience.outcomes import Outcome
from tapebook.experience.pages import PAGE, ROW_BYTES
from tapebook.experience.records import Key, Record, learned
from tapebook.experience.sights import Reading, Sight, conditions_of, reading_of
from tapebook.experience.snapshots import Snapshot
from tapebook.log import Draft


def seen(run_id: str, symbol: str, sight: Sight) -> Draft:
    """What an opening run saw: appended with its decision, and joined to the outcome when the trade ends."""
    return ev.draft(sight.as_of, ev.SituationSeen(run_id, symbol, reading_of(sight), conditions_of(sight)))


def learned_from(
    outcome: Outcome, known: Mapping[Key, Record], *, situations: int, reading: Reading | None
) -> ev.OutcomeLearned:
    """An outcome with the next version of its records; `situations` counts those before it."""
    return ev.OutcomeLearned(outcome, learned(known, outcome), situations + (reading is not None), reading)


def packed_page(page: int, rows: bytes | bytearray, *, at: int) -> Draft:
    """A full page of situations."""
    if len(rows) != PAGE * ROW_BYTES:
        raise ValueError(f"page {page} has {len(rows)} bytes, not {PAGE * ROW_BYTES}")
    return ev.draft(at, ev.SituationsPacked(page, base64.b64encode(rows).decode()))


def fitted(fit: Fit, *, at: int) -> Draft:
    """A new fit."""
    return ev.draft(at, ev.SituationsFitted(fit))


def taken(snapshot: Snapshot) -> Draft:
    """A snapshot of a chunk."""
    return ev.draft(snapshot.ended_at, ev.SnapshotTaken(snapshot))
