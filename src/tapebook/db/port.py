"""What every database adapter offers; rooms see nothing else of a database."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tapebook.db.queries import Query

Row = tuple[Any, ...]


class Database(Protocol):
    """One connection, used by one thread.

    Values are text, integers of 64 bits, floats, bytes and None; a truth value is written as 0 or 1.
    An integer that is longer raises BadInput. Text may hold a NUL on SQLite and may not on PostgreSQL.
    """

    @property
    def description(self) -> str:
        """What it is and which version, for `doctor` and test reports."""
        ...

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        ...

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        ...

    def stream(self, query: Query, **params: Any) -> Iterator[Row]:
        """The rows of a query one by one, in bounded memory; inside a snapshot or a transaction."""
        ...

    def integrity(self) -> list[str]:
        """What the database's own check of its file finds; a server has none and looks after itself."""
        ...

    def run(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        ...

    def put(self, query: Query, row: Row) -> None:
        """The same for values that stand in the order of `query.params`."""
        ...

    def many(self, query: Query, rows: Iterable[Row]) -> int:
        """Executes a statement once per row, for all rows or none, and returns how many rows it changed.

        Values stand in the order of `query.params`.
        """
        ...

    def script(self, sql: str) -> None:
        """Executes the statements of a migration, written in the shared dialect."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """A write transaction that is begun at once, committed at the end and rolled back on any error.

        It is not nested, and the error of a statement inside is not to be caught inside: both raise RuntimeError.
        """
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """A read transaction: everything read inside is of one moment, and no writer waits for it."""
        ...

    def sync(self) -> None:
        """Waits until every commit that can be read is on the disk, whoever made it and however durable they are."""
        ...

    def claim(self, name: str, *, holder: str) -> str | None:
        """Claims a name of this database until the connection ends; returns who has it, if somebody else does.

        A file is claimed by a lock in its home, so SQLite gives every name to whoever asks.
        """
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...
