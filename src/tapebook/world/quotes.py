"""Prices as Hyperliquid quotes them: at most five significant figures and `6 - szDecimals` decimals.

A whole number is always allowed, so a price of 100,001 keeps its six digits.
"""

import math

from tapebook.domain.money import E8

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
