"""The order book of an asset, boiled down: spread, depth and which side is heavier.

Makers step back when the market is hot: the spread widens and the depth thins.
"""

import math
from random import Random

from tapebook.domain.market import Liquidity
from tapebook.domain.money import E8
from tapebook.world.assets import Asset
from tapebook.world.quotes import tick_bps

_SPREAD_BY_HEAT = 0.7
_DEPTH_BY_HEAT = -0.8

# How much more lies within 0.5 % than within 0.1 %, and within 1 % than within 0.5 %.
_DEEPER_50BPS, _DEEPER_100BPS = 3.2, 1.6

_LEAN_BY_MOMENTUM, _LEAN_SD = 0.15, 0.3


def liquidity_of(asset: Asset, chance: Random, *, at: int, mid_e8: int, heat: float, momentum: float) -> Liquidity:
    """The book at an instant, given how hot the market is and where it has been going."""
    gauss = chance.gauss
    spread = asset.spread_bps * heat**_SPREAD_BY_HEAT * math.exp(gauss(0.0, 0.25))
    near = asset.depth_usd_10bps * heat**_DEPTH_BY_HEAT * math.exp(gauss(0.0, 0.25))
    middle = near * (1 + (_DEEPER_50BPS - 1) * math.exp(gauss(0.0, 0.15)))
    far = middle * (1 + (_DEEPER_100BPS - 1) * math.exp(gauss(0.0, 0.15)))
    lean = math.tanh(_LEAN_BY_MOMENTUM * momentum + gauss(0.0, _LEAN_SD))
    return Liquidity(
        symbol=asset.symbol,
        bucket_ts=at,
        mid_e8=mid_e8,
        spread_bps=round(max(spread, tick_bps(mid_e8 / E8, asset.price_decimals)), 4),
        depth_usd_10bps=round(near, 2),
        depth_usd_50bps=round(middle, 2),
        depth_usd_100bps=round(far, 2),
        imbalance=round(lean, 4),
    )
