"""New SQLite databases of the tests' own process are copies of one that was migrated once.

A home has a hundred and fifty tables in two files, and tests make thousands of homes: to make the tables takes ten
times as long as to copy their pages. Migrations themselves are tested by name (tests/db/test_migrations.py, old homes,
ends on the way of a first start), and processes that tests start do migrate.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest

from tapebook.db import Database, connect, database
from tapebook.db.sqlite import SqliteDatabase

# What the tests of migrations themselves call is what the package has.
_MIGRATE = database.migrate
_THEIR_TESTS = "tests.db."


class Templates:
    """A migrated database in memory for each list of packages and size of pages that was asked for."""

    def __init__(self) -> None:
        # A connection serves one thread at a time.
        self._lock = threading.Lock()
        self._made: dict[tuple[tuple[str, ...], int], tuple[SqliteDatabase, list[str]]] = {}

    def migrate(self, db: Database, packages: tuple[str, ...]) -> list[str]:
        """Does what the real one does; returns the same files."""
        if not isinstance(db, SqliteDatabase) or not all(each.startswith("tapebook.") for each in packages):
            return _MIGRATE(db, packages)
        connection = db._connection
        # Who counts the statements of a new database, to end it before each of them, gets all of them.
        if connection.exec_trace is not None or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall():
            return _MIGRATE(db, packages)
        page_bytes = int(db._execute("PRAGMA page_size")[0][0])
        try:
            with self._lock:
                template, applied = self._template(packages, page_bytes)
                with connection.backup("main", template._connection, "main") as copy:
                    copy.step(-1)
        except (apsw.BusyError, apsw.LockedError):
            # Somebody else makes it at this moment: who waits for a lock, and how long, is for the real one to say.
            return _MIGRATE(db, packages)
        return list(applied)

    def _template(self, packages: tuple[str, ...], page_bytes: int) -> tuple[SqliteDatabase, list[str]]:
        key = (packages, page_bytes)
        if key not in self._made:
            made = connect(":memory:")
            assert isinstance(made, SqliteDatabase)
            made._connection.execute(f"PRAGMA page_size = {page_bytes}").fetchall()
            self._made[key] = made, _MIGRATE(made, packages)
        return self._made[key]

    def close(self) -> None:
        """Lets every template go."""
        for template, _ in self._made.values():
            template.close()


@contextmanager
def new_databases_as_copies() -> Iterator[None]:
    """While it lasts, whoever imported `migrate` gets copies, except the tests of migrations."""
    templates = Templates()
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if vars(module).get("migrate") is _MIGRATE and not name.startswith(_THEIR_TESTS):
                patch.setattr(module, "migrate", templates.migrate)
        yield
    templates.close()
