"""Bars from a table.

The quote volume is estimated from the bar's own prices where the file has none, as it is for live bars; trades that
are not counted in the file are stored as 0.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from tapebook.domain.instants import SECOND
from tapebook.domain.market import Candle
from tapebook.domain.money import E8
from tapebook.errors import BadInput
from tapebook.tape.importer import Ask, Parsed, Problems, Progress, bar_ms, known_at, read_span, span_text
from tapebook.tape.importers import columns as column_names
from tapebook.tape.importers import findings, numbers, series
from tapebook.tape.importers.columns import Columns
from tapebook.tape.importers.subject import narrowed
from tapebook.tape.importers.table import Block, Table
from tapebook.tape.importers.times import BAD, Times, why_bad

_PRICES = ("open", "high", "low", "close")
_AMOUNTS = ("volume", "quote_volume", "trades")
_FIELDS = {
    **{name: f"{name}_e8" for name in _PRICES},
    "volume": "volume_base",
    "quote_volume": "volume_quote_usd",
    "trades": "sample_count",
}

# So many rows tell how long the bars of a file are.
_TELLING_ROWS = 1_000

Raw = dict[str, Sequence[Any]]


def parse(table: Table, ask: Ask, *, problems: Problems, progress: Progress) -> Parsed:
    """A table as bars of one symbol and length; where nobody says how long they are, the rows do."""
    assert ask.symbol is not None
    columns = column_names.find(table, "candles")
    columns.require("time", *_PRICES, "volume")
    table, step, detected = _with_length(narrowed(table, columns, ask.symbol), columns, ask.step_ms)
    reader = _Reader(columns, findings.time_column(table, columns), ask.symbol, step_ms=step)
    for block in table.blocks:
        reader.read(block, problems)
        progress(reader.rows_read)
    found = reader.found
    series.put_in_order(found, problems)
    if not reader.says_length(step):
        series.require_spacing(found.times, step)
    found.drop([at % step > 0 for at in found.times], f"does not begin a bar of {span_text(step)}", problems)
    found.drop([at + step > ask.now for at in found.times], "begins a bar that has not ended", problems)
    told = findings.told(
        *(table, columns, found),
        used=("time", *_PRICES, *_AMOUNTS, "interval"),
        times=reader.times,
        values=f"prices as written, to 8 decimals (the file uses {numbers.decimals_used(reader.common)})",
        rows_read=reader.rows_read,
        buckets=found.times,
        step=step,
        notes=[*detected, *reader.notes()],
    )
    stated = tuple(column for name, column in _FIELDS.items() if columns.has(name))
    return Parsed(found.facts, known_at, stated, problems.first(), problems.count, told)


def _with_length(table: Table, columns: Columns, step: int | None) -> tuple[Table, int, list[str]]:
    """The table, how long its bars are, and a note where that was found from its first rows."""
    if step is not None:
        return table, step, []
    first: list[Block] = []
    while sum(len(block.numbers) for block in first) < _TELLING_ROWS and (block := next(table.blocks, None)):
        first.append(block)
    table = msgspec.structs.replace(table, blocks=chain(first, table.blocks))
    stated = _cells(first, columns, "interval") if columns.has("interval") else []
    lengths = {read_span(str(text)) for text in stated} - {None}
    if len(lengths) == 1 and (length := lengths.pop()):
        return table, bar_ms(span_text(length)), [f"bars of {span_text(length)}, as the file says"]
    times = findings.time_column(table, columns).read(_cells(first, columns, "time"))
    found = series.bar_length([at for at in times if at != BAD])
    return table, found, [f"bars of {span_text(found)}, by the distance of their rows"]


def _cells(blocks: Sequence[Block], columns: Columns, name: str) -> list[Any]:
    """The cells of a column."""
    return [cell for block in blocks for cell in block.columns[columns.at[name]]]


class _Reader:
    """Collects the bars of the blocks."""

    def __init__(self, columns: Columns, times: Times, symbol: str, *, step_ms: int) -> None:
        self.found: series.Series[Candle] = series.Series()
        self.rows_read = 0
        # How long a column says that the bars are; without one it is seen from their times.
        self._lengths: set[str] = set()
        # The greatest common divisor of all prices: it tells how many decimals they use.
        self.common = 0
        self.times = times
        self._columns = columns
        self._bar = (symbol, step_ms // SECOND)
        self._rounded = 0

    def read(self, block: Block, problems: Problems) -> None:
        """Adds the rows of a block; what is no bar becomes a problem."""
        raw = {field: block.columns[place] for field, place in self._columns.at.items()}
        self._lengths.update(map(str, raw.get("interval", ())))
        times = self.times.read(raw["time"])
        prices = [numbers.prices_e8(raw[name]) for name in _PRICES]
        self._rounded += sum(numbers.count_rounded(raw[name], kept) for name, kept in zip(_PRICES, prices, strict=True))
        self.common = math.gcd(self.common, *chain.from_iterable(prices))
        bars = zip(*prices, *_amounts(raw, len(times)), strict=True)
        for place, (number, at, bar) in enumerate(zip(block.numbers, times, bars, strict=True)):
            opened, high, low, close, volume, quote, trades = bar
            ordered = at != BAD and 0 < low <= opened <= high and low <= close <= high
            if not ordered or volume < 0 or trades < 0 or (quote is not None and quote < 0):
                problems.add(number, _why(raw, place, bad_time=at == BAD))
                continue
            if quote is None:
                quote = volume * (opened + high + low + close) / (4 * E8)
            self.found.add(number, at, Candle(*self._bar, at, opened, high, low, close, volume, quote, trades))
        self.rows_read += len(times)

    def says_length(self, step: int) -> bool:
        """Whether the file says how long its bars are. BadInput when that is another length."""
        lengths = {read_span(text) for text in self._lengths}
        for length in lengths - {None, step}:
            there, said = span_text(length or 0), span_text(step)
            raise BadInput(f"the file says its bars are {there} but --interval says {said}: use --interval {there}")
        return lengths == {step}

    def notes(self) -> list[str]:
        """What else is to be said about the bars."""
        notes = []
        if not self._columns.has("quote_volume"):
            notes.append("no quote volume: estimated from the bar's prices")
        if not self._columns.has("trades"):
            notes.append("no number of trades: stored as 0")
        if self._rounded:
            notes.append(f"{self._rounded:,} prices have more than 8 decimals and are rounded")
        if self.found.facts and not any(bar.volume_base for bar in self.found.facts):
            notes.append("every volume is 0, so larger bars made of these are flat; for mark prices use `import marks`")
        return notes


def _amounts(raw: Raw, rows: int) -> tuple[Sequence[float], Sequence[float | None], Sequence[int]]:
    """Volumes, quote volumes and trades of a block; None and 0 for what the file does not have."""
    quotes = numbers.volumes(raw["quote_volume"]) if "quote_volume" in raw else [None] * rows
    trades = [numbers.count(value) for value in raw["trades"]] if "trades" in raw else [0] * rows
    return numbers.volumes(raw["volume"]), quotes, trades


def _why(raw: Raw, place: int, *, bad_time: bool) -> str:
    """What is wrong with a row that is."""
    row = {name: values[place] for name, values in raw.items()}
    if bad_time:
        return why_bad(row["time"])
    prices = {name: numbers.price_e8(row[name]) for name in _PRICES}
    for name in _PRICES:
        if prices[name] == numbers.BAD_PRICE:
            return numbers.why_bad(name, row[name])
    for name in _AMOUNTS:
        if name in row and numbers.volume(row[name]) == numbers.BAD_VOLUME:
            return numbers.why_bad(name, row[name])
    if prices["high"] < prices["low"]:
        return f"high {row['high']} is below low {row['low']}"
    for name in ("open", "close"):
        if not prices["low"] <= prices[name] <= prices["high"]:
            return f"{name} {row[name]} is not between low {row['low']} and high {row['high']}"
    return f"trades {row['trades']} is no whole number"
