"""A database whose single statements wait for the end of their transaction, to be executed many at once.

For whoever reads little of what it just wrote, such as a backtest or a desk that records decisions. A read of a table
that something waits for has that written first, so the only difference is the time it takes. Tables know nothing of
one another: no statement that waits may depend on what waits for another table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapebook.db.database import Database, Query, Row


def _nothing_to_do() -> None:
    """Nobody has anything that is still to be written."""


class BufferedDatabase:
    """Another database, with its writes put off."""

    def __init__(self, db: Database) -> None:
        self._db = db
        # For each table its statements in their order, with the rows of those that follow one another.
        self._waiting: dict[str, list[tuple[Query, list[Row]]]] = {}
        # The rows of each table's last statement, by its text: a row more of the same is only added there.
        self._last: dict[str, list[Row]] = {}
        self._open = False
        self._before_reads: Callable[[], None] = _nothing_to_do

    def call_before_reads(self, call: Callable[[], None]) -> None:
        """Has somebody write what is still to be written before a statement that may see it."""
        self._before_reads = call

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

    def stream(self, query: Query, **params: Any) -> Iterator[Row]:
        """The rows of a query one by one."""
        self._settle(query)
        return self._db.stream(query, **params)

    def integrity_problems(self) -> list[str]:
        """What the other database's own check finds."""
        return self._db.integrity_problems()

    def execute(self, query: Query, **params: Any) -> None:
        """Puts a statement on one table off; outside a transaction it is executed at once."""
        self.execute_row(query, query.values_in_order(params))

    def execute_row(self, query: Query, row: Row) -> None:
        """Executes a statement with values in their order."""
        rows = self._last.get(query.sqlite)
        if rows is not None:
            rows.append(row)
        elif self._open and len(query.tables) == 1:
            self._begin(query).append(row)
        else:
            self._settle(query)
            self._db.execute_row(query, row)

    def many(self, query: Query, rows: Iterable[Row]) -> int:
        """Executes a statement once per row, now."""
        self._settle(query)
        return self._db.many(query, rows)

    def many_together(self, statements: Sequence[tuple[Query, Sequence[Row]]]) -> None:
        """Executes several statements, now."""
        for query, _ in statements:
            self._settle(query)
        self._db.many_together(statements)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Inserts rows, now."""
        self._before_reads()
        self._flush({table} & self._waiting.keys())
        self._db.insert_rows(table, columns, rows)

    def execute_script(self, sql: str) -> None:
        """Executes the statements of a migration."""
        self._before_reads()
        self._flush(self._waiting)
        self._db.execute_script(sql)

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
                self._waiting, self._last = {}, {}

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A read transaction."""
        with self._db.snapshot():
            yield

    def flush(self) -> None:
        """Executes all that waits: a transaction that writes very much need not remember it."""
        self._flush(self._waiting.copy())

    def sync(self) -> None:
        """Waits for the disk; what waits for the end of its transaction is not committed yet."""
        self._db.sync()

    def claim(self, name: str, *, holder: str) -> str | None:
        """Claims a name of the database."""
        return self._db.claim(name, holder=holder)

    def notify(self, topic: str) -> None:
        """Wakes those who wait for a topic."""
        self._db.notify(topic)

    def wait_for(self, topic: str, *, seconds: float) -> bool:
        """Waits until somebody notifies."""
        return self._db.wait_for(topic, seconds=seconds)

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()

    def _begin(self, query: Query) -> list[Row]:
        """Where the rows of a statement wait from now on, behind whatever its table waits for already."""
        (table,) = query.tables
        before = self._waiting.setdefault(table, [])
        if before:
            self._last.pop(before[-1][0].sqlite)
        rows = self._last[query.sqlite] = []
        before.append((query, rows))
        return rows

    def _settle(self, query: Query) -> None:
        """Executes what a statement may see of what waits."""
        self._before_reads()
        if not self._waiting.keys().isdisjoint(query.tables):
            self._flush(query.tables & self._waiting.keys())

    def _flush(self, tables: Iterable[str]) -> None:
        """Table by table, each in its order."""
        due: list[tuple[Query, list[Row]]] = []
        for table in sorted(tables):
            waiting = self._waiting.pop(table)
            self._last.pop(waiting[-1][0].sqlite)
            due += waiting
        if due:
            self._db.many_together(due)
