"""Time and bars: what the price did over the horizon."""

from operator import attrgetter

from tapebook.context.quote import Name, symbol_text
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.sections.figures import three_digits
from tapebook.context.situation import Market
from tapebook.domain.instants import MINUTE, clock_text, floor, minute_text
from tapebook.domain.market import Candle
from tapebook.domain.money import short_price

COLUMNS = ("time", "high", "low", "close", "volume")


def title(market: Market, name: Name = symbol_text) -> str:
    """Says the time, even without a bar."""
    now, symbol = minute_text(market.as_of), name(market.symbol)
    bars = f"{symbol} {market.bar_minutes}m bars{_unfinished(market)}"
    return f"Time and bars: now {now} UTC, {bars}, time high low close volume"


def rows(bars: tuple[Candle, ...]) -> Rows:
    """One per bar; the open is left out because it is the close before it."""
    return tuple(map(row, bars))


def row(bar: Candle) -> Row:
    """When it began, and its figures."""
    when = _when(bar.bucket_ts, bar.granularity_sec // 60)
    high, low, close = short_price(bar.high_e8), short_price(bar.low_e8), short_price(bar.close_e8)
    return when, high, low, close, three_digits(bar.volume_base)


def _unfinished(market: Market) -> str:
    """Which minutes were not final in time; the bar they belong to is not among the rows."""
    missing = market.unfinished
    if not missing:
        return ""
    first, last = _when(missing[0], market.bar_minutes), clock_text(missing[-1])
    began = _when(floor(missing[0], market.bar_minutes * MINUTE), market.bar_minutes)
    minutes = first if len(missing) == 1 else f"{first} to {last}"
    return f" ({minutes} not final yet, bar {began} left out)"


def _when(moment: int, bar_minutes: int) -> str:
    # From an hour up, bars reach over days and the time of day alone would repeat itself; the year is in the title.
    return clock_text(moment) if bar_minutes < 60 else minute_text(moment)[5:]


def text(rows: Rows) -> str:
    """The figures alone: the title says what they are."""
    return "\n".join(map(" ".join, rows))


LAYOUT: Layout[Market, tuple[Candle, ...]] = Layout(
    name="bars",
    cap=1_600,
    title=title,
    columns=COLUMNS,
    look=attrgetter("bars"),
    rows=rows,
    text=text,
    row=row,
    oldest_first=True,
    bare=True,
)
