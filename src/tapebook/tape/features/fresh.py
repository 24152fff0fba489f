"""Snapshots, and how long one speaks for the present.

A book or an asset context is taken at one instant, and its `bucket_ts` is that instant's bucket: it
may be used from then on. A bar covers a span and may be used from its end. When a fact arrived is
not written on it: reads of the tape have already left out what was not known yet.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from tapebook.domain.instants import MINUTE

# Three books missed in a row, or fifteen contexts: what is older describes another market.
STALE_AFTER_MS = 15 * MINUTE


class Snapshot(Protocol):
    """A fact about one instant."""

    @property
    def bucket_ts(self) -> int:
        """When it was so."""
        ...


Taken = TypeVar("Taken", bound=Snapshot)


def newest_fresh(snapshots: Iterable[Taken], *, as_of: int) -> Taken | None:
    """The newest snapshot that is neither after `as_of` nor stale."""
    usable = [snapshot for snapshot in snapshots if is_fresh(snapshot.bucket_ts, as_of=as_of)]
    return max(usable, key=lambda snapshot: snapshot.bucket_ts, default=None)


def is_fresh(instant: int, *, as_of: int) -> bool:
    """Whether something that was so at an instant may stand for `as_of`."""
    return 0 <= as_of - instant <= STALE_AFTER_MS
