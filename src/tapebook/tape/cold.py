"""Rows of a family that leave the tape, as a Parquet file of one month, and back.

    cold/tape/candles_60/2026-10/HASH.parquet    the key that `put` makes of `cold_folder` and the file's hash

A file says all that its rows say, symbols by their names: any tool that reads Parquet can use it, and so can a tape
that numbers its symbols otherwise. Objects of an older tapebook are a JSON list of rows; both are read.
"""

from collections.abc import Collection, Mapping, Sequence
from types import UnionType
from typing import Any, get_args

import msgspec

from tapebook.db import Row
from tapebook.domain.units import iso_text
from tapebook.errors import Damaged
from tapebook.tape.families import Family

_PARQUET_MAGIC = b"PAR1"
# Columns behind the fact's own.
_TIMES = ("revision", "known_at", "seq")


def cold_folder(family: Family, granularity_sec: int, chunk: int) -> str:
    """Where in the archive rows of a chunk go: by family, and by the month in which the chunk begins."""
    name = f"{family.channel}_{granularity_sec}" if granularity_sec else family.channel
    return f"tape/{name}/{iso_text(chunk * family.span_of(granularity_sec))[:7]}"


def encode_rows(family: Family, rows: Sequence[Row], names: Mapping[int, str]) -> bytes:
    """Rows as a Parquet file, by symbol and time, which lie well together; Damaged when one is not of its family."""
    import pyarrow as arrow
    from pyarrow import parquet

    # Symbol, time and commit, so equal rows are equal bytes whatever order they were read in.
    ordered = sorted(rows, key=lambda row: (names[row[1]], row[2 + family.bucket_at], row[-1], row[-3]))
    schema, columns = _schema(family), list(zip(*ordered, strict=True))
    try:
        arrays = [arrow.array([names[number] for number in columns[1]], arrow.string())]
        arrays += [arrow.array(values, field.type) for values, field in zip(columns[2:], list(schema)[1:], strict=True)]
    except (arrow.ArrowException, TypeError, OverflowError) as error:
        problem = f"a row of {family.table} is none of its table ({error})"
        raise Damaged(f"{problem}: run `tapebook verify --tape`") from error
    out = arrow.BufferOutputStream()
    numbers = [field.name for field in schema if field.type == arrow.int64()]
    parquet.write_table(
        arrow.Table.from_arrays(arrays, schema=schema),
        out,
        compression="zstd",
        compression_level=6,
        use_dictionary=[field.name for field in schema if field.name not in numbers],
        # Times and prices differ little from row to row.
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )
    content: bytes = out.getvalue().to_pybytes()
    return content


class ColdRows:
    """The rows of one object; only those of chunks that are asked for become Python values."""

    def __init__(self, family: Family, content: bytes, ids: Mapping[str, int]) -> None:
        self._family, self._ids = family, ids
        self._rows: list[Row] | None = None
        self._table: Any = None
        if content.startswith(_PARQUET_MAGIC):
            self._table = _read_table(content)
            self._chunks = self._table["bucket_ts"].to_numpy() // self._span()
        else:
            self._rows = msgspec.json.decode(content, type=list[tuple[Any, ...]])

    def rows_of_chunks(self, chunks: Collection[int]) -> list[Row]:
        """The rows of some chunks, in the order of the family's insert."""
        if self._rows is not None:
            # The chunk is that of today, however it was counted when the row left.
            today = [(self._family.chunk_of(row), *row[1:]) for row in self._rows]
            return [row for row in today if row[0] in chunks]
        import numpy

        chosen = numpy.isin(self._chunks, list(chunks))
        part = self._table.filter(chosen)
        symbols, *values = (part[name].to_pylist() for name in _schema(self._family).names)
        try:
            numbers = [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            unknown = f"archived rows of {self._family.table} name {error}, which the tape does not know"
            raise Damaged(unknown) from error
        return list(zip(self._chunks[chosen].tolist(), numbers, *values, strict=True))

    def chunk_counts(self) -> dict[int, int]:
        """How many rows each chunk of a Parquet file has."""
        import numpy

        found = numpy.unique(self._chunks, return_counts=True)
        return dict(zip(found[0].tolist(), found[1].tolist(), strict=True))

    def symbols(self) -> list[str]:
        """The symbols of a Parquet file."""
        names: list[str] = self._table["symbol"].unique().to_pylist()
        return sorted(names)

    def known_range(self) -> tuple[tuple[int, int], int]:
        """The newest commit of a Parquet file and when it was known, and when the first row was known."""
        seqs, known = (self._table[name].to_numpy() for name in ("seq", "known_at"))
        return (int(seqs.max()), int(known[seqs == seqs.max()].max())), int(known.min())

    def _span(self) -> int:
        lengths = self._table["granularity_sec"].unique().to_pylist() if self._family.has_granularity else [0]
        if len(lengths) != 1:
            raise Damaged(f"a file of archived rows of {self._family.table} mixes bars of several lengths")
        return self._family.span_of(lengths[0])


def _read_table(content: bytes) -> Any:
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        return parquet.read_table(arrow.BufferReader(content))
    except (arrow.ArrowException, OSError) as error:
        raise Damaged(f"archived rows cannot be read ({error}); restore the archive from a backup") from error


def _schema(family: Family) -> Any:
    """The columns of a family's files: the symbol's name, the fact's own fields, revision and times."""
    import pyarrow as arrow

    kinds = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    # A field that may be empty is a union with None.
    types = {
        field.name: kinds[get_args(field.type)[0] if isinstance(field.type, UnionType) else field.type]
        for field in msgspec.structs.fields(family.fact)
        if field.name not in ("symbol", "family")
    }
    own = [("symbol", arrow.string()), *types.items()]
    return arrow.schema(own + [(name, arrow.int64()) for name in _TIMES])
