"""The markets beside the perps: spot pairs, outcomes, and perps that are no longer traded.

They are here because an exchange's answers are full of them and a client must not stumble. A spot
pair follows the perp of its token at the oracle's price; an outcome follows how far a perp is from
where it started; a delisted perp stands still for ever.
"""

import math
from typing import Any

import msgspec
from msgspec.structs import replace

from tapebook.domain.market import Candle, Liquidity
from tapebook.domain.money import E8, E12
from tapebook.world.assets import Asset
from tapebook.world.listings import Drawn
from tapebook.world.quotes import quotes_e8
from tapebook.world.server import wire
from tapebook.world.server.levels import Grid

# A spot price has at most eight decimals less those of its size; six are all the world's grid knows.
_SPOT_DECIMALS, _GRID_DECIMALS = 8, 6

VOLUME_SHARE, _DEPTH_SHARE, _SPREAD_TIMES = 0.06, 0.1, 2.0

# An outcome's odds by the distance of its perp from the usual price, in these steps of the log price.
_OUTCOME_SCALE = 0.04


class Spot(msgspec.Struct, frozen=True):
    """A spot pair: its name on the wire, its number, its token, and the perp it follows, `scale` times as dear."""

    name: str
    index: int
    token: int
    token_name: str
    size_decimals: int
    follows: str
    scale: float = 1.0

    @property
    def grid(self) -> Grid:
        """How the pair is quoted."""
        return Grid(min(_GRID_DECIMALS, _SPOT_DECIMALS - self.size_decimals), self.size_decimals)


SPOTS = (
    Spot("PURR/USDC", 0, 1, "PURR", 0, "HYPE", 0.0804 / 35.0),
    Spot("@107", 107, 150, "HYPE", 2, "HYPE"),
    Spot("@142", 142, 197, "UBTC", 5, "BTC"),
    Spot("@151", 151, 221, "UETH", 4, "ETH"),
    Spot("@156", 156, 254, "USOL", 3, "SOL"),
)

# The number of an outcome's first side, and the perp it follows; the other side has the next number.
OUTCOMES = {1710: "BTC", 1730: "ETH"}


class Delisted(msgspec.Struct, frozen=True):
    """A perp that is no longer traded, with the prices it froze at."""

    name: str
    size_decimals: int
    max_leverage: int
    mark: str
    oracle: str

    def context(self) -> dict[str, Any]:
        """What the exchange still says of it."""
        return {
            "funding": "0.0",
            "openInterest": "0.0",
            "prevDayPx": self.mark,
            "dayNtlVlm": "0.0",
            "dayBaseVlm": "0.0",
            "premium": None,
            "oraclePx": self.oracle,
            "markPx": self.mark,
            "midPx": None,
            "impactPxs": None,
        }


DELISTED = (
    Delisted("MATIC", 1, 20, "0.37621", "0.3754"),
    Delisted("RNDR", 1, 20, "6.8952", "7.03"),
    Delisted("FTM", 0, 10, "0.71688", "0.712"),
    Delisted("MKR", 4, 10, "1831.5", "1828.8"),
)


def follow(spot: Spot, drawn: Drawn) -> Drawn:
    """The minute of a spot pair, given that of the perp it follows."""
    times = spot.scale / (1 + drawn.context.premium_e12 / E12)
    candle, decimals = drawn.candle, spot.grid.price_decimals
    outer = [candle.low_e8, candle.high_e8]
    *mids, low, high = quotes_e8([price / E8 * times for price in (*drawn.mids_e8, *outer)], decimals)
    volume = _lots(candle.volume_base * VOLUME_SHARE / spot.scale, spot.size_decimals)
    bar = Candle(
        symbol=spot.name,
        granularity_sec=candle.granularity_sec,
        bucket_ts=candle.bucket_ts,
        open_e8=mids[0],
        high_e8=high,
        low_e8=low,
        close_e8=mids[-1],
        volume_base=volume,
        volume_quote_usd=round(volume * (low + high) / 2 / E8, 2),
        sample_count=math.ceil(candle.sample_count * VOLUME_SHARE),
    )
    return Drawn(mids, bar, _thinner(drawn.book, spot.name, mids[0]), drawn.context)


def _lots(volume: float, size_decimals: int) -> float:
    """Whole lots, one at least where anything was traded."""
    return max(round(volume, size_decimals), 10.0**-size_decimals) if volume else 0.0


def _thinner(book: Liquidity, name: str, mid_e8: int) -> Liquidity:
    return replace(
        book,
        symbol=name,
        mid_e8=mid_e8,
        spread_bps=book.spread_bps * _SPREAD_TIMES,
        depth_usd_10bps=book.depth_usd_10bps * _DEPTH_SHARE,
        depth_usd_50bps=book.depth_usd_50bps * _DEPTH_SHARE,
        depth_usd_100bps=book.depth_usd_100bps * _DEPTH_SHARE,
    )


def outcome_mids(number: int, perp: Asset, mid_e8: int) -> dict[str, str]:
    """Both sides of an outcome; together they are worth one."""
    odds = 1 / (1 + math.exp(-math.log(mid_e8 / E8 / perp.start_price_usd) / _OUTCOME_SCALE))
    yes_e8 = round(odds * 10**6) * (E8 // 10**6)
    return {f"#{number}": wire.price(yes_e8), f"#{number + 1}": wire.price(E8 - yes_e8)}
