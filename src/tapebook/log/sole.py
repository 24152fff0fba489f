"""The log of a sole writer: nobody else appends to its database, so what it wrote need not be asked for again.

The rows it writes are those of `Log`, byte for byte. Where others may write too, leases and `Log` belong.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tapebook.db import Database
from tapebook.log.event import Event, Stream
from tapebook.log.lease import Lease
from tapebook.log.projection import Projection
from tapebook.log.store import QUERIES, Clock, Head, Log, row_of


class SoleLog(Log):
    """A log that remembers where its streams end, and shows every event to whoever follows along."""

    def __init__(self, db: Database, projections: Sequence[Projection], *, clock: Clock) -> None:
        super().__init__(db, projections, clock=clock)
        self._heads: dict[Stream, Head] = {}
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

    def _fence(self, stream: Stream, lease: Lease | None) -> None:
        """There is nobody to keep away."""

    def _insert(self, event: Event) -> None:
        stream, seq = event.stream, event.seq
        self._db.put(QUERIES.add, row_of(event))
        self._heads[stream] = Head(seq, event.hash, event.known_at)
        for asked in self._asked.get((stream, event.kind), ()):
            self._newest[asked] = seq
        for follower in self._followers:
            follower(event)
