"""Bars: which candles are final. A pure function of frames, answers and the clock.

A frame is the whole bar so far and carries no closed flag. A bar is final when a frame of a later
bar arrives, or when the clock passes its end by a grace. Only final bars leave; a later picture
of a bar that left, leaves again when it differs, and the tape makes that a revision.

Trades only add up, so of two pictures of one bar the one with more trades is the later one. That
makes the outcome independent of the order in which pictures arrive, twice or not at all.

A minute without trades leaves nothing: the socket sends none, so the flat rows by which REST may
show it later are proof that nothing was missed, and no bars.
"""

from collections.abc import Iterable

import msgspec

from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Candle

# How many final bars of a symbol are remembered to tell a new picture from an old one. The tape compares too.
REMEMBERED = 120
_NEVER = 2**62


class _Bar(msgspec.Struct, gc=False):
    """The latest picture of a bar; a doubted one may lack trades that a lost connection did not bring."""

    candle: Candle
    doubted: bool = False


class _Series(msgspec.Struct):
    """The bars of one symbol: not yet final, and already given out."""

    waiting: dict[int, _Bar] = {}
    given: dict[int, Candle] = {}
    newest: int = -1


class Bars:
    """The bars of all symbols."""

    def __init__(self, *, grace_ms: int) -> None:
        self._grace = grace_ms
        self._series: dict[str, _Series] = {}
        # No waiting bar can become final by the clock before this.
        self._next_due = _NEVER

    def frame(self, candle: Candle) -> list[Candle]:
        """A picture from the socket; gives what it makes final."""
        series = self._series.get(candle.symbol)
        if series is None:
            series = self._series[candle.symbol] = _Series()
        if candle.bucket_ts < series.newest - REMEMBERED * MINUTE:
            # Whether it is older than what was given out, nobody here remembers.
            return []
        self._see(series, candle)
        return self._final(series, now=-1) if len(series.waiting) > 1 or candle.bucket_ts < series.newest else []

    def tick(self, now: int) -> list[Candle]:
        """What the clock makes final."""
        if now < self._next_due:
            return []
        final = [bar for series in self._series.values() if series.waiting for bar in self._final(series, now=now)]
        due = (begins + MINUTE + self._grace for series in self._series.values() for begins in series.waiting)
        self._next_due = min(due, default=_NEVER)
        return final

    def backfill(self, symbol: str, rows: Iterable[Candle], *, now: int) -> list[Candle]:
        """Pictures from REST; gives what they make final."""
        series = self._series.setdefault(symbol, _Series())
        for candle in rows:
            self._see(series, candle)
        return self._final(series, now=now)

    def doubt(self, symbols: Iterable[str]) -> None:
        """The connection is lost: the waiting bars stay back until a new picture or a backfill arrives."""
        for symbol in symbols:
            for bar in self._series.get(symbol, _Series()).waiting.values():
                bar.doubted = True

    def trust(self, symbol: str) -> None:
        """The range was asked for while the subscription stood: the doubted bars of a symbol count as they are."""
        for bar in self._series.get(symbol, _Series()).waiting.values():
            bar.doubted = False

    def known(self, symbol: str, *, since: int, until: int) -> list[int]:
        """The minutes between two moments of which there is a picture."""
        series = self._series.get(symbol, _Series())
        return [begins for begins in (*series.given, *series.waiting) if since <= begins <= until]

    def _see(self, series: _Series, candle: Candle) -> None:
        begins = candle.bucket_ts
        if begins > series.newest:
            series.newest = begins
        known = series.waiting.get(begins)
        given = series.given.get(begins) if known is None else None
        best = known.candle if known is not None else given
        if best is not None and (candle.sample_count < best.sample_count or candle == given):
            return
        series.waiting[begins] = _Bar(candle)
        due = begins + MINUTE + self._grace
        if due < self._next_due:
            self._next_due = due

    def _final(self, series: _Series, *, now: int) -> list[Candle]:
        final, waiting, given = [], series.waiting, series.given
        for begins in sorted(waiting):
            if begins >= series.newest and now < begins + MINUTE + self._grace:
                # It has not ended, so no later one has.
                break
            bar = waiting[begins]
            if bar.doubted:
                continue
            del waiting[begins]
            if bar.candle.sample_count:
                given[begins] = bar.candle
                final.append(bar.candle)
        while len(given) > REMEMBERED:
            del given[min(given)]
        return final
