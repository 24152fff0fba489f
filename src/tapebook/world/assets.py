"""The assets the world lists, what is typical of each, and the price grid they are quoted on.

Prices, sizes, leverage, volume and open interest are rounded from a recorded Hyperliquid `metaAndAssetCtxs` answer;
betas, volatilities and depths are what traders would guess. Prices have at most five significant figures and
`6 - szDecimals` decimals; a whole number is always allowed, so a price of 100,001 keeps its six digits.
"""

import math

import msgspec

from tapebook.domain.units import E8

# Daily volatility of the common factor; an asset with beta 1 shares this much with all others.
MARKET_DAILY_VOL = 0.021

# Hyperliquid: a perp's price has at most six decimals, less one for every decimal of its size.
_PRICE_DECIMALS = 6


class Asset(msgspec.Struct, frozen=True):
    """One perp: how it is quoted, how it moves, how it trades."""

    symbol: str
    start_price_usd: float
    size_decimals: int
    max_leverage: int
    beta: float
    daily_vol: float
    premium_vol_bps: float
    spread_bps: float
    depth_usd_10bps: float
    daily_volume_usd: float
    trade_usd: float
    open_interest_base: float
    quiet_share: float
    # Half-life of the way back to the usual price: without one a year of 6 % days ends in prices no one would believe.
    home_days: float = 60.0
    # After so many days the usual price itself goes up and down; 0 is never.
    swings_after_days: int = 0

    @property
    def price_decimals(self) -> int:
        """The most decimals a price of this asset may have."""
        return _PRICE_DECIMALS - self.size_decimals

    @property
    def common_vol(self) -> float:
        """The part of the daily volatility that comes from the common factor."""
        return self.beta * MARKET_DAILY_VOL

    @property
    def own_vol(self) -> float:
        """The part of the daily volatility that is the asset's own."""
        return math.sqrt(self.daily_vol**2 - self.common_vol**2)


_BTC = Asset(
    symbol="BTC",
    start_price_usd=70_700.0,
    size_decimals=5,
    max_leverage=40,
    beta=1.0,
    daily_vol=0.025,
    premium_vol_bps=3.5,
    spread_bps=0.15,
    depth_usd_10bps=6_000_000.0,
    daily_volume_usd=3.2e9,
    trade_usd=2_500.0,
    open_interest_base=24_500.0,
    quiet_share=0.0,
)
_ETH = Asset(
    symbol="ETH",
    start_price_usd=2_060.0,
    size_decimals=4,
    max_leverage=25,
    beta=1.4,
    daily_vol=0.038,
    premium_vol_bps=4.0,
    spread_bps=0.5,
    depth_usd_10bps=3_500_000.0,
    daily_volume_usd=1.1e9,
    trade_usd=1_800.0,
    open_interest_base=594_000.0,
    quiet_share=0.0,
)
_SOL = Asset(
    symbol="SOL",
    start_price_usd=86.8,
    size_decimals=2,
    max_leverage=20,
    beta=1.55,
    daily_vol=0.047,
    premium_vol_bps=5.0,
    spread_bps=1.0,
    depth_usd_10bps=1_500_000.0,
    daily_volume_usd=2.6e8,
    trade_usd=1_200.0,
    open_interest_base=3_120_000.0,
    quiet_share=0.0,
)
_HYPE = Asset(
    symbol="HYPE",
    start_price_usd=35.0,
    size_decimals=2,
    max_leverage=10,
    beta=1.3,
    daily_vol=0.060,
    premium_vol_bps=8.0,
    spread_bps=1.5,
    depth_usd_10bps=900_000.0,
    daily_volume_usd=4.5e8,
    trade_usd=1_300.0,
    open_interest_base=17_700_000.0,
    quiet_share=0.0,
)
_DOGE = Asset(
    symbol="DOGE",
    start_price_usd=0.0934,
    size_decimals=0,
    max_leverage=10,
    beta=1.5,
    daily_vol=0.050,
    premium_vol_bps=6.0,
    spread_bps=1.8,
    depth_usd_10bps=220_000.0,
    daily_volume_usd=9.0e6,
    trade_usd=700.0,
    open_interest_base=235_000_000.0,
    quiet_share=0.004,
)
_KPEPE = Asset(
    symbol="kPEPE",
    start_price_usd=0.00335,
    size_decimals=0,
    max_leverage=10,
    beta=1.9,
    daily_vol=0.067,
    premium_vol_bps=8.0,
    spread_bps=4.0,
    depth_usd_10bps=120_000.0,
    daily_volume_usd=7.0e6,
    trade_usd=550.0,
    open_interest_base=3_070_000_000.0,
    quiet_share=0.008,
)

# The perps of a builder's dex: shares and metals, which follow coins only a little.
_TSLA = Asset(
    symbol="xyz:TSLA",
    start_price_usd=402.0,
    size_decimals=3,
    max_leverage=10,
    beta=0.4,
    daily_vol=0.030,
    premium_vol_bps=5.0,
    spread_bps=2.0,
    depth_usd_10bps=350_000.0,
    daily_volume_usd=2.4e7,
    trade_usd=1_500.0,
    open_interest_base=48_000.0,
    quiet_share=0.002,
)
_NVDA = msgspec.structs.replace(_TSLA, symbol="xyz:NVDA", start_price_usd=178.0, open_interest_base=190_000.0)
_GOLD = msgspec.structs.replace(
    _TSLA,
    symbol="xyz:GOLD",
    start_price_usd=4_100.0,
    size_decimals=4,
    max_leverage=20,
    beta=0.1,
    daily_vol=0.013,
    spread_bps=1.0,
    open_interest_base=14_000.0,
)

ASSETS = {asset.symbol: asset for asset in (_BTC, _ETH, _SOL, _HYPE, _DOGE, _KPEPE)}
DEFAULT_SYMBOLS = tuple(ASSETS)

BUILDER_ASSETS = {asset.symbol: asset for asset in (_TSLA, _NVDA, _GOLD)}
_ALL = {**ASSETS, **BUILDER_ASSETS}


def asset_of(symbol: str) -> Asset:
    """The asset of a symbol. Raises ValueError that names the symbols there are."""
    try:
        return _ALL[symbol]
    except KeyError:
        raise ValueError(f"the world has no {symbol!r}: choose from {', '.join(DEFAULT_SYMBOLS)}") from None


class PriceHabit(msgspec.Struct, frozen=True, omit_defaults=True):
    """That a price keeps to a range: with which half-life it comes back, and for how many days; 0 is for ever.

    Whoever follows its moves loses. Once the range has ended it swings for hours at a time, and they win.
    """

    half_life_days: float = 0.03
    range_days: int = 0


def ranging(asset: Asset, habit: PriceHabit) -> Asset:
    """The asset as one that keeps to a range."""
    return msgspec.structs.replace(asset, home_days=habit.half_life_days, swings_after_days=habit.range_days)


_FIGURES = 5
_TENS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def quote_e8(price: float, most_decimals: int) -> int:
    """A price on the exchange's grid."""
    tens = _TENS[decimals_of(price, most_decimals)]
    return round(price * tens) * (E8 // tens)


def quotes_e8(prices: list[float], most_decimals: int) -> list[int]:
    """Many prices on the grid; neighbours mostly share their number of decimals, which is then asked for twice only."""
    decimals = decimals_of(min(prices), most_decimals)
    if decimals_of(max(prices), most_decimals) != decimals:
        return [quote_e8(price, most_decimals) for price in prices]
    tens = _TENS[decimals]
    return [round(price * tens) * (E8 // tens) for price in prices]


def decimals_of(price: float, most_decimals: int) -> int:
    """How many decimals the exchange allows at this price."""
    whole_digits = math.floor(math.log10(price)) + 1
    return max(0, min(most_decimals, _FIGURES - whole_digits))


def tick_bps(price: float, most_decimals: int) -> float:
    """The smallest price change, as a share of the price: no spread is narrower."""
    return 10_000 / (_TENS[decimals_of(price, most_decimals)] * price)
