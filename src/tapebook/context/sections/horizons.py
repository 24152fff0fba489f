"""Horizons: what the day, the week, the month, the year and all time look like, nearest first."""

from functools import lru_cache

from tapebook.context.quote import plain
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.situation import Situation
from tapebook.domain.memory import LayerRow

COLUMNS = ("layer", "timeframe", "key", "value")


def look(situation: Situation) -> tuple[LayerRow, ...]:
    """What the layers say."""
    return situation.horizons


def rows(layers: tuple[LayerRow, ...]) -> Rows:
    """One per key of a layer; its value is quoted, for people write some of them."""
    return tuple([_row(layer) for layer in layers])


@lru_cache(maxsize=4_096)
def _row(row: LayerRow) -> Row:
    """Cached, since most keys say the same for a day at least."""
    return plain(row.layer, 12), plain(row.timeframe, 20), plain(row.key, 60), plain(row.value, 120)


def line(row: Row) -> str:
    """A key as one line."""
    layer, timeframe, key, value = row
    return f'- {layer} {timeframe} {key}: "{value}"'


LAYOUT = Layout(
    name="horizons",
    cap=250,
    title="Horizons",
    columns=COLUMNS,
    look=look,
    rows=rows,
    line=line,
    memory=True,
)
