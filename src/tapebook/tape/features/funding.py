"""Funding pressure: what it costs to be long, here and elsewhere, and whether positions are building up.

    rate 8 h                hourly rate × 8
    rate a year             hourly rate × 8,760, not compounded
    venue rate 8 h          venue rate × 8 / the venue's own interval in hours; without one the venue is left out
    venue spread 8 h        highest − lowest venue rate; needs two venues
    above other venues 8 h  rate 8 h − mean rate of the venues that are not Hyperliquid
    open interest change    100 × (newest / the one 1 h or 24 h before − 1), in base units: the price plays no part

    crowded_long   at or above  0.05 % per 8 h       crowded_short  at or below −0.05 %
    long_leaning   at or above  0.02 %               short_leaning  at or below −0.02 %
    neutral        between

0.01 % per 8 h is the interest that everyone pays in a market without any lean, so twice that is the
first sign of one; at 0.05 %, the width of the exchange's clamp, holding costs 55 % a year.

There is no pressure without a fresh context. The earlier context must lie within 5 minutes of 1 h,
or 30 minutes of 24 h, before the newest; without one, or with an open interest of 0, the change is None.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, PredictedFunding
from tapebook.domain.money import divide
from tapebook.tape.features.fresh import is_fresh, newest_fresh

FundingRegime = Literal["crowded_long", "long_leaning", "neutral", "short_leaning", "crowded_short"]

LEANING_8H_E12 = 200_000_000
CROWDED_8H_E12 = 500_000_000
OWN_VENUE = "HlPerp"

_TOLERANCE_1H_MS = 5 * MINUTE
_TOLERANCE_24H_MS = 30 * MINUTE


class VenueRate(msgspec.Struct, frozen=True):
    """What one venue charges for eight hours."""

    venue: str
    rate_8h_e12: int


class FundingPressure(msgspec.Struct, frozen=True):
    """The cost of being long, seen from all sides; positive when longs pay shorts."""

    symbol: str
    as_of: int
    rate_1h_e12: int
    rate_8h_e12: int
    rate_annual_e12: int
    premium_e12: int
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
        venue_spread_8h_e12=_spread(venues),
        above_other_venues_8h_e12=_above_others(rate_8h, venues),
        open_interest_change_1h_pct=_interest_change_pct(contexts, newest, span=HOUR, tolerance=_TOLERANCE_1H_MS),
        open_interest_change_24h_pct=_interest_change_pct(contexts, newest, span=DAY, tolerance=_TOLERANCE_24H_MS),
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
        VenueRate(venue, divide(row.rate_e12 * 8, row.interval_hours))
        for venue, row in sorted(newest.items())
        if row.interval_hours is not None and row.interval_hours > 0
    )


def _spread(venues: tuple[VenueRate, ...]) -> int | None:
    rates = [venue.rate_8h_e12 for venue in venues]
    return max(rates) - min(rates) if len(rates) >= 2 else None


def _above_others(rate_8h_e12: int, venues: tuple[VenueRate, ...]) -> int | None:
    others = [venue.rate_8h_e12 for venue in venues if venue.venue != OWN_VENUE]
    return rate_8h_e12 - divide(sum(others), len(others)) if others else None


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
