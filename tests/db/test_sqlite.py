"""What is SQLite's own: its settings, and its errors by what the caller must do."""

import os
from contextlib import closing
from pathlib import Path
from threading import Barrier, Thread

import apsw
import pytest

from tapebook.db import Database, connect, sqlite
from tapebook.errors import Busy, Damaged, HomeError, StoreFailed
from tests.db.places import sql


def setting(db: Database, name: str) -> object:
    """The value of a PRAGMA."""
    row = db.one(sql(f"PRAGMA {name}"))
    return row[0] if row else None


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_settings_are_those_we_ask_for(tmp_path: Path, durable: bool, synchronous: int) -> None:
    with closing(connect(str(tmp_path / "a.db"), durable=durable)) as db:
        assert setting(db, "journal_mode") == "wal"
        assert setting(db, "wal_autocheckpoint") == 10_000
        assert setting(db, "cache_size") == -16_384
        assert setting(db, "temp_store") == 2
        assert setting(db, "foreign_keys") == 1
        assert setting(db, "synchronous") == synchronous
        assert setting(db, "busy_timeout") == 10_000


def test_a_plan_depends_on_no_value() -> None:
    with closing(connect(":memory:")) as db:
        db.execute_script("CREATE TABLE t (x BIGINT, state TEXT); CREATE INDEX opened ON t (x) WHERE state = 'open'")
        plans = {
            value: db.all(sql("EXPLAIN QUERY PLAN SELECT x FROM t WHERE state = :state ORDER BY x"), state=value)
            for value in ("open", "closed")
        }
        assert plans["open"] == plans["closed"]


def test_sync_waits_for_the_log_of_commits_that_did_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    with closing(connect(str(tmp_path / "a.db"), durable=False)) as db, closing(connect(":memory:")) as memory:
        db.execute_script("CREATE TABLE a (x BIGINT)")
        db.sync()
        memory.sync()
        assert synced == [str(tmp_path / "a.db-wal")]


def test_large_pages_are_of_a_new_file_and_the_log_is_no_longer_for_them(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("new.db", "old.db")]
    connect(paths[1]).close()
    for path, pages in zip(paths, [(16_384, 2_500), (4_096, 10_000)], strict=True):
        with closing(connect(path, large_pages=True)) as db:
            assert (setting(db, "page_size"), setting(db, "wal_autocheckpoint")) == pages
            assert setting(db, "journal_mode") == "wal"


def test_missing_file_is_made_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with pytest.raises(HomeError, match="cannot open"):
        connect(str(path), create=False)
    assert not path.exists()
    connect(str(path)).close()
    connect(str(path), create=False).close()


@pytest.mark.parametrize("place", ["", "no/such/folder/a.db"])
def test_place_that_cannot_be_opened_is_named(tmp_path: Path, place: str) -> None:
    with pytest.raises(HomeError, match=str(tmp_path)):
        connect(str(tmp_path / place))


def test_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"not a database at all, but long enough to be read as a header" * 20)
    with pytest.raises(Damaged, match="not a readable SQLite database"):
        connect(str(path))


def test_text_that_is_no_utf8_is_damaged() -> None:
    with closing(connect(":memory:")) as db, pytest.raises(Damaged):
        db.one(sql("SELECT CAST(x'ff' AS TEXT)"))


def test_full_disk_ends_the_transaction_and_keeps_nothing() -> None:
    with closing(connect(":memory:")) as db:
        db.execute_script("CREATE TABLE t (x BLOB); PRAGMA max_page_count = 8;")
        with pytest.raises(StoreFailed, match="make room"), db.transaction():
            db.execute(sql("INSERT INTO t VALUES (zeroblob(10))"))
            db.execute(sql("INSERT INTO t VALUES (zeroblob(1000000))"))
        assert db.all(sql("SELECT x FROM t")) == []
        with db.transaction():
            db.execute(sql("INSERT INTO t VALUES (zeroblob(10))"))


def test_writer_that_waits_too_long_is_told_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    path = str(tmp_path / "a.db")
    with closing(connect(path)) as first, closing(connect(path)) as second:
        with first.transaction(), pytest.raises(Busy, match="try again"), second.transaction():
            pytest.fail("two writers at once")
        with second.transaction():
            pass


def test_writer_waits_for_another_to_finish(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with closing(connect(path)) as first, closing(connect(path)) as second:
        first.execute_script("CREATE TABLE t (x BIGINT)")
        with first.transaction():
            waiting = Thread(target=lambda: second.execute(sql("INSERT INTO t VALUES (2)")))
            waiting.start()
            first.execute(sql("INSERT INTO t VALUES (1)"))
        waiting.join()
        assert first.all(sql("SELECT x FROM t ORDER BY x")) == [(1,), (2,)]


def test_new_file_can_be_opened_by_many_at_once(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def open_one(path: str, barrier: Barrier) -> None:
        barrier.wait()
        try:
            connect(path).close()
        except BaseException as error:
            errors.append(error)

    for number in range(40):
        barrier = Barrier(6)
        openers = [Thread(target=open_one, args=(str(tmp_path / f"{number}.db"), barrier)) for _ in range(6)]
        for opener in openers:
            opener.start()
        for opener in openers:
            opener.join()
    assert errors == []


def test_other_errors_are_the_drivers_and_have_no_false_cause() -> None:
    with closing(connect(":memory:")) as db:
        with pytest.raises(apsw.SQLError, match="no such table") as caught:
            db.all(sql("SELECT 1 FROM nowhere"))
        assert caught.value.__cause__ is None


def test_a_table_without_the_column_that_is_streamed_is_damage(tmp_path: Path) -> None:
    with closing(connect(str(tmp_path / "a.db"))) as db:
        db.execute_script("CREATE TABLE things (name TEXT)")
        with pytest.raises(Damaged, match="no such column: size"):
            list(db.stream(sql("SELECT size FROM things")))
