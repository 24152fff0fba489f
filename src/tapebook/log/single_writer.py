"""The log of a single writer: nobody else appends to its database, so it remembers what it wrote.

The events it writes are those of `Log`, byte for byte. They are stored as packs, since nobody needs a row to meet
others at. Where others may write too, use leases and `Log`.

Behind a draft whose body is late (`LateDraft`) events wait in memory: whoever follows sees them at once, and they are
finished, chained and written to the tables together (`finish_waiting`), before anything reads the log or a table and
before the transaction ends. Work that is done many times in a row takes half the time it does between other work.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tapebook.db import Database
from tapebook.log.event import (
    Draft,
    Event,
    LateDraft,
    LinkedEvent,
    Projection,
    Stream,
    apply_event,
    chain_events,
    pack_events,
    pack_row,
)
from tapebook.log.lease import Lease
from tapebook.log.store import QUERIES, Fetch, Head, Log, LogClock, StreamSetBack, stale_writer

# More would hardly be smaller, and one of them takes a few milliseconds to look up.
_EVENTS_PER_PACK = 512
# What more appends have to wait with would be remembered for nothing: a row of so many is as fast as a longer one.
_MOST_WAITING = 64

Follower = Callable[[Event], None]


class SingleWriterLog(Log):
    """A log that remembers where its streams end, and shows every event to whoever follows along."""

    # What followers have seen cannot be taken back one by one: the whole transaction ends.
    takes_back_appends = False

    def __init__(
        self, db: Database, projections: Sequence[Projection], *, clock: LogClock, fetch: Fetch = lambda key: None
    ) -> None:
        super().__init__(db, projections, clock=clock, fetch=fetch)
        self._heads: dict[Stream, Head] = {}
        # What is not in a pack yet, of each stream.
        self._loose: dict[Stream, list[LinkedEvent]] = {}
        self._of_kinds: dict[Stream, dict[str, int]] = {}
        self._set_backs: dict[Stream, list[StreamSetBack]] = {}
        self._newest: dict[tuple[Stream, frozenset[str]], int] = {}
        # Which of the newest an event may change, by its stream and its kind: none, for most.
        self._asked: dict[tuple[Stream, str], list[tuple[Stream, frozenset[str]]]] = {}
        self._followers: list[Follower] = []
        self._finish_followers: list[Follower] = []
        # Appends that are not chained yet, in order: the drafts, behind which number, and when they were known.
        self._waiting: list[tuple[Stream, Sequence[Draft], int, int]] = []
        # Of streams with such appends their newest number, and when it was known.
        self._ends_waiting: dict[Stream, tuple[int, int]] = {}

    def add_follower(self, follower: Follower, *, finished: Follower | None = None) -> None:
        """Calls somebody with every event from now on, in the order they are written.

        An event whose body is late has a text that stands for it and no hash; `finished` is called with it as it is
        stored.
        """
        self._followers.append(follower)
        if finished is not None:
            self._finish_followers.append(finished)

    def head(self, stream: Stream, *, lease: Lease | None = None) -> Head:
        """The end of a stream."""
        if stream in self._ends_waiting:
            self.finish_waiting()
        known = self._heads.get(stream)
        if known is None:
            known = self._heads[stream] = super().head(stream)
        return known

    def set_backs(self, stream: Stream, *, until: int = 2**62) -> list[StreamSetBack]:
        """Where the clock had gone back before this writer, whose clock never does."""
        known = self._set_backs.get(stream)
        if known is None:
            known = self._set_backs[stream] = super().set_backs(stream)
        return [back for back in known if back.seq <= until] if known else known

    def append(
        self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int, lease: Lease | None = None
    ) -> list[Event]:
        """Adds events to a stream that ends at `expected_seq`; there is nobody to keep away from it."""
        if not self._joined:
            with self.one_transaction():
                return self.append(stream, drafts, expected_seq=expected_seq)
        if self._waiting or any([isinstance(draft, LateDraft) for draft in drafts]):
            return self._append_waiting(stream, drafts, expected_seq=expected_seq)
        head = self.head(stream)
        if head.seq != expected_seq:
            raise stale_writer(stream, head.seq, expected_seq)
        previous, known_at = head.hash, max(head.known_at + 1, self._clock.now())
        events = chain_events(previous, drafts, stream=stream, seq=expected_seq, known_at=known_at)
        for event in events:
            self._follow(event)
            self._write_after(previous, event)
            previous = event.hash
        return events

    def _append_waiting(self, stream: Stream, drafts: Sequence[Draft], *, expected_seq: int) -> list[Event]:
        """Adds events that are chained and written later; they have no hash yet."""
        known = self._ends_waiting.get(stream)
        if known is None:
            head = self.head(stream)
            known = head.seq, head.known_at
        seq, known_before = known
        if seq != expected_seq:
            raise stale_writer(stream, seq, expected_seq)
        known_at = max(known_before + 1, self._clock.now())
        self._waiting.append((stream, drafts, seq, known_at))
        self._ends_waiting[stream] = seq + len(drafts), known_at
        events = []
        for draft in drafts:
            seq += 1
            event = Event(stream, seq, draft.kind, draft.schema, draft.happened_at, known_at, draft.body, "")
            self._follow(event)
            events.append(event)
        if len(self._waiting) >= _MOST_WAITING:
            self.finish_waiting()
        return events

    def finish_waiting(self) -> None:
        """Chains and writes what waits."""
        waiting, self._waiting, self._ends_waiting = self._waiting, [], {}
        for stream, drafts, seq, known_at in waiting:
            previous = self.head(stream).hash
            events = chain_events(previous, drafts, stream=stream, seq=seq, known_at=known_at)
            for draft, event in zip(drafts, events, strict=True):
                self._write_after(previous, event)
                previous = event.hash
                for finished in self._finish_followers if isinstance(draft, LateDraft) else ():
                    finished(event)

    def restore_events(self, events: Iterable[Event]) -> None:
        """Writes events of another log, with their rows, in one transaction."""
        with self.one_transaction():
            for event in events:
                previous = self.head(event.stream).hash
                self._follow(event)
                self._write_after(previous, event)

    def events(self, stream: Stream, *, after: int = 0, until: int = 2**62) -> Iterator[Event]:
        """A stream's events in order, those of the transaction under way too."""
        self.finish_waiting()
        loose = [event for _, event in self._loose.get(stream, ()) if after < event.seq <= until]
        yield from super().events(stream, after=after, until=loose[0].seq - 1 if loose else until)
        yield from loose

    def events_of_kinds(
        self, stream: Stream, kinds: Container[str], *, after: int = 0, until: int = 2**62
    ) -> Iterator[Event]:
        """A stream's events of some kinds in order, those of the transaction under way too."""
        return (event for event in self.events(stream, after=after, until=until) if event.kind in kinds)

    def event(self, stream: Stream, seq: int) -> Event | None:
        """One event by its number."""
        return next(self.events(stream, after=seq - 1, until=seq), None)

    def seq_as_of(self, stream: Stream, as_of: int) -> int:
        """The watermark of a moment: the newest sequence number known then."""
        self._pack_loose(stream)
        return super().seq_as_of(stream, as_of)

    def newest_known_at(self, owner: str, *, without: str) -> int:
        """When the newest event of an owner's streams was known, leaving one of them out."""
        for stream in list(self._loose):
            self._pack_loose(stream)
        return super().newest_known_at(owner, without=without)

    def event_count(self, stream: Stream) -> int:
        """How many events are stored of a stream."""
        self._pack_loose(stream)
        return super().event_count(stream)

    def streams(self) -> list[Stream]:
        """Every stream, by name."""
        self.finish_waiting()
        return sorted({*super().streams(), *self._loose}, key=lambda stream: (stream.owner, stream.deployment))

    def newest_of_kinds(self, stream: Stream) -> dict[str, int]:
        """The newest sequence number of each kind of event there is."""
        known = self._of_kinds.get(stream)
        if known is None:
            self._pack_loose(stream)
            known = self._of_kinds[stream] = super().newest_of_kinds(stream)
        return known

    def last_change_seq(self, stream: Stream, kinds: frozenset[str], *, seq: int = 0) -> int | None:
        """The newest sequence number of an event of some kinds, 0 without any."""
        known = self._newest.get((stream, kinds))
        if known is None:
            found = self.newest_of_kinds(stream)
            known = self._newest[stream, kinds] = max(found.get(kind, 0) for kind in kinds)
            for kind in kinds:
                self._asked.setdefault((stream, kind), []).append((stream, kinds))
        return known

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Appends inside are written in one transaction; when it fails, nothing is remembered of them."""
        try:
            with super().one_transaction():
                yield
                self.finish_waiting()
                for stream in list(self._loose):
                    self._pack_loose(stream)
        except BaseException:
            self._heads, self._newest, self._asked, self._loose, self._of_kinds = {}, {}, {}, {}, {}
            self._waiting, self._ends_waiting = [], {}
            raise

    def _follow(self, event: Event) -> None:
        """Remembers the next event of a stream, and shows it to whoever follows."""
        stream, seq, kind = event.stream, event.seq, event.kind
        of_kinds = self._of_kinds.get(stream)
        if of_kinds is not None:
            of_kinds[kind] = seq
        for asked in self._asked.get((stream, kind), ()):
            self._newest[asked] = seq
        for follower in self._followers:
            follower(event)

    def _write_after(self, previous: str, event: Event) -> None:
        """Writes the next event of a stream whose newest has a hash."""
        stream = event.stream
        loose = self._loose.get(stream)
        if loose is None:
            loose = self._loose[stream] = []
        loose.append((previous, event))
        self._heads[stream] = Head(event.seq, event.hash, event.known_at)
        if len(loose) == _EVENTS_PER_PACK:
            self._pack_loose(stream)
        apply_event(self._db, self._projectors, event)

    def _pack_loose(self, stream: Stream) -> None:
        """Puts what is loose of a stream into a pack."""
        self.finish_waiting()
        links = self._loose.pop(stream, None)
        if links:
            events = [event for _, event in links]
            self._db.execute_row(QUERIES.add_pack, pack_row(events, content=pack_events(links)))
