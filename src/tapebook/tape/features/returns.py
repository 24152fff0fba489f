"""Log returns of bars, with one rule for missing bars: the move over a gap is one return.

For a price without drift the expected square of a move over k minutes is k times that of one
minute, so the sum of squares stays right whether the missing minutes were quiet or not received.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter

from tapebook.domain.market import Candle


def ended_bars(bars: Iterable[Candle], *, as_of: int) -> list[Candle]:
    """The bars that had ended, oldest first; those below 1e-8 are dropped: a price stored as 0 has no logarithm."""
    usable = [bar for bar in bars if bar.end <= as_of and bar.low_e8 > 0]
    return sorted(usable, key=attrgetter("bucket_ts"))


def since(bars: Sequence[Candle], start: int) -> Sequence[Candle]:
    """Of bars in order, those that ended at or after a moment: the first close is where the first return starts."""
    return bars[bisect_left(bars, start, key=attrgetter("end")) :]


def sum_of_squares(bars: Sequence[Candle]) -> float:
    """Σ ln(close / previous close)²."""
    return math.fsum(math.log(bar.close_e8 / before.close_e8) ** 2 for before, bar in pairwise(bars))


def covered_ms(bars: Sequence[Candle]) -> int:
    """From the first close to the last."""
    return bars[-1].end - bars[0].end if bars else 0
