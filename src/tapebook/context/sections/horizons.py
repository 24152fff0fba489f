"""Horizons: what the day, the week, the month, the year and all time look like, nearest first."""

from operator import attrgetter

from tapebook.context.quote import Words, plain
from tapebook.context.sections import Layout, Row, Rows
from tapebook.context.situation import Situation
from tapebook.domain.memory import LayerRow

COLUMNS = ("layer", "timeframe", "key", "value")


def rows(layers: tuple[LayerRow, ...]) -> Rows:
    """One per key of a layer; its value is quoted, for people write some of them."""
    return tuple(map(row, layers))


def row(layer: LayerRow, words: Words = plain) -> Row:
    """A key and what it says."""
    return words(layer.layer, 12), words(layer.timeframe, 20), words(layer.key, 60), words(layer.value, 120)


def text(rows: Rows) -> str:
    """A line per key."""
    return "\n".join([f'- {layer} {timeframe} {key}: "{value}"' for layer, timeframe, key, value in rows])


LAYOUT: Layout[Situation, tuple[LayerRow, ...]] = Layout(
    name="horizons",
    cap=250,
    title="Horizons",
    columns=COLUMNS,
    look=attrgetter("horizons"),
    rows=rows,
    text=text,
    row=row,
    memory=True,
)
