"""Horizons: what the day, the week, the month, the year and all time look like, nearest first."""

from tapebook.context.quote import plain
from tapebook.context.sections import Layout
from tapebook.context.situation import Situation
from tapebook.domain.packet import Section

COLUMNS = ("layer", "timeframe", "key", "value")


def build(situation: Situation) -> Section | None:
    """One row per key of a layer; its value is quoted, for people write some of them."""
    rows = tuple(
        (plain(row.layer, 12), plain(row.timeframe, 20), plain(row.key, 60), plain(row.value, 120))
        for row in situation.horizons
    )
    return Section("horizons", "Horizons", COLUMNS, rows) if rows else None


def line(row: tuple[str, ...]) -> str:
    """A key as one line."""
    layer, timeframe, key, value = row
    return f'- {layer} {timeframe} {key}: "{value}"'


LAYOUT = Layout(name="horizons", cap=250, build=build, line=line, memory=True)
