"""Volatility profile: how much the price moved in the last hour and day, and whether that is much for this market.

    realised    sqrt( Σ ln(close / previous close)² × window / covered )
    annualised  realised × sqrt(365 days / window)
    parkinson   sqrt( Σ [ ln(high / low)² / (4 ln 2) + ln(open / previous close)² ] × window / covered )
    ratio       realised 1 h / (realised 24 h / sqrt 24): 1 is an hour like the rest of its day, about 4.9 the most

    low  below 0.5        normal  below 1.5        high  below 2.5        extreme  from 2.5

All are fractions (0.034 = 3.4 %) over their window, which ends where the newest full bar does. In the
five-minute bars of BTC's year 2023 the four regimes took 21, 69, 8 and 2 % of the time.

Bars may be of any one length. Live they are minutes; imported history has what its file had.

Missing bars: the move over a gap counts as one return, and as one jump in the Parkinson sum
(which needs the jumps anyway: where few trade, most of the move lies between the bars, and without
the jumps VVV came out at 6 % of its realised figure). What the first and last close do not span is
made up for by window / covered. A window counts when its closes span three quarters of it and give
returns for half of the bars it has room for, and at least four; otherwise its figures are None. So an
hour needs bars of 15 minutes or less, and a day bars of 4 hours or less: the deviation of four returns is
known to about a third, that of fewer is noise. `minutes_used` is how many minutes the returns stand for,
a bar's length each.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.market import Candle
from tapebook.tape.features.returns import Returns, ended_bars

VolatilityRegime = Literal["low", "normal", "high", "extreme"]

NORMAL_RATIO, HIGH_RATIO, EXTREME_RATIO = 0.5, 1.5, 2.5

TO_YEAR = {span: math.sqrt(365 * DAY / span) for span in (HOUR, DAY)}
HOURS_TO_DAY = math.sqrt(DAY / HOUR)
_LEAST_COVERED = 0.75
_LEAST_SHARE = 0.5
_LEAST_RETURNS = 4


class WindowVolatility(msgspec.Struct, frozen=True, gc=False):
    """How much the price moved in one window, as fractions."""

    minutes_used: int
    realised: float | None = None
    annualised: float | None = None
    parkinson: float | None = None


class VolatilityProfile(msgspec.Struct, frozen=True, gc=False):
    """The last hour beside the last day."""

    symbol: str
    as_of: int
    hour: WindowVolatility
    day: WindowVolatility
    ratio: float | None
    regime: VolatilityRegime | None


def volatility_profile(minutes: Sequence[Candle], *, as_of: int) -> VolatilityProfile | None:
    """The profile at a moment, from one symbol's one-minute bars; bars of other sizes are ignored."""
    bars = ended_bars((bar for bar in minutes if bar.granularity_sec == 60), as_of=as_of)
    return volatility_of(Returns(bars), as_of=as_of)


def volatility_of(returns: Returns, *, as_of: int) -> VolatilityProfile | None:
    """The profile at a moment, from one symbol's bars of one length that had ended by then."""
    if not returns.bars:
        return None
    last = returns.bars[-1]
    end = as_of - as_of % (last.granularity_sec * SECOND)
    hour, day = _window(returns, HOUR, end=end), _window(returns, DAY, end=end)
    if hour.realised is None and day.realised is None:
        return None
    # Not when a window is missing, nor when the price stood still all day and nothing can be compared.
    if hour.realised is None or not day.realised:
        return VolatilityProfile(last.symbol, as_of, hour, day, None, None)
    ratio = hour.realised / day.realised * HOURS_TO_DAY
    return VolatilityProfile(last.symbol, as_of, hour, day, ratio, volatility_regime(ratio))


def volatility_regime(ratio: float) -> VolatilityRegime:
    """The regime of an hour by its ratio to the day."""
    if ratio >= EXTREME_RATIO:
        return "extreme"
    if ratio >= HIGH_RATIO:
        return "high"
    return "normal" if ratio >= NORMAL_RATIO else "low"


def _window(returns: Returns, span: int, *, end: int) -> WindowVolatility:
    first, squares = returns.since(end - span)
    bars, last = returns.bars, returns.bars[-1]
    length, count = last.granularity_sec * SECOND, len(bars) - first - 1
    if count <= 0:
        return WindowVolatility(0)
    covered, used = last.bucket_ts - bars[first].bucket_ts, count * length // MINUTE
    # Returns for half of the bars: `count` of them stand for at least half the window.
    if covered < _LEAST_COVERED * span or count < _LEAST_RETURNS or count * length < _LEAST_SHARE * span:
        return WindowVolatility(used)
    realised = math.sqrt(squares * span / covered)
    return WindowVolatility(used, realised, realised * TO_YEAR[span], math.sqrt(returns.ranges(first) * span / covered))
