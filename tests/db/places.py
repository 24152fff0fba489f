"""The databases every storage test runs on: SQLite in memory and in a file, and a real PostgreSQL server.

`database` is one open connection; `connect_again` opens more of them, where that is possible.
PostgreSQL takes half a second to make and drop a database, and ten milliseconds to empty one:
these tests share one, and each begins by emptying it.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tapebook.db import Database, Query, connect

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
