"""The databases every storage test runs on: SQLite in memory and in a file, and a real PostgreSQL server.

`database` is one open connection; `connect_again` opens more of them, where that is possible.
PostgreSQL takes half a second to make and drop a database, and ten milliseconds to empty one:
these tests share one, and each begins by emptying it.
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tapebook.clock import SystemClock
from tapebook.db import Database, Query, connect
from tapebook.db.copies import load_file
from tapebook.settings.config import FILE
from tapebook.wiring import BOOK_PACKAGES, Rooms

Connector = Callable[[], Database]


def sql(text: str) -> Query:
    """A query of the test's own."""
    return Query.compile("test", "A query of the test's own.", text)


EMPTY = b"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
"""


@pytest.fixture(scope="session")
def shared_postgres(postgres_dsn: str) -> Iterator[str]:
    """The URL of one database for all these tests."""
    name = f"tapebook_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"'.encode())
    yield urlsplit(postgres_dsn)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture(scope="module")
def module_postgres(shared_postgres: str) -> str:
    """The URL of that database, emptied once for all tests of a file."""
    with psycopg.connect(shared_postgres, autocommit=True) as admin:
        admin.execute(EMPTY)
    return shared_postgres


def copy_home_to_server(home: Path, folder: Path, url: str) -> None:
    """Makes a copy of a home whose book and tape are on a server: its rows are loaded, not lived through again."""
    shutil.copytree(home, folder, ignore=shutil.ignore_patterns("*.db", "*.db-*"))
    (folder / FILE).write_text(f'[store]\nbook = "{url}"\ntape = "{url}"\n', "utf-8")
    with closing(Rooms(home, clock=SystemClock())) as rooms:
        tape_packages = rooms.tape_packages
    for file, packages in (("book.db", BOOK_PACKAGES), ("tape.db", tape_packages)):
        with closing(connect(url, durable=False)) as target:
            load_file(str(home / file), target, packages)


@pytest.fixture
def empty_postgres(shared_postgres: str) -> str:
    """The URL of that database, with nothing in it and nobody connected."""
    with psycopg.connect(shared_postgres, autocommit=True) as admin:
        admin.execute(EMPTY)
    return shared_postgres


@pytest.fixture(params=["memory", "file", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of each kind."""
    with closing(connect(_place(request, tmp_path))) as opened:
        yield opened


@pytest.fixture(params=["file", "postgres"])
def connect_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connector]:
    """Opens connections to one empty database of each kind that can have several."""
    place = _place(request, tmp_path)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(connect(place)))


def _place(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("empty_postgres"))
    return ":memory:" if request.param == "memory" else str(folder / "test.db")
