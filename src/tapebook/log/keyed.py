"""Writes that carry a key: what they append is noted under an id, in the same transaction.

Whoever makes a write again after a crash asks what the attempt before it has written. Two processes that make one
write at the same time meet in the table of notes: the second one's transaction is refused.
"""

from collections.abc import Sequence

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.units import DAY
from tapebook.errors import StaleWriter
from tapebook.log.event import Draft, Event

KEPT_MS = 7 * DAY
"""How long a key and what was written under it are known: longer than any program repeats a request."""

_QUERIES = Queries.load("tapebook.log")
_MADE_ELSEWHERE = "another process is making the same write: ask again when it has ended"


class KeyedEvent(msgspec.Struct, frozen=True):
    """An event by what it says: its stream, its kind and the hash of its body."""

    deployment: str
    kind: str
    body_sha256: str


class KeyedWrite:
    """A write under way; `earlier` is what attempts before this one have written. No two attempts have one name."""

    def __init__(self, db: Database, *, owner: str, write_id: str, attempt: str) -> None:
        self._db = db
        self._where = {"owner": owner, "write_id": write_id}
        self._attempt = attempt
        self.earlier = [event for _, event in self._read()]
        self._noted: int | None = len(self.earlier)

    def has_written(self) -> bool:
        """Whether this attempt or one before it has written anything."""
        return self._next_place() > 0

    def wrote_earlier(self, deployment: str, draft: Draft) -> bool:
        """Whether an attempt before this one has written such an event."""
        return KeyedEvent(deployment, draft.kind, sha256_hex(draft.body.encode())) in self.earlier

    def note_events(self, events: Sequence[Event]) -> None:
        """Notes events inside the transaction that writes them; StaleWriter when another process makes this write."""
        first = self._next_place()
        if not first and events:
            owner = self._where["owner"]
            self._db.execute(_QUERIES.forget_keyed_events, owner=owner, before=events[-1].known_at - KEPT_MS)
        for place, event in enumerate(events, first):
            said = {"kind": event.kind, "body_sha256": sha256_hex(event.body.encode()), "attempt": self._attempt}
            where = {"place": place} | event.columns() | self._where
            if self._db.one(_QUERIES.note_keyed_event, **where, **said) is None:
                raise StaleWriter(_MADE_ELSEWHERE)
        self._noted = first + len(events)

    def forget_count(self) -> None:
        """After a transaction that was rolled back: what it noted is not there."""
        # Read again when it is needed, since the database may be away just now.
        self._noted = None

    def _next_place(self) -> int:
        if self._noted is None:
            found = self._read()
            # Whoever came behind must not go on from what the other has noted.
            if any(attempt != self._attempt for attempt, _ in found[len(self.earlier) :]):
                raise StaleWriter(_MADE_ELSEWHERE)
            self._noted = len(found)
        return self._noted

    def _read(self) -> list[tuple[str, KeyedEvent]]:
        return [(row[0], KeyedEvent(*row[1:])) for row in self._db.all(_QUERIES.keyed_events, **self._where)]
