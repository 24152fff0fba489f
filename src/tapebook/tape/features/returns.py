"""Log returns of bars, with one rule for missing bars: the move over a gap is one return.

For a price without drift the expected square of a move over k minutes is k times that of one
minute, so the sum of squares stays right whether the missing minutes were quiet or not received.

`Returns` sums over bars once; `SlidingReturns` gives the same sums, to the last bit, for a window that moves on.
Both round once: `fsum` is exact until its end, and so are integers in units of 2⁻²⁰⁰. A logarithm of a ratio of
doubles is 0 or at least 2⁻⁵³, its square has 53 bits from 2⁻¹⁰⁶ on, so none of them is cut.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ldexp, log
from operator import attrgetter

from tapebook.domain.instants import DAY, SECOND
from tapebook.domain.market import Candle

_PARKINSON = 4 * math.log(2)
_UNIT_BITS = 200
_UNIT = 1 << _UNIT_BITS


def ended_bars(bars: Iterable[Candle], *, as_of: int) -> list[Candle]:
    """The bars that had ended, oldest first; those below 1e-8 are dropped: a price stored as 0 has no logarithm."""
    usable = [bar for bar in bars if bar.end <= as_of and bar.low_e8 > 0]
    return sorted(usable, key=attrgetter("bucket_ts"))


def since(bars: Sequence[Candle], start: int) -> Sequence[Candle]:
    """Of bars in order, those that ended at or after a moment: the first close is where the first return starts."""
    return bars[bisect_left(bars, start, key=attrgetter("end")) :]


def sum_of_squares(bars: Sequence[Candle]) -> float:
    """Σ ln(close / previous close)²."""
    return math.fsum(log(bar.close_e8 / before.close_e8) ** 2 for before, bar in pairwise(bars))


def covered_ms(bars: Sequence[Candle]) -> int:
    """From the first close to the last."""
    return bars[-1].end - bars[0].end if bars else 0


def sum_of_ranges(bars: Sequence[Candle]) -> float:
    """Σ [ ln(high / low)² / (4 ln 2) + ln(open / previous close)² ]."""
    return math.fsum(_range(before, bar) for before, bar in pairwise(bars))


class Returns:
    """Bars of one length that have ended, oldest first, each with a price."""

    def __init__(self, bars: Sequence[Candle]) -> None:
        self.bars = bars

    def since(self, moment: int) -> tuple[int, float]:
        """The place of the first bar that ended at or after a moment, and Σ ln(close / previous close)² behind it.

        Its close is where the first return starts.
        """
        first = bisect_left(self.bars, moment, key=attrgetter("end"))
        return first, sum_of_squares(self.bars[first:])

    def ranges(self, first: int) -> float:
        """The Parkinson sum with its jumps over the bars behind a place."""
        return sum_of_ranges(self.bars[first:])

    def last_by(self, moment: int) -> Candle | None:
        """The newest bar that ended at or before a moment."""
        after = bisect_right(self.bars, moment, key=attrgetter("end"))
        return self.bars[after - 1] if after else None


class SlidingReturns(Returns):
    """Returns of a window that moves on: what was summed stays, so a new bar costs one logarithm of each kind.

    A cache of sums; whoever moves it says which bars are new, and empties it when others have changed.
    """

    def __init__(self) -> None:
        self.bars: list[Candle] = []
        self._ends: list[int] = []
        # Up to and including each bar: the exact sums over all bars before, in units of 2⁻²⁰⁰.
        self._squares: list[int] = []
        self._ranges: list[int] = []

    def clear(self) -> None:
        """No bars."""
        self.bars, self._ends, self._squares, self._ranges = [], [], [], []

    def move(self, new: Sequence[Candle], *, since: int) -> None:
        """Adds bars that follow those there are, and drops those that ended before a moment.

        Bars without a price are left out: one below 1e-8 is stored as 0 and has no logarithm.
        """
        bars, ends, squares, ranges = self.bars, self._ends, self._squares, self._ranges
        for bar in new:
            if bar.low_e8 <= 0:
                continue
            if bars:
                last = bars[-1]
                # A squared logarithm is a whole number of these units.
                squares.append(squares[-1] + int(ldexp(log(bar.close_e8 / last.close_e8) ** 2, _UNIT_BITS)))
                ranges.append(ranges[-1] + int(ldexp(_range(last, bar), _UNIT_BITS)))
            else:
                squares.append(0)
                ranges.append(0)
            bars.append(bar)
            ends.append(bar.bucket_ts + bar.granularity_sec * SECOND)
        gone = bisect_left(ends, since)
        if gone:
            del bars[:gone], ends[:gone], squares[:gone], ranges[:gone]

    def since(self, moment: int) -> tuple[int, float]:
        """As of `Returns`: the division of integers rounds once, as `fsum` does."""
        first, squares = bisect_left(self._ends, moment), self._squares
        return first, (squares[-1] - squares[first]) / _UNIT if first < len(squares) else 0.0

    def ranges(self, first: int) -> float:
        """As of `Returns`."""
        return (self._ranges[-1] - self._ranges[first]) / _UNIT

    def full_day(self, span: int) -> tuple[Candle, float, float, float] | None:
        """The bar that ended a span before the last, and the sums: of the span, of the day, and of the span's ranges.

        Of a window of a day of which no bar is missing, and whose bars are a part of the span; None otherwise.
        """
        bars, squares, ranges = self.bars, self._squares, self._ranges
        length = bars[-1].granularity_sec * SECOND if bars else DAY
        count = len(bars) - 1
        if count * length != DAY or span % length or bars[-1].bucket_ts - bars[0].bucket_ts != DAY:
            return None
        start = count - span // length
        last = squares[-1]
        sums = (last - squares[start]) / _UNIT, (last - squares[0]) / _UNIT, (ranges[-1] - ranges[start]) / _UNIT
        return bars[start], *sums

    def last_by(self, moment: int) -> Candle | None:
        """As of `Returns`."""
        after = bisect_right(self._ends, moment)
        return self.bars[after - 1] if after else None


def _range(before: Candle, bar: Candle) -> float:
    return log(bar.high_e8 / bar.low_e8) ** 2 / _PARKINSON + log(bar.open_e8 / before.close_e8) ** 2
