"""Rows that say one thing at one moment each, such as a rate or a price: read, put in order, and told about."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from tapebook.tape.importer import Ask, Imported, Problems, Progress, Told
from tapebook.tape.importers import findings, series
from tapebook.tape.importers.columns import Columns
from tapebook.tape.importers.subject import narrowed
from tapebook.tape.importers.table import Block, Table

Fact = TypeVar("Fact", bound=Imported)


class Points(ABC, Generic[Fact]):
    """The facts of a table about one symbol; `field` is the column that says what they say."""

    def __init__(self, table: Table, columns: Columns, symbol: str, *, field: str) -> None:
        columns.require("time", field)
        self.found: series.Series[Fact] = series.Series()
        self.step: int | None = None
        self._table = narrowed(table, columns, symbol)
        self._times = findings.time_column(table, columns)
        self._columns = columns
        self._symbol = symbol
        self._field = field
        self._rows_read = 0

    def read(self, ask: Ask, *, problems: Problems, progress: Progress) -> None:
        """Reads all blocks; what is no fact, out of order or not yet past becomes a problem."""
        for block in self._table.blocks:
            self._read(block, problems)
            self._rows_read += len(block.numbers)
            progress(self._rows_read)
        series.put_in_order(self.found, problems)
        series.require_spacing(self.found.times, ask.step_ms)
        self.step = series.spacing(self.found.times)
        self.found.drop([at > ask.now for at in self.found.times], "lies in the future", problems)

    def told(self, *, used: Sequence[str], values: str, notes: Sequence[str]) -> Told:
        """What the table turned out to be."""
        return findings.told(
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
    def _read(self, block: Block, problems: Problems) -> None:
        """Adds the rows of a block."""
