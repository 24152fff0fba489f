"""A database whose single statements wait for the end of their transaction, to be executed many at once.

For whoever reads little of what it just wrote, such as a backtest or a desk that records decisions. A read of a table
that something waits for has that written first, so the only difference is the time it takes. Tables know nothing of
one another: no statement that waits may depend on what waits for another table.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapebook.db.database import Database, Query, Row


class BufferedDatabase:
    """Another database, with its writes put off; while nothing waits, reads are the other database's own."""

    all: Callable[..., list[Row]]
    """Every row of a query."""

    one: Callable[..., Row | None]
    """The first row of a query, or None."""

    many: Callable[..., int]
    """Executes a statement once per row, now, and returns how many rows it changed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        # For each table its statements in their order, with the rows of those that follow one another.
        self._waiting: dict[str, list[tuple[Query, list[Row]]]] = {}
        # The rows of each table's last statement, by its text: a row more of the same is only added there.
        self._last: dict[str, list[Row]] = {}
        self._open = False
        self._before_reads: Callable[[], None] | None = None
        self._settled = self._all_settled, self._one_settled, self._many_settled
        self._idle = db.all, db.one, db.many
        self.all, self.one, self.many = self._idle

    def call_before_reads(self, call: Callable[[], None]) -> None:
        """Has somebody write what is still to be written before a statement that may see it."""
        self._before_reads = call
        # Somebody else has what waits, so every read has to ask.
        self._idle = self._settled
        self.all, self.one, self.many = self._idle

    @property
    def description(self) -> str:
        """What the other database is."""
        return self._db.description

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
            # Behind whatever its table waits for already.
            (table,) = query.tables
            before = self._waiting.setdefault(table, [])
            if before:
                self._last.pop(before[-1][0].sqlite)
            rows = self._last[query.sqlite] = [row]
            before.append((query, rows))
            self.all, self.one, self.many = self._settled
        else:
            self._settle(query)
            self._db.execute_row(query, row)

    def many_together(self, statements: Sequence[tuple[Query, Sequence[Row]]]) -> None:
        """Executes several statements, now."""
        for query, _ in statements:
            self._settle(query)
        self._db.many_together(statements)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Inserts rows, now."""
        if self._before_reads is not None:
            self._before_reads()
        self._flush({table} & self._waiting.keys())
        self._db.insert_rows(table, columns, rows)

    def copy_to(self, path: str) -> bool:
        """Copies the file of the other database, if it is one."""
        return self._db.copy_to(path)

    def execute_script(self, sql: str) -> None:
        """Executes the statements of a migration."""
        if self._before_reads is not None:
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
                self.all, self.one, self.many = self._idle

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

    def _all_settled(self, query: Query, **params: Any) -> list[Row]:
        self._settle(query)
        return self._db.all(query, **params)

    def _one_settled(self, query: Query, **params: Any) -> Row | None:
        self._settle(query)
        return self._db.one(query, **params)

    def _many_settled(self, query: Query, rows: Iterable[Row], *, shared: frozenset[str] = frozenset()) -> int:
        self._settle(query)
        return self._db.many(query, rows, shared=shared)

    def _settle(self, query: Query) -> None:
        """Executes what a statement may see of what waits."""
        if self._before_reads is not None:
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
