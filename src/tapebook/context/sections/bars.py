"""Time and bars: what the price did over the horizon."""

from tapebook.context.sections import Layout
from tapebook.context.situation import Situation
from tapebook.domain.instants import clock_text, minute_text
from tapebook.domain.money import short_price
from tapebook.domain.packet import Section

COLUMNS = ("time", "high", "low", "close", "volume")


def build(situation: Situation) -> Section | None:
    """One row per bar; the open is left out because it is the close before it."""
    minutes = situation.deployment.agent.context.bar_minutes
    what = f"{situation.symbol} {minutes}m bars, {' '.join(COLUMNS)}"
    title = f"Time and bars: now {minute_text(situation.as_of)} UTC, {what}"
    rows = tuple(
        (
            clock_text(bar.bucket_ts),
            short_price(bar.high_e8),
            short_price(bar.low_e8),
            short_price(bar.close_e8),
            f"{bar.volume_base:.3g}",
        )
        for bar in situation.bars
    )
    return Section("bars", title, COLUMNS, rows)


LAYOUT = Layout(cap=1_600, build=build, line=" ".join, oldest_first=True)
