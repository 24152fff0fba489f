"""Positioning pressure: where momentum, funding and the book lean together, as one score from −1 to 1.

    momentum   tanh(z / 2), z = the last hour's log return / the size such a span's return usually has:
               sqrt(Σ ln(close / previous close)² × span / covered) over the bars of the last 24 h
    funding    ± tanh(max(|rate 8 h| − 0.01 %, 0) / 0.04 %), with the rate's sign
    imbalance  the newest book's, from −1 to 1

    score       Σ weight × input / Σ weight, over the inputs that are present; weights 0.5, 0.3, 0.2
    direction   long_pressure from 0.2, short_pressure from −0.2, else neutral
    confidence  inputs present / 3 × |Σ weight × input| / Σ (weight × |input|)

Momentum weighs most because it is made of the most data; funding is slow but is paid for real
positions; one book is a snapshot that orders can fake, so it weighs least. The interest of 0.01 %
is paid in a market without any lean, so it counts for nothing; at 0.05 %, where funding calls the
market crowded, its input is 0.76, as is momentum's at twice the usual move.

The score says which side presses, not where the price goes: crowded longs are long pressure.
Momentum needs 12 returns, a close no older than 15 minutes (than a bar, where bars are longer), and one
from 60 to 75 minutes before that: bars of an hour or less. Funding and liquidity of another moment are not
used when later or stale. None without any input.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.market import Candle
from tapebook.tape.features.fresh import STALE_AFTER_MS, is_fresh
from tapebook.tape.features.funding import FundingPressure
from tapebook.tape.features.liquidity import LiquidityProfile
from tapebook.tape.features.returns import Returns, ended_bars

Direction = Literal["long_pressure", "short_pressure", "neutral"]

MOMENTUM_WEIGHT, FUNDING_WEIGHT, IMBALANCE_WEIGHT = 0.5, 0.3, 0.2
DIRECTION_SCORE = 0.2

_LEAST_RETURNS = 12
_LATE_MS = 15 * MINUTE
USUAL_Z = 2.0
_INTEREST_8H_E12 = 100_000_000
_FUNDING_SCALE_8H_E12 = 400_000_000


class PositioningPressure(msgspec.Struct, frozen=True, gc=False):
    """Which side presses, how hard, and how far the inputs agree; an input that is missing is None."""

    symbol: str
    as_of: int
    direction: Direction
    score: float
    confidence: float
    momentum_z: float | None
    momentum: float | None
    funding: float | None
    imbalance: float | None


def positioning_pressure(
    bars: Sequence[Candle], funding: FundingPressure | None, liquidity: LiquidityProfile | None, *, as_of: int
) -> PositioningPressure | None:
    """The pressure at a moment, from one symbol's bars of one size and its other two features."""
    fees = funding if funding is not None and is_fresh(funding.as_of, as_of=as_of) else None
    book = liquidity if liquidity is not None and is_fresh(liquidity.as_of, as_of=as_of) else None
    symbols = [each.symbol for each in (*bars[-1:], fees, book) if each is not None]
    return positioning_of(
        symbols[0] if symbols else "",
        Returns(ended_bars(bars, as_of=as_of)),
        as_of=as_of,
        rate_8h_e12=None if fees is None else fees.rate_8h_e12,
        imbalance=None if book is None else max(-1.0, min(1.0, book.imbalance)),
    )


def positioning_of(
    symbol: str, returns: Returns, *, as_of: int, rate_8h_e12: int | None, imbalance: float | None
) -> PositioningPressure | None:
    """The pressure at a moment, from bars that had ended by then, the newest rate and the newest book's imbalance."""
    z = _momentum_z(returns, as_of=as_of)
    momentum = None if z is None else math.tanh(z / USUAL_Z)
    paid = None if rate_8h_e12 is None else funding_input(rate_8h_e12)
    leans = leaning(momentum, paid, imbalance)
    if leans is None:
        return None
    score, confidence = leans
    return PositioningPressure(
        symbol, as_of, direction_of(score), score, confidence, z, momentum=momentum, funding=paid, imbalance=imbalance
    )


def leaning(momentum: float | None, funding: float | None, imbalance: float | None) -> tuple[float, float] | None:
    """The mean push of the inputs that are present, and how far they agree: 0 when none points anywhere."""
    weights, pushes = [], []
    if momentum is not None:
        weights.append(MOMENTUM_WEIGHT)
        pushes.append(MOMENTUM_WEIGHT * momentum)
    if funding is not None:
        weights.append(FUNDING_WEIGHT)
        pushes.append(FUNDING_WEIGHT * funding)
    if imbalance is not None:
        weights.append(IMBALANCE_WEIGHT)
        pushes.append(IMBALANCE_WEIGHT * imbalance)
    if not pushes:
        return None
    sum_, total = math.fsum(pushes), math.fsum(map(abs, pushes))
    return sum_ / math.fsum(weights), len(pushes) / 3 * abs(sum_) / total if total else 0.0


def direction_of(score: float) -> Direction:
    """The side a score names."""
    if abs(score) < DIRECTION_SCORE:
        return "neutral"
    return "long_pressure" if score > 0 else "short_pressure"


def _momentum_z(returns: Returns, *, as_of: int) -> float | None:
    bars = returns.bars
    if not bars:
        return None
    last = bars[-1]
    end = last.end
    if not 0 <= as_of - end <= max(STALE_AFTER_MS, last.granularity_sec * SECOND):
        return None
    start = returns.last_by(end - HOUR)
    if start is None or start.end < end - HOUR - _LATE_MS:
        return None
    first, usual = returns.since(end - DAY)
    if len(bars) - first <= _LEAST_RETURNS or usual == 0:
        return None
    span, covered = end - start.end, end - bars[first].end
    return math.log(last.close_e8 / start.close_e8) / math.sqrt(usual * span / covered)


def funding_input(rate_8h_e12: int) -> float:
    """What a rate adds to the score, before its weight."""
    beyond = max(abs(rate_8h_e12) - _INTEREST_8H_E12, 0) / _FUNDING_SCALE_8H_E12
    return math.copysign(math.tanh(beyond), rate_8h_e12)
