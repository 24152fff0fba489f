"""Bars, funding rates and mark prices from a table, as series of facts in order of time.

A series is turned round where a file is newest first, rid of repetitions, and told about: its spacing, its gaps, its
columns (`FileFindings`).

Bars: the quote volume is estimated from the bar's own prices where the file has none, as it is for live bars; trades
that are not counted in the file are stored as 0.

Funding: each row is one settlement, kept as it is at its hour, whether an hour or eight after the last; eight-hourly
rates are not spread over the hours between. For how many hours a rate was paid, the distance of settlements says
(`settled_funding`). Freqtrade keeps rates as bars with the rate as open and zeros elsewhere. A missing premium is 0.

Marks: the tape has no rows for marks alone. A context holds one, but beside funding, premium, open interest and
oracle price, which a file of marks does not state, and zeros in their place would be read as facts. So a mark
becomes the midpoint of its five seconds. Of a bar of marks only the open is the price at a known moment: the rest is
not kept.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import chain, compress, pairwise
from operator import ge, lt, sub
from typing import Any, Generic, TypeVar

import msgspec

from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.units import E8, E12, HOUR, MINUTE, SECOND, decimal_text, floor_to_step, iso_text
from tapebook.errors import BadInput
from tapebook.history import table_columns
from tapebook.history.importer import (
    MID_BUCKET_MS,
    FileFindings,
    Imported,
    ImportRequest,
    ParsedFile,
    Progress,
    RowProblems,
    assumed_known_at,
)
from tapebook.history.table_columns import BAD_TIME, Columns, TimeColumn, find_columns, rows_of_symbol, why_bad_time
from tapebook.history.tables import Block, Table
from tapebook.tape.view import INTERVALS, bar_length_ms, parse_span, span_text

Fact = TypeVar("Fact", bound=Imported)
GapBounds = tuple[int, int]
_SHOWN_GAPS = 5
# The share of rows that must begin a bar of a length, so that a few that are wrong do not change it.
_FITTING = 0.9


class Series(msgspec.Struct, Generic[Fact]):
    """Facts beside the numbers of their rows and the times the file gives them."""

    numbers: list[int] = []
    times: list[int] = []
    facts: list[Fact] = []
    duplicates: int = 0
    backwards: bool = False

    def add(self, number: int, at: int, fact: Fact) -> None:
        """Adds a row."""
        self.numbers.append(number)
        self.times.append(at)
        self.facts.append(fact)

    def drop_rows(self, bad: Sequence[bool], why: str, problems: RowProblems) -> None:
        """Turns the rows that are bad into problems."""
        if not any(bad):
            return
        for number, at in compress(zip(self.numbers, self.times, strict=True), bad):
            problems.add(number, f"{iso_text(at)} {why}")
        self.keep_rows([not one for one in bad])

    def keep_rows(self, good: Sequence[bool]) -> None:
        """Leaves only the rows that are good."""
        self.numbers = list(compress(self.numbers, good))
        self.times = list(compress(self.times, good))
        self.facts = list(compress(self.facts, good))


def put_in_order(series: Series[Fact], problems: RowProblems) -> None:
    """Orders the rows: a file that is newest first throughout is read backwards, other disorder is a problem.

    A row that says the same once more is dropped and counted; one that says something else is a problem.
    """
    times = series.times
    if all(map(lt, times, times[1:])):
        return
    if times[0] > times[-1] and all(map(ge, times, times[1:])):
        series.backwards = True
        for column in (series.numbers, series.times, series.facts):
            column.reverse()
    good, last = [True], 0
    for place in range(1, len(times)):
        at, newest = times[place], times[last]
        good.append(at > newest)
        if at > newest:
            last = place
        elif at < newest:
            problems.add(
                series.numbers[place], f"{iso_text(at)} comes after {iso_text(newest)}: rows must be in order of time"
            )
        elif series.facts[place] == series.facts[last]:
            series.duplicates += 1
        else:
            problems.add(
                series.numbers[place], f"{iso_text(at)} is in {series.numbers[last]:,} already with other values"
            )
    series.keep_rows(good)


def usual_spacing(times: Sequence[int]) -> int | None:
    """The usual distance of two neighbours; None of fewer than two."""
    distances = Counter(map(sub, times[1:], times))
    # Of equally usual ones the smallest: larger ones are gaps.
    return min(distances, key=lambda distance: (-distances[distance], distance), default=None)


def bar_length(times: Sequence[int]) -> int:
    """How long the bars are that begin at these moments, in either order: the median distance of two neighbours.

    Where quiet moments have no rows that may be too long, so nearly all must begin such a bar; else it is what all
    distances have in common. BadInput when neither is a length the tape has.
    """
    distances = sorted(abs(after - before) for before, after in pairwise(times) if after != before)
    if not distances:
        raise BadInput("one row does not tell how long its bar is: say so with `interval=`")
    lengths, median = {seconds * SECOND for seconds in INTERVALS.values()}, distances[len(distances) // 2]
    fitting = sum(at % median == 0 for at in times)
    common = math.gcd(*distances)
    if median in lengths and fitting >= _FITTING * len(times):
        return median
    if common in lengths:
        return common
    apart, known = span_text(median), ", ".join(INTERVALS)
    raise BadInput(f"the rows are {apart} apart, and there are no bars of that length: choose one of {known}")


def require_spacing(times: Sequence[int], wanted: int | None) -> None:
    """BadInput when the rows are not as far apart as was said.

    Where quiet moments have no rows, the usual distance may be larger, but all of them have the right common divisor.
    """
    found = usual_spacing(times)
    if found is None or wanted is None or found == wanted or math.gcd(*map(sub, times[1:], times)) == wanted:
        return
    there, stated = span_text(found), span_text(wanted)
    raise BadInput(
        f"the rows are {there} apart but `interval=` says {stated}: use `interval=` {there}, or another file"
    )


def row_gaps(times: Sequence[int], step: int | None) -> list[GapBounds]:
    """Where rows are missing: from the first missing moment to the next row."""
    if step is None:
        return []
    return [(before + step, after) for before, after in pairwise(times) if after - before > step]


def longest_gaps(gaps: Sequence[GapBounds]) -> tuple[GapBounds, ...]:
    """The longest gaps in order of time."""
    return tuple(sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_SHOWN_GAPS]))


def missing_rows(gaps: Sequence[GapBounds], step: int | None) -> int:
    """How many rows the gaps could have held."""
    return sum((after - first) // step for first, after in gaps) if step else 0


def time_column(table: Table, columns: Columns) -> TimeColumn:
    """The reader of a table's times."""
    return TimeColumn(table.instants.get(columns.names[columns.at["time"]], ""))


def file_findings(
    table: Table,
    columns: Columns,
    found: Series[Any],
    *,
    used: Sequence[str],
    times: TimeColumn,
    values: str,
    rows_read: int,
    buckets: Sequence[int],
    step: int | None,
    notes: Sequence[str],
) -> FileFindings:
    """The findings; `buckets` are the moments of the facts, `step` what should lie between two of them."""
    gaps = row_gaps(buckets, step)
    taken = {columns.at[name] for name in (*used, "symbol", "market") if columns.has(name)}
    backwards = ("newest first: read backwards",) if found.backwards else ()
    return FileFindings(
        format=table.format,
        row_name=table.row_name,
        columns=columns.names_in_file(*used),
        unused=tuple(name for place, name in enumerate(table.names) if place not in taken),
        times=times.words,
        values=values,
        rows_read=rows_read,
        duplicates=found.duplicates,
        first_ts=buckets[0] if buckets else None,
        last_ts=buckets[-1] if buckets else None,
        spacing_ms=usual_spacing(buckets),
        gap_count=len(gaps),
        longest_gaps=longest_gaps(gaps),
        missing=missing_rows(gaps, step),
        notes=(*table.notes, *backwards, *notes),
    )


class PointReader(ABC, Generic[Fact]):
    """The facts of a table about one symbol; `field` is the column that says what they say."""

    def __init__(self, table: Table, columns: Columns, symbol: str, *, field: str) -> None:
        columns.require("time", field)
        self.found: Series[Fact] = Series()
        self.step: int | None = None
        self._table = rows_of_symbol(table, columns, symbol)
        self._times = time_column(table, columns)
        self._columns = columns
        self._symbol = symbol
        self._field = field
        self._rows_read = 0

    def read_table(self, ask: ImportRequest, *, problems: RowProblems, progress: Progress) -> None:
        """Reads all blocks; what is no fact, out of order or not yet past becomes a problem."""
        for block in self._table.blocks:
            self._read_block(block, problems)
            self._rows_read += len(block.numbers)
            progress(self._rows_read)
        put_in_order(self.found, problems)
        require_spacing(self.found.times, ask.step_ms)
        self.step = usual_spacing(self.found.times)
        self.found.drop_rows([at > ask.now for at in self.found.times], "lies in the future", problems)

    def findings(self, *, used: Sequence[str], values: str, notes: Sequence[str]) -> FileFindings:
        """What the table turned out to be."""
        return file_findings(
            *(self._table, self._columns, self.found),
            used=used,
            times=self._times,
            values=values,
            rows_read=self._rows_read,
            buckets=self.found.times,
            step=self.step,
            notes=notes,
        )

    @abstractmethod
    def _read_block(self, block: Block, problems: RowProblems) -> None:
        """Adds the rows of a block."""


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

RawColumns = dict[str, Sequence[Any]]


def parse_candles(table: Table, ask: ImportRequest, *, problems: RowProblems, progress: Progress) -> ParsedFile:
    """A table as bars of one symbol and length; where nobody says how long they are, the rows do."""
    assert ask.symbol is not None
    columns = find_columns(table, "candles")
    columns.require("time", *_PRICES, "volume")
    table, step, detected = _with_length(rows_of_symbol(table, columns, ask.symbol), columns, ask.step_ms)
    reader = _CandleReader(columns, time_column(table, columns), ask.symbol, step_ms=step)
    for block in table.blocks:
        reader.read_block(block, problems)
        progress(reader.rows_read)
    found = reader.found
    put_in_order(found, problems)
    if not reader.file_states_length(step):
        require_spacing(found.times, step)
    found.drop_rows([at % step > 0 for at in found.times], f"does not begin a bar of {span_text(step)}", problems)
    found.drop_rows([at + step > ask.now for at in found.times], "begins a bar that has not ended", problems)
    findings = file_findings(
        *(table, columns, found),
        used=("time", *_PRICES, *_AMOUNTS, "interval"),
        times=reader.times,
        values=f"prices as written, to 8 decimals (the file uses {table_columns.decimals_used(reader.common)})",
        rows_read=reader.rows_read,
        buckets=found.times,
        step=step,
        notes=[*detected, *reader.notes()],
    )
    stated = tuple(column for name, column in _FIELDS.items() if columns.has(name))
    return ParsedFile(found.facts, assumed_known_at, stated, problems.first(), problems.count, findings)


def _with_length(table: Table, columns: Columns, step: int | None) -> tuple[Table, int, list[str]]:
    """The table, how long its bars are, and a note where that was found from its first rows."""
    if step is not None:
        return table, step, []
    first: list[Block] = []
    while sum(len(block.numbers) for block in first) < _TELLING_ROWS and (block := next(table.blocks, None)):
        first.append(block)
    table = msgspec.structs.replace(table, blocks=chain(first, table.blocks))
    stated = _column_cells(first, columns, "interval") if columns.has("interval") else []
    lengths = {parse_span(str(text)) for text in stated} - {None}
    if len(lengths) == 1 and (length := lengths.pop()):
        return table, bar_length_ms(span_text(length)), [f"bars of {span_text(length)}, as the file says"]
    times = time_column(table, columns).read_block(_column_cells(first, columns, "time"))
    found = bar_length([at for at in times if at != BAD_TIME])
    return table, found, [f"bars of {span_text(found)}, by the distance of their rows"]


def _column_cells(blocks: Sequence[Block], columns: Columns, name: str) -> list[Any]:
    """The cells of a column."""
    return [cell for block in blocks for cell in block.columns[columns.at[name]]]


class _CandleReader:
    """Collects the bars of the blocks."""

    def __init__(self, columns: Columns, times: TimeColumn, symbol: str, *, step_ms: int) -> None:
        self.found: Series[Candle] = Series()
        self.rows_read = 0
        # How long a column says that the bars are; without one it is seen from their times.
        self._lengths: set[str] = set()
        # The greatest common divisor of all prices: it tells how many decimals they use.
        self.common = 0
        self.times = times
        self._columns = columns
        self._bar = (symbol, step_ms // SECOND)
        self._rounded = 0

    def read_block(self, block: Block, problems: RowProblems) -> None:
        """Adds the rows of a block; what is no bar becomes a problem."""
        raw = {field: block.columns[place] for field, place in self._columns.at.items()}
        self._lengths.update(map(str, raw.get("interval", ())))
        times = self.times.read_block(raw["time"])
        prices = [table_columns.read_prices_e8(raw[name]) for name in _PRICES]
        self._rounded += sum(
            table_columns.count_rounded_prices(raw[name], kept) for name, kept in zip(_PRICES, prices, strict=True)
        )
        self.common = math.gcd(self.common, *chain.from_iterable(prices))
        bars = zip(*prices, *_block_amounts(raw, len(times)), strict=True)
        for place, (number, at, bar) in enumerate(zip(block.numbers, times, bars, strict=True)):
            opened, high, low, close, volume, quote, trades = bar
            ordered = at != BAD_TIME and 0 < low <= opened <= high and low <= close <= high
            if not ordered or volume < 0 or trades < 0 or (quote is not None and quote < 0):
                problems.add(number, _why_bad_bar(raw, place, bad_time=at == BAD_TIME))
                continue
            if quote is None:
                quote = volume * (opened + high + low + close) / (4 * E8)
            self.found.add(number, at, Candle(*self._bar, at, opened, high, low, close, volume, quote, trades))
        self.rows_read += len(times)

    def file_states_length(self, step: int) -> bool:
        """Whether the file says how long its bars are. BadInput when that is another length."""
        lengths = {parse_span(text) for text in self._lengths}
        for length in lengths - {None, step}:
            there, stated = span_text(length or 0), span_text(step)
            raise BadInput(f"the file says its bars are {there} but `interval=` says {stated}: use `interval=` {there}")
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


def _block_amounts(raw: RawColumns, rows: int) -> tuple[Sequence[float], Sequence[float | None], Sequence[int]]:
    """Volumes, quote volumes and trades of a block; None and 0 for what the file does not have."""
    quotes = table_columns.read_volumes(raw["quote_volume"]) if "quote_volume" in raw else [None] * rows
    trades = [table_columns.read_trade_count(value) for value in raw["trades"]] if "trades" in raw else [0] * rows
    return table_columns.read_volumes(raw["volume"]), quotes, trades


def _why_bad_bar(raw: RawColumns, place: int, *, bad_time: bool) -> str:
    """What is wrong with a row that is."""
    row = {name: values[place] for name, values in raw.items()}
    if bad_time:
        return why_bad_time(row["time"])
    prices = {name: table_columns.read_price_e8(row[name]) for name in _PRICES}
    for name in _PRICES:
        if prices[name] == table_columns.BAD_PRICE:
            return table_columns.why_bad_number(name, row[name])
    for name in _AMOUNTS:
        if name in row and table_columns.read_volume(row[name]) == table_columns.BAD_VOLUME:
            return table_columns.why_bad_number(name, row[name])
    if prices["high"] < prices["low"]:
        return f"high {row['high']} is below low {row['low']}"
    for name in ("open", "close"):
        if not prices["low"] <= prices[name] <= prices["high"]:
            return f"{name} {row[name]} is not between low {row['low']} and high {row['high']}"
    return f"trades {row['trades']} is no whole number"


# Rates are stamped a few milliseconds past the hour.
_PAST_THE_HOUR = MINUTE
# More than any exchange lets be paid in one settlement, so the file counts in percent.
_MOST_RATE = E12 // 10
_MOST_PREMIUM = E12
_ELSEWHERE = ("high", "low", "close")


def parse_funding(table: Table, ask: ImportRequest, *, problems: RowProblems, progress: Progress) -> ParsedFile:
    """A table as the rates of one symbol."""
    assert ask.symbol is not None
    columns = find_columns(table, "funding")
    rate = "rate" if columns.has("rate") or not columns.has("open", *_ELSEWHERE) else "open"
    points = _RatePoints(table, columns, ask.symbol, field=rate)
    points.read_table(ask, problems=problems, progress=progress)
    rates = points.found.facts
    notes = _rate_notes(columns, rate, points.step)
    findings = points.findings(used=("time", rate, "premium"), values=_rate_range_text(rates), notes=notes)
    stated = ("rate_e12", "premium_e12") if columns.has("premium") else ("rate_e12",)
    return ParsedFile(rates, assumed_known_at, stated, problems.first(), problems.count, findings)


class _RatePoints(PointReader[FundingRate]):
    """Rates, each at its hour."""

    def _read_block(self, block: Block, problems: RowProblems) -> None:
        """Adds the rows of a block; what is no rate becomes a problem."""
        raw = {field: block.columns[place] for field, place in self._columns.at.items()}
        if self._field == "open" and any(
            table_columns.read_rate_e12(value) for name in _ELSEWHERE for value in raw[name]
        ):
            raise BadInput("there is no column for the rate: these are bars with prices, not funding rates")
        premiums = raw.get("premium", [0] * len(block.numbers))
        values = zip(raw["time"], raw[self._field], premiums, strict=True)
        for number, at, (time, rate, premium) in zip(
            block.numbers, self._times.read_block(raw["time"]), values, strict=True
        ):
            if why := why_bad_time(time) if at == BAD_TIME else _why_bad_rate(at, rate, premium):
                problems.add(number, why)
                continue
            hour = floor_to_step(at, HOUR)
            fact = FundingRate(
                self._symbol, hour, table_columns.read_rate_e12(rate) or 0, table_columns.read_rate_e12(premium) or 0
            )
            self.found.add(number, hour, fact)


def _why_bad_rate(at: int, rate: Any, premium: Any) -> str:
    """What is wrong with a row; empty when nothing is."""
    if at % HOUR > _PAST_THE_HOUR:
        return f"is {span_text(at % HOUR)} past the hour: funding is settled at full hours"
    for name, value, most in (("rate", rate, _MOST_RATE), ("premium", premium, _MOST_PREMIUM)):
        number = table_columns.read_rate_e12(value)
        if number is None:
            return table_columns.why_bad_number(name, value)
        if abs(number) > most:
            limit = decimal_text(100 * most, E12, 0)
            return f"{name} {str(value)[:40]} is over {limit} %: write it as a fraction, not in percent"
    return ""


def _rate_range_text(rates: Sequence[FundingRate]) -> str:
    if not rates:
        return "no rates"
    least, most = min(rate.rate_e12 for rate in rates), max(rate.rate_e12 for rate in rates)
    low, high = (decimal_text(100 * rate, E12, 4) for rate in (least, most))
    return f"rates as fractions per settlement, from {low} % to {high} %"


def _rate_notes(columns: Columns, rate: str, step: int | None) -> list[str]:
    notes = [] if columns.has("premium") else ["no premium: stored as 0"]
    if rate == "open":
        notes.append("rates stand in the column open, as freqtrade keeps them")
    if step is not None and step != HOUR:
        notes.append(f"settled every {span_text(step)}: each rate is one payment, hours between have none")
    return notes


def parse_marks(table: Table, ask: ImportRequest, *, problems: RowProblems, progress: Progress) -> ParsedFile:
    """A table as midpoints of one symbol."""
    assert ask.symbol is not None
    columns = find_columns(table, "marks")
    price = "open" if columns.has("open") and not columns.has("price") else "price"
    points = _MarkPoints(table, columns, ask.symbol, field=price)
    points.read_table(ask, problems=problems, progress=progress)
    mids, thinned = _first_of_bucket(points.found)
    values = f"prices as written, to 8 decimals (the file uses {_decimals_of_marks(mids)})"
    notes = [*_mark_notes(price), *([f"{thinned:,} prices have another in their five seconds"] if thinned else [])]
    findings = points.findings(used=("time", price), values=values, notes=notes)
    return ParsedFile(mids, assumed_known_at, ("price_e8",), problems.first(), problems.count, findings)


class _MarkPoints(PointReader[Mid]):
    """Prices, each in its five seconds."""

    def _read_block(self, block: Block, problems: RowProblems) -> None:
        """Adds the rows of a block; what is no price becomes a problem."""
        given = block.columns[self._columns.at["time"]], block.columns[self._columns.at[self._field]]
        times, prices = self._times.read_block(given[0]), table_columns.read_prices_e8(given[1])
        for place, (number, at, price) in enumerate(zip(block.numbers, times, prices, strict=True)):
            if at == BAD_TIME:
                problems.add(number, why_bad_time(given[0][place]))
            elif price == table_columns.BAD_PRICE:
                problems.add(number, table_columns.why_bad_number("price", given[1][place]))
            else:
                self.found.add(number, at, Mid(self._symbol, floor_to_step(at, MID_BUCKET_MS), price))


def _first_of_bucket(found: Series[Mid]) -> tuple[list[Mid], int]:
    """The first price of each five seconds, as live midpoints are; and how many others there were."""
    first: dict[int, Mid] = {}
    for mid in found.facts:
        first.setdefault(mid.bucket_ts, mid)
    return list(first.values()), len(found.facts) - len(first)


def _decimals_of_marks(mids: Sequence[Mid]) -> int:
    return table_columns.decimals_used(math.gcd(*(mid.price_e8 for mid in mids)))


def _mark_notes(price: str) -> list[str]:
    notes = ["kept as midpoints: each is the price of its five seconds"]
    if price == "open":
        notes.append("of each bar the open is kept, the price when it began; high, low and close are not")
    return notes
