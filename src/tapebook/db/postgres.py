"""PostgreSQL through psycopg 3: the same statements, translated where the dialects differ.

The shared dialect is SQLite's. Its words for types are replaced in migrations: text is compared
by bytes (`COLLATE "C"`), integers have 64 bits, floats are double, blobs are `BYTEA`; and tables
have no rowid to leave out.

A connection that died is replaced by the next statement outside of a transaction. Until the server
answers again every call raises `DatabaseAway`; who waits, and how long, is the caller's business.
A transaction that was cut is there whole or not at all, and only a look at its rows tells which.
"""

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper

from tapebook.db.database import Query, Row
from tapebook.domain.text import redact_driver_message
from tapebook.errors import BadInput, Busy, DatabaseAway, HomeError, RoleLost, Stop, StoreFailed, TapebookError

Result = TypeVar("Result")

# What psycopg would print beside an error is in the error already.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_ROWS_AT_ONCE = 2_000
# From so many rows on the table in between is worth its while.
_ROWS_FOR_COPY = 1_000
# An insert of one row whose values are parameters, and that never changes a row: these can come from another table.
_PLAIN_INSERT = re.compile(
    r"INSERT INTO (?P<table>\w+) \((?P<columns>[\w\", ]+)\)\s+VALUES \(%s(?:, %s)*\)"
    r"\s*(?P<conflict>ON CONFLICT (?:\([\w, ]+\) )?DO NOTHING)?"
)
# Committed with a wait for the disk, it makes the server wait for all it logged before; without a record it would not.
_SYNC_RECORD = "SELECT pg_logical_emit_message(true, 'tapebook', 'sync')"
# One script at a time: two CREATE TABLE IF NOT EXISTS at once fail on each other. The number is only ours.
_SCRIPT_LOCK = "SELECT pg_advisory_xact_lock(7233954870);\n"


# What the address of a database does not say itself. A server that vanished without a word is noticed in half a minute.
_CONNECTION_DEFAULTS = {
    "connect_timeout": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
}
# What waiting does not change, in the words of the server and of its library: a refused connection has no error code.
# A server that speaks another language is waited for, and its words are shown.
_HOPELESS = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|does not exist|permission denied"
    r"|not permitted to log in|not currently accepting connections|does not support SSL|certificate"
)
_UNKNOWN_HOST = re.compile(r"could not translate host name|failed to resolve host|Name or service not known")

# Silence after which a server is asked whether it is there; who waits is woken ten times a second.
_SILENT_WAKES = 100
_CLAIM_SECONDS, _CLAIM_ATTEMPTS = 2.0, 20
_CLAIMED_BY = """
SELECT a.application_name, a.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
    AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(%s, 0)
"""
# After these the server hangs up.
_CONNECTION_LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.DatabaseDropped,
    errors.IdleInTransactionSessionTimeout,
    errors.IdleSessionTimeout,
    errors.ConnectionException,
)


class _WatchedConnection(psycopg.Connection[Row]):
    """A connection that notices a server which stands still with its sockets open.

    Neither keep-alives nor timeouts of the server do: the kernel answers for it. So after some silence the server is
    asked on a new connection; one that answers there is only slow.
    """

    def wait(self, gen: PQGen[Result], *args: Any, **how: Any) -> Result:
        """Waits for an answer; OperationalError, and the connection is closed, when nothing answers any more."""
        try:
            return super().wait(self._watch_silence(gen), *args, **how)
        except _ServerHangs as silence:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(silence)) from None

    def _watch_silence(self, gen: PQGen[Result]) -> PQGen[Result]:
        silent = 0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent = 0 if ready else silent + 1
                if silent > _SILENT_WAKES:
                    self._ask_beside()
                    silent = 0
                wanted = gen.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result

    def _ask_beside(self) -> None:
        terms = self.info.get_parameters() | {"password": self.info.password}
        try:
            psycopg.connect(make_conninfo("", **{name: text for name, text in terms.items() if text})).close()
        except psycopg.OperationalError as error:
            raise _ServerHangs(f"the server neither answers nor hangs up ({_first_line(error)})") from None


class _ServerHangs(Exception):
    """A server that neither answers nor hangs up."""


class PostgresDatabase:
    """One connection to one PostgreSQL database, made again when it died."""

    def __init__(self, url: str, *, durable: bool, read_only: bool = False) -> None:
        self._url = url
        self._durable = durable
        self._read_only = read_only
        self._in_transaction = self._ended = False
        self._claims: dict[str, str] = {}
        self._topics: set[str] = set()
        self._notified: set[str] = set()
        # Two streams may be open at once.
        self._streams = count()
        self._connection = self._connect(first=True)

    def _connect(self, *, first: bool = False) -> "psycopg.Connection[Row]":
        try:
            terms = _CONNECTION_DEFAULTS | conninfo_to_dict(self._url)
            connection = _WatchedConnection.connect(make_conninfo("", **terms), autocommit=True)
            # psycopg sends a small integer as SMALLINT, and 30000 + 30000 overflows; on SQLite all have 64 bits.
            connection.adapters.register_dumper(int, Int8Dumper)
            if not self._durable:
                connection.execute("SET synchronous_commit = off")
            if self._read_only:
                connection.execute("SET default_transaction_read_only = on")
            for topic in self._topics:
                _listen(connection, topic)
            taken = {name: _claim(connection, name, holder) for name, holder in self._claims.items()}
        except psycopg.Error as error:
            message = redact_driver_message(self._url, _first_line(error))
            # A name that nobody knows is a mistake in the address, unless it was known before.
            unknown = first and _UNKNOWN_HOST.search(str(error))
            if not isinstance(error, psycopg.OperationalError) or unknown or _HOPELESS.search(str(error)):
                # Without the driver's error behind it: that may quote the URL with its password.
                raise HomeError(f"cannot open PostgreSQL: {message}; check the URL and its user") from None
            raise _database_away(message) from None
        for name, other in taken.items():
            if other is not None:
                connection.close()
                raise RoleLost(f"{other} has taken {name!r} over while the database was away: stop one of the two")
        return connection

    @property
    def description(self) -> str:
        """The server's version and the database."""
        info = self._connection.info
        return f"PostgreSQL {info.server_version // 10000}.{info.server_version % 10000} ({info.dbname})"

    def all(self, query: Query, **params: Any) -> list[Row]:
        """Every row of a query."""
        with self._translate_errors():
            return self._execute(query, query.values_in_order(params)).fetchall()

    def one(self, query: Query, **params: Any) -> Row | None:
        """The first row of a query, or None."""
        with self._translate_errors():
            return self._execute(query, query.values_in_order(params)).fetchone()

    def stream(self, query: Query, **params: Any) -> Iterator[Row]:
        """The rows of a query one by one, some thousand in each round trip."""
        with self._translate_errors(), self._live_connection().cursor(name=f"stream_{next(self._streams)}") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            yield from cursor.execute(query.postgres.encode(), query.values_in_order(params))

    def integrity_problems(self) -> list[str]:
        """Nothing: the server checks the pages it reads."""
        return []

    def execute(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        self.execute_row(query, query.values_in_order(params))

    def execute_row(self, query: Query, row: Row) -> None:
        """Executes a statement with values in their order."""
        with self._translate_errors():
            self._execute(query, row)

    def many(self, query: Query, rows: Iterable[Row], *, shared: frozenset[str] = frozenset()) -> int:
        """Executes a statement once per row, in one round trip; very many rows are inserted by COPY."""
        rows = list(rows)
        insert = _PLAIN_INSERT.fullmatch(query.postgres) if len(rows) >= _ROWS_FOR_COPY else None
        with self._translate_errors(), self._live_connection().cursor() as cursor:
            if insert is not None:
                with self._connection.transaction():
                    return self._copy_and_insert(cursor, rows, insert)
            cursor.executemany(query.postgres.encode(), rows)
            return cursor.rowcount

    def _copy_and_insert(self, cursor: "psycopg.Cursor[Row]", rows: list[Row], insert: re.Match[str]) -> int:
        """Copies rows to a table that ends with the transaction, and inserts them from there in their order."""
        table, columns, conflict = insert["table"], insert["columns"], insert["conflict"] or ""
        staged = f"staged_{next(self._streams)}"
        # Without the constraints: the insert checks them, and passes over what it is told to.
        empty = f"SELECT {columns} FROM {table} WHERE FALSE"
        cursor.execute(f"CREATE TEMP TABLE {staged} ON COMMIT DROP AS {empty}".encode())
        with cursor.copy(f"COPY {staged} ({columns}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)
        source = f"SELECT {columns} FROM {staged} ORDER BY ctid"
        cursor.execute(f"INSERT INTO {table} ({columns}) {source} {conflict}".encode())
        return cursor.rowcount

    def many_together(self, statements: Sequence[tuple[Query, Sequence[Row]]]) -> None:
        """Executes several statements through a pipeline: the server answers all of them at once."""
        with self._translate_errors(), self._live_connection().pipeline(), self._connection.cursor() as cursor:
            for query, rows in statements:
                cursor.executemany(query.postgres.encode(), rows)

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Inserts rows by COPY, which takes a tenth of the time."""
        names = ", ".join(f'"{column}"' for column in columns)
        statement = f"COPY {table} ({names}) FROM STDIN".encode()
        with self._translate_errors(), self._live_connection().cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def copy_to(self, path: str) -> bool:
        """Nothing: a server has no file to copy."""
        return False

    def execute_script(self, sql: str) -> None:
        """Executes the statements of a migration."""
        with self._translate_errors():
            self._live_connection().execute((_SCRIPT_LOCK + to_postgres_dialect(sql)).encode())

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction; two writers of one stream meet at its primary key, and the second is refused."""
        with self._open_transaction():
            yield
            if self._connection.info.transaction_status is TransactionStatus.INERROR:
                # The server would answer COMMIT with a silent rollback.
                raise RuntimeError(
                    "a statement failed and its error was caught inside the transaction: nothing is written"
                )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A repeatable read: what its first statement saw."""
        with self._open_transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def sync(self) -> None:
        """Waits until the server has written everything that was committed."""
        with self._translate_errors(), self._live_connection().transaction():
            self._connection.execute("SET LOCAL synchronous_commit = on")
            self._connection.execute(_SYNC_RECORD)

    def claim(self, name: str, *, holder: str) -> str | None:
        """Claims a name until this process ends, across connections; returns who has it, if somebody else does."""
        with self._translate_errors():
            taken = _claim(self._live_connection(), name, holder)
        if taken is None:
            self._claims[name] = holder
        return taken

    def notify(self, topic: str) -> None:
        """Wakes those who listen, once the transaction is committed."""
        with self._translate_errors():
            self._live_connection().execute("SELECT pg_notify(%s, '')", (topic,))

    def wait_for(self, topic: str, *, seconds: float) -> bool:
        """Waits for a notification of the server, or takes one that came with an earlier answer."""
        with self._translate_errors():
            connection = self._live_connection()
            if topic not in self._topics:
                self._topics.add(topic)
                _listen(connection, topic)
            if topic not in self._notified:
                # Also those that came beside the answer to a statement; other topics are kept for who waits for them.
                self._notified |= {notice.channel for notice in connection.notifies(timeout=seconds, stop_after=1)}
        was_notified = topic in self._notified
        self._notified.discard(topic)
        return was_notified

    def close(self) -> None:
        """Ends the connection for good."""
        self._ended = True
        self._connection.close()

    def _execute(self, query: Query, row: Row) -> psycopg.Cursor[Row]:
        return self._live_connection().execute(query.postgres.encode(), row)

    def _live_connection(self) -> "psycopg.Connection[Row]":
        """The connection; a new one when it died, but never inside a transaction, whose beginning died with it."""
        if self._connection.closed and not (self._in_transaction or self._ended):
            self._connection = self._connect()
        return self._connection

    @contextmanager
    def _open_transaction(self) -> Iterator[None]:
        if self._in_transaction:
            raise RuntimeError("a transaction is open on this connection already: they are not nested")
        with self._translate_errors():
            connection = self._live_connection()
            self._in_transaction = True
            try:
                with connection.transaction():
                    yield
                    _require_open(connection)
            finally:
                self._in_transaction = False

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, _CONNECTION_LOST):
                self._connection.close()
            known = _database_away(_first_line(error)) if self._connection.closed else _known_error(error)
            if known is None:
                raise
            raise known from error


def to_postgres_dialect(sql: str) -> str:
    """A migration in the shared dialect as PostgreSQL reads it."""
    sql = re.sub(r"\)\s*WITHOUT ROWID", ")", sql)
    sql = re.sub(r"\bBLOB\b", "BYTEA", sql)
    sql = re.sub(r"\bINTEGER\b", "BIGINT", sql)
    sql = re.sub(r"\bREAL\b", "DOUBLE PRECISION", sql)
    # A column has a collation, a CAST has none.
    return re.sub(r"(?<!\bAS )\bTEXT\b", 'TEXT COLLATE "C"', sql)


def _require_open(connection: "psycopg.Connection[Row]") -> None:
    """At the end of a transaction: psycopg leaves a closed connection without a word, with nothing written."""
    if connection.closed:
        raise psycopg.OperationalError("the connection was lost inside a transaction")


def _listen(connection: "psycopg.Connection[Row]", topic: str) -> None:
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(topic)))


def _claim(connection: "psycopg.Connection[Row]", name: str, holder: str) -> str | None:
    """Takes the advisory lock of a name; who has it, if a living session of somebody else does."""
    connection.execute("SELECT set_config('application_name', %s, false)", (holder,))
    for _ in range(_CLAIM_ATTEMPTS):
        row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()
        if row and row[0]:
            return None
        found = connection.execute(_CLAIMED_BY, (name,)).fetchone()
        if found and found[0] == holder:
            # Our own connection of before, which the server has not missed yet.
            connection.execute("SELECT pg_terminate_backend(%s::integer)", (found[1],))
        # The session of a process that was killed ends as soon as the server notices.
        time.sleep(_CLAIM_SECONDS / _CLAIM_ATTEMPTS)
    return found[0] if found else "another session"


def _database_away(message: str) -> DatabaseAway:
    return DatabaseAway(f"PostgreSQL does not answer: {message}; see that the server runs, then try again")


def _known_error(error: psycopg.Error) -> TapebookError | None:
    message = _first_line(error)
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected | errors.SerializationFailure):
        return Busy(f"PostgreSQL: {message}; try again")
    if isinstance(error, errors.DiskFull | errors.ReadOnlySqlTransaction):
        return StoreFailed(f"PostgreSQL refused a write: {message}")
    if isinstance(error, psycopg.DataError):
        return BadInput(f"PostgreSQL refused a value: {message}; check its unit and its text")
    if isinstance(error, psycopg.OperationalError):
        return Stop(f"PostgreSQL could not go on: {message}; check the server and start again")
    return None


def _first_line(error: psycopg.Error) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
