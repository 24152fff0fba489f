"""Leases: one writer per stream at a time, across processes and machines.

No two machines agree on the time, so a lease has none. It has an epoch, which grows with every new holder, and a
heartbeat count, which its holder increases. Whoever wants a stream that is held watches both; when neither changed
for `ttl_seconds` on the watcher's own monotonic clock, the holder counts as dead and the next epoch begins. A
holder that was only asleep finds its epoch gone: `fence_write`, called inside every write, lets it write nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from operator import attrgetter
from typing import ParamSpec, TypeVar

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.errors import Busy, StaleWriter
from tapebook.log.event import Stream

Result = TypeVar("Result")
Params = ParamSpec("Params")

_QUERIES = Queries.load("tapebook.log", "leases.sql")
# Short against any time to live, and twenty small reads a second cost nothing.
_POLL_SECONDS = 0.05
# How often somebody who waits for a long call looks whether a heartbeat is due.
_LOOK_SECONDS = 0.5
# A holder may miss two heartbeats before it counts as dead.
_HEARTBEATS_PER_TTL = 3


class Lease(msgspec.Struct, frozen=True):
    """The right to write a stream, until somebody else has a later epoch."""

    stream: Stream
    holder: str
    epoch: int


class _SeenHeartbeat(msgspec.Struct, frozen=True):
    """What was seen of somebody else's lease, and since when it has been so."""

    holder: str
    epoch: int
    beat: int
    since: float


class Leases:
    """The leases of one process: `holder` is its name, which no other process has or had."""

    def __init__(
        self,
        db: Database,
        *,
        holder: str,
        ttl_seconds: float,
        elapsed: Callable[[], float],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._db = db
        self._holder = holder
        self._ttl = ttl_seconds
        self._elapsed = elapsed
        self._sleep = sleep
        self.in_hand: dict[Stream, Lease] = {}
        """The leases of this process; only it changes them."""
        self._lost: set[Stream] = set()
        self._seen: dict[Stream, _SeenHeartbeat] = {}
        self._beat_at = elapsed()

    def for_write(self, stream: Stream) -> Lease | None:
        """The lease to write a stream with, if it is in hand; StaleWriter if it was and is not any more.

        Whoever took over may be done and gone: then nobody holds the stream, and still it is not ours to write.
        """
        if stream in self._lost:
            raise StaleWriter(f"the lease of {stream.name} was lost: another process has worked on it since")
        return self.in_hand.get(stream)

    def watch_others(self) -> int:
        """Notes the leases and heartbeats of others; returns how many leases they hold."""
        rows = self._db.all(_QUERIES.held_by_others, holder=self._holder)
        now, before = self._elapsed(), self._seen
        self._seen = {}
        for owner, deployment, holder, epoch, beat in rows:
            stream, seen = Stream(owner, deployment), _SeenHeartbeat(holder, epoch, beat, now)
            # The clock of a heartbeat starts when it was first seen so, not when the row was written: clocks differ.
            old = before.get(stream, seen)
            self._seen[stream] = old if (old.epoch, old.beat) == (epoch, beat) else seen
        return len(self._seen)

    def holders(self, owner: str) -> list[str]:
        """Who holds the streams of an owner, once for each; a process that was killed stays until it is replaced."""
        rows = self._db.all(_QUERIES.held_by_others, holder="")
        return [holder for stream_owner, _, holder, _, _ in rows if stream_owner == owner]

    def available(self, streams: Iterable[Stream]) -> list[Stream]:
        """Streams that can be taken, by what `watch_others` saw; whose holder counts as dead come last."""
        free, dead = list[Stream](), list[Stream]()
        for stream in streams:
            seen = self._seen.get(stream)
            if stream in self.in_hand:
                continue
            if seen is None:
                free.append(stream)
            elif self._elapsed() - seen.since > self._ttl:
                # Taking over costs the other process its work, should it be alive after all.
                dead.append(stream)
        return free + dead

    def acquire(self, streams: Iterable[Stream], *, most: int) -> list[Lease]:
        """Takes streams that nobody holds, or whose holder counts as dead by what `watch_others` saw."""
        free_rows, dead_rows = list[Row](), list[Row]()
        # Always in one order, so that two processes cannot wait for each other.
        for stream in sorted(self.available(streams)[:most]):
            sign = self._seen.get(stream)
            if sign is None:
                free_rows.append((stream.owner, stream.deployment, self._holder, self._holder))
            else:
                dead_rows.append((self._holder, stream.owner, stream.deployment, sign.epoch, sign.beat))
        if not free_rows and not dead_rows:
            return []
        with self._db.transaction():
            self._db.many(_QUERIES.take_free, free_rows)
            self._db.many(_QUERIES.take_over, dead_rows)
            held = self._held_leases()
        # What was taken is read back: another process may have been faster with some of them.
        taken: list[Lease] = []
        for stream, lease in held.items():
            if stream not in self.in_hand:
                self.in_hand[stream] = lease
                self._lost.discard(stream)
                taken.append(lease)
        return taken

    @contextmanager
    def holding(self, stream: Stream) -> Iterator[Lease]:
        """Holds one stream for a while; Busy when its holder is alive, and a wait when that is not known yet."""
        where = {"owner": stream.owner, "deployment": stream.deployment, "holder": self._holder}
        row = self._db.one(_QUERIES.take_free, **where)
        lease = self._await_lease(stream) if row is None else Lease(stream, self._holder, row[0])
        self.in_hand[stream] = lease
        self._lost.discard(stream)
        try:
            yield lease
        finally:
            self.release([lease])

    def _await_lease(self, stream: Stream) -> Lease:
        """The lease of a stream that somebody holds, once that counts as dead; Busy when it gives a sign of life."""
        first: _SeenHeartbeat | None = None
        while True:
            self.watch_others()
            taken = self.acquire([stream], most=1)
            if taken:
                return taken[0]
            sign = self._seen.get(stream)
            if first is not None and sign is not None and (sign.epoch, sign.beat) != (first.epoch, first.beat):
                raise Busy(f"{stream.name} is in the hands of {sign.holder}, which is at work; try again in a moment")
            first = first or sign
            self._sleep(_POLL_SECONDS)

    def heartbeat_if_due(self) -> list[Lease]:
        """Sends a heartbeat when one is due; returns the leases that were lost."""
        if self._elapsed() - self._beat_at < self._ttl / _HEARTBEATS_PER_TTL:
            return []
        return self.heartbeat()

    def heartbeat(self) -> list[Lease]:
        """Sends a heartbeat for all leases in hand; returns those that were lost."""
        self._beat_at = self._elapsed()
        if not self.in_hand:
            return []
        with self._db.transaction():
            self._db.execute(_QUERIES.beat, holder=self._holder)
            held = self._held_leases()
        lost = [lease for stream, lease in self.in_hand.items() if held.get(stream) != lease]
        for lease in lost:
            del self.in_hand[lease.stream]
            self._lost.add(lease.stream)
        return lost

    def call_with_heartbeat(
        self, call: Callable[Params, Result], *given: Params.args, **terms: Params.kwargs
    ) -> Result:
        """What a call gives that may take long and touches no database; the leases in hand get their signs of life."""
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(call, *given, **terms)
            while not wait([asked], timeout=_LOOK_SECONDS).done:
                self.heartbeat_if_due()
        return asked.result()

    def fence_writes(self, leases: Sequence[Lease]) -> None:
        """Inside a write about several streams: StaleWriter unless all of the leases still stand."""
        rows = [_lease_row(lease) for lease in leases]
        if self._db.many(_QUERIES.fence, rows) != len(rows):
            raise StaleWriter("a lease was lost: another process holds its stream by now")

    def release(self, leases: Iterable[Lease]) -> None:
        """Releases leases, so that others can take their streams at once."""
        rows: list[Row] = []
        for lease in sorted(leases, key=attrgetter("stream")):
            stream = lease.stream
            self._lost.discard(stream)
            if self.in_hand.get(stream) == lease:
                del self.in_hand[stream]
                rows.append((stream.owner, stream.deployment, lease.holder, lease.epoch))
        if rows:
            # All of them or none, without a transaction around it.
            self._db.many(_QUERIES.release, rows)

    def release_all(self) -> None:
        """Releases all leases."""
        self.release(list(self.in_hand.values()))

    def recover_after_outage(self) -> list[Lease]:
        """After the database was away: returns the leases that were lost; releases those held without being in hand.

        Nobody could send a heartbeat meanwhile, so others are watched anew. A lease may have been taken, or may not
        have been released, in a transaction whose end nobody heard of: kept alive with the rest, it would never end.
        """
        self._seen = {}
        # First, so that what others took over is noticed before anything is released.
        lost = self.heartbeat()
        with self._db.transaction():
            strays = [lease for stream, lease in self._held_leases().items() if self.in_hand.get(stream) != lease]
            self._db.many(_QUERIES.release, [_lease_row(lease) for lease in strays])
        return lost

    def _held_leases(self) -> dict[Stream, Lease]:
        rows = self._db.all(_QUERIES.held_by, holder=self._holder)
        held: dict[Stream, Lease] = {}
        for owner, deployment, epoch in rows:
            stream = Stream(owner, deployment)
            held[stream] = Lease(stream, self._holder, epoch)
        return held


def fence_write(db: Database, stream: Stream, lease: Lease | None) -> None:
    """Inside a write: StaleWriter unless the lease still stands; without one, unless nobody holds the stream."""
    if lease is None:
        row = db.one(_QUERIES.holder, owner=stream.owner, deployment=stream.deployment)
        # A command without a lease must not write beside a desk that has one.
        if row and row[0]:
            raise StaleWriter(f"{stream.name} is in the hands of {row[0]}: try again when it is done")
        return
    where = {"owner": stream.owner, "deployment": stream.deployment}
    if db.one(_QUERIES.fence, holder=lease.holder, epoch=lease.epoch, **where) is None:
        raise StaleWriter(f"the lease of {stream.name} was lost: another process holds it by now")


def _lease_row(lease: Lease) -> tuple[str, str, str, int]:
    return lease.stream.owner, lease.stream.deployment, lease.holder, lease.epoch
