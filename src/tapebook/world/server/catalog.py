"""What is listed, as `meta`, `spotMeta` and `perpDexs` answer it, and the markets beside the perps.

The order of a universe is the asset id, so the delisted perps keep their places among the living. Spot pairs,
outcomes and delisted perps are here because an exchange's answers are full of them and a client must not stumble. A
spot pair follows the perp of its token at the oracle's price; an outcome follows how far a perp is from where it
started; a delisted perp keeps its last price for ever.
"""

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from tapebook.domain.market import Candle, Liquidity
from tapebook.domain.units import E8, E12
from tapebook.world.assets import Asset, asset_of, quotes_e8
from tapebook.world.listings import MinuteDetails
from tapebook.world.server import wire
from tapebook.world.server.levels import Grid

# A spot price has at most eight decimals less those of its size; six are all the world's grid knows.
_SPOT_DECIMALS, _GRID_DECIMALS = 8, 6

VOLUME_SHARE, _DEPTH_SHARE, _SPREAD_TIMES = 0.06, 0.1, 2.0

# An outcome's odds by the distance of its perp from the usual price, in these steps of the log price.
_OUTCOME_SCALE = 0.04


class SimulatedSpot(msgspec.Struct, frozen=True):
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
    SimulatedSpot("PURR/USDC", 0, 1, "PURR", 0, "HYPE", 0.0804 / 35.0),
    SimulatedSpot("@107", 107, 150, "HYPE", 2, "HYPE"),
    SimulatedSpot("@142", 142, 197, "UBTC", 5, "BTC"),
    SimulatedSpot("@151", 151, 221, "UETH", 4, "ETH"),
    SimulatedSpot("@156", 156, 254, "USOL", 3, "SOL"),
)

# The number of an outcome's first side, and the perp it follows; the other side has the next number.
OUTCOMES = {1710: "BTC", 1730: "ETH"}


class DelistedPerp(msgspec.Struct, frozen=True):
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
    DelistedPerp("MATIC", 1, 20, "0.37621", "0.3754"),
    DelistedPerp("RNDR", 1, 20, "6.8952", "7.03"),
    DelistedPerp("FTM", 0, 10, "0.71688", "0.712"),
    DelistedPerp("MKR", 4, 10, "1831.5", "1828.8"),
)


def spot_minute(spot: SimulatedSpot, drawn: MinuteDetails) -> MinuteDetails:
    """The minute of a spot pair, given that of the perp it follows."""
    times = spot.scale / (1 + drawn.context.premium_e12 / E12)
    candle, decimals = drawn.candle, spot.grid.price_decimals
    outer = [candle.low_e8, candle.high_e8]
    *mids, low, high = quotes_e8([price / E8 * times for price in (*drawn.mids_e8, *outer)], decimals)
    volume = _whole_lots(candle.volume_base * VOLUME_SHARE / spot.scale, spot.size_decimals)
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
    return MinuteDetails(mids, bar, _thinner_book(drawn.book, spot.name, mids[0]), drawn.context)


def _whole_lots(volume: float, size_decimals: int) -> float:
    """Whole lots, one at least where anything was traded."""
    return max(round(volume, size_decimals), 10.0**-size_decimals) if volume else 0.0


def _thinner_book(book: Liquidity, name: str, mid_e8: int) -> Liquidity:
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
    return {f"#{number}": wire.price_text(yes_e8), f"#{number + 1}": wire.price_text(E8 - yes_e8)}


BUILDER_DEX = "xyz"

# Tables below 50 are not listed by the exchange: their number is the leverage itself.
_TIERED = {
    10: (51, "3000000.0", 5),
    20: (53, "40000000.0", 10),
    25: (55, "100000000.0", 15),
    40: (56, "150000000.0", 20),
}

# Where the first delisted perp stands in the main universe.
_DELISTED_FROM = 2


def universe_names(symbols: list[str], *, dex: str) -> list[str]:
    """All names of a dex in the order of their ids."""
    if dex:
        return symbols
    return [*symbols[:_DELISTED_FROM], *(each.name for each in DELISTED), *symbols[_DELISTED_FROM:]]


def meta_response(symbols: list[str], *, dex: str, delisted: Iterable[DelistedPerp] = DELISTED) -> dict[str, Any]:
    """The answer to `meta`."""
    gone = {each.name: each for each in delisted}
    rows = []
    for name in universe_names(symbols, dex=dex):
        if name in gone:
            row = _perp_row(name, gone[name].size_decimals, gone[name].max_leverage)
            rows.append({**row, "isDelisted": True})
        else:
            asset = asset_of(name)
            row = _perp_row(name, asset.size_decimals, asset.max_leverage)
            rows.append({**row, "onlyIsolated": True, "marginMode": "strictIsolated"} if dex else row)
    return {"universe": rows, "marginTables": _margin_tables(), "collateralToken": 0}


def _perp_row(name: str, size_decimals: int, max_leverage: int) -> dict[str, Any]:
    table = _TIERED.get(max_leverage, (max_leverage,))[0]
    return {"szDecimals": size_decimals, "name": name, "maxLeverage": max_leverage, "marginTableId": table}


def _margin_tables() -> list[list[Any]]:
    return [
        [
            number,
            {
                "description": f"tiered {leverage}x",
                "marginTiers": [
                    {"lowerBound": "0.0", "maxLeverage": leverage},
                    {"lowerBound": bound, "maxLeverage": less},
                ],
            },
        ]
        for leverage, (number, bound, less) in _TIERED.items()
    ]


def spot_meta_response() -> dict[str, Any]:
    """The answer to `spotMeta`: an `index` is not a position, neither of pairs nor of tokens."""
    pairs = [
        {"tokens": [spot.token, 0], "name": spot.name, "index": spot.index, "isCanonical": spot.index == 0}
        for spot in SPOTS
    ]
    tokens = [
        _token_row("USDC", 0, 8),
        *(_token_row(spot.token_name, spot.token, spot.size_decimals) for spot in SPOTS),
    ]
    return {"universe": pairs, "tokens": tokens}


def _token_row(name: str, index: int, size_decimals: int) -> dict[str, Any]:
    return {
        "name": name,
        "szDecimals": size_decimals,
        "weiDecimals": 8,
        "index": index,
        "tokenId": f"0x{_digest(f'token {name}')[:32]}",
        "isCanonical": index <= 1,
        "evmContract": None,
        "fullName": None,
        "deployerTradingFeeShare": "0.0",
    }


def perp_dexs_response(builder_symbols: list[str]) -> list[Any]:
    """The answer to `perpDexs`: null stands for the main dex."""
    return [
        None,
        {
            "name": BUILDER_DEX,
            "fullName": BUILDER_DEX.upper(),
            "deployer": account_address(f"deployer {BUILDER_DEX}"),
            "oracleUpdater": None,
            "feeRecipient": account_address(f"fees {BUILDER_DEX}"),
            "assetToStreamingOiCap": [[symbol, "25000000.0"] for symbol in builder_symbols],
            "subDeployers": [["setOracle", [account_address(f"oracle {BUILDER_DEX}")]]],
            "deployerFeeScale": "1.0",
            "lastDeployerFeeScaleChangeTime": "1970-01-01T00:00:00",
            "assetToFundingMultiplier": [[symbol, "0.5"] for symbol in builder_symbols],
            "assetToFundingInterestRate": [],
        },
    ]


def account_address(of: str) -> str:
    """A made-up account, the same for the same name."""
    return f"0x{_digest(of)[:40]}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
