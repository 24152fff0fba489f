"""Checks that the log and the tables computed from it still say what was written.

1. every event's hash follows from the one before it, and its place and times are in order;
2. every anchored head (kept outside the database) is still in the stream, and no row is outside it;
3. a scratch database gets every event again, and every projected table must be equal row by row.

What is not found: events cut off the end of a stream together with their projected rows, as long
as no anchor names them; and anything, by whoever can rewrite the anchors as well.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import msgspec

from tapebook.db import Database, Query, Row, connect, migrate
from tapebook.log.event import GENESIS, Event, Stream
from tapebook.log.projection import apply, by_kind
from tapebook.log.set_back import KIND as SET_BACK
from tapebook.log.store import Log

_SHOWN = 5

Anchors = Mapping[Stream, Mapping[int, str]]


class Finding(msgspec.Struct, frozen=True):
    """One contradiction: where, and what is wrong."""

    where: str
    problem: str


def verify_log(log: Log, db: Database, *, packages: tuple[str, ...], anchors: Anchors) -> list[Finding]:
    """Everything that contradicts; an empty list means the log and its tables are whole.

    `db` is the log's own database: all is read as of one moment, so that nobody needs to stop writing.
    """
    with db.snapshot():
        streams = sorted({*log.streams(), *anchors}, key=lambda stream: stream.name)
        broken = [found for stream in streams for found in _check_stream(log, stream, anchors.get(stream, {}))]
        # Tables rebuilt from events that cannot be trusted would only add noise.
        return broken or _rebuild_and_compare(log, db, packages)


def check_chain(events: Iterable[Event], anchors: Mapping[int, str], *, name: str, size: int) -> Iterator[Finding]:
    """Walks one stream of `size` rows; stops at the first break, since everything after it hangs in the air."""
    previous, seq, known_at = GENESIS, 0, 0
    waiting = dict(anchors)
    for event in events:
        problem = _break(event, previous=previous, seq=seq + 1, known_at=known_at)
        if problem is None and waiting.pop(event.seq, event.hash) != event.hash:
            problem = "differs from the anchor in the archive"
        if problem:
            yield Finding(f"{name}#{event.seq}", problem)
            return
        previous, seq, known_at = event.hash, event.seq, event.known_at
    if waiting:
        cut = f"the archive has an anchor here, but the stream ends at {seq}: it was cut off"
        yield Finding(f"{name}#{max(waiting)}", cut)
    if size != seq:
        yield Finding(name, f"{size - seq} row(s) with numbers that no event can have")


def _check_stream(log: Log, stream: Stream, anchors: Mapping[int, str]) -> Iterator[Finding]:
    return check_chain(log.events(stream), anchors, name=stream.name, size=log.size(stream))


def _break(event: Event, *, previous: str, seq: int, known_at: int) -> str | None:
    if event.seq != seq:
        return f"event {seq} is missing"
    if event.digest(previous) != event.hash:
        return "the event or one before it was changed: its hash does not follow"
    if event.known_at < known_at and event.kind != SET_BACK:
        return "known earlier than the event before it"
    return None


def _rebuild_and_compare(log: Log, db: Database, packages: tuple[str, ...]) -> list[Finding]:
    with closing(connect(":memory:")) as scratch:
        migrate(scratch, packages)
        events = (event for stream in log.streams() for event in log.events(stream))
        projectors = by_kind(log.projections)
        with scratch.transaction():
            for event in events:
                apply(scratch, projectors, event)
        tables = sorted(name for projection in log.projections for name in projection.tables)
        return [found for table in tables for found in _compare(db, scratch, table)]


def _compare(db: Database, scratch: Database, table: str) -> list[Finding]:
    stored, computed = (_counted(place.all(Query.whole_table(table))) for place in (db, scratch))
    odd = [(row, "is not in the log") for row in sorted((stored - computed).elements())]
    odd += [(row, "is missing or was changed") for row in sorted((computed - stored).elements())]
    findings = [Finding(table, f"row {_short(row)} {problem}") for row, problem in odd[:_SHOWN]]
    if len(odd) > _SHOWN:
        findings.append(Finding(table, f"and {len(odd) - _SHOWN} more rows"))
    return findings


def _counted(rows: Sequence[Row]) -> Counter[tuple[str, ...]]:
    # Counted, since a table without a key can hold a row twice; as text, since values of two types do not sort.
    return Counter(tuple(repr(value) for value in row) for row in rows)


def _short(row: tuple[str, ...]) -> str:
    return ", ".join(row)[:120]
