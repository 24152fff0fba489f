"""The log of a single writer: nobody else appends to its database, so it remembers what it wrote.

The events it writes are those of `Log`, byte for byte. They are stored as packs, since nobody needs a row to meet
others at. Where others may write too, use leases and `Log`.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tapebook.db import Database
from tapebook.log.event import Draft, Event, LinkedEvent, Stream, pack_events
from tapebook.log.lease import Lease
from tapebook.log.store import QUERIES, Fetch, Head, Log, LogClock, Projection, StreamSetBack, apply_event, pack_row

# More would hardly be smaller, and one of them takes a few milliseconds to look up.
_EVENTS_PER_PACK = 512


class SingleWriterLog(Log):
    """A log that remembers where its streams end, and shows every event to whoever follows along."""

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
        self._followers: list[Callable[[Event], None]] = []

    def add_follower(self, follower: Callable[[Event], None]) -> None:
        """Calls somebody with every event from now on, in the order they are written."""
        self._followers.append(follower)

    def head(self, stream: Stream, *, lease: Lease | None = None) -> Head:
        """The end of a stream."""
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
        head = self.head(stream)
        events, previous = self._chain_to_head(head, drafts, stream=stream, expected_seq=expected_seq), head.hash
        for event in events:
            self._write_after(previous, event)
            previous = event.hash
        return events

    def restore_events(self, events: Iterable[Event]) -> None:
        """Writes events of another log, with their rows, in one transaction."""
        with self.one_transaction():
            for event in events:
                self._write_after(self.head(event.stream).hash, event)

    def events(self, stream: Stream, *, after: int = 0, until: int = 2**62) -> Iterator[Event]:
        """A stream's events in order, those of the transaction under way too."""
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

    def event_count(self, stream: Stream) -> int:
        """How many events are stored of a stream."""
        self._pack_loose(stream)
        return super().event_count(stream)

    def streams(self) -> list[Stream]:
        """Every stream, by name."""
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
                for stream in list(self._loose):
                    self._pack_loose(stream)
        except BaseException:
            self._heads, self._newest, self._asked, self._loose, self._of_kinds = {}, {}, {}, {}, {}
            raise

    def _write_after(self, previous: str, event: Event) -> None:
        """Writes the next event of a stream whose newest has a hash."""
        stream, seq, kind = event.stream, event.seq, event.kind
        loose = self._loose.get(stream)
        if loose is None:
            loose = self._loose[stream] = []
        loose.append((previous, event))
        self._heads[stream] = Head(seq, event.hash, event.known_at)
        if len(loose) == _EVENTS_PER_PACK:
            self._pack_loose(stream)
        of_kinds = self._of_kinds.get(stream)
        if of_kinds is not None:
            of_kinds[kind] = seq
        for asked in self._asked.get((stream, kind), ()):
            self._newest[asked] = seq
        for follower in self._followers:
            follower(event)
        apply_event(self._db, self._projectors, event)

    def _pack_loose(self, stream: Stream) -> None:
        """Puts what is loose of a stream into a pack."""
        links = self._loose.pop(stream, None)
        if links:
            events = [event for _, event in links]
            self._db.execute_row(QUERIES.add_pack, pack_row(events, content=pack_events(links)))
