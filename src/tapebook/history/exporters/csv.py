"""Bars as CSV: times in ISO-8601, prices with all their decimals and no more."""

from collections.abc import Sequence
from typing import BinaryIO

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, iso_text
from tapebook.history.exporter import COLUMNS, INTERVAL_NAMES


def create(file: BinaryIO) -> "CsvWriter":
    """Begins a file with its header."""
    return CsvWriter(file)


class CsvWriter:
    """Writes a line per bar."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(f"{','.join(COLUMNS)}\n".encode())

    def write(self, bars: Sequence[Candle]) -> None:
        """Adds bars."""
        self._file.write("".join(map(_csv_line, bars)).encode())

    def close(self) -> None:
        """Has nothing to add."""


def _csv_line(bar: Candle) -> str:
    prices = ",".join(map(price_text, (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8)))
    # The text of a float is the shortest that gives the same float again.
    amounts = f"{bar.volume_base!r},{bar.volume_quote_usd!r},{bar.sample_count},{INTERVAL_NAMES[bar.granularity_sec]}"
    return f"{iso_text(bar.bucket_ts)},{prices},{amounts}\n"


def price_text(price_e8: int) -> str:
    """A price without needless zeros: `16537.5`."""
    whole, part = divmod(price_e8, E8)
    return f"{whole}.{part:08d}".rstrip("0").rstrip(".") if part else str(whole)
