"""Rebuilds what is derived from outcomes and moments: compares it with what is stored, and restores damaged tables.

`rebuild_and_compare` computes records, situations and fits again, from outcomes and notes of moments alone and in
memory, and lists what differs from what is stored; it writes nothing. Since every version is in the log, nothing that
was learned can be lost with a table: `restore_tables` empties the tables of one deployment and applies its events
again, in one transaction.
"""

from collections.abc import Iterator

import msgspec

from tapebook.db import Database, Queries
from tapebook.experience.events import PROJECTION
from tapebook.experience.features import ROW_BYTES
from tapebook.experience.memories import ReadRuns, twin_differences
from tapebook.experience.records import Record, RecordKey, updated_records
from tapebook.experience.store import Experience
from tapebook.log import Log, Stream
from tapebook.log.event import apply_event, projectors_by_kind

_QUERIES = Queries.load("tapebook.experience", "projections.sql")


class RebuildComparison(msgspec.Struct, frozen=True):
    """How much was computed again, and what differs from what is stored."""

    outcomes: int
    situations: int
    records: int
    fits: int
    differences: tuple[str, ...]


def rebuild_and_compare(
    experience: Experience, deployment: str, *, seq: int, runs: ReadRuns = lambda after, until: ()
) -> RebuildComparison:
    """Everything derived, from scratch, beside what is stored; `runs` reads the decisions that twins come from."""
    records: dict[RecordKey, Record] = {}
    rows: list[bytes] = []
    differences, outcomes = [], 0
    forgotten = experience.forgotten_by_event(deployment, seq=seq)
    for each in experience.history(deployment, seq=seq):
        outcomes += 1
        if each.seq not in forgotten:
            records |= {record.key: record for record in updated_records(records, each.outcome)}
        rows += [bytes.fromhex(each.packed)] if each.packed else []
        if each.situations != len(rows):
            differences.append(f"outcome {each.outcome.trade_id} is situation {each.situations}, not {len(rows)}")
    differences += _record_differences(experience.records(deployment, seq=seq), records)
    if experience.packed_situations(deployment, after=0, until=len(rows)) != b"".join(rows):
        differences.append("the packed situations are not those of the outcomes")
    fits = len(experience.fits(deployment, seq=seq)) + len(experience.moments.fits(deployment, seq=seq))
    differences += _fit_differences(experience, deployment, b"".join(rows), seq=seq)
    joined, strange = _moment_differences(experience, deployment, seq=seq)
    strange += twin_differences(experience.twins, deployment, seq=seq, runs=runs)
    return RebuildComparison(outcomes, len(rows) + joined, len(records), fits, (*differences, *strange))


def restore_tables(log: Log, db: Database, stream: Stream) -> int:
    """Writes the tables of one stream again from its events; returns how many events there were."""
    where = {"owner": stream.owner, "deployment": stream.deployment}
    count, projectors = 0, projectors_by_kind([PROJECTION])
    with db.transaction():
        for query in _QUERIES:
            if query.name.startswith("forget_"):
                db.execute(query, **where)
        for event in log.events(stream):
            if event.kind in projectors:
                apply_event(db, projectors, event)
                count += 1
    return count


def _record_differences(stored: dict[RecordKey, Record], computed: dict[RecordKey, Record]) -> Iterator[str]:
    for key in sorted(stored.keys() | computed.keys()):
        if stored.get(key) != computed.get(key):
            yield f"record {' '.join(key)} is {stored.get(key)}, computed {computed.get(key)}"


def _fit_differences(experience: Experience, deployment: str, rows: bytes, *, seq: int) -> Iterator[str]:
    stored = experience.fits(deployment, seq=seq)
    if not stored:
        return
    from tapebook.experience.situations import Situations

    situations = Situations()
    situations.extend(rows)
    for fit in stored:
        if fit.last * ROW_BYTES > len(rows) or situations.fit_newest(fit.last) != fit:
            yield f"the fit of situations {fit.first} to {fit.last} is not the one they give"


def _moment_differences(experience: Experience, deployment: str, *, seq: int) -> tuple[int, list[str]]:
    """How many moments have joined the memory, and which notes and fits are not those that follow from the others."""
    notes = experience.moments.noted_between(deployment, after=0, until=seq)
    if not notes:
        return 0, []
    from tapebook.experience.moments import MomentMemory

    # Fits of all times are computed again, so that nothing is dropped here.
    memory, differences = MomentMemory(keep=len(notes)), []
    for number, (at, noted) in enumerate(notes, start=1):
        if noted.number != number:
            differences.append(f"moment {number} is noted as number {noted.number}")
        memory.add(at, noted)
    for at, fit in experience.moments.fits(deployment, seq=seq):
        if fit.last > memory.joined_count(at) or memory.fit_newest(fit.last) != fit:
            differences.append(f"the fit of moments {fit.first} to {fit.last} is not the one they give")
    return memory.joined_count(seq), differences
