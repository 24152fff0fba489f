"""Bars of one size as a window that moves on: each is made once, and then only taken along.

A window is kept once every row it is made of was known; then it looks the same to whoever looks
later. What is asked for from further back is made anew, and what is kept stays.
"""

from collections.abc import Sequence
from typing import Protocol

from tapebook.domain.market import Candle
from tapebook.tape.track import Track
from tapebook.tape.view import View


class Make(Protocol):
    """Makes the bars from one moment up to another, as they are seen."""

    def __call__(self, *, since: int, end: int, view: View) -> tuple[Candle, ...]:
        """Bars of the strip's size, oldest first."""
        ...


class Strip:
    """The newest window of bars; `tracks` hold the rows they are made of."""

    def __init__(self, make: Make, tracks: Sequence[Track]) -> None:
        self._make = make
        self._tracks = tracks
        self._since = self._end = self._known = 0
        self._bars: tuple[Candle, ...] = ()

    def window(self, since: int, end: int, view: View) -> tuple[Candle, ...]:
        """The bars from one moment up to another."""
        is_seen = view.as_of >= self._known
        if is_seen and end == self._end and since == self._since:
            return self._bars
        follows = is_seen and self._since <= since <= self._end <= end
        start = self._end if follows else since
        bars = self._make(since=start, end=end, view=view)
        if follows:
            bars = self._bars[self._count_before(since) :] + bars
        if end >= self._end:
            known = max([track.known_by(start, end - 1) for track in self._tracks])
            if known <= view.as_of:
                self._since, self._end, self._bars = since, end, bars
                self._known = max(self._known, known) if follows else known
        return bars

    def _count_before(self, moment: int) -> int:
        """How many bars fall out at the old end: one, as a rule."""
        for at, bar in enumerate(self._bars):
            if bar.bucket_ts >= moment:
                return at
        return len(self._bars)
