"""The log of a sole writer: nobody else appends to its database, so what it wrote need not be asked for again.

The rows it writes are those of `Log`, byte for byte. Where others may write too, leases and `Log` belong.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tapebook.db import Database
from tapebook.log.event import Draft, Event, Stream
from tapebook.log.lease import Lease
from tapebook.log.projection import Projection, apply
from tapebook.log.set_back import StreamSetBack
from tapebook.log.store import QUERIES, Clock, Head, Log


class SoleLog(Log):
    """A log that remembers where its streams end, and shows every event to whoever follows along."""

    def __init__(self, db: Database, projections: Sequence[Projection], *, clock: Clock) -> None:
        super().__init__(db, projections, clock=clock)
        self._heads: dict[Stream, Head] = {}
        self._set_backs: dict[Stream, list[StreamSetBack]] = {}
        self._newest: dict[tuple[Stream, frozenset[str]], int] = {}
        # Which of the newest an event may change, by its stream and its kind: none, for most.
        self._asked: dict[tuple[Stream, str], list[tuple[Stream, frozenset[str]]]] = {}
        self._followers: list[Callable[[Event], None]] = []

    def follow(self, follower: Callable[[Event], None]) -> None:
        """Calls somebody with every event from now on, in the order they are written."""
        self._followers.append(follower)

    def head(self, stream: Stream) -> Head:
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
            with self.together():
                return self.append(stream, drafts, expected_seq=expected_seq)
        events = self._behind(self.head(stream), drafts, stream=stream, expected_seq=expected_seq)
        for event in events:
            self._write(event)
        return events

    def changed(self, stream: Stream, kinds: frozenset[str]) -> int | None:
        """The newest sequence number of an event of some kinds, 0 without any."""
        known = self._newest.get((stream, kinds))
        if known is None:
            found = self.newest_of_kinds(stream)
            known = self._newest[stream, kinds] = max(found.get(kind, 0) for kind in kinds)
            for kind in kinds:
                self._asked.setdefault((stream, kind), []).append((stream, kinds))
        return known

    @contextmanager
    def together(self) -> Iterator[None]:
        """Appends inside are written in one transaction; when it fails, nothing is remembered of them."""
        try:
            with super().together():
                yield
        except BaseException:
            self._heads, self._newest, self._asked = {}, {}, {}
            raise

    def _write(self, event: Event) -> None:
        stream, seq, kind, known_at, digest = event.stream, event.seq, event.kind, event.known_at, event.hash
        when = (event.schema, event.happened_at, known_at)
        self._db.put(QUERIES.add, (stream.owner, stream.deployment, seq, kind, *when, event.body, digest))
        self._heads[stream] = Head(seq, digest, known_at)
        for asked in self._asked.get((stream, kind), ()):
            self._newest[asked] = seq
        for follower in self._followers:
            follower(event)
        apply(self._db, self._projectors, event)
