"""What kind of market it is: a chain of six regimes, each lasting hours.

The names are those a trade is tagged with: a direction and a volatility. Drift is in daily
standard deviations per hour, so the same chain serves the common factor and every asset.
"""

import math
from random import Random

import msgspec

_MINUTES = 60


class Regime(msgspec.Struct, frozen=True):
    """One kind of market. `pull` is the share of the way back to where it began, per minute."""

    name: str
    drift_per_hour: float
    vol: float
    pull: float
    mean_hours: float


# A chopping market comes back to its middle within two to three hours, so that it costs those who chase it.
_CHOP_PULL = 0.005

# Falls are faster and shorter than rises; drift times hours is alike on both sides, so the market has no lasting bias.
REGIMES = {
    regime.name: regime
    for regime in (
        Regime("trend_up_lowvol", 0.045, 0.50, 0.0, 9.0),
        Regime("trend_up_hivol", 0.068, 1.35, 0.0, 7.0),
        Regime("trend_down_lowvol", -0.050, 0.55, 0.0, 8.0),
        Regime("trend_down_hivol", -0.080, 1.50, 0.0, 6.0),
        Regime("chop_lowvol", 0.0, 0.45, _CHOP_PULL, 7.0),
        Regime("chop_hivol", 0.0, 1.25, _CHOP_PULL, 5.0),
    )
}

# Cumulated chances of the next direction: a trend mostly tires into chop, chop breaks either way.
_NEXT_DIRECTION = {
    "trend_up": ((0.20, "trend_up"), (0.45, "trend_down"), (1.0, "chop")),
    "trend_down": ((0.25, "trend_up"), (0.45, "trend_down"), (1.0, "chop")),
    "chop": ((0.45, "trend_up"), (0.90, "trend_down"), (1.0, "chop")),
}
_SAME_VOL = 0.65

# A regime lasts at least this share of its mean; the rest is exponential, so its end cannot be guessed from its age.
_SURE_SHARE = 0.4


class RegimeChain:
    """The regime of now, how strong this one is, and when the next begins."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._begin(chance.choice(tuple(REGIMES.values())))

    def advance(self) -> bool:
        """One minute on; true when a new regime begins with it."""
        self._minutes_left -= 1
        if self._minutes_left >= 0:
            return False
        self._begin(self._successor())
        return True

    def _begin(self, regime: Regime) -> None:
        chance = self._chance
        self.regime = regime
        self.drift_per_minute = regime.drift_per_hour / _MINUTES * chance.uniform(0.6, 1.5)
        hours = regime.mean_hours * (_SURE_SHARE - (1 - _SURE_SHARE) * math.log(1.0 - chance.random()))
        self._minutes_left = round(hours * _MINUTES)

    def _successor(self) -> Regime:
        direction, _, vol = self.regime.name.rpartition("_")
        draw = self._chance.random()
        direction = next(name for limit, name in _NEXT_DIRECTION[direction] if draw < limit)
        if self._chance.random() >= _SAME_VOL:
            vol = "hivol" if vol == "lowvol" else "lowvol"
        return REGIMES[f"{direction}_{vol}"]
