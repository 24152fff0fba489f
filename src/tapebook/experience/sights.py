"""What a decision saw, in numbers that mean the same at any price and any time, so that two moments can be compared.

`sight_of` takes it from bars and the newest book and funding; `reading_of` turns it into integers.
A reading has one number per field, in 1/1024 of a unit that is comparable between markets:

    returns      in standard deviations of their window          volatilities, spread   as logarithms
    funding, premium   asinh of the rate per 0.01 %: linear near zero, logarithmic in the tails
    the rest as it is; the time of day as two coordinates on a circle, so that midnight is one point

What is not known is None, and never a zero.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, Liquidity
from tapebook.domain.money import E12

UNIT = 1_024
MOST = 32_000
FIELDS = (
    *("return_15m", "return_1h", "return_4h", "return_24h", "volatility_1h", "volatility_24h"),
    *("range_position_4h", "range_position_24h", "funding", "premium", "imbalance", "spread", "held"),
    *("time_sin", "time_cos"),
)

Reading = tuple[int | None, ...]

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
    ended = [bar for bar in bars if bar.end <= as_of and bar.low_e8 > 0]
    return Sight(
        as_of=as_of,
        return_15m=_move(ended, 15 * MINUTE),
        return_1h=_move(ended, HOUR),
        return_4h=_move(ended, 4 * HOUR),
        return_24h=_move(ended, DAY),
        volatility_1h=_volatility(ended, HOUR),
        volatility_24h=_volatility(ended, DAY),
        range_position_4h=_range_position(ended, 4 * HOUR),
        range_position_24h=_range_position(ended, DAY),
        funding=context.funding_e12 / E12 if context else None,
        premium=context.premium_e12 / E12 if context else None,
        imbalance=liquidity.imbalance if liquidity else None,
        spread_bps=liquidity.spread_bps if liquidity else None,
        held=held,
    )


def reading_of(sight: Sight) -> Reading:
    """A sight as integers, one per name in FIELDS."""
    turn = 2 * math.pi * (sight.as_of % DAY) / DAY
    windows = ((sight.return_15m, 0.25), (sight.return_1h, 1), (sight.return_4h, 4), (sight.return_24h, 24))
    hourly = sight.volatility_24h / math.sqrt(24) if sight.volatility_24h else sight.volatility_1h
    values = (
        *(_in_deviations(move, hourly, hours) for move, hours in windows),
        *(_logarithm(value) for value in (sight.volatility_1h, sight.volatility_24h)),
        *(sight.range_position_4h, sight.range_position_24h),
        *(None if rate is None else math.asinh(rate / _USUAL_RATE) for rate in (sight.funding, sight.premium)),
        *(sight.imbalance, _logarithm(sight.spread_bps), float(sight.held), math.sin(turn), math.cos(turn)),
    )
    return tuple(_quantised(value) for value in values)


def conditions_of(sight: Sight) -> tuple[tuple[str, str], ...]:
    """What is known of the conditions at an entry, as text for its outcome."""
    known = {
        "funding": sight.funding,
        "spread_bps": sight.spread_bps,
        "volatility_1h": sight.volatility_1h,
        "volatility_24h": sight.volatility_24h,
    }
    return tuple((name, f"{value:.6f}") for name, value in known.items() if value is not None and math.isfinite(value))


def _move(bars: Sequence[Candle], span: int) -> float | None:
    """The log return over a window; None when no bar ended near its start."""
    if not bars:
        return None
    start = bars[-1].end - span
    before = next((bar for bar in reversed(bars) if bar.end <= start), None)
    if before is None or start - before.end > (1 - _LEAST_COVERED) * span:
        return None
    return math.log(bars[-1].close_e8 / before.close_e8)


def _window(bars: Sequence[Candle], span: int) -> Sequence[Candle]:
    """The bars of a window, from the close it starts with; nothing when they span too little of it."""
    inside = [bar for bar in bars if bar.end >= bars[-1].end - span]
    if len(inside) <= _LEAST_RETURNS or inside[-1].end - inside[0].end < _LEAST_COVERED * span:
        return ()
    return inside


def _volatility(bars: Sequence[Candle], span: int) -> float | None:
    inside = _window(bars, span)
    if not inside:
        return None
    squares = math.fsum(math.log(bar.close_e8 / before.close_e8) ** 2 for before, bar in pairwise(inside))
    return math.sqrt(squares * span / (inside[-1].end - inside[0].end))


def _range_position(bars: Sequence[Candle], span: int) -> float | None:
    inside = _window(bars, span)
    if not inside:
        return None
    low, high = min(bar.low_e8 for bar in inside), max(bar.high_e8 for bar in inside)
    return (inside[-1].close_e8 - low) / (high - low) if high > low else None


def _in_deviations(move: float | None, hourly: float | None, hours: float) -> float | None:
    return None if move is None or not hourly else move / (hourly * math.sqrt(hours))


def _logarithm(value: float | None) -> float | None:
    return math.log(value) if value and value > 0 else None


def _quantised(value: float | None) -> int | None:
    if value is None or not math.isfinite(value):
        return None
    return round(max(-MOST, min(MOST, value * UNIT)))
