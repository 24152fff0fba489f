"""The 1-minute bar over the mids of one minute, with the trading that made it.

Trades happen between the mids too, so the wicks reach a little beyond them. Volume follows the
heat of the market and the size of the move.
"""

import math
from random import Random

from tapebook.domain.instants import MINUTE, SECOND
from tapebook.domain.market import Candle
from tapebook.domain.money import E8
from tapebook.world.assets import Asset
from tapebook.world.cadence import MINUTES_PER_DAY
from tapebook.world.prices import Minute, step_sd
from tapebook.world.quotes import quote_e8

# Set so that a day's bars add up to about the asset's daily volume (measured).
_VOLUME_SCALE = 0.94
_VOLUME_SD = 0.7


def candle_of(asset: Asset, minute: Minute, chance: Random, *, at: int, mids_e8: list[int]) -> Candle:
    """The final bar of the minute that began at `at`; flat, empty and without trades when it was quiet."""
    low = high = mids_e8[0]
    base, quote, trades = 0.0, 0.0, 0
    if not minute.quiet:
        low, high = _wicks(asset, minute, chance, mids_e8=mids_e8)
        base, quote, trades = _trading(asset, minute, chance, price=(low + high) / 2 / E8)
    return Candle(
        symbol=asset.symbol,
        granularity_sec=MINUTE // SECOND,
        bucket_ts=at,
        open_e8=mids_e8[0],
        high_e8=high,
        low_e8=low,
        close_e8=mids_e8[-1],
        volume_base=base,
        volume_quote_usd=quote,
        sample_count=trades,
    )


def _wicks(asset: Asset, minute: Minute, chance: Random, *, mids_e8: list[int]) -> tuple[int, int]:
    """Low and high, each about half a step's move beyond the outermost mid."""
    reach = 0.5 * step_sd(asset, minute)
    below, above = abs(chance.gauss(0.0, reach)), abs(chance.gauss(0.0, reach))
    low = quote_e8(min(mids_e8) / E8 * (1 - below), asset.price_decimals)
    high = quote_e8(max(mids_e8) / E8 * (1 + above), asset.price_decimals)
    return low, high


def _trading(asset: Asset, minute: Minute, chance: Random, *, price: float) -> tuple[float, float, int]:
    """Base volume in whole lots, its value at about the middle of the bar, and the number of trades."""
    typical = asset.daily_volume_usd / MINUTES_PER_DAY * _VOLUME_SCALE
    surprise = abs(minute.change) / (minute.heat * asset.daily_vol) * math.sqrt(MINUTES_PER_DAY)
    wanted = typical * minute.heat * (0.6 + 0.5 * surprise) * math.exp(chance.gauss(0.0, _VOLUME_SD))
    base = max(round(wanted / price, asset.size_decimals), 10.0**-asset.size_decimals)
    quote = base * price
    trades = max(1, round(quote / asset.trade_usd * math.exp(chance.gauss(0.0, 0.2))))
    return base, round(quote, 2), trades
