"""PostgreSQL through psycopg 3: the same statements, translated where the dialects differ.

The shared dialect is SQLite's. Its words for types are replaced in migrations: text is compared
by bytes (`COLLATE "C"`), integers have 64 bits, floats are double, blobs are `BYTEA`; and tables
have no rowid to leave out.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from tapebook.db.port import Row
from tapebook.db.queries import Query
from tapebook.domain.urls import without_password_of
from tapebook.errors import BadInput, Busy, HomeError, Stop, StoreFailed, TapebookError

_ROWS_AT_ONCE = 2_000
# Committed with a wait for the disk, it makes the server wait for all it logged before; without a record it would not.
_RECORD = "SELECT pg_logical_emit_message(true, 'tapebook', 'sync')"
# One script at a time: two CREATE TABLE IF NOT EXISTS at once fail on each other. The number is only ours.
_SCRIPT_LOCK = "SELECT pg_advisory_xact_lock(7233954870);\n"


class PostgresDatabase:
    """One connection to one PostgreSQL database."""

    def __init__(self, url: str, *, durable: bool) -> None:
        try:
            self._connection = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            said = without_password_of(url, _first_line(error))
            # Without the driver's error behind it: that may quote the URL with its password.
            raise HomeError(f"cannot reach PostgreSQL: {said}; check the URL and that the server runs") from None
        # psycopg sends a small integer as SMALLINT, and 30000 + 30000 overflows; on SQLite all have 64 bits.
        self._connection.adapters.register_dumper(int, Int8Dumper)
        # Two streams may be open at once.
        self._streams = count()
        if not durable:
            self._connection.execute("SET synchronous_commit = off")

    @property
    def description(self) -> str:
        """The server's version and the database."""
        info = self._connection.info
        return f"PostgreSQL {info.server_version // 10000}.{info.server_version % 10000} ({info.dbname})"

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        with self._translated():
            return self._execute(query, query.row(params)).fetchall()

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        with self._translated():
            return self._execute(query, query.row(params)).fetchone()

    def stream(self, query: Query, **params: Any) -> Iterator[Row]:
        """The rows of a query one by one, some thousand in each round trip."""
        with self._translated(), self._connection.cursor(name=f"stream_{next(self._streams)}") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            yield from cursor.execute(query.postgres.encode(), query.row(params))

    def integrity(self) -> list[str]:
        """Nothing: the server checks the pages it reads."""
        return []

    def run(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        self.put(query, query.row(params))

    def put(self, query: Query, row: Row) -> None:
        """The same for values in their order."""
        with self._translated():
            self._execute(query, row)

    def many(self, query: Query, rows: Iterable[Row]) -> int:
        """Executes a statement once per row, in one round trip."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.executemany(query.postgres.encode(), rows)
            return cursor.rowcount

    def script(self, sql: str) -> None:
        """Executes the statements of a migration."""
        with self._translated():
            self._connection.execute((_SCRIPT_LOCK + translate(sql)).encode())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction; two writers of one stream meet at its primary key, and the second is refused."""
        self._refuse_nesting()
        with self._translated(), self._connection.transaction():
            yield
            if self._connection.info.transaction_status is TransactionStatus.INERROR:
                # The server would answer COMMIT with a silent rollback.
                raise RuntimeError(
                    "a statement failed and its error was caught inside the transaction: nothing is written"
                )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A repeatable read: what its first statement saw."""
        self._refuse_nesting()
        with self._translated(), self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def sync(self) -> None:
        """Waits until the server has written everything that was committed."""
        with self._translated(), self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit = on")
            self._connection.execute(_RECORD)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _execute(self, query: Query, row: Row) -> psycopg.Cursor[Row]:
        return self._connection.execute(query.postgres.encode(), row)

    def _refuse_nesting(self) -> None:
        if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            raise RuntimeError("a transaction is open on this connection already: they are not nested")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            known = _translate(error)
            if known is None:
                raise
            raise known from error


def translate(sql: str) -> str:
    """A migration in the shared dialect as PostgreSQL reads it."""
    sql = re.sub(r"\)\s*WITHOUT ROWID", ")", sql)
    sql = re.sub(r"\bBLOB\b", "BYTEA", sql)
    sql = re.sub(r"\bINTEGER\b", "BIGINT", sql)
    sql = re.sub(r"\bREAL\b", "DOUBLE PRECISION", sql)
    # A column has a collation, a CAST has none.
    return re.sub(r"(?<!\bAS )\bTEXT\b", 'TEXT COLLATE "C"', sql)


def _translate(error: psycopg.Error) -> TapebookError | None:
    said = _first_line(error)
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return Busy(f"PostgreSQL: {said}; try again")
    if isinstance(error, errors.DiskFull | errors.ReadOnlySqlTransaction):
        return StoreFailed(f"PostgreSQL refused a write: {said}")
    if isinstance(error, psycopg.DataError):
        return BadInput(f"PostgreSQL refused a value: {said}; check its unit and its text")
    if isinstance(error, psycopg.OperationalError):
        return Stop(f"the connection to PostgreSQL failed: {said}; check the server and start again")
    return None


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
