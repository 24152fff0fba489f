"""Money, prices and amounts as lines write them; cached, since caps, entries and extremes seldom change."""

from decimal import Decimal
from functools import lru_cache

from tapebook.domain.money import E6, decimal_text, short_price

_CENT = E6 // 100
_HALF_CENT = _CENT // 2
_CENTS = tuple(f".{cents:02d}" for cents in range(100))


@lru_cache(maxsize=1_024)
def price(price_e8: int) -> str:
    """A price with separators and no idle zeros: `65,200`, `3,420`, `3,420.1`, `0.012346`."""
    whole, _, part = short_price(price_e8).partition(".")
    part = part.rstrip("0")
    return f"{int(whole):,}.{part}" if part else f"{int(whole):,}"


def usd(amount_e6: int) -> str:
    """An amount to the cent, as a number: `1020.00`; not cached, for what is worth money moves with every mark."""
    # What `divide` does, written out.
    cents, rest = divmod(amount_e6, _CENT)
    if rest > _HALF_CENT or (rest == _HALF_CENT and cents % 2):
        cents += 1
    return f"{cents // 100}{_CENTS[cents % 100]}" if cents >= 0 else f"-{-cents // 100}{_CENTS[-cents % 100]}"


settled_usd = lru_cache(maxsize=1_024)(usd)
"""The same for an amount that does not move with the mark."""


@lru_cache(maxsize=1_024)
def whole_usd(amount_e6: int) -> str:
    """An amount without cents: `$250`."""
    return f"${int(decimal_text(amount_e6, E6, 0)):,}"


@lru_cache(maxsize=1_024)
def signed_usd(amount_e6: int, digits: int = 2) -> str:
    """A result with its sign: `+$28.40`, `-$9.70`."""
    text = decimal_text(abs(amount_e6), E6, digits)
    return f"{'-' if amount_e6 < 0 else '+'}${text}"


@lru_cache(maxsize=1_024)
def extreme_usd(amount_e6: int) -> str:
    """How far a trade has been, without cents: `+$22`, `-$8`; what rounds to nothing has no sign."""
    text = signed_usd(amount_e6, 0)
    return "$0" if text[1:] == "$0" else text


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
