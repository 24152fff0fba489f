"""Features: what the facts of the tape say about the market, each a pure function of what was known."""

from tapebook.tape.features.change import changed_enough
from tapebook.tape.features.funding import (
    SETTLED_BACK_MS,
    FundingPressure,
    VenueRate,
    funding_pressure,
    is_in_force,
    settled_funding,
    settled_pressure,
    settled_rate_8h_e12,
)
from tapebook.tape.features.liquidity import LiquidityProfile, liquidity_profile
from tapebook.tape.features.positioning import PositioningPressure, funding_input, positioning_of, positioning_pressure
from tapebook.tape.features.regime import Regimes, classify_regime, regime_of
from tapebook.tape.features.returns import SlidingReturns
from tapebook.tape.features.row import (
    Feature,
    full_day_lines,
    metrics_json,
    positioning_line,
    to_metrics,
    volatility_line,
)
from tapebook.tape.features.volatility import (
    VolatilityProfile,
    WindowVolatility,
    volatility_of,
    volatility_profile,
)

__all__ = [
    "SETTLED_BACK_MS",
    "Feature",
    "FundingPressure",
    "LiquidityProfile",
    "PositioningPressure",
    "Regimes",
    "SlidingReturns",
    "VenueRate",
    "VolatilityProfile",
    "WindowVolatility",
    "changed_enough",
    "classify_regime",
    "full_day_lines",
    "funding_input",
    "funding_pressure",
    "is_in_force",
    "liquidity_profile",
    "metrics_json",
    "positioning_line",
    "positioning_of",
    "positioning_pressure",
    "regime_of",
    "settled_funding",
    "settled_pressure",
    "settled_rate_8h_e12",
    "to_metrics",
    "volatility_line",
    "volatility_of",
    "volatility_profile",
]
