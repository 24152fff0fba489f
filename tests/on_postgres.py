"""Runs tests that know nothing of it on PostgreSQL: `TAPEBOOK_STORE=postgresql://user@host/db pytest tests/tick`.

Each home that a test opens in this process gets a schema of its own for each of its two databases, by the path of the
file that it would have; a schema is dropped after its test. Backtests keep their files, as they do beside a home on a
server. What is about a file, or hands a home to another process, is skipped and says so: processes are tested on both
stores by tests of their own (`tests/desk/test_worker_processes.py`, `tests/replay/test_kills.py` and others).
"""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import apsw
import psycopg
import pytest

from tapebook import wiring
from tapebook.db import Database
from tapebook.domain.canonical import sha256_hex

STORE = os.environ.get("TAPEBOOK_STORE", "")


class ServerStore:
    """The schemas of one test."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schemas: set[str] = set()
        self._open = wiring._open_database

    def open_database(self, home: Path, place: str, packages: tuple[str, ...], **how: Any) -> Database:
        """Opens a database of a home on the server; a file that is there already is opened as it is."""
        path = (home / place).resolve()
        if "://" in place or how.get("large_pages") or path.exists():
            return self._open(home, place, packages, **how)
        schema = f"test_{sha256_hex(str(path).encode())[:16]}"
        if schema not in self._schemas:
            self._schemas.add(schema)
            self._admin(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        joint, options = "&" if "?" in self._url else "?", quote(f"-csearch_path={schema}")
        return self._open(home, f"{self._url}{joint}options={options}", packages, **how)

    def close(self) -> None:
        """Drops them."""
        for schema in self._schemas:
            self._admin(f'DROP SCHEMA "{schema}" CASCADE')

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as admin:
            admin.execute(statement.encode())


def _skip_process(*_: Any, **__: Any) -> NoReturn:
    pytest.skip("TAPEBOOK_STORE: hands its home to another process")


@contextmanager
def homes_on_server() -> Iterator[None]:
    """Homes of one test are on the server that TAPEBOOK_STORE names."""
    store = ServerStore(STORE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "_open_database", store.open_database)
        patch.setattr(subprocess, "Popen", _skip_process)
        patch.setattr(asyncio, "create_subprocess_exec", _skip_process)
        try:
            yield
        finally:
            store.close()


@pytest.fixture(autouse=True)
def server_homes() -> Iterator[None]:
    """All homes of all tests, where TAPEBOOK_STORE is set."""
    with homes_on_server():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skips tests that look into the file of a database: there is none."""
    try:
        return (yield)
    except (apsw.CantOpenError, FileNotFoundError) as error:
        if isinstance(error, apsw.CantOpenError) or re.search(r"(book|tape)\.db", str(error)):
            pytest.skip("TAPEBOOK_STORE: looks into the file of a database")
        raise
