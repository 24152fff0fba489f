"""Polls: what is due when. Pure; both times are arguments."""

import msgspec

from tapebook.domain.instants import floor


class Moment(msgspec.Struct, frozen=True):
    """Market time, and the seconds by which backoffs and budgets are counted."""

    at: int
    elapsed: float


class Poll:
    """Something asked once in every bucket of `every`, `delay` after the bucket has begun."""

    def __init__(self, every: int, *, delay: int = 0, newest: int | None = None) -> None:
        self.every = every
        self.delay = delay
        self._newest = None if newest is None else floor(newest, every)

    def due(self, at: int) -> int | None:
        """The bucket to ask for, once; None when it has been asked for."""
        bucket = floor(at - self.delay, self.every)
        if self._newest is not None and bucket <= self._newest:
            return None
        self._newest = bucket
        return bucket

    def ends(self, bucket: int) -> int:
        """When asking for a bucket makes no sense any more: the next one is due."""
        return bucket + self.every + self.delay
