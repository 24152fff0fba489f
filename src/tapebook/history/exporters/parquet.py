"""Bars as Parquet: timestamps in UTC, prices as doubles, as other tools expect them.

A double holds every price below nine million to eight decimals. One that it does not hold exactly is refused.
"""

from collections.abc import Sequence
from typing import Any, BinaryIO

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, to_units
from tapebook.errors import BadInput
from tapebook.history.exporter import COLUMNS, INTERVAL_NAMES

# Below this a double is exact to the eighth decimal.
_SURE = 9 * 10**6 * E8


def create(file: BinaryIO) -> "ParquetWriter":
    """Begins a file."""
    return ParquetWriter(file)


class ParquetWriter:
    """Writes a row group per block."""

    def __init__(self, file: BinaryIO) -> None:
        # Loaded by those who write Parquet: it takes longer to load than most commands run.
        import pyarrow as arrow
        from pyarrow import parquet

        types = [arrow.timestamp("ms", "UTC"), *[arrow.float64()] * 6, arrow.int64(), arrow.string()]
        self._schema = arrow.schema(list(zip(COLUMNS, types, strict=True)))
        self._writer: Any = parquet.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, bars: Sequence[Candle]) -> None:
        """Adds bars."""
        import pyarrow as arrow

        columns = [
            [bar.bucket_ts for bar in bars],
            *([_double(getattr(bar, f"{name}_e8")) for bar in bars] for name in COLUMNS[1:5]),
            [bar.volume_base for bar in bars],
            [bar.volume_quote_usd for bar in bars],
            [bar.sample_count for bar in bars],
            [INTERVAL_NAMES[bar.granularity_sec] for bar in bars],
        ]
        arrays = [arrow.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(arrow.table(arrays, schema=self._schema))

    def close(self) -> None:
        """Writes the footer."""
        self._writer.close()


def _double(price_e8: int) -> float:
    price = price_e8 / E8
    if price_e8 >= _SURE and to_units(price, E8) != price_e8:
        raise BadInput(f"the price {price_e8 / E8} has more digits than a double of Parquet holds: export to .csv")
    return price
