"""SQLite through apsw: one connection, WAL, and errors translated to what the caller must do."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import chain, count, islice
from operator import itemgetter
from typing import Any, NoReturn

import apsw
import msgspec

from tapebook.db.database import Query, Row
from tapebook.domain.files import PRIVATE_FILE, sync_file
from tapebook.errors import BadInput, Busy, Damaged, HomeError, StoreFailed, TapebookError

# Longer than any transaction here takes; a writer that holds on for longer is stuck.
BUSY_TIMEOUT_MS = 10_000
# Beyond it one statement of many rows is hardly faster, and its text grows.
ROWS_AT_ONCE = 50

# For books of one writer, whose rows are packs of many events: fewer of them spill over into further pages.
_LARGE_PAGE = 16_384
_MOST_PROBLEMS = 20
# A checkpoint after so many bytes, however large a page is: seldom enough to be cheap, small enough to read past.
_WAL_BYTES = 40_960_000
# Pages in memory, in KiB. A cache grows with its file until it is full, in every process of a desk: a small one is full
# soon, and what is not in it the system has. Whoever has a file for itself, as a backtest has, may use more.
_CACHE_KIB, _CACHE_KIB_ALONE = 16_384, 65_536
_PRAGMAS = """
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = ON;
"""

_ERRORS = (apsw.Error, OverflowError, UnicodeDecodeError)
_ONE_ROW = re.compile(r"(?<=\bVALUES )\(\?(?:, \?)*\)")


_NESTED = "a transaction is open on this connection already: they are not nested"
# How long somebody who waits for others pauses before looking again.
_PAUSE_SECONDS = 0.1


class SqliteDatabase:
    """One SQLite file, or `:memory:`; `large_pages` are of a new file: a large transaction writes fewer of them."""

    def __init__(
        self, path: str, *, durable: bool, create: bool = True, large_pages: bool = False, read_only: bool = False
    ) -> None:
        self._path = path
        # Not SQLITE_OPEN_READONLY: such a connection cannot make the files of the write-ahead log, if they are gone.
        self._query_only = "ON" if read_only else "OFF"
        self._failed = False
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        if create and path != ":memory:":
            _make_private(path)
        with self._errors_translated():
            self._connection = apsw.Connection(path, flags=flags)
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Plans depend on no value that is bound: otherwise SQLite prepares most statements with an order anew for
            # every value, which takes longer than reading the row they ask for.
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            if large_pages:
                self._connection.execute(f"PRAGMA page_size = {_LARGE_PAGE}").fetchall()
            self._use_wal()
        self._execute(_PRAGMAS)
        self._execute(f"PRAGMA cache_size = -{_CACHE_KIB_ALONE if large_pages else _CACHE_KIB}")
        ((page_bytes,),) = self._execute("PRAGMA page_size")
        self._execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // page_bytes}")
        # FULL waits for the disk at every commit; NORMAL only at checkpoints and can lose the newest commits
        # in a power cut, which the tape can fetch again and the book cannot.
        self._execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        if read_only:
            self._execute("PRAGMA query_only = ON")

    @property
    def description(self) -> str:
        """The library's version and the file."""
        return f"SQLite {apsw.sqlite_lib_version()} ({self._path})"

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        # Written out, here and in `one`: no line of a tick is called more often.
        try:
            return self._connection.execute(query.sqlite, tuple(map(params.__getitem__, query.params))).fetchall()
        except _ERRORS as error:
            self._give_up(error)

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        try:
            rows = self._connection.execute(query.sqlite, tuple(map(params.__getitem__, query.params))).fetchall()
        except _ERRORS as error:
            self._give_up(error)
        return rows[0] if rows else None

    def stream(self, query: Query, **params: Any) -> Iterator[Row]:
        """The rows of a query one by one; Damaged where the tables are not those that it asks."""
        with self._errors_translated(), self._schema_errors_as_damage():
            yield from self._connection.execute(query.sqlite, query.values_in_order(params))

    def integrity_problems(self) -> list[str]:
        """What SQLite's own check finds: broken pages, and indexes that do not fit their tables."""
        try:
            return [row[0] for row in self._execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})") if row[0] != "ok"]
        except Damaged as error:
            return [str(error)]

    def execute(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        self._execute(query.sqlite, query.values_in_order(params))

    def execute_row(self, query: Query, row: Row) -> None:
        """Executes a statement with values in their order."""
        self._execute(query.sqlite, row)

    def many(self, query: Query, rows: Iterable[Row], *, shared: frozenset[str] = frozenset()) -> int:
        """Executes a statement once per row; an insert takes several rows at once, which saves a fifth of its time."""
        before, given = self._connection.total_changes(), list(rows)
        wide = _multi_row_insert(query.sqlite, query.params, shared) if len(given) >= ROWS_AT_ONCE else None
        is_even = wide is not None and set(map(len, given)) == {len(query.params)}
        whole = len(given) // ROWS_AT_ONCE * ROWS_AT_ONCE if is_even else 0
        try:
            # An error undoes a transaction. A savepoint in it would copy every page before it is changed.
            with nullcontext() if self._connection.in_transaction else self._connection:
                if wide and whole:
                    self._connection.executemany(wide.sql, wide.blocks(given[:whole])).fetchall()
                self._connection.executemany(query.sqlite, given[whole:]).fetchall()
        except _ERRORS as error:
            self._give_up(error)
        return self._connection.total_changes() - before

    def many_together(self, statements: Sequence[tuple[Query, Sequence[Row]]]) -> None:
        """Executes several statements, one after the other."""
        for query, rows in statements:
            self.many(query, rows)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Inserts rows, many to a statement."""
        self.many(Query.insert(table, columns), rows)

    def copy_to(self, path: str) -> bool:
        """Copies what is committed now to a new file, for its owner alone, while others go on writing."""
        _make_private(path)
        with self._errors_translated():
            target = apsw.Connection(path)
            try:
                with target.backup("main", self._connection, "main") as copy:
                    # In one step, which is one read transaction. A copy in steps begins anew with every write of
                    # another connection, and beside one that writes often it never ends.
                    copy.step(-1)
            finally:
                target.close()
        return True

    def execute_script(self, sql: str) -> None:
        """Executes several statements; the shared dialect is SQLite's."""
        with self._schema_errors_as_damage():
            self._execute(sql)

    @contextmanager
    def _schema_errors_as_damage(self) -> Iterator[None]:
        """Reports statements that do not fit the tables as damage: the schema is not what was written."""
        try:
            yield
        except apsw.SQLError as error:
            raise Damaged(f"the tables of {self._path} are not those it should have ({error}); restore it") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE takes the write lock before anything is read, so nothing read inside can be stale."""
        if self._connection.in_transaction:
            raise RuntimeError(_NESTED)
        self._failed = False
        self._execute("BEGIN IMMEDIATE")
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
        if self._connection.in_transaction:
            raise RuntimeError(_NESTED)
        self._failed = False
        self._execute("BEGIN; PRAGMA query_only = ON")
        try:
            yield
        finally:
            self._execute(f"ROLLBACK; PRAGMA query_only = {self._query_only}")

    def sync(self) -> None:
        """Syncs the write-ahead log: what is not in it any more was synced when it was moved to the database."""
        # Closing a file gives up this process's locks on it, whoever holds them; the log is the one without any.
        log = f"{self._path}-wal"
        try:
            if os.path.exists(log):
                sync_file(log)
        except OSError as error:
            raise StoreFailed(f"cannot write {log} ({error.strerror}); make room, then start again") from error

    def claim(self, name: str, *, holder: str) -> str | None:
        """Gives every name: who shares a file finds a lock in the home."""
        return None

    def notify(self, topic: str) -> None:
        """Nothing: whoever shares a file looks again."""

    def wait_for(self, topic: str, *, seconds: float) -> bool:
        """A pause, after which to look again."""
        time.sleep(min(seconds, _PAUSE_SECONDS))
        return False

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        # Errors are translated here: a context manager costs as much as a small statement.
        try:
            # Fetched to the end: apsw runs the statements of a text only as far as rows are asked for.
            return self._connection.execute(sql, values).fetchall()
        except _ERRORS as error:
            self._give_up(error)

    def _use_wal(self) -> None:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except apsw.BusyError:
            # Two processes open a new file at once: SQLite refuses the slower one without waiting. A write lock waits.
            self._connection.execute("BEGIN IMMEDIATE; ROLLBACK; PRAGMA journal_mode = WAL").fetchall()

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> NoReturn:
        self._failed = True
        known = _translate(error, self._path)
        if known is None:
            raise error
        raise known from error


def _make_private(path: str) -> None:
    """Makes a file that is not there yet for its owner alone; SQLite gives those beside it the same mode."""
    # Only a new one: closing a file that is in use gives up this process's locks on it.
    with suppress(OSError):
        # What does not work here SQLite tries again, and says why.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))


class _MultiRowInsert(msgspec.Struct, frozen=True):
    """An insert of several rows; the values that all of them share are given once, before those that are their own."""

    sql: str
    shared: tuple[int, ...]
    own: tuple[int, ...]

    def blocks(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The values of each statement."""
        common, columns = tuple([rows[0][at] for at in self.shared]), [map(itemgetter(at), rows) for at in self.own]
        values = chain.from_iterable(zip(*columns, strict=True) if common else rows)
        for _ in range(len(rows) // ROWS_AT_ONCE):
            yield (*common, *islice(values, len(self.own) * ROWS_AT_ONCE))


@cache
def _multi_row_insert(sql: str, params: tuple[str, ...], shared: frozenset[str]) -> _MultiRowInsert | None:
    """An insert of one row of parameters as an insert of several; None when it is something else."""
    if _ONE_ROW.findall(sql) != [f"({', '.join('?' * len(params))})"]:
        return None
    common = tuple([at for at, name in enumerate(params) if name in shared])
    own = tuple([at for at, name in enumerate(params) if name not in shared])
    numbers, named = count(len(common) + 1), {at: f"?{number}" for number, at in enumerate(common, 1)}
    rows = [[named.get(at) or f"?{next(numbers)}" for at in range(len(params))] for _ in range(ROWS_AT_ONCE)]
    return _MultiRowInsert(_ONE_ROW.sub(", ".join([f"({', '.join(row)})" for row in rows]), sql), common, own)


def _translate(error: Exception, path: str) -> TapebookError | None:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        held = f"{path} is held by another process for over {BUSY_TIMEOUT_MS // 1000} s"
        return Busy(f"{held}; try again when it is done")
    if isinstance(error, apsw.CantOpenError):
        return HomeError(f"cannot open {path}: check that the folder exists and may be written")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError | apsw.FormatError | UnicodeDecodeError):
        return Damaged(f"{path} is not a readable SQLite database ({error}); restore it from a backup")
    if isinstance(error, apsw.FullError | apsw.IOError | apsw.ReadOnlyError):
        return StoreFailed(f"cannot write {path} ({error}); make room or allow writing, then start again")
    if isinstance(error, OverflowError):
        return BadInput(f"an integer for {path} does not fit into 64 bits; check its unit")
    return None
