"""A database whose single statements wait for the end of their transaction, where many of a kind are executed at once.

For a sole writer that asks little of what it just wrote, such as a backtest. A read of a table that something
waits for has that written first, so nobody can tell the difference but by the time it takes. Tables know nothing
of one another: no statement that waits may depend on what waits for another table.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tapebook.db.port import Database, Row
from tapebook.db.queries import Query


class Buffered:
    """Another database, with its writes put off."""

    def __init__(self, db: Database) -> None:
        self._db = db
        # For each table its statements in their order, with the rows of those that follow one another.
        self._waiting: dict[str, list[tuple[Query, list[Row]]]] = {}
        self._open = False

    @property
    def description(self) -> str:
        """What the other database is."""
        return self._db.description

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        self._settle(query)
        return self._db.all(query, **params)

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        self._settle(query)
        return self._db.one(query, **params)

    def run(self, query: Query, **params: Any) -> None:
        """Puts a statement on one table off; outside a transaction it is executed at once."""
        self.write(query, params)

    def write(self, query: Query, params: Mapping[str, Any]) -> None:
        """The same for values in a mapping."""
        if not self._open or len(query.tables) != 1:
            self._settle(query)
            self._db.write(query, params)
            return
        (table,) = query.tables
        runs, row = self._waiting.setdefault(table, []), tuple(map(params.__getitem__, query.params))
        if runs and runs[-1][0] is query:
            runs[-1][1].append(row)
        else:
            runs.append((query, [row]))

    def many(self, query: Query, rows: Iterable[Row]) -> int:
        """Executes a statement once per row, now."""
        self._settle(query)
        return self._db.many(query, rows)

    def script(self, sql: str) -> None:
        """Executes the statements of a migration."""
        self._flush(self._waiting)
        self._db.script(sql)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction; all that waits is executed before it is committed, and forgotten when it fails."""
        with self._db.transaction():
            self._open = True
            try:
                yield
                self._flush(self._waiting)
            finally:
                self._open = False
                self._waiting = {}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A read transaction."""
        with self._db.snapshot():
            yield

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()

    def _settle(self, query: Query) -> None:
        """Executes what a statement may see of what waits."""
        if not self._waiting.keys().isdisjoint(query.tables):
            self._flush(query.tables & self._waiting.keys())

    def _flush(self, tables: Iterable[str]) -> None:
        """Table by table, each in its order."""
        for table in sorted(tables):
            for query, rows in self._waiting.pop(table):
                self._db.many(query, rows)
