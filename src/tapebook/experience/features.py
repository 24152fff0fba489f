"""Market features of a decision as a vector of integers, the bytes it is stored in, and the fit that scales it.

`LookbackReader` takes them from the tape's bars at fixed look-backs (15 minutes to 7 days) and the newest book and
funding, so that agents of every horizon see the same: what is held is no part of it. `seen_moment` turns them into
integers in 1/1024 of a unit that is comparable between markets, at any price and any time:

    returns      in standard deviations of their window          volatilities, spread   as logarithms
    funding, premium   asinh of the rate per 0.01 %: linear near zero, logarithmic in the tails
    the rest as it is; the time of day, to the half hour, as two coordinates on a circle: midnight is one point

Packets of renderer 4 and before read them from the bars they show, with what is held (`market_features`,
`feature_vector_of`).

What is not known is None, and never a zero. A situation of then has 43 bytes, so that a hundred thousand are read in
a few milliseconds: the features (15 × int16, the lowest number standing for "not known"), the result (int32,
millionths), a digest of the trade's id (uint64, the tie-break of a search) and the side (int8). A `Fit` is a stored
fact, read as of a sequence number and never fitted again. Nothing here needs numpy; `situations` does.
"""

import math
import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate
from operator import add, attrgetter
from typing import Any, Protocol

import msgspec

from tapebook.domain.cache import LastCall
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.market import AssetContext, Candle, Liquidity, LookbackBars, SettledFunding
from tapebook.domain.units import DAY, E12, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.experience.records import Outcome

HALF_HOUR = 30 * MINUTE
_RECENT_LOOKBACK = 4 * HOUR
_BAR_START = attrgetter("bucket_ts")
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
    return _condition_texts(market.funding, market.spread_bps, market.volatility_1h, market.volatility_24h)


def _condition_texts(*values: float | None) -> tuple[tuple[str, str], ...]:
    names = ("funding", "spread_bps", "volatility_1h", "volatility_24h")
    known = dict(zip(names, values, strict=True))
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


RETURN_SPANS = (15 * MINUTE, HOUR, 4 * HOUR, DAY, 7 * DAY)
VOLATILITY_SPANS = (HOUR, 4 * HOUR, DAY, 7 * DAY)
RANGE_SPANS = (4 * HOUR, DAY, 7 * DAY)
MOMENT_FIELDS = (
    *("return_15m", "return_1h", "return_4h", "return_24h", "return_7d"),
    *("volatility_1h", "volatility_4h", "volatility_24h", "volatility_7d"),
    *("range_position_4h", "range_position_24h", "range_position_7d"),
    *("funding", "premium", "imbalance", "spread", "time_sin", "time_cos"),
)
PRICE_FIELDS = len(RETURN_SPANS) + len(VOLATILITY_SPANS) + len(RANGE_SPANS)
"""How many fields of a moment, the first ones, come from bars alone."""

# A price of the tape stands for a moment as long as no more than an hour's bars are missing before it.
_STALE_PRICE = HOUR
_PARKINSON = 4 * math.log(2)
_RETURN_ROOTS = tuple(math.sqrt(span / HOUR) for span in RETURN_SPANS)
_ROOT_24, _ROOT_168 = math.sqrt(24), math.sqrt(168)


_BarFigures = tuple[int, int, int, int, int, float, float]
"""Of a bar with a price: start, end, close, low, high, the square of its jump and that of its range."""


class _BarSums(msgspec.Struct, frozen=True, eq=False):
    """A window of bars, the figures of those with a price, also column by column, and the sum of squares from each of
    them to the last.
    """

    bars: tuple[Candle, ...] = ()
    figures: Sequence[_BarFigures] = ()
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()
    closes: Sequence[int] = ()
    lows: Sequence[int] = ()
    highs: Sequence[int] = ()
    jumps: Sequence[float] = ()
    squares: Sequence[float] = (0.0,)


_NO_BARS = _BarSums()


def _sum_bars(bars: tuple[Candle, ...], known: _BarSums, before: Candle | None = None) -> _BarSums:
    """The sums of some bars, of which those that `known` has too are not looked at again; `before` is the one before.

    A bar's square is ln(high / low)² / (4 ln 2), Parkinson's measure of its volatility, which needs a fifth of the bars
    that closes would; the jump from the close before it is counted beside it.
    """
    shared = known.bars[bisect_left(known.bars, bars[0].bucket_ts, key=_BAR_START) :] if bars else ()
    figures: list[_BarFigures] = []
    kept: list[_BarFigures] = []
    new = bars
    if shared and len(known.figures) == len(known.bars) and bars[: len(shared)] == shared:
        # What came before the first bar may be another one than it was.
        kept, new = [*known.figures[len(known.bars) - len(shared) + 1 :]], (bars[0], *bars[len(shared) :])
    for bar in new:
        if bar.low_e8 > 0:
            jumped = before is not None and before.low_e8 > 0
            jump = math.log(bar.open_e8 / before.close_e8) ** 2 if before and jumped else 0.0
            square = math.log(bar.high_e8 / bar.low_e8) ** 2 / _PARKINSON
            end = bar.bucket_ts + bar.granularity_sec * SECOND
            figures.append((bar.bucket_ts, end, bar.close_e8, bar.low_e8, bar.high_e8, jump, square))
            before = bar
        if kept:
            figures, kept, before = figures + kept, [], shared[-1]
    if not figures:
        return _BarSums(bars)
    columns: Iterable[tuple[Any, ...]] = zip(*figures, strict=True)
    starts, ends, closes, lows, highs, jumps, squares = columns
    # From the last to the first, each sum from there to the end; behind the last there is nothing.
    sums = [0.0, *accumulate(map(add, reversed(squares), reversed(jumps)))]
    sums.reverse()
    return _BarSums(bars, figures, starts, ends, closes, lows, highs, jumps, sums)


class LookbackFeatures(msgspec.Struct, frozen=True, eq=False):
    """What bars say of one symbol at the end of the newest one, over windows of fixed length behind it.

    `at` is that end and `price_e8` its close. A return is None when no bar ended near the start of its window, the
    others when bars span less than three quarters of it.
    """

    at: int
    price_e8: int
    _older: _BarSums
    _recent: _BarSums

    def price_at(self, moment: int) -> int | None:
        """The close of the last bar that ended by a moment; None where the bars do not reach, or lack the hour."""
        for part in (self._recent, self._older):
            place = bisect_right(part.ends, moment) - 1
            if place >= 0:
                return part.closes[place] if moment - part.ends[place] <= _STALE_PRICE else None
        return None

    def window(self, span: int) -> tuple[float, int, int] | None:
        """The volatility of a window as if it were covered whole, its low and its high."""
        start, older, recent = self.at - span, self._older, self._recent
        first = bisect_left(older.starts, start)
        if first < len(older.starts):
            begin, squares = older.starts[first], older.squares[first] - older.jumps[first] + recent.squares[0]
            low, high = min(older.lows[first:]), max(older.highs[first:])
            if recent.lows:
                low, high = min(low, *recent.lows), max(high, *recent.highs)
        else:
            first = bisect_left(recent.starts, start)
            if first == len(recent.starts):
                return None
            begin, squares = recent.starts[first], recent.squares[first] - recent.jumps[first]
            low, high = min(recent.lows[first:]), max(recent.highs[first:])
        covered = self.at - begin
        return (math.sqrt(squares * span / covered), low, high) if covered >= _LEAST_COVERED * span else None

    def fields(self) -> FeatureVector:
        """The price fields of a moment."""
        # Written out, since every half hour of every symbol asks for all of them.
        price, windows = self.price_e8, []
        volatilities: list[float | None] = []
        for span in VOLATILITY_SPANS:
            window = self.window(span)
            windows.append(window)
            volatilities.append(window[0] if window else None)
        hour, _, day, week = volatilities
        # The day's volatility is the steadier measure of what is usual; the hour's is noise on quiet markets.
        hourly = day / _ROOT_24 if day else hour or (week / _ROOT_168 if week else None)
        values: list[float | None] = []
        for span, root in zip(RETURN_SPANS, _RETURN_ROOTS, strict=True):
            start, part = self.at - span, self._recent
            place = bisect_right(part.ends, start) - 1
            if place < 0:
                part = self._older
                place = bisect_right(part.ends, start) - 1
            is_near = place >= 0 and start - part.ends[place] <= (1 - _LEAST_COVERED) * span
            values.append(math.log(price / part.closes[place]) / (hourly * root) if hourly and is_near else None)
        for each in volatilities:
            values.append(math.log(each) if each else None)
        for window in windows[1:]:
            if window is None:
                values.append(None)
            else:
                _, low, high = window
                # A market that stood still is in the middle of its range.
                values.append((price - low) / (high - low) if high > low else 0.5)
        found: list[int | None] = []
        for value in values:
            if value is None:
                found.append(None)
            else:
                scaled = value * FEATURE_UNIT
                found.append(round(scaled) if -MOST_FEATURE <= scaled <= MOST_FEATURE else _quantise(value))
        return tuple(found)


RawBars = tuple[tuple[Candle, ...], tuple[Candle, ...]]
"""The newest quarters of an hour, and the newest hours."""


def cut_lookback(bars: RawBars) -> LookbackBars:
    """Those of the newest bars, of which there is a quarter, at which a situation is looked."""
    recent, older = bars
    # A situation is looked at every half hour, and what is similar is searched for no more often.
    newest, length = recent[-1], recent[-1].granularity_sec * SECOND
    if (newest.bucket_ts + length) % HALF_HOUR and len(recent) > 1:
        recent, newest = recent[:-1], recent[-2]
    # Both meet at a full hour, so that no minute is counted twice or left out.
    start = floor_to_step(newest.bucket_ts + length, HOUR) - _RECENT_LOOKBACK
    first = bisect_left(recent, start, key=_BAR_START)
    return LookbackBars(recent[first:], older[: bisect_right(older, start - HOUR, key=_BAR_START)])


# Half hours of which the features stay: a backtest reads those of its next four hours in a row.
_READ_AHEAD = 12


class LookbackReader(msgspec.Struct, eq=False):
    """Reads the features of one symbol. A cache of what its last few bars gave; other bars are read.

    `cut` gives the bars to read from the newest ones; those it was given last give the same again.
    """

    cut: LastCall[RawBars, LookbackBars] = msgspec.field(default_factory=partial(LastCall, cut_lookback))
    _older: _BarSums = _NO_BARS
    _recent: _BarSums = _NO_BARS
    _kept: deque[tuple[LookbackBars, tuple[LookbackFeatures, FeatureVector] | None]] = msgspec.field(
        default_factory=partial(deque, maxlen=_READ_AHEAD)
    )

    def __call__(self, bars: LookbackBars) -> tuple[LookbackFeatures, FeatureVector] | None:
        """The features of some bars, and the price fields; None when no bar has a price."""
        for kept in self._kept:
            if kept[0] is bars:
                return kept[1]
        if self._kept and self._kept[-1][0] == bars:
            return self._kept[-1][1]
        # The older bars change once an hour, the recent ones four times.
        if self._older.bars != bars.older:
            self._older = _sum_bars(bars.older, self._older)
        older, found = self._older, None
        recent = self._recent = _sum_bars(bars.recent, self._recent, bars.older[-1] if bars.older else None)
        newest = recent if recent.ends else older
        if newest.ends:
            features = LookbackFeatures(newest.ends[-1], newest.closes[-1], older, recent)
            found = features, features.fields()
        self._kept.append((bars, found))
        return found


class SeenMoment(msgspec.Struct, frozen=True):
    """The market as a decision saw it: what its bars say, and the vector with the newest rates and the time."""

    features: LookbackFeatures
    vector: FeatureVector
    funding: float | None = None
    spread_bps: float | None = None

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """What is known of the conditions at an entry, as text for its outcome."""
        hour, day = (self.features.window(span) for span in (HOUR, DAY))
        volatilities = [each[0] if each else None for each in (hour, day)]
        return _condition_texts(self.funding, self.spread_bps, *volatilities)


class SeenMarket(Protocol):
    """What a moment comes from: bars at fixed look-backs, the newest rate of funding, the newest book."""

    @property
    def symbol(self) -> str: ...

    @property
    def lookback(self) -> LookbackBars | None: ...

    @property
    def context(self) -> AssetContext | None: ...

    @property
    def settled_funding(self) -> SettledFunding | None: ...

    @property
    def liquidity(self) -> Liquidity | None: ...


def seen_moment(
    features: LookbackFeatures,
    prices: FeatureVector,
    funding: AssetContext | SettledFunding | None,
    *,
    liquidity: Liquidity | None,
) -> SeenMoment:
    """The moment of bars, of which the price fields are known, and of the newest rates."""
    premium = None
    if isinstance(funding, SettledFunding):
        rate: float | None = funding.rate_e12 / funding.interval_hours / E12
    else:
        rate = funding.funding_e12 / E12 if funding else None
        premium = funding.premium_e12 / E12 if funding else None
    imbalance, spread = (liquidity.imbalance, liquidity.spread_bps) if liquidity else (None, None)
    fields = (*_market_fields(rate, premium, imbalance, spread), *_time_fields(features.at % DAY // HALF_HOUR))
    return SeenMoment(features, (*prices, *fields), rate, spread)


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
