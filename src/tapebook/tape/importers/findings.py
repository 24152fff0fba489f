"""What a table turned out to be, in the same words for every kind of row."""

from collections.abc import Sequence
from typing import Any

from tapebook.tape.importer import Told
from tapebook.tape.importers.columns import Columns
from tapebook.tape.importers.series import Series, holes, longest, missing_rows, spacing
from tapebook.tape.importers.table import Table
from tapebook.tape.importers.times import Times


def time_column(table: Table, columns: Columns) -> Times:
    """The reader of a table's times."""
    return Times(table.instants.get(columns.names[columns.at["time"]], ""))


def told(
    table: Table,
    columns: Columns,
    found: Series[Any],
    *,
    used: Sequence[str],
    times: Times,
    values: str,
    rows_read: int,
    buckets: Sequence[int],
    step: int | None,
    notes: Sequence[str],
) -> Told:
    """The findings; `buckets` are the moments of the facts, `step` what should lie between two of them."""
    gaps = holes(buckets, step)
    taken = {columns.at[name] for name in (*used, "symbol", "market") if columns.has(name)}
    backwards = ("newest first: read backwards",) if found.backwards else ()
    return Told(
        format=table.format,
        row_name=table.row_name,
        columns=columns.called(*used),
        unused=tuple(name for place, name in enumerate(table.names) if place not in taken),
        times=times.words,
        values=values,
        rows_read=rows_read,
        duplicates=found.duplicates,
        first_ts=buckets[0] if buckets else None,
        last_ts=buckets[-1] if buckets else None,
        spacing_ms=spacing(buckets),
        gap_count=len(gaps),
        longest_gaps=longest(gaps),
        missing=missing_rows(gaps, step),
        notes=(*table.notes, *backwards, *notes),
    )
