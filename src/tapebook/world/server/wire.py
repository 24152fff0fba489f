"""Numbers and rows as Hyperliquid writes them: decimal strings without trailing zeros, but never without a decimal.

Prices and rates are cut from integers, so that what a client reads back is the world's number to the last digit.
"""

from typing import Any

from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import SECOND
from tapebook.world.random_streams import stream_seed

_FUNDING_LAG_MS = 60


def price_text(value_e8: int) -> str:
    """`7070000000000` as `70700.0`."""
    return _decimal_digits(value_e8, 8)


def rate_text(value_e12: int) -> str:
    """`12500000` as `0.0000125`."""
    return _decimal_digits(value_e12, 12)


def _decimal_digits(value: int, digits: int) -> str:
    sign = "-" if value < 0 else ""
    whole, part = divmod(abs(value), 10**digits)
    return f"{sign}{whole}.{part:0{digits}d}".rstrip("0") if part else f"{sign}{whole}.0"


def amount_text(value: float, decimals: int) -> str:
    """A size or a volume with at most so many decimals."""
    # A float would write `1e-05` or `2.0000000000000004`.
    text = f"{value:.{decimals}f}"
    if "." not in text:
        return f"{text}.0"
    text = text.rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def candle_text(bar: Candle, interval: str, size_decimals: int) -> str:
    """A bar as JSON, in the order of the socket's keys."""
    # Written by hand because five seconds hold hundreds of them.
    volume = amount_text(bar.volume_base, size_decimals)
    return (
        f'{{"t":{bar.bucket_ts},"T":{bar.bucket_ts + bar.granularity_sec * SECOND - 1},"s":"{bar.symbol}",'
        f'"i":"{interval}","o":"{price_text(bar.open_e8)}","c":"{price_text(bar.close_e8)}","h":"{price_text(bar.high_e8)}",'
        f'"l":"{price_text(bar.low_e8)}","v":"{volume}","n":{bar.sample_count}}}'
    )


def funding_row(settled: FundingRate, seed: int) -> dict[str, Any]:
    """A settled rate; the exchange books it some milliseconds past the hour."""
    lag = stream_seed(seed, "funding lag", settled.symbol, minute=settled.bucket_ts) % _FUNDING_LAG_MS
    return {
        "coin": settled.symbol,
        "fundingRate": rate_text(settled.rate_e12),
        "premium": rate_text(settled.premium_e12),
        "time": settled.bucket_ts + lag,
    }
