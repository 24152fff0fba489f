"""Caches of reads as of a sequence number: a read is repeated only when its stream got an event that may change it.

`ReadCache` holds the results of one store by key, `CachedRead` those of one question. A log tells both when a stream
last changed (`ChangeTracker`), and that is all that invalidates them: tables are written by events alone.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from tapebook.log.event import Stream

Result = TypeVar("Result")
ResultCo = TypeVar("ResultCo", covariant=True)


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
        since = self.last_change(stream, seq=seq)
        if since is None:
            return read()
        known = self._values.get(key)
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
