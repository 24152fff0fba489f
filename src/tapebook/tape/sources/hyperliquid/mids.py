"""Mids: the first frame of each five-second bucket, and no other.

So a mid is known at once and never revised. Frames of a dex repeat the same names in the same
order; which of them are watched is decided once and kept as a mask until the names change.
"""

from collections.abc import Callable
from itertools import compress

from tapebook.domain.instants import SECOND, floor
from tapebook.domain.market import MidFrame
from tapebook.tape.sources.hyperliquid.universe import full_name
from tapebook.tape.sources.hyperliquid.wire import MidsFrame

BUCKET = 5 * SECOND


class Mids:
    """The mids of one dex."""

    def __init__(self, dex: str, *, wanted: Callable[[str], bool], newest: int | None = None) -> None:
        self._dex = dex
        self._wanted = wanted
        self._newest = -1 if newest is None else newest
        self._given: list[str] = []
        self._mask: list[bool] = []
        self._names: tuple[str, ...] = ()

    def frame(self, frame: MidsFrame, *, at: int) -> MidFrame:
        """The mids of a frame received at a moment; none when its bucket has already had one."""
        bucket = floor(at, BUCKET)
        if bucket <= self._newest or not frame.prices_e8:
            return MidFrame(bucket, (), ())
        self._newest = bucket
        if self._given != (given := list(frame.prices_e8)):
            self._choose(given)
        return MidFrame(bucket, self._names, tuple(compress(frame.prices_e8.values(), self._mask)))

    def forget(self) -> None:
        """Decides anew which names are watched, at the next frame."""
        self._given = []

    def _choose(self, given: list[str]) -> None:
        full = [full_name(self._dex, name) for name in given]
        self._given = given
        self._mask = [self._wanted(name) for name in full]
        self._names = tuple(compress(full, self._mask))
