"""What a decision saw, in numbers that mean the same at any price and any time, so that two moments can be compared.

`sight_of` takes it from bars and the newest book and funding; `reading_of` turns it into integers.
A reading has one number per field, in 1/1024 of a unit that is comparable between markets:

    returns      in standard deviations of their window          volatilities, spread   as logarithms
    funding, premium   asinh of the rate per 0.01 %: linear near zero, logarithmic in the tails
    the rest as it is; the time of day, to the half hour, as two coordinates on a circle, so that midnight is one point

What is not known is None, and never a zero.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, Liquidity
from tapebook.domain.money import E12

HALF_HOUR = 30 * MINUTE
UNIT = 1_024
MOST = 32_000
FIELDS = (
    *("return_15m", "return_1h", "return_4h", "return_24h", "volatility_1h", "volatility_24h"),
    *("range_position_4h", "range_position_24h", "funding", "premium", "imbalance", "spread", "held"),
    *("time_sin", "time_cos"),
)

Reading = tuple[int | None, ...]

_Values = tuple[float | None, ...]

_HOURS = (0.25, 1, 4, 24)
_USUAL_RATE = 1e-4
_LEAST_COVERED = 0.75
_LEAST_RETURNS = 3


class Sight(msgspec.Struct, frozen=True):
    """What a decision saw of one symbol. Returns, volatilities, funding per hour and premium are fractions.

    A range position is 0 at the low of its window and 1 at the high. `held` is 1, 0 or -1.
    """

    as_of: int
    return_15m: float | None = None
    return_1h: float | None = None
    return_4h: float | None = None
    return_24h: float | None = None
    volatility_1h: float | None = None
    volatility_24h: float | None = None
    range_position_4h: float | None = None
    range_position_24h: float | None = None
    funding: float | None = None
    premium: float | None = None
    imbalance: float | None = None
    spread_bps: float | None = None
    held: int = 0


def sight_of(
    bars: Sequence[Candle], context: AssetContext | None, liquidity: Liquidity | None, *, held: int, as_of: int
) -> Sight:
    """The sight from bars of one size, oldest first; bars that had not ended are left out."""
    return sight_at(as_of, shape_of([bar for bar in bars if bar.end <= as_of]), context, liquidity, held=held)


def sight_at(
    as_of: int, shape: Sight, context: AssetContext | None, liquidity: Liquidity | None, *, held: int
) -> Sight:
    """The same from a shape, which many decisions may share."""
    return msgspec.structs.replace(
        shape,
        as_of=as_of,
        funding=context.funding_e12 / E12 if context else None,
        premium=context.premium_e12 / E12 if context else None,
        imbalance=liquidity.imbalance if liquidity else None,
        spread_bps=liquidity.spread_bps if liquidity else None,
        held=held,
    )


def shape_of(bars: Sequence[Candle]) -> Sight:
    """What bars that have ended say by themselves: the returns, volatilities and ranges of a sight."""
    return _Past(bars).shape()


class Shapes:
    """The same of windows of bars that move on: all but the newest bar was looked at before."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Candle, ...], _Past] = ((), _Past(()))

    def __call__(self, bars: tuple[Candle, ...]) -> Sight:
        """The shape of a window."""
        before, past = self._kept
        moved = bars and len(past) == len(bars) and bars[-1].low_e8 > 0 and before[1:] == bars[:-1]
        past = past.moved(bars[-1]) if moved else _Past(bars)
        self._kept = bars, past
        return past.shape()


def reading_of(sight: Sight) -> Reading:
    """A sight as integers, one per name in FIELDS."""
    bars = _of_bars(
        (sight.return_15m, sight.return_1h, sight.return_4h, sight.return_24h),
        (sight.volatility_1h, sight.volatility_24h),
        (sight.range_position_4h, sight.range_position_24h),
    )
    market = _of_market(sight.funding, sight.premium, sight.imbalance, sight.spread_bps)
    time = sight.as_of % DAY // HALF_HOUR
    return (*bars, *market, _quantised(float(sight.held)), *_of_time(time))


def _of_bars(moves: _Values, volatilities: _Values, positions: _Values) -> Reading:
    """The fields that only the bars decide."""
    hour, day = volatilities
    hourly = day / math.sqrt(24) if day else hour
    deviations = [_in_deviations(move, hourly, hours) for move, hours in zip(moves, _HOURS, strict=True)]
    return tuple([_quantised(value) for value in (*deviations, *map(_logarithm, volatilities), *positions)])


@lru_cache(maxsize=256)
def _of_market(
    funding: float | None, premium: float | None, imbalance: float | None, spread_bps: float | None
) -> Reading:
    """The fields of the newest book and funding, which may stay for as long as an hour."""
    rates = [None if rate is None else math.asinh(rate / _USUAL_RATE) for rate in (funding, premium)]
    return tuple([_quantised(value) for value in (*rates, imbalance, _logarithm(spread_bps))])


@cache
def _of_time(half_hour: int) -> Reading:
    """The fields of a time of day: a few minutes later it is no other situation, and nothing is looked for again."""
    turn = 2 * math.pi * half_hour * HALF_HOUR / DAY
    return _quantised(math.sin(turn)), _quantised(math.cos(turn))


def conditions_of(sight: Sight) -> tuple[tuple[str, str], ...]:
    """What is known of the conditions at an entry, as text for its outcome."""
    known = {
        "funding": sight.funding,
        "spread_bps": sight.spread_bps,
        "volatility_1h": sight.volatility_1h,
        "volatility_24h": sight.volatility_24h,
    }
    return tuple((name, f"{value:.6f}") for name, value in known.items() if value is not None and math.isfinite(value))


class _Past:
    """Bars that have ended, column by column; those without a price are left out.

    They are of one size, so their ends are as far from one another as their starts.
    """

    def __init__(self, bars: Sequence[Candle]) -> None:
        self._lows = [bar.low_e8 for bar in bars]
        if bars and min(self._lows) <= 0:
            bars = [bar for bar in bars if bar.low_e8 > 0]
            self._lows = [bar.low_e8 for bar in bars]
        self._highs = [bar.high_e8 for bar in bars]
        self._closes = [bar.close_e8 for bar in bars]
        self._starts = [bar.bucket_ts for bar in bars]
        self._squares = list(map(_squared_return, self._closes[1:], self._closes))

    def __len__(self) -> int:
        return len(self._starts)

    def moved(self, bar: Candle) -> "_Past":
        """The same without the oldest bar and with a newer one, which has a price."""
        past = _Past(())
        past._lows = [*self._lows[1:], bar.low_e8]
        past._highs = [*self._highs[1:], bar.high_e8]
        past._closes = [*self._closes[1:], bar.close_e8]
        past._starts = [*self._starts[1:], bar.bucket_ts]
        past._squares = [*self._squares[1:], _squared_return(bar.close_e8, self._closes[-1])]
        return past

    def shape(self) -> Sight:
        """What they say by themselves."""
        day = self.window(DAY)
        return Sight(
            as_of=0,
            return_15m=self.move(15 * MINUTE),
            return_1h=self.move(HOUR),
            return_4h=self.move(4 * HOUR),
            return_24h=self.move(DAY),
            volatility_1h=self.volatility(self.window(HOUR), HOUR),
            volatility_24h=self.volatility(day, DAY),
            range_position_4h=self.range_position(self.window(4 * HOUR)),
            range_position_24h=self.range_position(day),
        )

    def move(self, span: int) -> float | None:
        """The log return over a window; None when no bar ended near its start."""
        if not self._starts:
            return None
        start = self._starts[-1] - span
        place = bisect_right(self._starts, start) - 1
        if place < 0 or start - self._starts[place] > (1 - _LEAST_COVERED) * span:
            return None
        return math.log(self._closes[-1] / self._closes[place])

    def window(self, span: int) -> int | None:
        """Where a window begins, with the close it starts from; None when the bars span too little of it."""
        if not self._starts:
            return None
        newest = self._starts[-1]
        first = bisect_left(self._starts, newest - span)
        covered = len(self._starts) - first > _LEAST_RETURNS and newest - self._starts[first] >= _LEAST_COVERED * span
        return first if covered else None

    def volatility(self, first: int | None, span: int) -> float | None:
        """The root of the squared log returns of a window, as if it were covered whole."""
        if first is None:
            return None
        squares = math.fsum(self._squares[first:])
        return math.sqrt(squares * span / (self._starts[-1] - self._starts[first]))

    def range_position(self, first: int | None) -> float | None:
        """Where the newest close lies between the low and the high of a window."""
        if first is None:
            return None
        low, high = min(self._lows[first:]), max(self._highs[first:])
        return (self._closes[-1] - low) / (high - low) if high > low else None


def _squared_return(close_e8: int, before_e8: int) -> float:
    return math.log(close_e8 / before_e8) ** 2


def _in_deviations(move: float | None, hourly: float | None, hours: float) -> float | None:
    return None if move is None or not hourly else move / (hourly * math.sqrt(hours))


def _logarithm(value: float | None) -> float | None:
    return math.log(value) if value and value > 0 else None


def _quantised(value: float | None) -> int | None:
    if value is None:
        return None
    scaled = value * UNIT
    if -MOST <= scaled <= MOST:
        return round(scaled)
    return (MOST if scaled > 0 else -MOST) if math.isfinite(value) else None
