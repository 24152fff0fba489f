"""Rebuilding what is derived from outcomes: compare, and where a table was damaged, replace.

`rebuild` computes records, situations and fits again, from the outcomes alone and in memory, and
lists what differs from what is stored; it writes nothing. Since every version is in the log, nothing
that was learned can be lost with a table: `restore` empties the tables of one deployment and applies
its events again, in one transaction.
"""

from collections.abc import Iterator

import msgspec

from tapebook.db import Database, Queries
from tapebook.experience.pages import ROW_BYTES
from tapebook.experience.projection import PROJECTION
from tapebook.experience.records import Key, Record, learned
from tapebook.experience.store import Experience
from tapebook.log import Log, Stream
from tapebook.log.projection import apply, by_kind

_QUERIES = Queries.load("tapebook.experience", "projections.sql")


class Rebuilt(msgspec.Struct, frozen=True):
    """How much was computed again, and what differs from what is stored."""

    outcomes: int
    situations: int
    records: int
    fits: int
    differences: tuple[str, ...]


def rebuild(experience: Experience, deployment: str, *, seq: int) -> Rebuilt:
    """Everything derived, from scratch, beside what is stored."""
    records: dict[Key, Record] = {}
    rows: list[bytes] = []
    differences, outcomes = [], 0
    for each in experience.history(deployment, seq=seq):
        outcomes += 1
        records |= {record.key: record for record in learned(records, each.outcome)}
        rows += [bytes.fromhex(each.packed)] if each.packed else []
        if each.situations != len(rows):
            differences.append(f"outcome {each.outcome.trade_id} is situation {each.situations}, not {len(rows)}")
    differences += _records(experience.records(deployment, seq=seq), records)
    if experience.packed(deployment, after=0, until=len(rows)) != b"".join(rows):
        differences.append("the packed situations are not those of the outcomes")
    fits = experience.fits(deployment, seq=seq)
    differences += _fits(experience, deployment, b"".join(rows), seq=seq)
    return Rebuilt(outcomes, len(rows), len(records), len(fits), tuple(differences))


def restore(log: Log, db: Database, stream: Stream) -> int:
    """Writes the tables of one stream again from its events; returns how many events there were."""
    where = {"owner": stream.owner, "deployment": stream.deployment}
    count, projectors = 0, by_kind([PROJECTION])
    with db.transaction():
        for query in _QUERIES:
            if query.name.startswith("forget_"):
                db.run(query, **where)
        for event in log.events(stream):
            if event.kind in projectors:
                apply(db, projectors, event)
                count += 1
    return count


def _records(stored: dict[Key, Record], computed: dict[Key, Record]) -> Iterator[str]:
    for key in sorted(stored.keys() | computed.keys()):
        if stored.get(key) != computed.get(key):
            yield f"record {' '.join(key)} is {stored.get(key)}, computed {computed.get(key)}"


def _fits(experience: Experience, deployment: str, rows: bytes, *, seq: int) -> Iterator[str]:
    stored = experience.fits(deployment, seq=seq)
    if not stored:
        return
    from tapebook.experience.situations import Situations

    situations = Situations()
    situations.extend(rows)
    for fit in stored:
        if fit.last * ROW_BYTES > len(rows) or situations.fit(fit.last) != fit:
            yield f"the fit of situations {fit.first} to {fit.last} is not the one they give"
