"""The units of everything that is counted: UTC milliseconds, and integers for all that is worth money.

Instants are milliseconds since 1970. Prices and sizes are `_e8`, money is `_usd_e6`, rates are `_e12`. Python
multiplies them without overflow; a product is brought back to a unit by `divide_half_even`, so that many roundings do
not drift to one side. Both are read from text here, and written as text.
"""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import dist, isfinite
from math import floor as whole
from typing import overload

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Fewer digits are a date such as 20260131.
_EPOCH_MS = re.compile(r"-?[0-9]{9,15}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 to 9999: what can be written as a date.
_FIRST_INSTANT, _LAST_INSTANT = -62_135_596_800_000, 253_402_300_799_999
DAY_MINUTES = DAY // MINUTE
# How a number with so many decimals is written.
_FIXED = tuple(f"%.{digits}f" for digits in range(7))
# Every time of day there is: a packet writes many.
TIMES_OF_DAY = tuple(f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(DAY_MINUTES))


def parse_instant(text: str) -> int:
    """ISO-8601 (UTC when no zone is named) or epoch milliseconds as an instant. Raises ValueError with the remedy."""
    if _EPOCH_MS.fullmatch(text) and _FIRST_INSTANT <= int(text) <= _LAST_INSTANT:
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time: write it like 2026-01-31T12:05:00Z or as epoch milliseconds"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso_text(instant: int) -> str:
    """An instant as `2026-01-31T12:05:00.000Z`."""
    time = f"{TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]}:{instant // SECOND % 60:02d}.{instant % SECOND:03d}"
    return f"{_day_text(instant // DAY)}T{time}Z"


def minute_text(instant: int) -> str:
    """An instant as `2026-01-31T12:05`, for lines people and models read."""
    return f"{_day_text(instant // DAY)}T{TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]}"


def time_of_day_text(instant: int) -> str:
    """The time of day of an instant as `12:05`."""
    return TIMES_OF_DAY[instant // MINUTE % DAY_MINUTES]


@lru_cache(maxsize=1_024)
def _day_text(day: int) -> str:
    """A day as `2026-01-31`."""
    # Cached, since the moments of a run of ticks are of few days.
    return f"{_EPOCH + timedelta(days=day):%Y-%m-%d}"


def floor_to_step(instant: int, step: int) -> int:
    """The newest multiple of `step` at or before the instant."""
    return instant - instant % step


E6 = 10**6
E8 = 10**8
E12 = 10**12
# Beyond so many powers of ten a number is no price or size, and scaling it would take Decimal its time.
_MAX_DIGITS = 30
# Of what a size times a price is counted in for every millionth of a USD.
_HALF_USD_E6 = 5 * 10**9
# From here on a price has five digits before the point and none after it.
_WHOLE_PRICE = 10_000 * E8

# What a float times a unit may be: up to the most it is off by a fifth of a unit, and below the least it says nothing.
_LEAST_FLOAT, _MOST_FLOAT = 0.5, 9e14
# So near to an integer it is nearer to it than to any other, the fifth included.
_NEAREST_WITHIN = 0.25


def divide_half_even(numerator: int, denominator: int) -> int:
    """Exact integer division, rounded half to even; works for negative numbers alike."""
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice > denominator or (twice == denominator and quotient % 2):
        return quotient + 1
    return quotient


def notional_usd_e6(size_e8: int, price_e8: int) -> int:
    """What `size` is worth at `price`; signed like the size."""
    # What `divide_half_even` does, written out: a tick asks for the worth of what is held a dozen times.
    quotient, remainder = divmod(size_e8 * price_e8, 10**10)
    if remainder > _HALF_USD_E6 or (remainder == _HALF_USD_E6 and quotient % 2):
        return quotient + 1
    return quotient


@lru_cache(maxsize=1_024)
def average_price_e8(notional_e6: int, size_e8: int) -> int:
    """The average price at which `size` costs `notional`; both signs cancel.

    Cached, since it is asked for at every tick of a trade and changes with its fills alone.
    """
    return divide_half_even(abs(notional_e6) * 10**10, abs(size_e8))


def size_e8_for(notional_e6: int, price_e8: int) -> int:
    """How much of the asset `notional` buys at `price`, rounded towards zero: never more than asked for."""
    size = abs(notional_e6) * 10**10 // price_e8
    return size if notional_e6 >= 0 else -size


def to_units(text: str | int | float | Decimal, unit: int) -> int:
    """A decimal text as an integer of `unit`: `to_units("0.1", E8)` is 10_000_000. ValueError when it is no number."""
    quick = _float_to_units(text, unit) if isinstance(text, float) else None
    if quick is not None:
        return quick
    try:
        value = Decimal(str(text))
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error
    if not value.is_finite() or value.adjusted() > _MAX_DIGITS:
        raise ValueError(f"{text!r} is not a number anybody can hold")
    if value.adjusted() < -_MAX_DIGITS:
        return 0
    # As a fraction, the product is exact: Decimal would round it to the digits of the thread's context first.
    numerator, denominator = value.as_integer_ratio()
    return divide_half_even(numerator * unit, denominator)


def to_e8(text: str) -> int:
    """What `to_units(text, E8)` gives or raises, several times as fast for positive numbers of up to eight decimals."""
    try:
        value = float(text) * E8
    except ValueError:
        return to_units(text, E8)
    if _LEAST_FLOAT <= value < _MOST_FLOAT:
        # `floor` of a half more is a quarter faster than `round`.
        nearest = whole(value + 0.5)
        if -_NEAREST_WITHIN <= value - nearest <= _NEAREST_WITHIN:
            return nearest
    return to_units(text, E8)


def _float_to_units(number: float, unit: int) -> int | None:
    """A shortcut for the text of a float, and for zero; None when the text must be parsed."""
    if not number:
        return 0
    value = number * unit
    if not _LEAST_FLOAT <= value < _MOST_FLOAT:
        return None
    nearest = whole(value + 0.5)
    return nearest if -_NEAREST_WITHIN <= value - nearest <= _NEAREST_WITHIN else None


def floats_to_e8(numbers: Collection[float]) -> list[int] | None:
    """Floats as what `to_e8` would give for the texts they were read from; None when the texts must be asked."""
    # A float times a float: an integer would be turned into one for each of a thousand.
    unit = float(E8)
    values = [number * unit for number in numbers]
    # A number that is none can pass this comparison, and not the next one.
    if not values or not (min(values) >= _LEAST_FLOAT and max(values) < _MOST_FLOAT):
        return None
    try:
        nearest = [whole(value + 0.5) for value in values]
    except ValueError:
        return None
    # The distance of all together is no less than that of any one.
    return nearest if dist(values, nearest) <= _NEAREST_WITHIN else None


def decimal_text(value: int, unit: int, digits: int) -> str:
    """An integer of `unit` as text with exactly `digits` decimals: never a float on the way."""
    # What `divide_half_even` does, written out: a packet writes dozens, and no unit is negative.
    shifted, remainder = divmod(value * 10**digits, unit)
    if 2 * remainder > unit or (2 * remainder == unit and shifted % 2):
        shifted += 1
    if not digits:
        return str(shifted)
    # Zeros are put behind the sign.
    text = str(shifted).zfill(digits + (1 if shifted >= 0 else 2))
    return f"{text[:-digits]}.{text[-digits:]}"


@overload
def statistic_text(value: float, digits: int) -> str: ...


@overload
def statistic_text(value: float | None, digits: int) -> str | None: ...


def statistic_text(value: float | None, digits: int) -> str | None:
    """A statistic with declared digits, if it is known; ValueError when it is not finite.

    What rounds to zero has no sign, so that equal values have equal texts.
    """
    if value is None:
        return None
    if not isfinite(value):
        raise ValueError(f"{value} is no statistic: the fact it came from must be refused where it arrives")
    text = _FIXED[digits] % value
    return text.removeprefix("-") if not text.strip("-0.") else text


@lru_cache(maxsize=1_024)
def short_price(price_e8: int) -> str:
    """A price with five significant digits, as the exchange quotes it; whole numbers keep all their digits.

    Cached, since a packet shows its mark several times, and an entry in all packets of a trade.
    """
    if price_e8 >= _WHOLE_PRICE:
        return str(divide_half_even(price_e8, E8))
    digits = 5 - _digits_before_point(price_e8)
    shown = max(0, min(8, digits))
    shifted = divide_half_even(price_e8 * 10**shown, E8)
    # 99.9996 rounds up to 100.000: one digit more before the point, one less after it.
    fewer = 5 - _digits_before_point(shifted * 10 ** (8 - shown))
    return decimal_text(price_e8, E8, shown if fewer == digits else max(0, min(8, fewer)))


def _digits_before_point(price_e8: int) -> int:
    """How many digits a price has before the point; below 0.1 it is the count of zeros after it, negative."""
    return len(str(price_e8)) - 8 if price_e8 else 1
