"""SQLite through apsw: one connection, WAL, and errors translated to what the caller must do."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from tapebook.db.port import Row
from tapebook.db.queries import Query
from tapebook.errors import BadInput, Busy, Damaged, HomeError, StoreFailed, TapebookError

BUSY_TIMEOUT_MS = 10_000

_PRAGMAS = """
PRAGMA wal_autocheckpoint = 10000;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = ON;
"""


class SqliteDatabase:
    """One SQLite file, or `:memory:`."""

    def __init__(self, path: str, *, durable: bool, create: bool = True) -> None:
        self._path = path
        self._failed = False
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        with self._translated():
            self._connection = apsw.Connection(path, flags=flags)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._use_wal()
        self._execute(_PRAGMAS)
        # FULL waits for the disk at every commit; NORMAL only at checkpoints and can lose the newest commits
        # in a power cut, which the tape can fetch again and the book cannot.
        self._execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

    @property
    def description(self) -> str:
        """The library's version and the file."""
        return f"SQLite {apsw.sqlite_lib_version()} ({self._path})"

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        return self._execute(query.sqlite, [params[name] for name in query.params])

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        rows = self.all(query, **params)
        return rows[0] if rows else None

    def run(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        self.all(query, **params)

    def many(self, query: Query, rows: Iterable[Row]) -> int:
        """Executes a statement once per row, in one savepoint."""
        before = self._connection.total_changes()
        with self._translated(), self._connection:
            self._connection.executemany(query.sqlite, rows).fetchall()
        return self._connection.total_changes() - before

    def script(self, sql: str) -> None:
        """Executes several statements; the shared dialect is SQLite's."""
        self._execute(sql)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE takes the write lock before anything is read, so nothing read inside can be stale."""
        self._begin("BEGIN IMMEDIATE")
        try:
            yield
            if self._failed:
                # PostgreSQL ends such a transaction itself; the same program must not do more on SQLite.
                raise RuntimeError(
                    "a statement failed and its error was caught inside the transaction: nothing is written"
                )
            self._execute("COMMIT")
        except BaseException:
            # A full disk can have ended the transaction already.
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A deferred transaction: WAL keeps what its first read saw."""
        self._begin("BEGIN; PRAGMA query_only = ON")
        try:
            yield
        finally:
            self._execute("ROLLBACK; PRAGMA query_only = OFF")

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _begin(self, sql: str) -> None:
        if self._connection.in_transaction:
            raise RuntimeError("a transaction is open on this connection already: they are not nested")
        self._failed = False
        self._execute(sql)

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._translated():
            # Fetched to the end: apsw runs the statements of a text only as far as rows are asked for.
            return self._connection.execute(sql, values).fetchall()

    def _use_wal(self) -> None:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except apsw.BusyError:
            # Two processes open a new file at once: SQLite refuses the slower one without waiting. A write lock waits.
            self._connection.execute("BEGIN IMMEDIATE; ROLLBACK; PRAGMA journal_mode = WAL").fetchall()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (apsw.Error, OverflowError, UnicodeDecodeError) as error:
            self._failed = True
            known = _translate(error, self._path)
            if known is None:
                raise
            raise known from error


def _translate(error: Exception, path: str) -> TapebookError | None:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        held = f"{path} is held by another process for over {BUSY_TIMEOUT_MS // 1000} s"
        return Busy(f"{held}; try again when it is done")
    if isinstance(error, apsw.CantOpenError):
        return HomeError(f"cannot open {path}: check that the folder exists and may be written")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError):
        return Damaged(f"{path} is not a readable SQLite database ({error}); restore it from a backup")
    if isinstance(error, apsw.FullError | apsw.IOError | apsw.ReadOnlyError):
        return StoreFailed(f"cannot write {path} ({error}); make room or allow writing, then start again")
    if isinstance(error, OverflowError):
        return BadInput(f"an integer for {path} does not fit into 64 bits; check its unit")
    return None
