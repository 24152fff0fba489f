"""Features: what the facts of the tape say about the market, each a pure function of what was known."""

from tapebook.tape.features.change import changed_enough
from tapebook.tape.features.funding import FundingPressure, VenueRate, funding_pressure
from tapebook.tape.features.liquidity import LiquidityProfile, liquidity_profile
from tapebook.tape.features.positioning import PositioningPressure, positioning_pressure
from tapebook.tape.features.regime import Regimes, classify_regime
from tapebook.tape.features.row import Feature, metrics_json, to_metrics
from tapebook.tape.features.volatility import VolatilityProfile, WindowVolatility, volatility_profile

__all__ = [
    "Feature",
    "FundingPressure",
    "LiquidityProfile",
    "PositioningPressure",
    "Regimes",
    "VenueRate",
    "VolatilityProfile",
    "WindowVolatility",
    "changed_enough",
    "classify_regime",
    "funding_pressure",
    "liquidity_profile",
    "metrics_json",
    "positioning_pressure",
    "to_metrics",
    "volatility_profile",
]
