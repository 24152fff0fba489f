"""An event, its stream, and the hash that binds it to the event before it."""

import hashlib
from collections.abc import Sequence

import msgspec

from tapebook.domain.canonical import canonical
from tapebook.errors import BadInput

GENESIS = "0" * 64


class Stream(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Who the events belong to: one stream per deployment, and one per owner (an empty deployment)."""

    owner: str
    deployment: str = ""

    @property
    def name(self) -> str:
        """The stream as it enters the hash; neither part may hold a slash or a line break."""
        return f"{self.owner}/{self.deployment}"


class Draft(msgspec.Struct, frozen=True):
    """An event that is not in the log yet: what happened, when, and its canonical body."""

    kind: str
    happened_at: int
    body: str
    schema: int = 1

    @classmethod
    def of(cls, kind: str, happened_at: int, body: msgspec.Struct) -> "Draft":
        """A draft whose body is a typed value."""
        return cls(kind, happened_at, canonical(body).decode())


class Event(msgspec.Struct, frozen=True):
    """One fact in its place: `seq` counts within the stream, `known_at` is when it was committed."""

    stream: Stream
    seq: int
    kind: str
    schema: int
    happened_at: int
    known_at: int
    body: str
    hash: str

    def digest(self, previous: str) -> str:
        """The hash this event must have after an event with hash `previous`.

        `chained` lets no line break into any part, so no other event has the same text.
        """
        what = Draft(self.kind, self.happened_at, self.body, self.schema)
        return _digest(previous, what, stream=self.stream.name, seq=self.seq, known_at=self.known_at)


def chained(previous: str, drafts: Sequence[Draft], *, stream: Stream, seq: int, known_at: int) -> list[Event]:
    """Drafts as the events after `seq`, whose hash is `previous`; BadInput where a text could be read in two ways."""
    name, events = stream.name, []
    is_clear = name.count("/") <= 1 and "\n" not in name
    for draft in drafts:
        kind, body = draft.kind, draft.body
        if not is_clear or "\n" in body or "\n" in kind:
            raise BadInput(f"{kind!r} in stream {name!r}: use no slash in a stream and no line break")
        seq += 1
        previous = _digest(previous, draft, stream=name, seq=seq, known_at=known_at)
        events.append(Event(stream, seq, kind, draft.schema, draft.happened_at, known_at, body, previous))
    return events


def _digest(previous: str, draft: Draft, *, stream: str, seq: int, known_at: int) -> str:
    what = f"{draft.kind}\n{draft.schema}\n{draft.happened_at}\n{known_at}\n{draft.body}"
    return hashlib.sha256(f"{previous}\n{stream}\n{seq}\n{what}".encode()).hexdigest()
