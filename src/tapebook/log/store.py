"""The log in a database: append under the stream's lock, read in order.

Appending, in steps:
1. inside the write transaction, check the lease (`lease.fence`), read the head and compare it with what the caller
   had read;
2. stamp one `known_at` for the whole append: later than the one before, not earlier than the clock; or, where the clock
   was set back, the clock's behind an event that says so (`set_back.py`);
3. chain and insert the events, and write their projections;
4. commit all of it or nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.errors import StaleWriter
from tapebook.log.event import GENESIS, Draft, Event, Stream, chained
from tapebook.log.lease import Lease, fence
from tapebook.log.projection import Projection, apply, by_kind
from tapebook.log.set_back import ClockSetBack, MayGoBack, StreamSetBack, gone_back, set_back_draft

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


class Log:
    """All streams of one database."""

    def __init__(
        self,
        db: Database,
        projections: Sequence[Projection],
        *,
        clock: Clock,
        may_go_back: MayGoBack | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._may_go_back = may_go_back
        self._joined = False
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
        where = {"owner": stream.owner, "deployment": stream.deployment, "as_of": as_of}
        backs = self.set_backs(stream)
        if not backs:
            row = self._db.one(QUERIES.known_seq, **where)
            return row[0] if row else 0
        # Between two steps back of the clock, what comes later is known later.
        ends = [*(back.seq for back in backs), _NO_END]
        for first, end in reversed(list(zip([0, *ends], ends, strict=False))):
            row = self._db.one(QUERIES.known_seq_within, first=first, end=end, **where)
            if row:
                return int(row[0])
        return 0

    def set_backs(self, stream: Stream, *, until: int = _NO_END) -> list[StreamSetBack]:
        """Where the clock was found to have gone back in a stream, up to a sequence number."""
        where = {"owner": stream.owner, "deployment": stream.deployment, "until": until}
        return [StreamSetBack(*row) for row in self._db.all(QUERIES.set_backs, **where)]

    def is_ahead(self, stream: Stream) -> bool:
        """Whether a stream was written by a clock that was ahead, and the step back is not in it yet."""
        return self._may_go_back is not None and gone_back(self.head(stream).known_at, self._clock.now())

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
        return [Stream(*row) for row in self._db.all(QUERIES.streams)]

    def _append(
        self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int, lease: Lease | None
    ) -> list[Event]:
        fence(self._db, stream, lease)
        head, before = self.head(stream), list[Draft]()
        if self._may_go_back is not None and gone_back(head.known_at, now := self._clock.now()):
            known_at = self._may_go_back(head.known_at, now)
            before = [set_back_draft(self._step_back(stream, head, known_at))]
            head = msgspec.structs.replace(head, known_at=known_at - 1)
        events = self._behind(head, [*before, *drafts], stream=stream, expected_seq=expected_seq)
        for event in events:
            self._write(event)
        return events[len(before) :]

    def _step_back(self, stream: Stream, head: Head, known_at: int) -> ClockSetBack:
        where = {"owner": stream.owner, "deployment": stream.deployment}
        ((first_seq,),) = self._db.all(QUERIES.first_known_after, known_at=known_at, **where)
        return ClockSetBack(known_at, head.known_at, first_seq)

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
