"""Prices, volumes, counts and rates as the numbers of the tape; what is no such number is bad, never a guess."""

import math
from collections.abc import Sequence
from typing import Any

from tapebook.domain.money import E8, E12, scaled

# Below this a float times 10**8 is off by less than half a unit, so rounding gives the exact integer.
_FAST_LIMIT = 9e6
_LEAST_PRICE = 1 / E8
_LARGEST = 2**63
# Far beyond any market, and far enough from infinity to be multiplied by a price.
_MOST_VOLUME = 1e30
# From here on eight decimals are more digits than anybody quotes.
_CHEAP = 100 * E8

BAD_PRICE = 0
BAD_VOLUME = -1.0


def prices_e8(values: Sequence[Any]) -> list[int]:
    """A column of prices; BAD_PRICE for what is none."""
    floats = _floats(values)
    if floats and min(floats) >= _LEAST_PRICE and max(floats) < _FAST_LIMIT:
        return [round(price * E8) for price in floats]
    return [price_e8(value) for value in values]


def price_e8(value: Any) -> int:
    """A positive price, to eight decimals; BAD_PRICE when it is none."""
    if value is True or value is False:
        return BAD_PRICE
    try:
        price = float(value)
        if _LEAST_PRICE <= price < _FAST_LIMIT:
            return round(price * E8)
        exact = scaled(value, E8)
    except (TypeError, ValueError, OverflowError):
        return BAD_PRICE
    return exact if 0 < exact < _LARGEST else BAD_PRICE


def count_rounded(values: Sequence[Any], kept: Sequence[int]) -> int:
    """How many prices had more digits than the eight decimals that are kept."""
    if not kept or max(kept) >= _CHEAP:
        return 0
    pairs = ((float(value) * E8, price) for value, price in zip(values, kept, strict=True) if price != BAD_PRICE)
    return sum(abs(exact - price) > 1e-3 for exact, price in pairs)


def volumes(values: Sequence[Any]) -> list[float]:
    """A column of volumes; BAD_VOLUME for what is none."""
    floats = _floats(values)
    fits = floats and min(floats) >= 0 and max(floats) < _MOST_VOLUME
    return floats if fits else [volume(value) for value in values]


def _floats(values: Sequence[Any]) -> list[float]:
    """A whole block at once; empty unless all of it are finite numbers."""
    try:
        floats = list(map(float, values)) if bool not in set(map(type, values)) else []
    except (TypeError, ValueError, OverflowError):
        return []
    # A sum is finite only when all of its numbers are.
    return floats if math.isfinite(sum(floats)) else []


def volume(value: Any) -> float:
    """A volume that is not negative; BAD_VOLUME when it is none."""
    try:
        amount = float(value)
    except (TypeError, ValueError, OverflowError):
        return BAD_VOLUME
    # A number that is not finite fails this comparison.
    return amount if 0 <= amount < _MOST_VOLUME and not isinstance(value, bool) else BAD_VOLUME


def count(value: Any) -> int:
    """A number of trades; -1 when it is none."""
    amount = volume(value)
    return int(amount) if amount.is_integer() and amount < 2**53 else -1


def rate_e12(value: Any) -> int | None:
    """A rate as a fraction, or with a percent sign; None when it is none."""
    if value is None or isinstance(value, bool):
        return None
    text = str(value).strip()
    try:
        return scaled(text[:-1], E12 // 100) if text.endswith("%") else scaled(text, E12)
    except ValueError:
        return None


def why_bad(name: str, value: Any) -> str:
    """Why a value cannot be used, in words."""
    if value is None or value == "":
        return f"{name} is missing"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return f"{name} {str(value)[:40]!r} is not a number"
    if math.isnan(number):
        return f"{name} is missing (NaN)"
    if number < 0:
        return f"{name} {str(value)[:40]} is negative"
    return f"{name} is 0" if number == 0 else f"{name} {str(value)[:40]} is more than the tape can hold"


def decimals_used(common: int) -> int:
    """How many of the eight decimals prices need, by their greatest common divisor."""
    return next(digits for digits in range(9) if common % 10 ** (8 - digits) == 0)
