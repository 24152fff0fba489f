"""Features as the metrics of a stored row: flat, with decimal strings of declared digits, no floats.

The same feature always gives the same text, so rows can be compared, hashed and put into packets.
"""

import math

from tapebook.domain.canonical import canonical
from tapebook.domain.money import E12, decimal_text
from tapebook.tape.features.funding import FundingPressure
from tapebook.tape.features.liquidity import LiquidityProfile
from tapebook.tape.features.positioning import PositioningPressure
from tapebook.tape.features.volatility import VolatilityProfile

Feature = LiquidityProfile | FundingPressure | VolatilityProfile | PositioningPressure
Metrics = dict[str, str | int | None]

# The exchange quotes rates with up to ten decimals.
_RATE_DIGITS = 10


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
    metrics: Metrics = {}
    for name, window in (("1h", profile.hour), ("24h", profile.day)):
        metrics[f"realizedVol{name}"] = _decimal(window.realised, 6)
        metrics[f"annualizedVol{name}"] = _decimal(window.annualised, 4)
        metrics[f"parkinsonVol{name}"] = _decimal(window.parkinson, 6)
        metrics[f"minutesUsed{name}"] = window.minutes_used
    return metrics | {"volRatio1hTo24h": _decimal(profile.ratio, 3), "regime": profile.regime}


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
    text = f"{value:.{digits}f}"
    # What rounds to zero has no sign.
    return text.removeprefix("-") if not text.strip("-0.") else text
