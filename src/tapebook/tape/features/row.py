"""Features as the metrics of a stored row: flat, with decimal strings of declared digits, no floats.

The same feature always gives the same text, so rows can be compared, hashed and put into packets.
"""

import math

from tapebook.domain.canonical import canonical
from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.money import E12, decimal_text
from tapebook.tape.features.funding import FundingPressure
from tapebook.tape.features.liquidity import LiquidityProfile
from tapebook.tape.features.positioning import USUAL_Z, PositioningPressure, direction_of, leaning
from tapebook.tape.features.returns import SlidingReturns
from tapebook.tape.features.volatility import HOURS_TO_DAY, TO_YEAR, VolatilityProfile, volatility_regime

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
_DIGITS = tuple(f"%.{digits}f" for digits in range(7))


def to_metrics(feature: Feature) -> Metrics:
    """The metrics of a feature; what is not known is None. A number that is not finite is a ValueError."""
    match feature:
        case LiquidityProfile():
            return _liquidity(feature)
        case FundingPressure():
            return _funding(feature)
        case VolatilityProfile():
            return _volatility(feature)
        case PositioningPressure():
            return _positioning(feature)


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
    """The same of a pressure without a book."""
    if pressure.momentum_z is None or pressure.imbalance is not None:
        return None
    figures = (pressure.direction, pressure.score, pressure.confidence, pressure.momentum_z)
    return _positioning_line(figures, pressure.funding)


def full_day_lines(returns: SlidingReturns, *, as_of: int, funding: float | None) -> tuple[str, str | None] | None:
    """Both lines at a moment, of a day of which no bar is missing; None of any other, or if the price stood still.

    They are what `volatility_of` and `positioning_of` come to without a book, worked out in one pass: an hour and a
    day are covered by their closes as they are.
    """
    found = returns.full_day(HOUR)
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
    leans = leaning(math.tanh(z / USUAL_Z), funding, None)
    if leans is None:
        return None
    return volatility, _positioning_line((direction_of(leans[0]), *leans, z), funding)


def _positioning_line(figures: tuple[str, float, float, float], funding: float | None) -> str | None:
    line = _MOMENTUM_LINE % figures if funding is None else _POSITIONING_LINE % (*figures, funding)
    # What rounds to zero has no sign: that is for `_decimal` to see.
    return None if "=-0.00" in line else line


def metrics_json(feature: Feature) -> str:
    """The metrics as canonical JSON: sorted keys, no spaces."""
    return canonical(to_metrics(feature)).decode()


def _liquidity(profile: LiquidityProfile) -> Metrics:
    return {
        "spreadBps": _decimal(profile.spread_bps, 3),
        "depthUsd01Pct": _decimal(profile.depth_usd_10bps, 0),
        "depthUsd05Pct": _decimal(profile.depth_usd_50bps, 0),
        "depthUsd1Pct": _decimal(profile.depth_usd_100bps, 0),
        "imbalance": _decimal(profile.imbalance, 3),
        "spreadChange24hPct": _decimal(profile.spread_change_24h_pct, 1),
        "depthChange24hPct": _decimal(profile.depth_change_24h_pct, 1),
        "booksUsed": profile.books_used,
        "regime": profile.regime,
    }


def _funding(pressure: FundingPressure) -> Metrics:
    venues = {f"fundingRate8h{each.venue}": _rate(each.rate_8h_e12) for each in pressure.venues}
    return {
        "fundingRate1h": _rate(pressure.rate_1h_e12),
        "fundingRate8h": _rate(pressure.rate_8h_e12),
        "fundingRateAnnual": _rate(pressure.rate_annual_e12, digits=6),
        "premium": _rate(pressure.premium_e12),
        **venues,
        "venueSpread8h": _rate(pressure.venue_spread_8h_e12),
        "aboveOtherVenues8h": _rate(pressure.above_other_venues_8h_e12),
        "openInterestChange1hPct": _decimal(pressure.open_interest_change_1h_pct, 2),
        "openInterestChange24hPct": _decimal(pressure.open_interest_change_24h_pct, 2),
        "regime": pressure.regime,
    }


def _volatility(profile: VolatilityProfile) -> Metrics:
    hour, day = profile.hour, profile.day
    return {
        "realizedVol1h": _decimal(hour.realised, 6),
        "annualizedVol1h": _decimal(hour.annualised, 4),
        "parkinsonVol1h": _decimal(hour.parkinson, 6),
        "minutesUsed1h": hour.minutes_used,
        "realizedVol24h": _decimal(day.realised, 6),
        "annualizedVol24h": _decimal(day.annualised, 4),
        "parkinsonVol24h": _decimal(day.parkinson, 6),
        "minutesUsed24h": day.minutes_used,
        "volRatio1hTo24h": _decimal(profile.ratio, 3),
        "regime": profile.regime,
    }


def _positioning(pressure: PositioningPressure) -> Metrics:
    return {
        "direction": pressure.direction,
        "score": _decimal(pressure.score, 3),
        "confidence": _decimal(pressure.confidence, 3),
        "momentumZ": _decimal(pressure.momentum_z, 2),
        "momentum": _decimal(pressure.momentum, 3),
        "funding": _decimal(pressure.funding, 3),
        "imbalance": _decimal(pressure.imbalance, 3),
    }


def _rate(value_e12: int | None, *, digits: int = _RATE_DIGITS) -> str | None:
    return None if value_e12 is None else decimal_text(value_e12, E12, digits)


def _decimal(value: float | None, digits: int) -> str | None:
    if value is None:
        return None
    if not math.isfinite(value):
        raise ValueError(f"{value} is no metric: the fact it came from must be refused where it arrives")
    text = _DIGITS[digits] % value
    # What rounds to zero has no sign.
    return text.removeprefix("-") if not text.strip("-0.") else text
