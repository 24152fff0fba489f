"""Answers about the newest state of a stream, kept until an event that could change them is written.

Only a log that is alone knows when that is (`Log.changed`); beside others, everything is asked again.
"""

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from tapebook.log.event import Stream

Answer = TypeVar("Answer")
Given = TypeVar("Given", covariant=True)


class Changes(Protocol):
    """Who knows when a stream last got an event of some kinds."""

    def changed(self, stream: Stream, kinds: frozenset[str]) -> int | None:
        """The newest sequence number of such an event, 0 without any; None when that is not known."""
        ...


class Read(Protocol[Given]):
    """A question about a deployment's stream, or with an empty name the owner's, as of a sequence number."""

    def __call__(self, deployment: str, *, seq: int) -> Given:
        """The answer."""
        ...


class Kept(Generic[Answer]):
    """One question, asked again only when its answer may be another: it is the same from the newest change on."""

    def __init__(self, read: Read[Answer], owner: str, *, log: Changes, kinds: frozenset[str]) -> None:
        self._read = read
        self._owner = owner
        self._log = log
        self._kinds = kinds
        self._answers: dict[str, tuple[Stream, int, Answer]] = {}

    def __call__(self, deployment: str, *, seq: int) -> Answer:
        """The answer as of a sequence number."""
        kept = self._answers.get(deployment)
        # A stream that was kept knows its hash.
        stream = Stream(self._owner, deployment) if kept is None else kept[0]
        changed = self._log.changed(stream, self._kinds)
        if changed is None or seq < changed:
            return self._read(deployment, seq=seq)
        if kept is None or kept[1] != changed:
            kept = self._answers[deployment] = (stream, changed, self._read(deployment, seq=seq))
        return kept[2]


class Answers:
    """What may change the answers of one room: events of some kinds in a log. Without a log, nothing is kept."""

    def __init__(self, log: Changes | None = None, kinds: Iterable[str] = ()) -> None:
        self._log = log
        self._kinds = frozenset(kinds)

    def changed(self, stream: Stream) -> int | None:
        """The newest sequence number of an event that may change them; None where that is not remembered."""
        return self._log.changed(stream, self._kinds) if self._log else None

    def kept(self, read: Read[Answer], *, owner: str) -> Read[Answer]:
        """The same read, which remembers."""
        return Kept(read, owner, log=self._log, kinds=self._kinds) if self._log else read
