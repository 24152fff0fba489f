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

History has no contexts, only rates that were settled: hourly, or every two, four or eight hours, each for the
time since the one before. How long that is, the rows say themselves (`settled_funding`): the middle one of their
last three distances, so that neither a missing row nor a stray one is taken for another interval; of two the
shorter. One row alone says nothing. A rate counts for two of its intervals: then the next one is long overdue.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, FundingRate, PredictedFunding, SettledFunding
from tapebook.domain.money import divide
from tapebook.tape.features.fresh import is_fresh, newest_fresh

FundingRegime = Literal["crowded_long", "long_leaning", "neutral", "short_leaning", "crowded_short"]

LEANING_8H_E12 = 200_000_000
CROWDED_8H_E12 = 500_000_000
OWN_VENUE = "HlPerp"

_TOLERANCE_1H_MS = 5 * MINUTE
_TOLERANCE_24H_MS = 30 * MINUTE

SETTLED_BACK_MS = 2 * DAY + HOUR
"""How far back settlements are looked at: two of rates that are paid once a day, which are the rarest."""

_LONGEST_INTERVAL_MS = DAY
_DISTANCES = 3


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
        venue_spread_8h_e12=_spread(venues),
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


def is_in_force(settled: SettledFunding, *, as_of: int) -> bool:
    """Whether a settled rate still counts: for two of its intervals."""
    return 0 <= as_of - settled.bucket_ts <= 2 * settled.interval_hours * HOUR


def settled_rate_8h_e12(settled: SettledFunding) -> int:
    """What a settled rate is for eight hours."""
    return divide(settled.rate_e12 * 8, settled.interval_hours)


def settled_pressure(settled: SettledFunding, *, as_of: int) -> FundingPressure:
    """The pressure that a settled rate tells of: its cost by the hour, eight hours and year, and nothing else."""
    rate, hours = settled.rate_e12, settled.interval_hours
    rate_8h = settled_rate_8h_e12(settled)
    return FundingPressure(
        symbol=settled.symbol,
        as_of=as_of,
        rate_1h_e12=divide(rate, hours),
        rate_8h_e12=rate_8h,
        rate_annual_e12=divide(rate * 24 * 365, hours),
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
