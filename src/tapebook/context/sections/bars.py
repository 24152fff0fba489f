"""Time and bars: what the price did over the horizon."""

from tapebook.context.quote import symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import three_digits
from tapebook.context.situation import Market
from tapebook.domain.instants import clock_text, minute_text
from tapebook.domain.market import Candle
from tapebook.domain.money import short_price

COLUMNS = ("time", "high", "low", "close", "volume")


def title(market: Market) -> str:
    """Says the time, even without a bar."""
    what = f"{symbol_text(market.symbol)} {market.bar_minutes}m bars"
    return f"Time and bars: now {minute_text(market.as_of)} UTC, {what}, time high low close volume"


def look(market: Market) -> tuple[Candle, ...]:
    """The bars, which stay while the time moves on."""
    return market.bars


def rows(bars: tuple[Candle, ...]) -> Rows:
    """One per bar; the open is left out because it is the close before it."""
    return tuple(map(row, bars))


def row(bar: Candle) -> Row:
    """When it began, and its figures."""
    # From an hour up, bars reach over days and the time of day alone would repeat itself; the year is in the title.
    when = clock_text(bar.bucket_ts) if bar.granularity_sec < 3600 else minute_text(bar.bucket_ts)[5:]
    prices = (short_price(price) for price in (bar.high_e8, bar.low_e8, bar.close_e8))
    return (when, *prices, three_digits(bar.volume_base))


def text(rows: Rows) -> str:
    """The figures alone: the title says what they are."""
    return "\n".join([" ".join(row) for row in rows])


LAYOUT = Layout(
    name="bars",
    cap=1_600,
    title=title,
    columns=COLUMNS,
    look=look,
    rows=rows,
    text=text,
    row=row,
    oldest_first=True,
    bare=True,
)
