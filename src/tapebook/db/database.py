"""The database port: named queries, the `Database` protocol, connecting to an adapter, and migrations.

1. SQL is text with a name and a sentence in `.sql` files, which `Queries.load` reads. A file is a list of entries:

    -- name: head
    -- The newest event of a stream.
    SELECT seq, hash FROM log_events WHERE ...

   Parameters are written `:name`. Both drivers get them by position, so that one row can be given by name and many
   rows as plain tuples. A colon or a percent sign in a literal or a comment is text. PostgreSQL infers a
   parameter's type from its use: one that is only asked `IS NULL` needs a CAST.
2. `Database` is all that rooms see of a database. `connect` opens one: a path opens SQLite, a `postgresql://` URL
   opens PostgreSQL.
3. Migrations are forward-only: numbered `.sql` files, each applied once, in one transaction with its record. A
   store names its files by a package: `tapebook.log` has `migrations/0001_log.sql`, and so on. Several packages may
   share one database; each counts for itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from typing import Any, Protocol

import msgspec

from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged, HomeError

_ENTRY = re.compile(r"^-- name: (\w+)\n((?:^--.*\n)*)", re.MULTILINE)
# Literals, quoted names, comments and `::` are matched first, so that what looks like a parameter in them is not one.
_PARAM = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|::|:([a-z_][a-z0-9_]*)""")

_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_][a-z0-9_]*)")


class Query(msgspec.Struct, frozen=True):
    """One statement in the shared dialect, compiled for both placeholder styles; `tables` are those it names."""

    name: str
    sentence: str
    params: tuple[str, ...]
    sqlite: str
    postgres: str
    tables: frozenset[str] = frozenset()

    @classmethod
    def compile(cls, name: str, sentence: str, sql: str) -> "Query":
        """Reads `:name` parameters; they may repeat, each use takes a place of its own."""
        params = tuple(found for found in _PARAM.findall(sql) if found)
        marked = _with_placeholders(sql, "?"), _with_placeholders(sql.replace("%", "%%"), "%s")
        return cls(name, sentence, params, *marked, frozenset(_TABLE.findall(sql)))

    def values_in_order(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """Values in the order the statement takes them; the mapping may hold more than it needs."""
        return tuple(map(params.__getitem__, self.params))

    @classmethod
    def whole_table(cls, table: str) -> "Query":
        """Every row of a table, for comparing two databases."""
        return cls.compile("whole_table", "", f"SELECT * FROM {table}")

    @classmethod
    def empty_table(cls, table: str) -> "Query":
        """Deletes every row of a table, which is then written anew."""
        return cls.compile("empty_table", "", f"DELETE FROM {table}")

    @classmethod
    def any_row(cls, table: str) -> "Query":
        """One row of a table, if it has any."""
        return cls.compile("any_row", "", f"SELECT 1 FROM {table} LIMIT 1")

    @classmethod
    def columns_of(cls, table: str, columns: Sequence[str]) -> "Query":
        """Every row of a table, its columns in an order."""
        return cls.compile("columns_of", "", f"SELECT {_names(columns)} FROM {table}")

    @classmethod
    def insert(cls, table: str, columns: Sequence[str]) -> "Query":
        """Writes rows of a table as they are, values in the order of `columns`."""
        values = ", ".join(f":{column}" for column in columns)
        return cls.compile("insert", "", f"INSERT INTO {table} ({_names(columns)}) VALUES ({values})")

    @classmethod
    def ordered_table(cls, table: str, columns: Sequence[str], *, by: Sequence[str]) -> "Query":
        """Every row of a table in an order, for comparing two databases row by row."""
        return cls.compile("ordered_table", "", f"SELECT {', '.join(columns)} FROM {table} ORDER BY {', '.join(by)}")


def _names(columns: Sequence[str]) -> str:
    # Some are words of SQL.
    return ", ".join(f'"{column}"' for column in columns)


class Queries:
    """The queries of one file as attributes."""

    def __init__(self, entries: dict[str, Query]) -> None:
        self._entries = entries
        self.__dict__ |= entries

    def __getattr__(self, name: str) -> Query:
        raise AttributeError(f"no query named {name!r}; there are: {', '.join(self._entries)}")

    def __iter__(self) -> Iterator[Query]:
        return iter(self._entries.values())

    @classmethod
    def load(cls, package: str, file: str = "queries.sql", **names: str) -> "Queries":
        """Loads a file that lies beside a package's code; `{table}` and the like in it are filled in from `names`."""
        text = resources.files(package).joinpath(file).read_text("utf-8")
        for name, word in names.items():
            text = text.replace(f"{{{name}}}", word)
        return cls(_parse_queries(text))


def _with_placeholders(sql: str, mark: str) -> str:
    return _PARAM.sub(lambda found: mark if found[1] else found[0], sql)


def _parse_queries(text: str) -> dict[str, Query]:
    heads = list(_ENTRY.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    entries: dict[str, Query] = {}
    for head, end in zip(heads, ends, strict=False):
        name, comment = head.group(1), head.group(2)
        if name in entries:
            raise ValueError(f"two queries are named {name!r}: give one of them another name")
        sentence = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
        entries[name] = Query.compile(name, sentence, text[head.end() : end].strip().rstrip(";"))
    return entries


Row = tuple[Any, ...]


class Database(Protocol):
    """One connection, used by one thread at a time.

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

    def integrity_problems(self) -> list[str]:
        """What the database's own check of its file finds; a server has none and looks after itself."""
        ...

    def execute(self, query: Query, **params: Any) -> None:
        """Executes a statement that returns nothing."""
        ...

    def execute_row(self, query: Query, row: Row) -> None:
        """Executes a statement with values in the order of `query.params`."""
        ...

    def many(self, query: Query, rows: Iterable[Row], *, shared: frozenset[str] = frozenset()) -> int:
        """Executes a statement once per row, for all rows or none, and returns how many rows it changed.

        Values stand in the order of `query.params`. `shared` are parameters that have the same value in every row.
        """
        ...

    def many_together(self, statements: "Sequence[tuple[Query, Sequence[Row]]]") -> None:
        """Executes several statements in their order, each once per row; on a server all in one round trip."""
        ...

    def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Writes rows of a table as they are, the fastest way there is; values stand in the order of `columns`."""
        ...

    def copy_to(self, path: str) -> bool:
        """Copies what is committed now to a new file, where the database is a file itself; False where it is none."""
        ...

    def execute_script(self, sql: str) -> None:
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

    def notify(self, topic: str) -> None:
        """Wakes those who wait for a topic, once the transaction is committed; a file has nobody to tell."""
        ...

    def wait_for(self, topic: str, *, seconds: float) -> bool:
        """Waits until somebody notifies, so many seconds at most; whether somebody did.

        Nobody can be woken by a file: there it is a short pause, after which to look again.
        """
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


def connect(
    place: str, *, durable: bool = True, create: bool = True, large_pages: bool = False, read_only: bool = False
) -> Database:
    """Opens a database. `durable` decides whether a commit survives a power cut: True for the book, False for the tape.
    `large_pages` suit a file of SQLite that is written in large transactions; one that is there keeps those it has.
    `read_only` makes every write on this connection fail.

    Drivers are imported here and not above: PostgreSQL's is an extra.
    """
    if place.startswith(("postgresql://", "postgres://")):
        return _connect_postgres(place, durable=durable, read_only=read_only)
    from tapebook.db.sqlite import SqliteDatabase

    return SqliteDatabase(place, durable=durable, create=create, large_pages=large_pages, read_only=read_only)


def _connect_postgres(url: str, *, durable: bool, read_only: bool) -> Database:
    try:
        from tapebook.db.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise HomeError("PostgreSQL needs its driver: pip install 'tapebook[postgres]'") from error
    return PostgresDatabase(url, durable=durable, read_only=read_only)


_QUERIES = Queries.load("tapebook.db", "migrations.sql")

MIGRATIONS_TABLE = "schema_migrations"
"""Which migrations a database has had."""

_RECORD_TABLE = f"""
CREATE TABLE IF NOT EXISTS {MIGRATIONS_TABLE} (
    package TEXT NOT NULL,
    file TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (package, file)
) WITHOUT ROWID
"""


def migrate(db: Database, packages: tuple[str, ...]) -> list[str]:
    """Brings a database up to date; returns the files that were applied now."""
    db.execute_script(_RECORD_TABLE)
    applied: list[str] = []
    for package in packages:
        for file, sql in _migration_files(package):
            if _apply_migration(db, package=package, file=file, sql=sql):
                applied.append(f"{package}/{file}")
    return applied


def migrated_packages(db: Database) -> list[str]:
    """The packages whose migrations a database has had."""
    return [row[0] for row in db.all(_QUERIES.packages)]


# Databases record under which package a migration was made; where it has moved since, its files lie elsewhere.
_MOVED = {
    "tapebook.recall": "tapebook.search",
    "tapebook.recall.indexes": "tapebook.search.indexes",
    "tapebook.lab": "tapebook.backtest",
}


def _migration_files(package: str) -> list[tuple[str, str]]:
    folder = resources.files(_MOVED.get(package, package)).joinpath("migrations")
    found = [(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(found)


def _apply_migration(db: Database, *, package: str, file: str, sql: str) -> bool:
    fingerprint = sha256_hex(sql.encode())
    # Looked up before locking: opening an up-to-date home must not wait for whoever is writing in it.
    recorded = _recorded_sha256(db, package, file)
    if recorded is None:
        with db.transaction():
            # Recorded before it is applied: a second process waits here for the first, and then has nothing to do.
            if db.one(_QUERIES.record, package=package, file=file, sha256=fingerprint) is not None:
                db.execute_script(sql)
                return True
        recorded = _recorded_sha256(db, package, file)
    if recorded != fingerprint:
        where = f"migration {package}/{file}"
        raise Damaged(f"{where} was changed after it was applied; install the version that made this home")
    return False


def _recorded_sha256(db: Database, package: str, file: str) -> str | None:
    row = db.one(_QUERIES.recorded, package=package, file=file)
    return row[0] if row else None
