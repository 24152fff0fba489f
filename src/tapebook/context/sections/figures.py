"""Money, prices and amounts as lines write them; cached, since caps, entries and extremes seldom change."""

from decimal import Decimal
from functools import lru_cache

from tapebook.domain.money import E6, decimal_text, divide, short_price

_CENT = E6 // 100


@lru_cache(maxsize=1_024)
def price(price_e8: int) -> str:
    """A price with separators and no idle zeros: `65,200`, `3,420`, `3,420.1`, `0.012346`."""
    whole, _, part = short_price(price_e8).partition(".")
    part = part.rstrip("0")
    return f"{int(whole):,}.{part}" if part else f"{int(whole):,}"


@lru_cache(maxsize=64)
def usd(amount_e6: int) -> str:
    """An amount to the cent, as a number: `1020.00`; few are kept, for what is worth money moves with every mark."""
    text = str(divide(amount_e6, _CENT))
    # Ten dollars or more, or a dollar or more below nothing, need no zeros before their digits.
    return f"{text[:-2]}.{text[-2:]}" if len(text) > 3 else decimal_text(amount_e6, E6, 2)


@lru_cache(maxsize=1_024)
def whole_usd(amount_e6: int) -> str:
    """An amount without cents: `$250`."""
    return f"${int(decimal_text(amount_e6, E6, 0)):,}"


@lru_cache(maxsize=1_024)
def signed_usd(amount_e6: int, digits: int = 2) -> str:
    """A result with its sign: `+$28.40`, `-$9.70`."""
    text = decimal_text(abs(amount_e6), E6, digits)
    return f"{'-' if amount_e6 < 0 else '+'}${text}"


def percent(part_e6: int, whole_e6: int, *, digits: int = 1) -> str:
    """A share with its sign: `+1.1%`; integers all the way."""
    text = decimal_text(abs(part_e6) * 100, abs(whole_e6), digits) if whole_e6 else f"{0:.{digits}f}"
    return f"{'-' if part_e6 < 0 else '+'}{text}%"


def statistic(value: float, digits: int) -> str:
    """A statistic with declared digits; what rounds to zero has no sign, so that equal values have equal texts."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def three_digits(value: float) -> str:
    """A volume with three significant digits: `17700`, `12.5`, `0.000123`; in powers of ten when it is absurd."""
    # Plus zero: a zero has no sign, so that equal values have equal texts.
    text = f"{value + 0.0:.3g}"
    if "e" not in text or not 1e-9 < abs(value) < 1e15:
        return text
    return f"{Decimal(text):f}"
