"""Time and bars: what the price did over the horizon."""

from functools import lru_cache

from tapebook.context.quote import symbol_text
from tapebook.context.sections import Layout
from tapebook.context.sections.figures import three_digits
from tapebook.context.situation import Market
from tapebook.domain.instants import clock_text, minute_text
from tapebook.domain.market import Candle
from tapebook.domain.money import short_price
from tapebook.domain.packet import Section

COLUMNS = ("time", "high", "low", "close", "volume")


def build(market: Market) -> Section | None:
    """One row per bar; the open is left out because it is the close before it."""
    what = f"{symbol_text(market.symbol)} {market.bar_minutes}m bars, {' '.join(COLUMNS)}"
    title = f"Time and bars: now {minute_text(market.as_of)} UTC, {what}"
    return Section("bars", title, COLUMNS, tuple(_row(bar) for bar in market.bars))


@lru_cache(maxsize=20_000)
def _row(bar: Candle) -> tuple[str, ...]:
    """Cached, since most bars of a packet were in the one before."""
    # From an hour up, bars reach over days and the time of day alone would repeat itself; the year is in the title.
    when = clock_text(bar.bucket_ts) if bar.granularity_sec < 3600 else minute_text(bar.bucket_ts)[5:]
    prices = (short_price(price) for price in (bar.high_e8, bar.low_e8, bar.close_e8))
    return (when, *prices, three_digits(bar.volume_base))


LAYOUT = Layout(name="bars", cap=1_600, build=build, line=" ".join, oldest_first=True)
