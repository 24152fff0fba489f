"""Features: what bars say about the market, each a pure function of what was known."""

from tapebook.tape.features.regime import classify_regime

__all__ = ["classify_regime"]
