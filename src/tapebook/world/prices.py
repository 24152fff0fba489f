"""The price path of one asset: first by the minute, then the twelve mids within it.

The minute path is all that has to be walked to reach a later moment. The mids of a minute hang
between its two ends like a bridge and draw from a stream of their own, so they can be left out.
"""

import math
from itertools import accumulate
from random import Random

import msgspec

from tapebook.world.assets import Asset
from tapebook.world.cadence import MINUTES_PER_DAY, STEPS_PER_MINUTE
from tapebook.world.drivers import Driver, Move
from tapebook.world.quotes import quote_e8, quotes_e8
from tapebook.world.streams import stream

_START_SD = 0.04

# Half-life of 60 days back to the usual price: without it a year of 6 % days ends in prices no one would believe.
_HOME_PULL = math.log(2) / (60 * MINUTES_PER_DAY)

_STEPS_PER_DAY = MINUTES_PER_DAY * STEPS_PER_MINUTE


class Minute(msgspec.Struct, frozen=True):
    """Where the log price stands before and after one minute, and how it got there.

    `heat` is the volatility as a multiple of what is typical of the asset; `jumps` are (step, size).
    """

    opened: float
    closed: float
    heat: float
    jumps: tuple[tuple[int, float], ...]
    quiet: bool

    @property
    def change(self) -> float:
        """The log return of the minute."""
        return self.closed - self.opened


class PricePath:
    """One asset's price, minute after minute: its share of the common move and its own."""

    def __init__(self, asset: Asset, seed: int) -> None:
        self._asset = asset
        self._common_vol, self._own_vol = asset.common_vol, asset.own_vol
        self._own = Driver(stream(seed, "own", asset.symbol))
        self._chance = stream(seed, "path", asset.symbol)
        self._home = math.log(asset.start_price_usd)
        self._value = self._home + self._chance.gauss(0.0, _START_SD)
        self._quoted = self._value

    def minute(self, market: Move, pace: float) -> Minute:
        """The next minute. In a quiet one the quote stands still, and catches up when trading resumes."""
        own = self._own.minute(pace)
        common_vol, own_vol = self._common_vol, self._own_vol
        jumps = self._jumps(market, own) if market.jump or own.jump else ()
        self._value += (market.calm + market.jump) * common_vol + (own.calm + own.jump) * own_vol
        self._value -= (self._value - self._home) * _HOME_PULL
        heat = math.hypot(market.vol * common_vol, own.vol * own_vol) / self._asset.daily_vol
        quiet = self._is_quiet(heat) and not jumps
        opened = self._quoted
        self._quoted = opened if quiet else self._value
        return Minute(opened, self._quoted, heat, jumps, quiet)

    def _jumps(self, market: Move, own: Move) -> tuple[tuple[int, float], ...]:
        sizes = ((market.jump_step, market.jump * self._common_vol), (own.jump_step, own.jump * self._own_vol))
        return tuple((step, size) for step, size in sizes if size)

    def _is_quiet(self, heat: float) -> bool:
        share = self._asset.quiet_share
        return share > 0 and self._chance.random() * heat < share


def step_sd(asset: Asset, minute: Minute) -> float:
    """How far the log price strays in one step of this minute."""
    return minute.heat * asset.daily_vol / math.sqrt(_STEPS_PER_DAY)


def mids_e8(asset: Asset, minute: Minute, chance: Random) -> list[int]:
    """The quoted mids of a minute, one per step; the last one is where the minute closes."""
    if minute.quiet:
        return [quote_e8(math.exp(minute.opened), asset.price_decimals)] * STEPS_PER_MINUTE
    return quotes_e8([math.exp(value) for value in _bridge(asset, minute, chance)], asset.price_decimals)


def _bridge(asset: Asset, minute: Minute, chance: Random) -> list[float]:
    """Twelve log prices that wander like the minute's volatility and end exactly where it closes."""
    noise, gauss = step_sd(asset, minute), chance.gauss
    walk = list(accumulate([gauss(0.0, noise) for _ in range(STEPS_PER_MINUTE)]))
    jumped = sum(size for _, size in minute.jumps)
    slope = (minute.change - jumped - walk[-1]) / STEPS_PER_MINUTE
    opened = minute.opened
    path = [opened + strayed + slope * step for step, strayed in enumerate(walk, start=1)]
    for jump_step, size in minute.jumps:
        path[jump_step:] = [value + size for value in path[jump_step:]]
    return path
