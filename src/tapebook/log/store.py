"""The log in a database: appends under the stream's lock, reads in order, projections, and cached reads.

Appending, in steps:
1. inside the write transaction, check the lease (`fence_write`), read the head and compare it with what the caller
   had read;
2. stamp one `known_at` for the whole append: later than the one before, not earlier than the clock; or, where the
   clock was set back, the clock's behind an event that says so (`ClockSetBack`);
3. chain and insert the events, and write their projections;
4. commit all of it or nothing.

An event is a row, or one of many in a pack: a single writer packs all it writes, and old events may leave for the
archive as packs (`Log.archive_events`). Readers see no difference.

`ReadCache` holds the results of one store's reads by key, `CachedRead` those of one question, until an event that
could change them is written: tables are written by events alone. A single writer knows all events; beside others, the
log knows them up to the head it read last (`Log.last_change_seq`), and what is asked beyond that is read again. Whoever
changes rows without an event must open the home anew.

A clock that was ahead and was set right would hold `known_at` ahead for as long as it was wrong. So a clock that is
behind the newest `known_at` by more than `TOLERATED_MS` counts as set back, and `known_at` goes back with it, once,
behind an event that says so (`ClockSetBack`); `verify` accepts no other step back. Smaller steps are bridged.
"""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from heapq import merge
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.domain.units import MINUTE
from tapebook.errors import Damaged, StaleWriter
from tapebook.log.event import (
    GENESIS,
    Draft,
    Event,
    LinkedEvent,
    Projection,
    Stream,
    Write,
    apply_event,
    chain_events,
    pack_body,
    pack_known_times,
    pack_row,
    parquet_of_events,
    projectors_by_kind,
    unpack_body,
    unpack_events,
)
from tapebook.log.keyed import KeyedWrite
from tapebook.log.lease import Lease, fence_write

Result = TypeVar("Result")
ResultCo = TypeVar("ResultCo", covariant=True)


class StreamChanges(msgspec.Struct):
    """A cache: which kinds of events a stream got since it was first looked at, as far as `until`.

    What came before the first look counts as changed there. Reading the head and appending bring it up to date; an
    append that fails drops it.
    """

    first: int
    until: int
    newest: dict[str, int]


class ChangeTracker(Protocol):
    """Who knows when a stream last got an event of some kinds; `generation` grows when events were taken back."""

    generation: int

    def last_change_seq(self, stream: Stream, kinds: frozenset[str], *, seq: int) -> int | None:
        """The newest sequence number of such an event as far as `seq`; None when that is not known."""
        ...


class ReadAsOf(Protocol[ResultCo]):
    """A question about a deployment's stream, or with an empty name the owner's, as of a sequence number."""

    def __call__(self, deployment: str, *, seq: int) -> ResultCo:
        """The answer."""
        ...


class CachedRead(Generic[Result]):
    """One question, asked again only when its answer may be another: it is the same from the newest change on."""

    def __init__(self, read: ReadAsOf[Result], owner: str, *, log: ChangeTracker, kinds: frozenset[str]) -> None:
        self._read = read
        self._owner = owner
        self._log = log
        self._kinds = kinds
        self._answers: dict[str, tuple[Stream, tuple[int, int], Result]] = {}

    def __call__(self, deployment: str, *, seq: int) -> Result:
        """The answer as of a sequence number."""
        kept = self._answers.get(deployment)
        # A stream that was kept knows its hash.
        stream = Stream(self._owner, deployment) if kept is None else kept[0]
        changed = self._log.last_change_seq(stream, self._kinds, seq=seq)
        if changed is None or seq < changed:
            return self._read(deployment, seq=seq)
        since = self._log.generation, changed
        if kept is None or kept[1] != since:
            kept = self._answers[deployment] = (stream, since, self._read(deployment, seq=seq))
        return kept[2]


class ReadCache:
    """A cache of reads that events of some kinds in a log may change, and nothing else. Without a log, it is empty."""

    def __init__(self, log: ChangeTracker | None = None, kinds: Iterable[str] = ()) -> None:
        self._log = log
        self._kinds = frozenset(kinds)
        self._values: dict[Hashable, tuple[tuple[int, int], Any]] = {}

    def read(self, key: Hashable, stream: Stream, *, seq: int, read: Callable[[], Result]) -> Result:
        """What `read` gives as of a sequence number; kept under its key until the stream changes."""
        changed = self._log.last_change_seq(stream, self._kinds, seq=seq) if self._log else None
        if changed is None or changed > seq or self._log is None:
            return read()
        since, known = (self._log.generation, changed), self._values.get(key)
        if known is None or known[0] != since:
            known = self._values[key] = since, read()
        found: Result = known[1]
        return found

    def replace(self, key: Hashable, value: Result) -> Result:
        """Puts another value where one is kept that no longer fits for other reasons than an event."""
        if key in self._values:
            self._values[key] = self._values[key][0], value
        return value

    def last_change(self, stream: Stream, *, seq: int) -> tuple[int, int] | None:
        """What the answers as of `seq` are as old as, to be compared; None where that is not known."""
        changed = self._log.last_change_seq(stream, self._kinds, seq=seq) if self._log else None
        return None if changed is None or changed > seq or not self._log else (self._log.generation, changed)

    def cached_read(
        self, read: ReadAsOf[Result], *, owner: str, kinds: Iterable[str] | None = None
    ) -> ReadAsOf[Result]:
        """A read that gives its last result again until an event of its kinds, all or those given, is appended."""
        changing = self._kinds if kinds is None else frozenset(kinds)
        return CachedRead(read, owner, log=self._log, kinds=changing) if self._log else read


TOLERATED_MS = MINUTE
"""A clock may be behind what was written by so much: appends of one moment count up, and clocks are adjusted."""

SET_BACK_KIND = "clock.set_back"
QUERIES = Queries.load("tapebook.log")

AcceptSetBack = Callable[[int, int], int]
"""Takes the newest `known_at` and the clock's time; gives that time, or raises Busy when it cannot be right."""


class ClockSetBack(msgspec.Struct, frozen=True):
    """The clock has gone back: to when, from when, and the first event that counts as known after that."""

    known_at: int
    known_before: int
    first_seq: int


class StreamSetBack(msgspec.Struct, frozen=True):
    """Where a stream was set back, and what its event says."""

    seq: int
    first_seq: int
    known_before: int
    known_at: int


def is_clock_set_back(newest_known_at: int, now: int) -> bool:
    """Whether the clock is so far behind that it must have been set back."""
    return newest_known_at - now > TOLERATED_MS


def stale_writer(stream: Stream, seq: int, expected_seq: int) -> StaleWriter:
    """What is said to a writer who had read another end of a stream than it has."""
    place = f"stream {stream.name} is at {seq}, not {expected_seq}"
    return StaleWriter(f"{place}: read it again before writing")


def set_back_draft(set_back: ClockSetBack) -> Draft:
    """The event that lets `known_at` go back."""
    return Draft.from_body(SET_BACK_KIND, set_back.known_at, set_back)


def _project_set_back(event: Event) -> list[Write]:
    set_back = msgspec.json.decode(event.body, type=ClockSetBack)
    place = {"owner": event.stream.owner, "deployment": event.stream.deployment, "seq": event.seq}
    return [Write(QUERIES.add_set_back, place | msgspec.structs.asdict(set_back))]


SET_BACK_PROJECTION = Projection(tables=("log_set_backs",), projectors={SET_BACK_KIND: _project_set_back})


MIGRATIONS = "tapebook.log"
_PAGE = 2_000
_NO_END = 2**62
# Packs that stay unpacked: whoever asks for one event often asks for its neighbours next.
_CACHED_PACKS = 8

Fetch = Callable[[str], bytes | None]
"""Reads an object of the archive by its key; None when there is none."""


class LogClock(Protocol):
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


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A book was put back to what it was at an anchor; those after it, up to another, name what was lost."""

    until_anchor: int
    to_anchor: int
    restored_at: int


class _Pack(msgspec.Struct, frozen=True):
    """A row of packs without its content."""

    first_seq: int
    last_seq: int
    events: int
    first_known_at: int
    known_at: int
    hash: str
    archive_key: str | None


class Log:
    """All streams of one database; `fetch` reads the archive, where old events may be, `written` counts its own."""

    takes_back_appends = True
    """Whether an append that failed leaves nothing behind, so that whoever made it may go on."""

    def __init__(
        self,
        db: Database,
        projections: Sequence[Projection],
        *,
        clock: LogClock,
        fetch: Fetch = lambda key: None,
        may_go_back: AcceptSetBack | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._fetch = fetch
        self._may_go_back = may_go_back
        self._unpacked: dict[tuple[Stream, int, str], list[Event]] = {}
        self._joined = self.reads_once = False
        self._changes: dict[Stream, StreamChanges] = {}
        # A cache of where streams end for as long as a lease keeps others from writing them.
        self._held_heads: dict[Stream, tuple[Lease, Head]] = {}
        # A cache of where other streams end, while `read_once` is open.
        self._ends: dict[Stream, Head] = {}
        self._fenced: set[Lease] = set()
        self.generation = 0
        self.written = 0
        # Set while a write that carries a key is under way.
        self.keyed: KeyedWrite | None = None
        self.projections = tuple(projections)
        self._projectors = projectors_by_kind(projections)

    def head(self, stream: Stream, *, lease: Lease | None = None) -> Head:
        """The end of a stream, seq 0 when it has no events; under a lease it is read once.

        Whoever lost the lease unawares sees an old end, and cannot append to it.
        """
        held = self._held_heads.get(stream) if lease else None
        kept = held[1] if held and held[0] == lease else None if lease else self._ends.get(stream)
        if kept is not None:
            return kept
        row = self._db.one(QUERIES.head, owner=stream.owner, deployment=stream.deployment)
        head = Head(*row) if row else Head()
        known, seq = self._changes.get(stream), head.seq
        # Which kinds of events it got since it was looked at.
        if known is None or seq < known.until:
            self._changes[stream] = StreamChanges(seq, seq, {})
        elif seq > known.until:
            where = {"owner": stream.owner, "deployment": stream.deployment, "after": known.until, "until": seq}
            rows = self._db.all(QUERIES.kinds_between, **where)
            known.newest.update((kind, newest) for kind, newest, _ in rows)
            # Rows that have left for a pack meanwhile could be of any kind.
            known.first = known.first if sum(row[2] for row in rows) == seq - known.until else seq
            known.until = seq
        if lease is not None:
            self._held_heads[stream] = lease, head
        elif self.reads_once:
            self._ends[stream] = head
        return head

    @contextmanager
    def read_once(self) -> Iterator[None]:
        """Inside, the end of a stream that others may write is read once: decisions made together know the same."""
        self.reads_once = True
        try:
            yield
        finally:
            self.reads_once, self._ends = False, {}

    def _forget_changes(self) -> None:
        """After an append that was rolled back, what was read meanwhile may be of events that never were."""
        self._changes, self._held_heads, self._ends, self.generation = {}, {}, {}, self.generation + 1
        if self.keyed is not None:
            self.keyed.forget_count()

    def heads(self, owner: str) -> dict[str, int]:
        """By deployment, the newest sequence number; one query, for whoever follows all streams."""
        return {row[0]: row[1] for row in self._db.all(QUERIES.heads, owner=owner)}

    def kinds_between(self, stream: Stream, *, after: int, until: int) -> dict[str, int]:
        """How many events of each kind a stream got after one sequence number and up to another."""
        where = {"owner": stream.owner, "deployment": stream.deployment, "after": after, "until": until}
        found = {kind: count for kind, _, count in self._db.all(QUERIES.kinds_between, **where)}
        if sum(found.values()) == until - after:
            return found
        # Some are in packs, or have left for one.
        return dict(Counter(event.kind for event in self.events(stream, after=after, until=until)))

    def append(
        self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int, lease: Lease | None = None
    ) -> list[Event]:
        """Adds events to a stream that ends at `expected_seq`; StaleWriter, and nothing is written, if it does not.

        The same when the lease is lost; without a lease, when somebody holds one.
        """
        try:
            with nullcontext() if self._joined else self._db.transaction():
                # A fence holds to the end of its transaction, which may have several appends.
                if lease is None or lease not in self._fenced:
                    fence_write(self._db, stream, lease)
                    self._fenced |= {lease} if lease and self._joined else set()
                # What others wrote since is seen here, whatever was read before.
                self._ends.pop(stream, None)
                head = self.head(stream, lease=lease)
                before: list[Draft] = []
                if self._may_go_back is not None and is_clock_set_back(head.known_at, now := self._clock.now()):
                    known_at = self._may_go_back(head.known_at, now)
                    before = [set_back_draft(self._step_back(stream, head, known_at))]
                    head = msgspec.structs.replace(head, known_at=known_at - 1)
                if head.seq != expected_seq:
                    raise stale_writer(stream, head.seq, expected_seq)
                known_at = max(head.known_at + 1, self._clock.now())
                events = chain_events(head.hash, [*before, *drafts], stream=stream, seq=head.seq, known_at=known_at)
                self._write(stream, events)
                known = self._changes[stream]
                for event in events:
                    known.newest[event.kind] = known.until = event.seq
                if self.keyed is not None:
                    self.keyed.note_events(events)
                self.written += len(events)
                if lease is not None and events:
                    self._held_heads[stream] = lease, Head(events[-1].seq, events[-1].hash, events[-1].known_at)
                self._ends.pop(stream, None)
                return events[len(before) :]
        except BaseException:
            if not self._joined:
                self._forget_changes()
            raise

    def restore_events(self, events: Iterable[Event]) -> None:
        """Writes events of another log as they are, with their rows, in one transaction."""
        self._forget_changes()
        with self._db.transaction():
            for event in events:
                self._write(event.stream, [event])

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Appends inside are written in one transaction, all of them or none: one wait for the disk."""
        try:
            with self._db.transaction(), self.read_once():
                self._joined = True
                yield
        except BaseException:
            self._forget_changes()
            raise
        finally:
            self._joined, self._fenced = False, set()

    def events(self, stream: Stream, *, after: int = 0, until: int = _NO_END) -> Iterator[Event]:
        """A stream's events in order, read page by page; Damaged where one cannot be read."""
        return self._read_events(stream, None, after=after, until=until)

    def events_of_kinds(
        self, stream: Stream, kinds: Container[str], *, after: int = 0, until: int = _NO_END
    ) -> Iterator[Event]:
        """A stream's events of some kinds in order; the others are not unpacked."""
        return self._read_events(stream, kinds, after=after, until=until)

    def _read_events(self, stream: Stream, kinds: Container[str] | None, *, after: int, until: int) -> Iterator[Event]:
        # A stretch without any of the kinds may be long: the next look is at twice as many rows.
        look = _PAGE
        while True:
            where = {"owner": stream.owner, "deployment": stream.deployment, "after": after, "until": until}
            end = None if kinds is None else self._end_of_page_without(kinds, where, page=look)
            look = _PAGE if end is None else 2 * look
            rows = self._db.all(QUERIES.events, page=_PAGE, **where) if end is None else []
            is_last = len(rows) < _PAGE if end is None else end == until
            end = (until if is_last else rows[-1][0]) if end is None else end
            # Packs after rows: what leaves in between is seen twice, and not missed.
            packs = self._packs(stream, after=after, until=end)
            # Before they are unpacked, which takes longest.
            wanted = rows if kinds is None else [row for row in rows if row[1] in kinds]
            found = (self._event(stream, row) for row in wanted)
            merged = self._merge_with_packs(stream, found, packs, after=after, until=end) if packs else found
            yield from merged if kinds is None else (event for event in merged if event.kind in kinds)
            if is_last:
                return
            after = end

    def _end_of_page_without(self, kinds: Container[str], where: Mapping[str, Any], *, page: int) -> int | None:
        """Where a page of rows ends that has none of some kinds; None when it has some, and has to be read."""
        found = self._db.all(QUERIES.kinds_of_page, page=page, **where)
        if any(kind in kinds for kind, _, _ in found):
            return None
        is_full = sum(count for _, count, _ in found) == page
        return max(newest for _, _, newest in found) if is_full else int(where["until"])

    def event(self, stream: Stream, seq: int) -> Event | None:
        """One event by its number."""
        where = {"owner": stream.owner, "deployment": stream.deployment, "after": seq - 1, "until": seq}
        rows = self._db.all(QUERIES.events, page=1, **where)
        if rows:
            return self._event(stream, rows[0])
        return next(self.events(stream, after=seq - 1, until=seq), None)

    def seq_as_of(self, stream: Stream, as_of: int) -> int:
        """The watermark of a moment: the newest sequence number known then."""
        head = self.head(stream)
        ends = [*(back.seq for back in self.set_backs(stream)), head.seq + 1]
        # Between two steps back of the clock, what comes later is known later.
        for first, end in reversed(list(zip([1, *ends], ends, strict=False))):
            found = self._newest_within(stream, first, end - 1, as_of=as_of)
            if found >= first:
                return found
        return 0

    def _newest_within(self, stream: Stream, first: int, last: int, *, as_of: int) -> int:
        """The newest event of a part of a stream that was known at a moment; the number before it when none was."""
        low, high = first - 1, last
        while low < high:
            narrowed = self._narrow_range(stream, low, high, as_of=as_of)
            # A pack may reach beyond this part.
            low, high = max(low, min(narrowed[0], high)), max(low, min(narrowed[1], high))
        return low

    def set_backs(self, stream: Stream, *, until: int = _NO_END) -> list[StreamSetBack]:
        """Where the clock was found to have gone back in a stream, up to a sequence number."""
        where = {"owner": stream.owner, "deployment": stream.deployment, "until": until}
        return [StreamSetBack(*row) for row in self._db.all(QUERIES.set_backs, **where)]

    def is_ahead_of_clock(self, stream: Stream, *, lease: Lease | None = None) -> bool:
        """Whether a stream was written by a clock that was ahead, and the step back is not in it yet."""
        if self._may_go_back is None:
            return False
        return is_clock_set_back(self.head(stream, lease=lease).known_at, self._clock.now())

    def last_change_seq(self, stream: Stream, kinds: frozenset[str], *, seq: int) -> int | None:
        """The newest sequence number of an event of some kinds; None beyond the head that was read last."""
        known = self._changes.get(stream)
        if known is None or seq > known.until:
            return None
        newest = known.first
        for kind in kinds & known.newest.keys():
            newest = max(newest, known.newest[kind])
        return newest

    def newest_of_kinds(self, stream: Stream) -> dict[str, int]:
        """The newest sequence number of each kind of event there is."""
        rows = self._db.all(QUERIES.newest_of_kinds, owner=stream.owner, deployment=stream.deployment)
        found = {row[0]: row[1] for row in rows}
        for each in self._packs(stream, after=0, until=_NO_END):
            for event in self._events_of_pack(stream, each):
                found[event.kind] = max(event.seq, found.get(event.kind, 0))
        return found

    def newest_known_at(self, owner: str, *, without: str) -> int:
        """When the newest event of an owner's streams was known, leaving one of them out; 0 without any."""
        row = self._db.one(QUERIES.newest_known, owner=owner, without=without)
        return row[0] or 0 if row else 0

    def event_count(self, stream: Stream) -> int:
        """How many events are stored of a stream; equal to the head's seq unless somebody changed the table."""
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
        found = self.event(stream, seq)
        return None if found is None else found.hash

    def newest_anchor(self) -> NotedAnchor:
        """The newest anchor the book knows of; number 0 when there is none."""
        row = self._db.one(QUERIES.newest_anchor)
        return NotedAnchor(*row) if row else NotedAnchor()

    def anchored_seqs(self) -> dict[Stream, int]:
        """How far each stream is anchored."""
        return {Stream(owner, deployment): seq for owner, deployment, seq in self._db.all(QUERIES.anchored)}

    def note_anchor(self, noted: NotedAnchor, heads: Mapping[Stream, int]) -> None:
        """Notes an anchor that is in the archive; StaleWriter when another process was faster."""
        with self._db.transaction():
            if self._db.one(QUERIES.note_anchor, **msgspec.structs.asdict(noted)) is None:
                raise StaleWriter(f"anchor {noted.number} was written by another process")
            self._db.execute(QUERIES.drop_older_anchors, number=noted.number)
            rows = [(stream.owner, stream.deployment, seq) for stream, seq in sorted(heads.items())]
            self._db.many(QUERIES.note_anchored, rows)

    def restores(self) -> list[Restore]:
        """Where this book was restored from a backup."""
        return [Restore(*row) for row in self._db.all(QUERIES.restores)]

    def note_restore(self, restore: Restore) -> None:
        """Notes that this book was restored."""
        self._db.execute(QUERIES.note_restore, **msgspec.structs.asdict(restore))

    def packed_until(self, stream: Stream) -> int:
        """The last number of a stream's newest pack; 0 without any."""
        row = self._db.one(QUERIES.packed_until, owner=stream.owner, deployment=stream.deployment)
        return row[0] if row else 0

    def archive_events(
        self,
        stream: Stream,
        *,
        after: int,
        before: int,
        leaves: Callable[[Event], bool],
        put: Callable[[bytes], str],
        most: int,
    ) -> tuple[int, int]:
        """Moves old rows to the archive as one Parquet file; returns how far it looked, and how many events left.

        Of at most so many rows behind a number, known before a moment, those leave of which `leaves` says so. `put`
        stores the file and returns its key only when the archive has given it back whole. A process that ends anywhere
        in between has moved nothing; the next one makes the same file again.
        """
        previous, looked, links = self._hash_of(stream, after), after, list[LinkedEvent]()
        for event in self.events(stream, after=after, until=after + most):
            if event.known_at >= before:
                break
            if leaves(event):
                links.append((previous, event))
            previous, looked = event.hash, event.seq
        if links:
            row = pack_row([event for _, event in links], key=put(parquet_of_events(links)))
            with self._db.transaction():
                placed = self._db.one(QUERIES.retire_pack, **dict(zip(QUERIES.retire_pack.params, row, strict=True)))
                gone = [(stream.owner, stream.deployment, event.seq, event.hash) for _, event in links]
                if placed is None or self._db.many(QUERIES.remove, gone) != len(gone):
                    raise StaleWriter(f"somebody else moves old events of stream {stream.name}: they are left to them")
        return looked, len(links)

    def _step_back(self, stream: Stream, head: Head, known_at: int) -> ClockSetBack:
        where = {"owner": stream.owner, "deployment": stream.deployment, "known_at": known_at}
        ((first_seq,),) = self._db.all(QUERIES.first_known_after, **where)
        return ClockSetBack(known_at, head.known_at, first_seq)

    def _write(self, stream: Stream, events: Sequence[Event]) -> None:
        rows: list[Row] = []
        for event in events:
            packed = pack_body(event.body)
            content = (event.body, None) if packed is None else ("", packed)
            when = (event.kind, event.schema, event.happened_at, event.known_at)
            rows.append((stream.owner, stream.deployment, event.seq, *when, *content, event.hash))
        # On PostgreSQL two transactions can read the same head; the slower one's insert does nothing.
        if self._db.many(QUERIES.append, rows) != len(events):
            raise StaleWriter(f"another writer was first in stream {stream.name}: read it again before writing")
        for event in events:
            apply_event(self._db, self._projectors, event)

    def _hash_of(self, stream: Stream, seq: int) -> str:
        """The hash of an event, or of the beginning."""
        event = self.event(stream, seq) if seq else None
        return event.hash if event else GENESIS

    def _narrow_range(self, stream: Stream, low: int, high: int, *, as_of: int) -> tuple[int, int]:
        """Less of a range of numbers in which the newest event known at a moment lies: by half, or by a pack."""
        middle = (low + high + 1) // 2
        row = self._db.one(QUERIES.known_at, owner=stream.owner, deployment=stream.deployment, seq=middle)
        if row is not None:
            return (middle, high) if row[0] <= as_of else (low, middle - 1)
        found = low, high
        for each in self._packs(stream, after=middle - 1, until=middle):
            if each.known_at <= as_of:
                found = each.last_seq, high
            elif each.first_known_at > as_of:
                found = low, each.first_seq - 1
            else:
                times = pack_known_times(self._pack_content(stream, each))
                known = [seq for seq, known_at in times if known_at <= as_of]
                later = [seq - 1 for seq, known_at in times if known_at > as_of]
                found = max([low, *known]), min([high, *later])
        # A number that nobody has is passed over: `verify` finds it.
        return found if found != (low, high) else (middle, high)

    def _event(self, stream: Stream, row: Row) -> Event:
        seq, kind, schema, happened_at, known_at, body, packed, digest = row
        if packed is not None:
            try:
                # A text beside it would be nobody's: then the hash does not follow.
                body += unpack_body(packed)
            except Damaged as error:
                raise Damaged(f"event {seq} of {stream.name}: {error}") from error
        return Event(stream, seq, kind, schema, happened_at, known_at, body, digest)

    def _packs(self, stream: Stream, *, after: int, until: int) -> list[_Pack]:
        where = {"owner": stream.owner, "deployment": stream.deployment, "after": after, "until": until}
        return [_Pack(*row) for row in self._db.all(QUERIES.packs, **where)]

    def _merge_with_packs(
        self, stream: Stream, rows: Iterable[Event], packs: Sequence[_Pack], *, after: int, until: int
    ) -> Iterator[Event]:
        """Events of rows and packs in order, each once."""
        packed = (event for each in packs for event in self._events_of_pack(stream, each) if after < event.seq <= until)
        last = after
        for event in merge(rows, packed, key=attrgetter("seq")):
            if event.seq > last:
                last = event.seq
                yield event

    def _events_of_pack(self, stream: Stream, row: _Pack) -> list[Event]:
        """The events of a pack, from the book or from the archive; Damaged when they are not what its row says."""
        key = (stream, row.first_seq, row.hash)
        kept = self._unpacked.pop(key, None)
        if kept is None:
            where = f"events {row.first_seq} to {row.last_seq} of {stream.name}"
            try:
                kept = unpack_events(self._pack_content(stream, row), stream)
            except Damaged as error:
                raise Damaged(f"{where}: {error}") from error
            if pack_row(kept, key=row.archive_key)[2:9] != msgspec.structs.astuple(row):
                raise Damaged(f"{where}: the pack they are in was changed: its hash does not follow")
        # The newest at the end: the first one goes.
        self._unpacked[key] = kept
        if len(self._unpacked) > _CACHED_PACKS:
            del self._unpacked[next(iter(self._unpacked))]
        return kept

    def _pack_content(self, stream: Stream, row: _Pack) -> bytes:
        if row.archive_key is not None:
            found = self._fetch(row.archive_key)
            if found is None:
                raise Damaged(f"the archive has no {row.archive_key}: restore the archive from a backup")
            return found
        where = {"owner": stream.owner, "deployment": stream.deployment, "first_seq": row.first_seq}
        stored = self._db.one(QUERIES.content, **where)
        if stored is None or stored[0] is None:
            raise Damaged("the pack they are in has no content: restore the book from a backup")
        return bytes(stored[0])
