"""When a feature has changed enough to be written between the five-minute rows.

    liquidity    depth within 1 % × or ÷ 2 · spread × or ÷ 2 · imbalance by 0.8
    funding      8-hour rate by 0.01 % · premium by 0.05 % · 1-hour change of open interest by 1 percentage point
    volatility   realised volatility of the hour × or ÷ 1.25
    positioning  score by 0.25

The first figure decides the family's regime or direction. With a new one half its step is enough
(the root of a factor), but not nothing: a figure that hovers at a limit is no news. A figure that
appeared or vanished is. `before` is the newest row that was written, so slow drifts add up.

The steps are wide enough that most rows of an ordinary day would not pass them. Confidence has
none: it swings whenever a weak input changes sides.
"""

import math

from tapebook.tape.features.funding import FundingPressure
from tapebook.tape.features.liquidity import LiquidityProfile
from tapebook.tape.features.positioning import PositioningPressure
from tapebook.tape.features.row import Feature
from tapebook.tape.features.volatility import VolatilityProfile

DEPTH_FACTOR, SPREAD_FACTOR, IMBALANCE_STEP = 2.0, 2.0, 0.8
RATE_8H_STEP_E12, PREMIUM_STEP_E12, INTEREST_STEP_PCT = 100_000_000, 500_000_000, 1.0
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
            return _liquidity(old, new)
        case FundingPressure() as old, FundingPressure() as new:
            return _funding(old, new)
        case VolatilityProfile() as old, VolatilityProfile() as new:
            return _volatility(old, new)
        case PositioningPressure() as old, PositioningPressure() as new:
            return _positioning(old, new)
    raise TypeError(f"{type(before).__name__} and {type(after).__name__} are not of one family")


def _liquidity(before: LiquidityProfile, after: LiquidityProfile) -> bool:
    turned = before.regime != after.regime
    return (
        _grew(before.depth_usd_100bps, after.depth_usd_100bps, factor=DEPTH_FACTOR, turned=turned)
        or _grew(before.spread_bps, after.spread_bps, factor=SPREAD_FACTOR)
        or _moved(before.imbalance, after.imbalance, step=IMBALANCE_STEP)
    )


def _funding(before: FundingPressure, after: FundingPressure) -> bool:
    turned = before.regime != after.regime
    interest = before.open_interest_change_1h_pct, after.open_interest_change_1h_pct
    return (
        _moved(before.rate_8h_e12, after.rate_8h_e12, step=RATE_8H_STEP_E12, turned=turned)
        or _moved(before.premium_e12, after.premium_e12, step=PREMIUM_STEP_E12)
        or _moved(*interest, step=INTEREST_STEP_PCT)
    )


def _volatility(before: VolatilityProfile, after: VolatilityProfile) -> bool:
    turned = before.regime != after.regime
    return _grew(before.hour.realised, after.hour.realised, factor=VOLATILITY_FACTOR, turned=turned)


def _positioning(before: PositioningPressure, after: PositioningPressure) -> bool:
    return _moved(before.score, after.score, step=SCORE_STEP, turned=before.direction != after.direction)


def _moved(before: float | None, after: float | None, *, step: float, turned: bool = False) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= (step / 2 if turned else step)


def _grew(before: float | None, after: float | None, *, factor: float, turned: bool = False) -> bool:
    """Grew or shrank by a factor; from or to zero counts, from zero to zero does not."""
    if before is None or after is None:
        return before is not after
    enough = math.sqrt(factor) if turned else factor
    return before != after and max(before, after) >= enough * min(before, after)
