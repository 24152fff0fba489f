"""Writes the past of an invented market to files that `tapebook import` reads: bars and funding of each symbol.

The market is a function of its seed, its first day and the symbol: the same words give the same bytes, and a longer
history begins with the shorter one. A file takes its place when it is whole, so a history that was stopped begins
again with the first file that is missing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

import msgspec

from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.text import plural
from tapebook.domain.units import DAY, E12, SECOND, iso_text
from tapebook.errors import BadInput
from tapebook.history.exporter import atomic_file, open_writer
from tapebook.tape.bars import roll_up
from tapebook.tape.view import bar_length_ms
from tapebook.world.assets import DEFAULT_SYMBOLS
from tapebook.world.market import World, symbol_history


class WorldFile(msgspec.Struct, frozen=True):
    """A file that was written, and the command that reads it."""

    file: str
    rows: int
    command: str

    def line(self) -> str:
        """What it is, in one line."""
        return f"{self.file}: {plural(self.rows, 'row')}; read it with `{self.command}`"


def write_world_history(
    folder: Path,
    symbols: Sequence[str],
    *,
    interval: str,
    start: int,
    days: int,
    seed: int,
    progress: Callable[[float, str], None] = lambda done, symbol: None,
) -> list[WorldFile]:
    """Writes two files for each symbol; those that are there already are left alone."""
    unknown = [symbol for symbol in symbols if symbol not in DEFAULT_SYMBOLS]
    if unknown or not symbols:
        raise BadInput(f"the world has no {', '.join(unknown) or 'such market'}: it has {', '.join(DEFAULT_SYMBOLS)}")
    length = bar_length_ms(interval) // SECOND
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for place, symbol in enumerate(symbols):
        bars, rates = folder / f"{symbol}-{interval}.csv", folder / f"{symbol}-funding.csv"
        if not (bars.exists() and rates.exists()):
            world = World(seed, start=start, symbols=(symbol,))
            settled = list[FundingRate]()
            days_of = _bars_by_day(world, symbol, start + days * DAY, settled)

            def bars_of_day(begins: int, minutes: list[Candle], before: int = place) -> list[Candle]:
                progress((before + (begins - start) / (days * DAY)) / len(symbols), minutes[0].symbol)
                return roll_up(minutes, granularity_sec=length)

            _write_bars(bars, (bars_of_day(*each) for each in days_of))
            with atomic_file(rates) as file:
                file.write("".join(["time,rate\n", *map(_rate_line, settled)]).encode())
        for path, kind in ((bars, "candles"), (rates, "funding")):
            rows = path.read_bytes().count(b"\n") - 1
            found.append(WorldFile(str(path), rows, f"tapebook import {kind} {path} --symbol {symbol}"))
    return found


def _write_bars(path: Path, blocks: Iterable[list[Candle]]) -> None:
    with atomic_file(path) as file, closing(open_writer(path, file)) as writer:
        for block in blocks:
            writer.write(block)


def _bars_by_day(
    world: World, symbol: str, until: int, settled: list[FundingRate]
) -> Iterator[tuple[int, list[Candle]]]:
    """The minutes of each day; what was settled meanwhile is added to a list."""

    def minutes() -> Iterator[Candle]:
        for row in symbol_history(world, symbol, until=until):
            if isinstance(row, FundingRate):
                settled.append(row)
            else:
                yield row

    for day, found in groupby(minutes(), key=lambda bar: bar.bucket_ts - bar.bucket_ts % DAY):
        yield day, list(found)


def _rate_line(rate: FundingRate) -> str:
    return f"{iso_text(rate.bucket_ts)},{rate.rate_e12 / E12:.12f}\n"
