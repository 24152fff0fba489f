"""Copies of a whole database: to a file while others write (`copy_to_file`), and from such a file (`load_file`).

A copy is always a file of SQLite, whichever database it is of: the tables are the same, and so a book that lived on a
server can be looked at, proven and gone on with on a machine that has none.
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from tapebook.db.database import MIGRATIONS_TABLE, Database, Queries, Query, Row, connect, migrate
from tapebook.errors import HomeError

_QUERIES = Queries.load("tapebook.db", "copies.sql")
# Rows in memory at a time.
_ROWS_AT_ONCE = 2_000


def copy_to_file(db: Database, path: str, packages: tuple[str, ...]) -> None:
    """Copies a database as it is at one moment to a new file; nobody who writes waits for long."""
    if db.copy_to(path):
        return
    with closing(connect(path, durable=False)) as target:
        migrate(target, packages)
        with db.snapshot(), target.transaction():
            _copy_tables(db, target, layout=target)


def load_file(path: str, db: Database, packages: tuple[str, ...]) -> None:
    """Fills an empty database with the rows of such a file, all of them or none; HomeError when it is not empty."""
    with closing(connect(path, durable=False, create=False)) as source:
        migrate(db, packages)
        fixed = _filled_by_migrations(packages)
        with source.snapshot(), db.transaction():
            tables = [table for table, _ in _tables(source) if table not in fixed]
            filled = [table for table in tables if db.one(Query.any_row(table)) is not None]
            if filled:
                raise HomeError(f"the database has rows already ({', '.join(filled[:3])}): name an empty one")
            _copy_tables(source, db, layout=source)


def _filled_by_migrations(packages: tuple[str, ...]) -> set[str]:
    with closing(connect(":memory:")) as fresh:
        migrate(fresh, packages)
        return {table for table, _ in _tables(fresh) if fresh.one(Query.any_row(table)) is not None}


def _copy_tables(source: Database, target: Database, *, layout: Database) -> None:
    for table, columns in _tables(layout):
        # A migration may have filled it.
        target.execute(Query.empty_table(table))
        rows = source.stream(Query.columns_of(table, columns))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            target.insert_rows(table, columns, some)


def _tables(layout: Database) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tables of a file with their columns; which migrations were applied is each database's own affair."""
    found: dict[str, list[str]] = {}
    rows: list[Row] = layout.all(_QUERIES.columns)
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return ((table, tuple(columns)) for table, columns in found.items() if table != MIGRATIONS_TABLE)
