"""Money and prices as the lines about trades write them."""

from tapebook.domain.money import E6, decimal_text, short_price


def price(price_e8: int) -> str:
    """A price with separators and no idle zeros: `65,200`, `3,420`, `3,420.1`, `0.012346`."""
    whole, _, part = short_price(price_e8).partition(".")
    part = part.rstrip("0")
    return f"{int(whole):,}.{part}" if part else f"{int(whole):,}"


def whole_usd(amount_e6: int) -> str:
    """An amount without cents: `$250`."""
    return f"${int(decimal_text(amount_e6, E6, 0)):,}"


def signed_usd(amount_e6: int, *, digits: int = 2) -> str:
    """A result with its sign: `+$28.40`, `-$9.70`."""
    text = decimal_text(abs(amount_e6), E6, digits)
    return f"{'-' if amount_e6 < 0 else '+'}${text}"


def percent(part_e6: int, whole_e6: int) -> str:
    """A share with its sign and one decimal: `+1.1%`; integers all the way."""
    text = decimal_text(abs(part_e6) * 100, abs(whole_e6), 1) if whole_e6 else "0.0"
    return f"{'-' if part_e6 < 0 else '+'}{text}%"
