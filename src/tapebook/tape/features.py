"""Features of books, funding and positioning, and all features as the metrics of a stored row. Pure functions.

A book or an asset context is taken at one instant and may be used from its `bucket_ts` on, a bar from its end. When
a fact arrived is not written on it: reads of the tape have already left out what was not known yet.

Liquidity profile: the newest book against the median of the books of the 24 h before it, as a change in percent;
thin is a depth within 1 % below half its median, deep above twice (chosen, not fitted). There is no profile without
a fresh book. With fewer than 72 earlier books, six hours of them, changes and regime are None.

Funding pressure: what it costs to be long, here and elsewhere, and whether positions are building up.

    rate 8 h, a year        hourly rate × 8, × 8,760, not compounded
    venue rate 8 h          venue rate × 8 / the venue's own interval in hours; without one the venue is left out
    venue spread 8 h        highest − lowest venue rate; needs two venues
    above other venues 8 h  rate 8 h − mean rate of the venues that are not Hyperliquid
    open interest change    100 × (newest / the one 1 h or 24 h before − 1), in base units: the price plays no part
    regime                  crowded from ±0.05 % per 8 h, leaning from ±0.02 %, neutral between

0.01 % per 8 h is the interest that everyone pays in a market without any lean, so twice that is the first sign of
one; at 0.05 %, the width of the exchange's clamp, holding costs 55 % a year. There is no pressure without a fresh
context. The earlier context must lie within 5 minutes of 1 h, or 30 minutes of 24 h, before the newest.

History has no contexts, only settled rates: hourly, or every two, four or eight hours, each for the time since the
one before. `settled_funding` takes the interval from the rows: the middle one of their last three distances, so that
neither a missing row nor a stray one is taken for another interval; of two the shorter. One row alone says nothing.
A rate counts for two of its intervals: then the next one is long overdue.

Positioning pressure: where momentum, funding and the book lean together, as one score from −1 to 1.

    momentum    tanh(z / 2), z = the last hour's log return / the size such a span's return usually has:
                sqrt(Σ ln(close / previous close)² × span / covered) over the bars of the last 24 h
    funding     ± tanh(max(|rate 8 h| − 0.01 %, 0) / 0.04 %), with the rate's sign
    imbalance   the newest book's, from −1 to 1
    score       Σ weight × input / Σ weight, over the inputs that are present; weights 0.5, 0.3, 0.2
    direction   long_pressure from 0.2, short_pressure from −0.2, else neutral
    confidence  inputs present / 3 × |Σ weight × input| / Σ (weight × |input|)

Momentum weighs most because it is made of the most data; funding is slow but is paid for real positions; one book is
a snapshot that orders can fake. The score says which side presses, not where the price goes. Momentum needs 12
returns, a close no older than 15 minutes (than a bar, where bars are longer), and one from 60 to 75 minutes before
that. Funding and liquidity of another moment are not used when later or stale. None without any input.

Rows: metrics are flat, decimal strings of declared digits, no floats. The same feature always gives the same text,
so rows can be compared, hashed and put into packets. Between the five-minute rows one is written when a feature has
`changed_enough`:

    liquidity    depth within 1 % × or ÷ 2 · spread × or ÷ 2 · imbalance by 0.8
    funding      8-hour rate by 0.01 % · premium by 0.05 % · 1-hour change of open interest by 1 percentage point
    volatility   realised volatility of the hour × or ÷ 1.25
    positioning  score by 0.25

The first figure decides the regime or direction; with a new one half its step is enough (the root of a factor), but
not nothing: a figure that hovers at a limit is no news. A figure that appeared or vanished is. `before` is the
newest row that was written, so slow drifts add up. Confidence has no step: it swings whenever a weak input changes
sides.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Literal, Protocol, TypeVar

import msgspec

from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import AssetContext, Candle, FundingRate, Liquidity, PredictedFunding, SettledFunding
from tapebook.domain.units import DAY, E12, HOUR, MINUTE, SECOND, decimal_text, divide_half_even, statistic_text
from tapebook.tape.price_features import (
    HOURS_TO_DAY,
    TO_YEAR,
    Returns,
    SlidingReturns,
    VolatilityProfile,
    WindowVolatility,
    ended_bars,
    volatility_of,
    volatility_profile,
    volatility_regime,
)

__all__ = [
    "SETTLED_BACK_MS",
    "Feature",
    "FundingPressure",
    "LiquidityProfile",
    "PositioningPressure",
    "SlidingReturns",
    "VenueRate",
    "VolatilityProfile",
    "WindowVolatility",
    "changed_enough",
    "full_day_lines",
    "funding_input",
    "funding_pressure",
    "is_rate_in_force",
    "liquidity_profile",
    "metrics_json",
    "positioning_line",
    "positioning_of",
    "positioning_pressure",
    "settled_funding",
    "settled_pressure",
    "settled_rate_8h_e12",
    "to_metrics",
    "volatility_line",
    "volatility_of",
    "volatility_profile",
]


# Three books missed in a row, or fifteen contexts: what is older describes another market.
STALE_AFTER_MS = 15 * MINUTE


class InstantFact(Protocol):
    """A fact about one instant."""

    @property
    def bucket_ts(self) -> int:
        """When it was so."""
        ...


TakenFact = TypeVar("TakenFact", bound=InstantFact)


def newest_fresh(snapshots: Iterable[TakenFact], *, as_of: int) -> TakenFact | None:
    """The newest snapshot that is neither after `as_of` nor stale."""
    newest: TakenFact | None = None
    for each in snapshots:
        if 0 <= as_of - each.bucket_ts <= STALE_AFTER_MS and (newest is None or each.bucket_ts > newest.bucket_ts):
            newest = each
    return newest


def is_fresh(instant: int, *, as_of: int) -> bool:
    """Whether something that was so at an instant may stand for `as_of`."""
    return 0 <= as_of - instant <= STALE_AFTER_MS


LiquidityRegime = Literal["thin", "normal", "deep"]

THIN_RATIO, DEEP_RATIO = 0.5, 2.0
# Six hours of books every five minutes: below that nobody knows what is usual.
LEAST_BOOKS = 72
ROUND_MS = 5 * MINUTE


class LiquidityProfile(msgspec.Struct, frozen=True):
    """The book now and against its day; the imbalance is positive when bids are heavier."""

    symbol: str
    as_of: int
    spread_bps: float
    depth_usd_10bps: float
    depth_usd_50bps: float
    depth_usd_100bps: float
    imbalance: float
    spread_change_24h_pct: float | None
    depth_change_24h_pct: float | None
    books_used: int
    regime: LiquidityRegime | None


def liquidity_profile(books: Sequence[Liquidity], *, as_of: int) -> LiquidityProfile | None:
    """The profile at a moment, from one symbol's books."""
    newest = newest_fresh(books, as_of=as_of)
    if newest is None:
        return None
    # The first book of every five minutes: those in between are of restless hours and would outweigh the rest.
    rounds: dict[int, Liquidity] = {}
    for book in books:
        if newest.bucket_ts - DAY <= book.bucket_ts < newest.bucket_ts:
            rounds.setdefault(book.bucket_ts // ROUND_MS, book)
    earlier = rounds.values()
    ratios: list[float | None] = []
    for figure in (attrgetter("spread_bps"), attrgetter("depth_usd_100bps")):
        middle = median(map(figure, earlier)) if len(earlier) >= LEAST_BOOKS else 0.0
        ratios.append(figure(newest) / middle if middle > 0 else None)
    spread, depth = ratios
    return LiquidityProfile(
        symbol=newest.symbol,
        as_of=as_of,
        spread_bps=newest.spread_bps,
        depth_usd_10bps=newest.depth_usd_10bps,
        depth_usd_50bps=newest.depth_usd_50bps,
        depth_usd_100bps=newest.depth_usd_100bps,
        imbalance=newest.imbalance,
        spread_change_24h_pct=None if spread is None else 100 * (spread - 1),
        depth_change_24h_pct=None if depth is None else 100 * (depth - 1),
        books_used=len(earlier),
        regime=None if depth is None else liquidity_regime(depth),
    )


def liquidity_regime(depth_ratio: float) -> LiquidityRegime:
    """The regime of a depth by its ratio to the median."""
    if depth_ratio < THIN_RATIO:
        return "thin"
    return "deep" if depth_ratio > DEEP_RATIO else "normal"


FundingRegime = Literal["crowded_long", "long_leaning", "neutral", "short_leaning", "crowded_short"]

# 0.02 % in eight hours is twice the interest that a perp at its index pays; 0.05 % is a crowded side.
LEANING_8H_E12, CROWDED_8H_E12 = 200_000_000, 500_000_000
# As the exchange names itself among the venues of predicted funding.
OWN_VENUE = "HlPerp"

# Contexts come once a minute, and a change over an hour may begin a little off.
_TOLERANCE_1H_MS, _TOLERANCE_24H_MS = 5 * MINUTE, 30 * MINUTE

SETTLED_BACK_MS = 2 * DAY + HOUR
"""How far back settlements are looked at: two of rates that are paid once a day, which are the rarest."""

_LONGEST_INTERVAL_MS, _DISTANCES = DAY, 3


class VenueRate(msgspec.Struct, frozen=True):
    """What one venue charges for eight hours."""

    venue: str
    rate_8h_e12: int


class FundingPressure(msgspec.Struct, frozen=True):
    """The cost of being long, seen from all sides; positive when longs pay shorts. A settled rate has no premium."""

    symbol: str
    as_of: int
    rate_1h_e12: int
    rate_8h_e12: int
    rate_annual_e12: int
    premium_e12: int | None
    venues: tuple[VenueRate, ...]
    venue_spread_8h_e12: int | None
    above_other_venues_8h_e12: int | None
    open_interest_change_1h_pct: float | None
    open_interest_change_24h_pct: float | None
    regime: FundingRegime


def funding_pressure(
    contexts: Sequence[AssetContext], predicted: Sequence[PredictedFunding], *, as_of: int
) -> FundingPressure | None:
    """The pressure at a moment, from one symbol's contexts and the venues' next rates."""
    newest = newest_fresh(contexts, as_of=as_of)
    if newest is None:
        return None
    rate_8h = newest.funding_e12 * 8
    venues = _venue_rates(predicted, as_of=as_of)
    return FundingPressure(
        symbol=newest.symbol,
        as_of=as_of,
        rate_1h_e12=newest.funding_e12,
        rate_8h_e12=rate_8h,
        rate_annual_e12=newest.funding_e12 * 24 * 365,
        premium_e12=newest.premium_e12,
        venues=venues,
        venue_spread_8h_e12=_venue_spread(venues),
        above_other_venues_8h_e12=_above_others(rate_8h, venues),
        open_interest_change_1h_pct=_interest_change_pct(contexts, newest, span=HOUR, tolerance=_TOLERANCE_1H_MS),
        open_interest_change_24h_pct=_interest_change_pct(contexts, newest, span=DAY, tolerance=_TOLERANCE_24H_MS),
        regime=funding_regime(rate_8h),
    )


def settled_funding(rates: Sequence[FundingRate]) -> SettledFunding | None:
    """The rate settled last with its interval, from one symbol's rates since `SETTLED_BACK_MS` before, oldest first."""
    newest = rates[-_DISTANCES - 1 :]
    distances = sorted(after.bucket_ts - before.bucket_ts for before, after in pairwise(newest))
    if not distances:
        return None
    last, interval = newest[-1], distances[(len(distances) - 1) // 2]
    # Settlements are at full hours: one that is not whole hours after another belongs to no interval.
    if interval % HOUR or interval > _LONGEST_INTERVAL_MS:
        return None
    return SettledFunding(last.symbol, last.bucket_ts, last.rate_e12, interval // HOUR)


def is_rate_in_force(settled: SettledFunding, *, as_of: int) -> bool:
    """Whether a settled rate still counts: for two of its intervals."""
    return 0 <= as_of - settled.bucket_ts <= 2 * settled.interval_hours * HOUR


def settled_rate_8h_e12(settled: SettledFunding) -> int:
    """What a settled rate is for eight hours."""
    return divide_half_even(settled.rate_e12 * 8, settled.interval_hours)


def settled_pressure(settled: SettledFunding, *, as_of: int) -> FundingPressure:
    """The pressure that a settled rate tells of: its cost by the hour, eight hours and year, and nothing else."""
    rate, hours = settled.rate_e12, settled.interval_hours
    rate_8h = settled_rate_8h_e12(settled)
    return FundingPressure(
        symbol=settled.symbol,
        as_of=as_of,
        rate_1h_e12=divide_half_even(rate, hours),
        rate_8h_e12=rate_8h,
        rate_annual_e12=divide_half_even(rate * 24 * 365, hours),
        premium_e12=None,
        venues=(),
        venue_spread_8h_e12=None,
        above_other_venues_8h_e12=None,
        open_interest_change_1h_pct=None,
        open_interest_change_24h_pct=None,
        regime=funding_regime(rate_8h),
    )


def funding_regime(rate_8h_e12: int) -> FundingRegime:
    """The regime of an 8-hour rate."""
    if rate_8h_e12 >= CROWDED_8H_E12:
        return "crowded_long"
    if rate_8h_e12 >= LEANING_8H_E12:
        return "long_leaning"
    if rate_8h_e12 <= -CROWDED_8H_E12:
        return "crowded_short"
    return "short_leaning" if rate_8h_e12 <= -LEANING_8H_E12 else "neutral"


def _venue_rates(predicted: Sequence[PredictedFunding], *, as_of: int) -> tuple[VenueRate, ...]:
    """One rate per venue, by name. A newest row without an interval is not replaced by an older one that has it."""
    newest: dict[str, PredictedFunding] = {}
    for row in sorted(predicted, key=lambda row: row.bucket_ts):
        if is_fresh(row.bucket_ts, as_of=as_of):
            newest[row.venue] = row
    return tuple(
        VenueRate(venue, divide_half_even(row.rate_e12 * 8, row.interval_hours))
        for venue, row in sorted(newest.items())
        if row.interval_hours is not None and row.interval_hours > 0
    )


def _venue_spread(venues: tuple[VenueRate, ...]) -> int | None:
    rates = [venue.rate_8h_e12 for venue in venues]
    return max(rates) - min(rates) if len(rates) >= 2 else None


def _above_others(rate_8h_e12: int, venues: tuple[VenueRate, ...]) -> int | None:
    others = [venue.rate_8h_e12 for venue in venues if venue.venue != OWN_VENUE]
    return rate_8h_e12 - divide_half_even(sum(others), len(others)) if others else None


def _interest_change_pct(
    contexts: Sequence[AssetContext], newest: AssetContext, *, span: int, tolerance: int
) -> float | None:
    target = newest.bucket_ts - span
    near = [context for context in contexts if abs(context.bucket_ts - target) <= tolerance]
    # Of two equally near, the older: the order of the rows must not decide.
    before = min(near, key=lambda context: (abs(context.bucket_ts - target), context.bucket_ts), default=None)
    if before is None or before.open_interest_base <= 0:
        return None
    return 100 * (newest.open_interest_base / before.open_interest_base - 1)


Direction = Literal["long_pressure", "short_pressure", "neutral"]

MOMENTUM_WEIGHT, FUNDING_WEIGHT, IMBALANCE_WEIGHT = 0.5, 0.3, 0.2
DIRECTION_SCORE = 0.2

_LEAST_RETURNS = 12
# A window whose first bar comes later is no hour any more.
_LATEST_START_MS = 15 * MINUTE
# A move of two deviations counts as a full one.
USUAL_Z = 2.0
# The interest of 0.01 % that everybody pays says nothing about positions, so it is taken off.
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
    leans = score_and_confidence(momentum, paid, imbalance)
    if leans is None:
        return None
    score, confidence = leans
    return PositioningPressure(
        symbol, as_of, direction_of(score), score, confidence, z, momentum=momentum, funding=paid, imbalance=imbalance
    )


def score_and_confidence(
    momentum: float | None, funding: float | None, imbalance: float | None
) -> tuple[float, float] | None:
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
    start = returns.last_bar_by(end - HOUR)
    if start is None or start.end < end - HOUR - _LATEST_START_MS:
        return None
    first, usual = returns.squares_since(end - DAY)
    if len(bars) - first <= _LEAST_RETURNS or usual == 0:
        return None
    span, covered = end - start.end, end - bars[first].end
    return math.log(last.close_e8 / start.close_e8) / math.sqrt(usual * span / covered)


def funding_input(rate_8h_e12: int) -> float:
    """What a rate adds to the score, before its weight."""
    beyond = max(abs(rate_8h_e12) - _INTEREST_8H_E12, 0) / _FUNDING_SCALE_8H_E12
    return math.copysign(math.tanh(beyond), rate_8h_e12)


Feature = LiquidityProfile | FundingPressure | VolatilityProfile | PositioningPressure
Metrics = dict[str, str | int | None]

# Of longer bars an hour has fewer than four, which say nothing of it.
_LONGEST_MS = 15 * MINUTE
# The exchange quotes rates with up to ten decimals.
_RATE_DIGITS = 10
_VOLATILITY_LINE = (
    "realizedVol1h=%.6f realizedVol24h=%.6f annualizedVol24h=%.4f parkinsonVol1h=%.6f volRatio1hTo24h=%.3f regime=%s"
)
_MOMENTUM_LINE = "direction=%s score=%.3f confidence=%.3f momentumZ=%.2f"
_POSITIONING_LINE = f"{_MOMENTUM_LINE} funding=%.3f"


def to_metrics(feature: Feature) -> Metrics:
    """The metrics of a feature; what is not known is None. A number that is not finite is a ValueError."""
    match feature:
        case LiquidityProfile():
            return {
                "spreadBps": statistic_text(feature.spread_bps, 3),
                "depthUsd01Pct": statistic_text(feature.depth_usd_10bps, 0),
                "depthUsd05Pct": statistic_text(feature.depth_usd_50bps, 0),
                "depthUsd1Pct": statistic_text(feature.depth_usd_100bps, 0),
                "imbalance": statistic_text(feature.imbalance, 3),
                "spreadChange24hPct": statistic_text(feature.spread_change_24h_pct, 1),
                "depthChange24hPct": statistic_text(feature.depth_change_24h_pct, 1),
                "booksUsed": feature.books_used,
                "regime": feature.regime,
            }
        case FundingPressure():
            venues = {f"fundingRate8h{each.venue}": _rate(each.rate_8h_e12) for each in feature.venues}
            return {
                "fundingRate1h": _rate(feature.rate_1h_e12),
                "fundingRate8h": _rate(feature.rate_8h_e12),
                "fundingRateAnnual": _rate(feature.rate_annual_e12, digits=6),
                "premium": _rate(feature.premium_e12),
                **venues,
                "venueSpread8h": _rate(feature.venue_spread_8h_e12),
                "aboveOtherVenues8h": _rate(feature.above_other_venues_8h_e12),
                "openInterestChange1hPct": statistic_text(feature.open_interest_change_1h_pct, 2),
                "openInterestChange24hPct": statistic_text(feature.open_interest_change_24h_pct, 2),
                "regime": feature.regime,
            }
        case VolatilityProfile():
            hour, day = feature.hour, feature.day
            return {
                "realizedVol1h": statistic_text(hour.realised, 6),
                "annualizedVol1h": statistic_text(hour.annualised, 4),
                "parkinsonVol1h": statistic_text(hour.parkinson, 6),
                "minutesUsed1h": hour.minutes_used,
                "realizedVol24h": statistic_text(day.realised, 6),
                "annualizedVol24h": statistic_text(day.annualised, 4),
                "parkinsonVol24h": statistic_text(day.parkinson, 6),
                "minutesUsed24h": day.minutes_used,
                "volRatio1hTo24h": statistic_text(feature.ratio, 3),
                "regime": feature.regime,
            }
        case PositioningPressure():
            return {
                "direction": feature.direction,
                "score": statistic_text(feature.score, 3),
                "confidence": statistic_text(feature.confidence, 3),
                "momentumZ": statistic_text(feature.momentum_z, 2),
                "momentum": statistic_text(feature.momentum, 3),
                "funding": statistic_text(feature.funding, 3),
                "imbalance": statistic_text(feature.imbalance, 3),
            }


def volatility_line(profile: VolatilityProfile) -> str | None:
    """The figures of a profile that a packet shows, in one go; None where one of them is missing.

    A backtest writes them at every tick, and one format of a line costs a sixth of what its metrics do one by one.
    """
    hour, day, ratio = profile.hour, profile.day, profile.ratio
    if ratio is None or not math.isfinite(ratio):
        return None
    figures = (hour.realised, day.realised, day.annualised, hour.parkinson, ratio, profile.regime)
    return _VOLATILITY_LINE % figures


def positioning_line(pressure: PositioningPressure) -> str | None:
    """The line of a positioning pressure without a book; None where it cannot be written in one go."""
    if pressure.momentum_z is None or pressure.imbalance is not None:
        return None
    figures = (pressure.direction, pressure.score, pressure.confidence, pressure.momentum_z)
    return _positioning_line(figures, pressure.funding)


def full_day_lines(returns: SlidingReturns, *, as_of: int, funding: float | None) -> tuple[str, str | None] | None:
    """Both lines at a moment, of a day of which no bar is missing; None of any other, or if the price stood still.

    They are what `volatility_of` and `positioning_of` come to without a book, worked out in one pass: an hour and a
    day are covered by their closes as they are.
    """
    found = returns.full_day_sums(HOUR)
    if found is None:
        return None
    start, hour_squares, day_squares, hour_ranges = found
    last = returns.bars[-1]
    length = last.granularity_sec * SECOND
    if length > _LONGEST_MS or not 0 <= as_of - last.bucket_ts - length < length or day_squares == 0:
        return None
    hour, day = math.sqrt(hour_squares * HOUR / HOUR), math.sqrt(day_squares * DAY / DAY)
    ratio, parkinson = hour / day * HOURS_TO_DAY, math.sqrt(hour_ranges * HOUR / HOUR)
    volatility = _VOLATILITY_LINE % (hour, day, day * TO_YEAR[DAY], parkinson, ratio, volatility_regime(ratio))
    z = math.log(last.close_e8 / start.close_e8) / math.sqrt(day_squares * HOUR / DAY)
    leans = score_and_confidence(math.tanh(z / USUAL_Z), funding, None)
    if leans is None:
        return None
    return volatility, _positioning_line((direction_of(leans[0]), *leans, z), funding)


def _positioning_line(figures: tuple[str, float, float, float], funding: float | None) -> str | None:
    line = _MOMENTUM_LINE % figures if funding is None else _POSITIONING_LINE % (*figures, funding)
    # What rounds to zero has no sign: that is for `statistic_text` to see.
    return None if "=-0.00" in line else line


def metrics_json(feature: Feature) -> str:
    """The metrics as canonical JSON: sorted keys, no spaces."""
    return canonical_json(to_metrics(feature)).decode()


def _rate(value_e12: int | None, *, digits: int = _RATE_DIGITS) -> str | None:
    return None if value_e12 is None else decimal_text(value_e12, E12, digits)


DEPTH_FACTOR, SPREAD_FACTOR, IMBALANCE_STEP = 2.0, 2.0, 0.8
RATE_8H_STEP_E12, PREMIUM_STEP_E12, INTEREST_STEP_PCT = 100_000_000, 500_000_000, 1.0
# A volatility that is a quarter higher is news; less is noise of the estimate.
VOLATILITY_FACTOR = 1.25
SCORE_STEP = 0.25


def changed_enough(before: Feature | None, after: Feature | None) -> bool:
    """Whether `after` deserves a row of its own. The first one does; what cannot be computed has no row."""
    match before, after:
        case _, None:
            return False
        case None, _:
            return True
        case LiquidityProfile() as old, LiquidityProfile() as new:
            return _liquidity_changed(old, new)
        case FundingPressure() as old, FundingPressure() as new:
            return _funding_changed(old, new)
        case VolatilityProfile() as old, VolatilityProfile() as new:
            return _volatility_changed(old, new)
        case PositioningPressure() as old, PositioningPressure() as new:
            return _positioning_changed(old, new)
    raise TypeError(f"{type(before).__name__} and {type(after).__name__} are not of one family")


def _liquidity_changed(before: LiquidityProfile, after: LiquidityProfile) -> bool:
    turned = before.regime != after.regime
    return (
        _grew_by_factor(before.depth_usd_100bps, after.depth_usd_100bps, factor=DEPTH_FACTOR, turned=turned)
        or _grew_by_factor(before.spread_bps, after.spread_bps, factor=SPREAD_FACTOR)
        or _moved_by_step(before.imbalance, after.imbalance, step=IMBALANCE_STEP)
    )


def _funding_changed(before: FundingPressure, after: FundingPressure) -> bool:
    turned = before.regime != after.regime
    interest = before.open_interest_change_1h_pct, after.open_interest_change_1h_pct
    return (
        _moved_by_step(before.rate_8h_e12, after.rate_8h_e12, step=RATE_8H_STEP_E12, turned=turned)
        or _moved_by_step(before.premium_e12, after.premium_e12, step=PREMIUM_STEP_E12)
        or _moved_by_step(*interest, step=INTEREST_STEP_PCT)
    )


def _volatility_changed(before: VolatilityProfile, after: VolatilityProfile) -> bool:
    turned = before.regime != after.regime
    return _grew_by_factor(before.hour.realised, after.hour.realised, factor=VOLATILITY_FACTOR, turned=turned)


def _positioning_changed(before: PositioningPressure, after: PositioningPressure) -> bool:
    return _moved_by_step(before.score, after.score, step=SCORE_STEP, turned=before.direction != after.direction)


def _moved_by_step(before: float | None, after: float | None, *, step: float, turned: bool = False) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= (step / 2 if turned else step)


def _grew_by_factor(before: float | None, after: float | None, *, factor: float, turned: bool = False) -> bool:
    """Grew or shrank by a factor; from or to zero counts, from zero to zero does not."""
    if before is None or after is None:
        return before is not after
    enough = math.sqrt(factor) if turned else factor
    return before != after and max(before, after) >= enough * min(before, after)
