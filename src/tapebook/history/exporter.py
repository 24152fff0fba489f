"""Bars of the tape written to a file, block after block.

`read_blocks` reads them: as they are stored, or rolled up from the finest the tape has. `exporters/` holds one file
per suffix of the file to be written; what it writes can be imported again without any loss.
"""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from tapebook import plug
from tapebook.domain.files import atomic_place
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import SECOND, floor_to_step
from tapebook.errors import BadInput, StoreFailed
from tapebook.tape.bars import roll_up
from tapebook.tape.store import Tape
from tapebook.tape.view import EARLIEST, GRACE_MS, INTERVALS, View

COLUMNS = ("time", "open", "high", "low", "close", "volume", "quote_volume", "trades", "interval")
INTERVAL_NAMES = {seconds: name for name, seconds in INTERVALS.items()}
BLOCK_MINUTES = 20_160
"""Two weeks are read at a time: the finest bars of one block are what memory has to hold."""

_FOLDER = "tapebook.history.exporters"


class BarWriter(Protocol):
    """Writes bars to an open file."""

    def write(self, bars: Sequence[Candle]) -> None:
        """Adds bars."""
        ...

    def close(self) -> None:
        """Writes what belongs at the end; the file itself stays open."""
        ...


def read_blocks(
    tape: Tape, symbol: str, *, granularity_sec: int, since: int, until: int, view: View
) -> Iterator[list[Candle]]:
    """The bars that begin from `since` up to, not including, `until` and had ended by `view.as_of`, in blocks."""
    step = granularity_sec * SECOND
    span = max(step, floor_to_step(BLOCK_MINUTES * 60 * SECOND, step))
    # A bar belongs to the range when it begins in it.
    start = -(-max(since, EARLIEST) // step) * step
    until = min(until, view.as_of)
    settled = _settled_until(tape, symbol, view)
    while start < until:
        end = min(start + span, until)
        block = _read_block(tape, symbol, granularity_sec, since=start, until=end, view=view, settled=settled)
        if block:
            yield block
        start += span


def _settled_until(tape: Tape, symbol: str, view: View) -> int:
    """Up to when all is known that was traded: the end of the newest bar, or the newest midpoint less the grace."""
    # What is not there yet, or ends in the middle of a larger bar, leaves that bar unfinished however long ago it
    # was.
    mid = tape.newest(Mid, symbol, view=view)
    stored = [tape.newest(Candle, symbol, granularity_sec=length, since=0, view=view) for length in INTERVAL_NAMES]
    return max([0 if mid is None else mid.bucket_ts - GRACE_MS, *(bar.end for bar in stored if bar is not None)])


def _read_block(
    tape: Tape, symbol: str, granularity_sec: int, *, since: int, until: int, view: View, settled: int
) -> list[Candle]:
    """The bars of a block, each from the finest bars there are of it."""
    step = granularity_sec * SECOND
    last = floor_to_step(until - 1, step) + step
    found: dict[int, Candle] = {}
    for finer in (length for length in INTERVALS.values() if granularity_sec % length == 0):
        stored = tape.candles(symbol, granularity_sec=finer, since=since, until=last - 1, view=view)
        made = stored if finer == granularity_sec else _finished_bars(stored, granularity_sec, settled)
        found = {bar.bucket_ts: bar for bar in made} | found
    return [found[begins] for begins in sorted(found)]


def _finished_bars(stored: Sequence[Candle], granularity_sec: int, settled: int) -> list[Candle]:
    """Bars made of finer ones, without one that is not finished."""
    return [bar for bar in roll_up(stored, granularity_sec=granularity_sec) if bar.end <= settled]


def open_writer(path: Path, file: BinaryIO) -> BarWriter:
    """The writer for a file's suffix."""
    return cast(BarWriter, plug.load(_FOLDER, _suffix(path)).create(file))


def check_export_path(path: Path, *, overwrite: bool) -> None:
    """BadInput when bars cannot be written to a file, before anything is read for it."""
    known = plug.names(_FOLDER)
    if _suffix(path) not in known:
        endings = ", ".join(f".{name}" for name in known)
        raise BadInput(f"{path} has no known ending: choose one of {endings}, or .csv.gz")
    check_file_place(path, overwrite=overwrite)


def check_file_place(path: Path, *, overwrite: bool) -> None:
    """BadInput when there can be no such file, whatever is in it."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent}: make it first")
    if path.exists() and not overwrite:
        raise BadInput(f"{path} is there already: choose another name, or `overwrite=`")


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its place when it is whole; on any error nothing is left of it."""
    try:
        make = gzip.open if path.suffix == ".gz" else open
        with atomic_place(path) as beside, cast(BinaryIO, make(beside, "wb")) as file:
            yield file
    except OSError as error:
        why = error.strerror or error
        raise StoreFailed(f"cannot write {path}: {why}; make room or choose another place") from error


def _suffix(path: Path) -> str:
    return path.with_suffix("").suffix[1:] if path.suffix == ".gz" else path.suffix[1:]
