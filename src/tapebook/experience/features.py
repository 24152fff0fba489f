"""Market features of a decision as a vector of integers, the bytes it is stored in, and the fit that scales it.

`market_features` takes them from bars and the newest book and funding; `feature_vector_of` turns them into integers
in 1/1024 of a unit that is comparable between markets, at any price and any time:

    returns      in standard deviations of their window          volatilities, spread   as logarithms
    funding, premium   asinh of the rate per 0.01 %: linear near zero, logarithmic in the tails
    the rest as it is; the time of day, to the half hour, as two coordinates on a circle: midnight is one point

What is not known is None, and never a zero. A stored situation has 43 bytes, so that a hundred thousand are read in
a few milliseconds: the features (15 × int16, the lowest number standing for "not known"), the result (int32,
millionths), a digest of the trade's id (uint64, the tie-break of a search) and the side (int8). A `Fit` is a stored
fact, read as of a sequence number and never fitted again. Nothing here needs numpy; `situations` does.
"""

import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache

import msgspec

from tapebook.domain.canonical import sha256_hex
from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, Liquidity
from tapebook.domain.money import E12
from tapebook.experience.records import Outcome

HALF_HOUR = 30 * MINUTE
FEATURE_UNIT = 1_024
MOST_FEATURE = 32_000
FIELDS = (
    *("return_15m", "return_1h", "return_4h", "return_24h", "volatility_1h", "volatility_24h"),
    *("range_position_4h", "range_position_24h", "funding", "premium", "imbalance", "spread", "held"),
    *("time_sin", "time_cos"),
)

FeatureVector = tuple[int | None, ...]

_Values = tuple[float | None, ...]

_HOURS = (0.25, 1, 4, 24)
# Below 0.01 % an hour, where most rates are, the transformed rate is nearly linear.
_USUAL_RATE = 1e-4
# A window that is covered by less says little about its span; one with a short gap still does.
_LEAST_COVERED = 0.75
_LEAST_RETURNS = 3


class MarketFeatures(msgspec.Struct, frozen=True):
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


def market_features(
    bars: Sequence[Candle], context: AssetContext | None, liquidity: Liquidity | None, *, held: int, as_of: int
) -> MarketFeatures:
    """Market features from bars of one size, oldest first; bars that had not ended are left out."""
    return market_features_at(
        as_of, features_of_bars([bar for bar in bars if bar.end <= as_of]), context, liquidity, held=held
    )


def market_features_at(
    as_of: int, shape: MarketFeatures, context: AssetContext | None, liquidity: Liquidity | None, *, held: int
) -> MarketFeatures:
    """Market features from those of the bars, which many decisions may share."""
    return msgspec.structs.replace(
        shape,
        as_of=as_of,
        funding=context.funding_e12 / E12 if context else None,
        premium=context.premium_e12 / E12 if context else None,
        imbalance=liquidity.imbalance if liquidity else None,
        spread_bps=liquidity.spread_bps if liquidity else None,
        held=held,
    )


def features_of_bars(bars: Sequence[Candle]) -> MarketFeatures:
    """The features that bars alone decide: returns, volatilities and range positions."""
    return _BarColumns(bars).features()


class BarFeatures:
    """Features of a window of bars that moves on; only what the newest bar changes is computed again."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Candle, ...], _BarColumns] = ((), _BarColumns(()))

    def __call__(self, bars: tuple[Candle, ...]) -> MarketFeatures:
        """The shape of a window."""
        before, past = self._kept
        moved = bars and len(past) == len(bars) and bars[-1].low_e8 > 0 and before[1:] == bars[:-1]
        past = past.shifted_by(bars[-1]) if moved else _BarColumns(bars)
        self._kept = bars, past
        return past.features()


def feature_vector_of(features: MarketFeatures) -> FeatureVector:
    """Market features as integers, one per name in FIELDS."""
    bars = _bar_fields(
        (features.return_15m, features.return_1h, features.return_4h, features.return_24h),
        (features.volatility_1h, features.volatility_24h),
        (features.range_position_4h, features.range_position_24h),
    )
    market = _market_fields(features.funding, features.premium, features.imbalance, features.spread_bps)
    time = features.as_of % DAY // HALF_HOUR
    return (*bars, *market, _quantise(float(features.held)), *_time_fields(time))


def _bar_fields(moves: _Values, volatilities: _Values, positions: _Values) -> FeatureVector:
    """The fields that only the bars decide."""
    hour, day = volatilities
    # The day's volatility is the steadier measure of what is usual; the hour's is noise on quiet markets.
    hourly = day / math.sqrt(24) if day else hour
    deviations = [_in_deviations(move, hourly, hours) for move, hours in zip(moves, _HOURS, strict=True)]
    return tuple([_quantise(value) for value in (*deviations, *map(_logarithm, volatilities), *positions)])


@lru_cache(maxsize=256)
def _market_fields(
    funding: float | None, premium: float | None, imbalance: float | None, spread_bps: float | None
) -> FeatureVector:
    """The fields of the newest book and funding."""
    # Cached, since they may stay for as long as an hour.
    rates = [None if rate is None else math.asinh(rate / _USUAL_RATE) for rate in (funding, premium)]
    return tuple([_quantise(value) for value in (*rates, imbalance, _logarithm(spread_bps))])


@cache
def _time_fields(half_hour: int) -> FeatureVector:
    """The fields of a time of day, by its half hour."""
    # A few minutes later it is no other situation, and nothing is searched for again.
    turn = 2 * math.pi * half_hour * HALF_HOUR / DAY
    return _quantise(math.sin(turn)), _quantise(math.cos(turn))


def conditions_of(market: MarketFeatures) -> tuple[tuple[str, str], ...]:
    """What is known of the conditions at an entry, as text for its outcome."""
    known = {
        "funding": market.funding,
        "spread_bps": market.spread_bps,
        "volatility_1h": market.volatility_1h,
        "volatility_24h": market.volatility_24h,
    }
    return tuple((name, f"{value:.6f}") for name, value in known.items() if value is not None and math.isfinite(value))


class _BarColumns:
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

    def shifted_by(self, bar: Candle) -> "_BarColumns":
        """These columns without the oldest bar and with a newer one, which has a price."""
        past = _BarColumns(())
        past._lows = [*self._lows[1:], bar.low_e8]
        past._highs = [*self._highs[1:], bar.high_e8]
        past._closes = [*self._closes[1:], bar.close_e8]
        past._starts = [*self._starts[1:], bar.bucket_ts]
        past._squares = [*self._squares[1:], _squared_return(bar.close_e8, self._closes[-1])]
        return past

    def features(self) -> MarketFeatures:
        """What they say by themselves."""
        day = self.window_start(DAY)
        return MarketFeatures(
            as_of=0,
            return_15m=self.log_return(15 * MINUTE),
            return_1h=self.log_return(HOUR),
            return_4h=self.log_return(4 * HOUR),
            return_24h=self.log_return(DAY),
            volatility_1h=self.volatility(self.window_start(HOUR), HOUR),
            volatility_24h=self.volatility(day, DAY),
            range_position_4h=self.range_position(self.window_start(4 * HOUR)),
            range_position_24h=self.range_position(day),
        )

    def log_return(self, span: int) -> float | None:
        """The log return over a window; None when no bar ended near its start."""
        if not self._starts:
            return None
        start = self._starts[-1] - span
        place = bisect_right(self._starts, start) - 1
        if place < 0 or start - self._starts[place] > (1 - _LEAST_COVERED) * span:
            return None
        return math.log(self._closes[-1] / self._closes[place])

    def window_start(self, span: int) -> int | None:
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


def _quantise(value: float | None) -> int | None:
    if value is None:
        return None
    scaled = value * FEATURE_UNIT
    if -MOST_FEATURE <= scaled <= MOST_FEATURE:
        return round(scaled)
    # Beyond the range of int16 every value is an extreme one, and which does not matter.
    return (MOST_FEATURE if scaled > 0 else -MOST_FEATURE) if math.isfinite(value) else None


# Fewer give no covariance of fifteen fields.
FEWEST_TO_FIT = 100
# Older situations come from other markets; the newest say what is usual now.
FIT_WINDOW = 2_000
DEFAULT_NEIGHBOURS = 25
"""How many situations are looked at where nobody says otherwise."""
# A fit changes little when a quarter more situations are in it.
_GROWTH = 1.25


class Fit(msgspec.Struct, frozen=True):
    """How readings become vectors, and from which situations it was learned: numbers `first` to `last`.

    `far` is the squared distance to the nearest other that 99 of 100 of them did not exceed.
    """

    first: int
    last: int
    medians: tuple[int, ...]
    multipliers: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]
    far: int


def refit_due(count: int, fit: Fit | None) -> bool:
    """Whether enough situations have ended: a hundred for the first fit, then a quarter more each time.

    Growing steps keep the cost of refitting in proportion to the number of outcomes.
    """
    return count >= max(FEWEST_TO_FIT, math.ceil(_GROWTH * fit.last) if fit else 0)


PAGE_ROWS = 512
# The lowest int16, which `MOST_FEATURE` keeps every real value away from.
MISSING = -(2**15)
_ROW = struct.Struct(f"<{len(FIELDS)}hiQb")
ROW_BYTES = _ROW.size


def pack_situation(reading: FeatureVector, outcome: Outcome) -> bytes:
    """One situation with how it ended."""
    numbers = (MISSING if each is None else each for each in reading)
    digest = int(sha256_hex(outcome.trade_id.encode())[:16], 16)
    return _ROW.pack(*numbers, outcome.result_ppm, digest, 1 if outcome.side == "long" else -1)


def unpack_features(row: bytes) -> FeatureVector:
    """The reading of a packed situation."""
    return tuple(None if each == MISSING else each for each in _ROW.unpack(row)[: len(FIELDS)])
