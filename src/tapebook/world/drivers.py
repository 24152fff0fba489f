"""A driver: one source of returns, minute by minute, in units of a day's standard deviation.

The common factor is a driver and so is what is an asset's own. Each minute it

1. asks its regime for drift, or in a chop for the pull back to where the chop began,
2. adds noise whose volatility clusters, with fat tails,
3. and now and then jumps; a jump leaves the market nervous for hours.
"""

import math
from random import Random

import msgspec

from tapebook.world.cadence import MINUTES_PER_DAY, STEPS_PER_MINUTE
from tapebook.world.regimes import RegimeChain

# Set so that drift, noise and jumps together give one standard deviation a day (measured: ten seeds of 140 days).
_MINUTE_SD = 0.68 / math.sqrt(MINUTES_PER_DAY)

# Log-volatility forgets half of a shock in three hours and strays by about four tenths.
_NERVES_KEEP = 0.5 ** (1 / 180)
_NERVES_SD = 0.38
_NERVES_SHOCK = _NERVES_SD * math.sqrt(1 - _NERVES_KEEP**2)
_NERVES_AFTER_JUMP = 0.45

# One minute in fifty has three times the usual noise; the divisor keeps the variance at one.
_TAIL_CHANCE, _TAIL_SIZE = 0.02, 3.0
_TAIL_NORM = math.sqrt(1 + _TAIL_CHANCE * (_TAIL_SIZE**2 - 1))

_JUMP_CHANCE = 0.7 / MINUTES_PER_DAY
_JUMP_SD = 0.28


class Move(msgspec.Struct, frozen=True):
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

    def minute(self, pace: float) -> Move:
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
        return Move(calm, jump, jump_step, vol)

    def _drift(self) -> float:
        return self.chain.drift_per_minute - self.chain.regime.pull * self._since_regime

    def _noise(self) -> float:
        size = self._chance.gauss(0.0, 1.0) / _TAIL_NORM
        return size * _TAIL_SIZE if self._chance.random() < _TAIL_CHANCE else size

    def _jump(self) -> tuple[float, int]:
        if self._chance.random() >= _JUMP_CHANCE:
            return 0.0, 0
        return self._chance.gauss(0.0, _JUMP_SD), self._chance.randrange(STEPS_PER_MINUTE)
