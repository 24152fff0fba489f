"""Bars as a JSON array of objects, one on each line; times are epoch milliseconds."""

from collections.abc import Sequence
from typing import BinaryIO

from tapebook.domain.market import Candle
from tapebook.history.exporter import COLUMNS, INTERVAL_NAMES
from tapebook.history.exporters.csv import price_text

_KEYS = [f'"{name}": ' for name in COLUMNS]


def create(file: BinaryIO) -> "JsonWriter":
    """Begins an array."""
    return JsonWriter(file)


class JsonWriter:
    """Writes an object per bar."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._between = "[\n"

    def write(self, bars: Sequence[Candle]) -> None:
        """Adds bars."""
        if bars:
            self._file.write((self._between + ",\n".join(map(_json_object, bars))).encode())
            self._between = ",\n"

    def close(self) -> None:
        """Ends the array."""
        self._file.write(b"[]\n" if self._between == "[\n" else b"\n]\n")


def _json_object(bar: Candle) -> str:
    prices = map(price_text, (bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8))
    amounts = (repr(bar.volume_base), repr(bar.volume_quote_usd), str(bar.sample_count))
    values = (str(bar.bucket_ts), *prices, *amounts, f'"{INTERVAL_NAMES[bar.granularity_sec]}"')
    return "{" + ", ".join(map(str.__add__, _KEYS, values)) + "}"
