"""Answers about the newest state of a stream, kept until an event that could change them is written.

Only a log that is alone knows when that is (`Log.changed`); beside others, everything is asked again.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from tapebook.log.event import Stream

Answer = TypeVar("Answer")


class Changes(Protocol):
    """Who knows when a stream last got an event of some kinds."""

    def changed(self, stream: Stream, kinds: frozenset[str]) -> int | None:
        """The newest sequence number of such an event, 0 without any; None when that is not known."""
        ...


class Answers:
    """What one room was asked and answered, as far as it still holds."""

    def __init__(self, log: Changes | None = None, kinds: Iterable[str] = ()) -> None:
        self._log = log
        self._kinds = frozenset(kinds)
        self._kept: dict[tuple[str, Stream], tuple[int, object]] = {}

    def answer(self, name: str, stream: Stream, read: Callable[[], Answer], *, seq: int) -> Answer:
        """What a read gives as of a sequence number: the same for all from the newest change on."""
        changed = self._log.changed(stream, self._kinds) if self._log else None
        if changed is None or seq < changed:
            return read()
        kept = self._kept.get((name, stream))
        if kept is None or kept[0] != changed:
            kept = self._kept[name, stream] = (changed, read())
        found: Answer = kept[1]  # type: ignore[assignment]
        return found
