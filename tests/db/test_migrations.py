"""Migrations: each once, each whole or not at all, by whoever comes first."""

import itertools
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import apsw
import psycopg
import pytest

from tapebook.db import Database, migrate, sqlite
from tapebook.db.sqlite import SqliteDatabase
from tapebook.errors import Damaged
from tests.db.places import Connector, sql

RECORDED = sql("SELECT package, file FROM schema_migrations ORDER BY package, file")
SQL_ERROR = (apsw.SQLError, psycopg.ProgrammingError)

PackageMaker = Callable[[dict[str, str]], str]
_numbers = itertools.count()

LOG = (
    *("0001_log", "0002_leases", "0003_log_rows", "0004_anchors", "0005_packs", "0009_set_backs", "0010_restores"),
    "0011_keyed_events",
)
FILES_OF_THE_LOG = [f"tapebook.log/{name}.sql" for name in LOG]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageMaker:
    """`package({"0001_a.sql": "…"})` makes an importable package with migrations and returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(files: dict[str, str]) -> str:
        name = f"migrated_{next(_numbers)}"
        write(tmp_path / name, files)
        (tmp_path / name / "__init__.py").touch()
        return name

    return make


def write(package: Path, files: dict[str, str]) -> None:
    """Writes migrations into a package's folder."""
    (package / "migrations").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (package / "migrations" / name).write_text(text, "utf-8")


def test_each_is_applied_once_in_order(database: Database, package: PackageMaker) -> None:
    first = package(
        {
            "0010_more.sql": "INSERT INTO a VALUES ('10'); INSERT INTO a VALUES ('ten');",
            "0002_rows.sql": "INSERT INTO a VALUES ('2');",
            "0001_table.sql": "-- 100% of ':it'\nCREATE TABLE a (name TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID;",
            "readme.txt": "not a migration",
        }
    )
    second = package({"0001_table.sql": "CREATE TABLE b (name TEXT);"})
    files = [f"{first}/0001_table.sql", f"{first}/0002_rows.sql", f"{first}/0010_more.sql"]
    assert migrate(database, (first, second)) == [*files, f"{second}/0001_table.sql"]
    assert migrate(database, (first, second)) == []
    assert database.all(sql("SELECT name FROM a ORDER BY name")) == [("10",), ("2",), ("ten",)]


def test_later_file_is_applied_alone(database: Database, package: PackageMaker, tmp_path: Path) -> None:
    name = package({"0001_a.sql": "CREATE TABLE a (x BIGINT)"})
    migrate(database, (name,))
    write(tmp_path / name, {"0002_b.sql": "ALTER TABLE a ADD COLUMN y TEXT"})
    assert migrate(database, (name,)) == [f"{name}/0002_b.sql"]
    assert database.all(sql("SELECT x, y FROM a")) == []


def test_failing_one_leaves_nothing_and_can_be_repaired(
    database: Database, package: PackageMaker, tmp_path: Path
) -> None:
    files = {
        "0001_a.sql": "CREATE TABLE a (x BIGINT)",
        "0002_b.sql": "CREATE TABLE b (x BIGINT); INSERT INTO c VALUES (1)",
    }
    name = package(files)
    # A statement that does not fit is taken for a damaged file by SQLite's adapter.
    with pytest.raises((Damaged, *SQL_ERROR)):
        migrate(database, (name,))
    assert database.all(RECORDED) == [(name, "0001_a.sql")]
    with pytest.raises(SQL_ERROR):
        database.all(sql("SELECT x FROM b"))
    write(tmp_path / name, {"0002_b.sql": "CREATE TABLE b (x BIGINT)"})
    assert migrate(database, (name,)) == [f"{name}/0002_b.sql"]


def test_changed_file_is_refused(database: Database, package: PackageMaker, tmp_path: Path) -> None:
    name = package({"0001_a.sql": "CREATE TABLE a (x BIGINT)"})
    migrate(database, (name,))
    write(tmp_path / name, {"0001_a.sql": "CREATE TABLE a (x BIGINT) ", "0002_b.sql": "CREATE TABLE b (x BIGINT)"})
    with pytest.raises(Damaged, match=f"{name}/0001_a.sql was changed"):
        migrate(database, (name,))
    assert database.all(RECORDED) == [(name, "0001_a.sql")]


def test_opening_a_current_database_waits_for_no_writer(
    connect_again: Connector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 200)
    writer = connect_again()
    migrate(writer, ("tapebook.log",))
    with writer.transaction():
        writer.execute(sql("INSERT INTO schema_migrations VALUES ('other', 'file', 'hash')"))
        writer.execute(sql("INSERT INTO log_events VALUES ('o', 'd', 1, 'k', 1, 0, 0, '{}', '', NULL)"))
        opened = connect_again()
        if not isinstance(opened, SqliteDatabase):
            opened.execute(sql("SET lock_timeout = '200ms'"))
        assert migrate(opened, ("tapebook.log",)) == []


def test_many_openers_of_a_new_database_apply_once(connect_again: Connector) -> None:
    barrier = Barrier(5)
    applied: list[str] = []
    errors: list[BaseException] = []

    def open_and_migrate() -> None:
        barrier.wait()
        try:
            applied.extend(migrate(connect_again(), ("tapebook.log",)))
        except BaseException as error:
            errors.append(error)

    openers = [Thread(target=open_and_migrate) for _ in range(5)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert (errors, sorted(applied)) == ([], FILES_OF_THE_LOG)
