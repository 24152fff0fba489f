"""The log in a database: append under the stream's lock, read in order.

Appending, in steps:
1. inside the write transaction, check the lease (`lease.fence`), read the head and compare it with what the caller
   had read;
2. stamp one `known_at` for the whole append: later than the one before, not earlier than the clock;
3. chain and insert the events, and write their projections;
4. commit all of it or nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.errors import Damaged, StaleWriter
from tapebook.log.event import GENESIS, Draft, Event, Stream, chained
from tapebook.log.lease import Lease, fence
from tapebook.log.projection import Projection, apply, by_kind

MIGRATIONS = "tapebook.log"
QUERIES = Queries.load("tapebook.log")
_PAGE = 2_000
_NO_END = 2**62


class Clock(Protocol):
    """Anything that knows market time."""

    def now(self) -> int:
        """UTC milliseconds."""
        ...


class Head(msgspec.Struct, frozen=True):
    """Where a stream ends."""

    seq: int = 0
    hash: str = GENESIS
    known_at: int = 0


class NotedAnchor(msgspec.Struct, frozen=True):
    """What the book knows of its newest anchor: number, hash, the newest commit of the tape in it, its moment."""

    number: int = 0
    sha256: str = GENESIS
    tape_seq: int = 0
    written_at: int = 0


class Log:
    """All streams of one database; `written` counts the events this one has appended."""

    def __init__(self, db: Database, projections: Sequence[Projection], *, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._joined = False
        self.written = 0
        self.projections = tuple(projections)
        self._projectors = by_kind(projections)

    def head(self, stream: Stream) -> Head:
        """The end of a stream; seq 0 when it has no events."""
        row = self._db.one(QUERIES.head, owner=stream.owner, deployment=stream.deployment)
        return Head(*row) if row else Head()

    def append(
        self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int, lease: Lease | None = None
    ) -> list[Event]:
        """Adds events to a stream that ends at `expected_seq`; StaleWriter, and nothing is written, if it does not.

        The same when the lease is lost; without a lease, when somebody holds one.
        """
        if self._joined:
            return self._append(stream, drafts, expected_seq=expected_seq, lease=lease)
        with self._db.transaction():
            return self._append(stream, drafts, expected_seq=expected_seq, lease=lease)

    def restore(self, events: Iterable[Event]) -> None:
        """Writes events of another log as they are, with their rows, in one transaction."""
        with self._db.transaction():
            for event in events:
                self._write(event)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Appends inside are written in one transaction, all of them or none: one wait for the disk."""
        with self._db.transaction():
            self._joined = True
            try:
                yield
            finally:
                self._joined = False

    def events(self, stream: Stream, *, after: int = 0, until: int = _NO_END) -> Iterator[Event]:
        """A stream's events in order, read page by page."""
        while True:
            where = {"owner": stream.owner, "deployment": stream.deployment, "after": after, "until": until}
            rows = self._db.all(QUERIES.events, page=_PAGE, **where)
            for row in rows:
                yield Event(stream, *row)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def seq_as_of(self, stream: Stream, as_of: int) -> int:
        """The watermark of a moment: the newest sequence number known then."""
        row = self._db.one(QUERIES.known_seq, owner=stream.owner, deployment=stream.deployment, as_of=as_of)
        return row[0] if row else 0

    def changed(self, stream: Stream, kinds: frozenset[str]) -> int | None:
        """The newest sequence number of an event of some kinds; None here, where others may write at any moment."""
        return None

    def newest_of_kinds(self, stream: Stream) -> dict[str, int]:
        """The newest sequence number of each kind of event there is."""
        rows = self._db.all(QUERIES.newest_of_kinds, owner=stream.owner, deployment=stream.deployment)
        return {row[0]: row[1] for row in rows}

    def size(self, stream: Stream) -> int:
        """How many rows a stream has; equal to the head's seq unless somebody changed the table."""
        row = self._db.one(QUERIES.size, owner=stream.owner, deployment=stream.deployment)
        return row[0] if row else 0

    def streams(self) -> list[Stream]:
        """Every stream, by name."""
        found: list[Stream] = []
        row = self._db.one(QUERIES.first_stream)
        while row is not None:
            found.append(Stream(*row))
            before, row = row, self._db.one(QUERIES.next_stream, owner=row[0], deployment=row[1])
            if row == before:
                raise Damaged(f"the streams of the log cannot be listed: {row!r} comes after itself")
        return found

    def hash_at(self, stream: Stream, seq: int) -> str | None:
        """The hash of one event; None when there is none of that number."""
        row = self._db.one(QUERIES.hash_at, owner=stream.owner, deployment=stream.deployment, seq=seq)
        return row[0] if row else None

    def newest_anchor(self) -> NotedAnchor:
        """The newest anchor the book knows of; number 0 when there is none."""
        row = self._db.one(QUERIES.newest_anchor)
        return NotedAnchor(*row) if row else NotedAnchor()

    def anchored(self) -> dict[Stream, int]:
        """How far each stream is anchored."""
        return {Stream(owner, deployment): seq for owner, deployment, seq in self._db.all(QUERIES.anchored)}

    def note_anchor(self, noted: NotedAnchor, heads: Mapping[Stream, int], *, write: Callable[[], None]) -> None:
        """Notes an anchor once `write` has brought it to the archive; StaleWriter when another process was faster."""
        with self._db.transaction():
            if self._db.one(QUERIES.note_anchor, **msgspec.structs.asdict(noted)) is None:
                raise StaleWriter(f"anchor {noted.number} was written by another process")
            self._db.run(QUERIES.drop_older_anchors, number=noted.number)
            rows = [(stream.owner, stream.deployment, seq) for stream, seq in sorted(heads.items())]
            self._db.many(QUERIES.note_anchored, rows)
            write()

    def _append(
        self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int, lease: Lease | None
    ) -> list[Event]:
        fence(self._db, stream, lease)
        events = self._behind(self.head(stream), drafts, stream=stream, expected_seq=expected_seq)
        for event in events:
            self._write(event)
        self.written += len(events)
        return events

    def _behind(self, head: Head, drafts: Sequence[Draft], *, stream: Stream, expected_seq: int) -> list[Event]:
        """The drafts as the next events of a stream, all of them known now."""
        seq = head.seq
        if seq != expected_seq:
            place = f"stream {stream.name} is at {seq}, not {expected_seq}"
            raise StaleWriter(f"{place}: read it again before writing")
        known_at = max(head.known_at + 1, self._clock.now())
        return chained(head.hash, drafts, stream=stream, seq=seq, known_at=known_at)

    def _write(self, event: Event) -> None:
        inserted = self._db.one(QUERIES.append, **dict(zip(QUERIES.append.params, row_of(event), strict=True)))
        # On PostgreSQL two transactions can read the same head; the slower one's insert does nothing.
        if inserted is None:
            raise StaleWriter(f"another writer was first in stream {event.stream.name}: read it again before writing")
        apply(self._db, self._projectors, event)


def row_of(event: Event) -> Row:
    """An event as its table's columns, in their order."""
    return event.stream.owner, event.stream.deployment, *msgspec.structs.astuple(event)[1:]
