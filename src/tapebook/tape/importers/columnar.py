"""Parquet and Arrow feather as a table, through pyarrow, which the extra `archive` brings."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from tapebook.errors import BadInput
from tapebook.tape.importers.table import BLOCK_ROWS, Block, Table

_NO_PYARROW = "Parquet and feather need pyarrow: pip install 'tapebook[archive]'"


def pyarrow() -> Any:
    """The library. BadInput with the remedy where it is not installed."""
    try:
        import pyarrow as library
    except ImportError as error:
        raise BadInput(_NO_PYARROW) from error
    return library


def read_parquet(file: BinaryIO) -> Table:
    """A Parquet file as a table; rows are counted from 1."""
    arrow = pyarrow()
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
    except (arrow.ArrowException, OSError) as error:
        raise _unreadable("Parquet", error) from error
    return _table("Parquet", opened.schema_arrow, opened.iter_batches(BLOCK_ROWS))


def read_feather(file: BinaryIO) -> Table:
    """A feather file as a table; rows are counted from 1."""
    arrow = pyarrow()
    from pyarrow import feather

    try:
        whole = feather.read_table(file)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise _unreadable("feather", error) from error
    return _table("feather", whole.schema, iter(whole.to_batches(BLOCK_ROWS)))


def _unreadable(name: str, error: Exception) -> BadInput:
    return BadInput(f"the {name} file is damaged or cut off: {str(error).splitlines()[0]}")


def _table(name: str, schema: Any, batches: Iterator[Any]) -> Table:
    types = {field.name: field.type for field in schema}
    instants = {name: words for name, kind in types.items() if (words := _instant_words(kind))}
    return Table(name, "row", tuple(schema.names), True, _blocks(name, batches), instants)


def _instant_words(kind: Any) -> str:
    """How a column that holds instants by its type wrote them; empty for other columns."""
    arrow = pyarrow()
    if arrow.types.is_timestamp(kind):
        zone = f"with the zone {kind.tz}" if kind.tz else "without a zone, taken as UTC"
        return f"timestamps in {kind.unit}, {zone}"
    return "dates, taken as 00:00 UTC" if arrow.types.is_date(kind) else ""


def _blocks(name: str, batches: Iterator[Any]) -> Iterator[Block]:
    arrow = pyarrow()
    done = 0
    while True:
        try:
            batch = next(batches, None)
        except (arrow.ArrowException, OSError) as error:
            raise _unreadable(name, error) from error
        if batch is None:
            return
        yield Block(range(done + 1, done + batch.num_rows + 1), [_values(column) for column in batch.columns])
        done += batch.num_rows


def _values(column: Any) -> list[Any]:
    """A column as Python values, instants as UTC milliseconds."""
    arrow = pyarrow()
    if arrow.types.is_timestamp(column.type) or arrow.types.is_date(column.type):
        stamps = column.cast(arrow.timestamp("ms"), safe=False) if arrow.types.is_date(column.type) else column
        # Finer units are cut to milliseconds; Arrow keeps every zone's instants in UTC.
        to_ms = arrow.timestamp("ms", getattr(stamps.type, "tz", None))
        column = stamps.cast(to_ms, safe=False).cast(arrow.int64())
    values: list[Any] = column.to_pylist()
    return values
