"""A driver: one source of returns, minute by minute, in units of a day's standard deviation.

The common factor is a driver and so is what is an asset's own. Each minute it

1. asks its regime for drift, or in a chop for the pull back to where the chop began,
2. adds noise whose volatility clusters, with fat tails,
3. and now and then jumps; a jump leaves the market nervous for hours.

Regimes are a chain of six, each lasting hours. Their names are those a trade is tagged with: a direction and a
volatility. Drift is in daily standard deviations per hour, so the same chain serves the common factor and every
asset.
"""

import math
from random import Random

import msgspec

from tapebook.world.cadence import MINUTES_PER_DAY, STEPS_PER_MINUTE

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


# Set so that drift, noise and jumps together give one standard deviation a day (measured: ten seeds of 140 days).
_MINUTE_SD = 0.68 / math.sqrt(MINUTES_PER_DAY)

# Log-volatility forgets half of a shock in three hours and strays by about four tenths.
_NERVES_KEEP = 0.5 ** (1 / 180)
_NERVES_SD = 0.38
_NERVES_SHOCK = _NERVES_SD * math.sqrt(1 - _NERVES_KEEP**2)
# After a jump markets stay nervous for hours.
_NERVES_AFTER_JUMP = 0.45

# One minute in fifty has three times the usual noise; the divisor keeps the variance at one.
_TAIL_CHANCE, _TAIL_SIZE = 0.02, 3.0
_TAIL_NORM = math.sqrt(1 + _TAIL_CHANCE * (_TAIL_SIZE**2 - 1))

# About two jumps in three days.
_JUMP_CHANCE = 0.7 / MINUTES_PER_DAY
_JUMP_SD = 0.28


class DriverMove(msgspec.Struct, frozen=True):
    """One minute of a driver: noise and drift, the jump and the step it falls on, the volatility it was drawn with."""

    calm: float
    jump: float
    jump_step: int
    vol: float


class Driver:
    """A driver's state: regime, nerves, and how far it has come since the regime began."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.chain = RegimeChain(chance)
        self._nerves = chance.gauss(0.0, _NERVES_SD)
        self._since_regime = 0.0

    def next_minute(self, pace: float) -> DriverMove:
        """The next minute at the given pace of the day."""
        if self.chain.advance():
            self._since_regime = 0.0
        jump, jump_step = self._jump()
        vol = self.chain.regime.vol * math.exp(self._nerves) * pace
        calm = self._drift() + vol * _MINUTE_SD * self._noise()
        self._since_regime += calm + jump
        self._nerves = self._nerves * _NERVES_KEEP + self._chance.gauss(0.0, _NERVES_SHOCK)
        if jump:
            self._nerves += _NERVES_AFTER_JUMP
        return DriverMove(calm, jump, jump_step, vol)

    def _drift(self) -> float:
        return self.chain.drift_per_minute - self.chain.regime.pull * self._since_regime

    def _noise(self) -> float:
        size = self._chance.gauss(0.0, 1.0) / _TAIL_NORM
        return size * _TAIL_SIZE if self._chance.random() < _TAIL_CHANCE else size

    def _jump(self) -> tuple[float, int]:
        if self._chance.random() >= _JUMP_CHANCE:
            return 0.0, 0
        return self._chance.gauss(0.0, _JUMP_SD), self._chance.randrange(STEPS_PER_MINUTE)
