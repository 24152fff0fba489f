"""What is PostgreSQL's own: the translation of migrations, and its errors by what the caller must do."""

from contextlib import closing

import psycopg
import pytest

from tapebook.db import connect, migrate
from tapebook.db.postgres import to_postgres_dialect
from tapebook.errors import Busy, DatabaseAway, HomeError, StoreFailed
from tests.db.places import sql


@pytest.mark.parametrize(
    ("shared", "postgres"),
    [
        ("CREATE TABLE a (x TEXT NOT NULL) WITHOUT ROWID;", 'CREATE TABLE a (x TEXT COLLATE "C" NOT NULL);'),
        ("CREATE TABLE a (x TEXT\n)\n  WITHOUT ROWID", 'CREATE TABLE a (x TEXT COLLATE "C"\n)'),
        ("(x BLOB, y REAL, z INTEGER, w BIGINT)", "(x BYTEA, y DOUBLE PRECISION, z BIGINT, w BIGINT)"),
        ("SELECT CAST(x AS TEXT), CAST(y AS REAL)", "SELECT CAST(x AS TEXT), CAST(y AS DOUBLE PRECISION)"),
        ("(context TEXT, REALM BIGINT, TEXTS BIGINT)", '(context TEXT COLLATE "C", REALM BIGINT, TEXTS BIGINT)'),
    ],
)
def test_migrations_are_translated(shared: str, postgres: str) -> None:
    assert to_postgres_dialect(shared) == postgres


def test_every_text_column_is_compared_by_bytes(empty_postgres: str) -> None:
    """Asked of the catalog, since a server whose own order is by bytes would hide a missing collation."""
    collations = sql(
        "SELECT DISTINCT collation_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND data_type IN ('text', 'character varying')"
    )
    with closing(connect(empty_postgres)) as db:
        migrate(db, ("tapebook.log",))
        db.execute_script(
            "CREATE TABLE more (a TEXT, b TEXT NOT NULL, c TEXT DEFAULT 'TEXT', PRIMARY KEY (a)) WITHOUT ROWID"
        )
        assert db.all(collations) == [("C",)]


@pytest.mark.parametrize("durable", [True, False])
def test_commits_wait_for_the_disk_where_they_must(empty_postgres: str, durable: bool) -> None:
    with closing(connect(empty_postgres, durable=durable)) as db:
        assert db.one(sql("SHOW synchronous_commit")) == ("on" if durable else "off",)


def test_sync_waits_for_commits_that_did_not(empty_postgres: str) -> None:
    is_flushed = sql("SELECT pg_current_wal_flush_lsn() >= CAST(:lsn AS pg_lsn)")
    with closing(connect(empty_postgres, durable=False)) as db:
        db.execute_script("CREATE TABLE a (x BIGINT)")
        for number in range(20):
            db.execute(sql("INSERT INTO a (x) VALUES (:x)"), x=number)
            (written,) = db.one(sql("SELECT CAST(pg_current_wal_insert_lsn() AS VARCHAR)")) or ("",)
            db.sync()
            assert db.one(is_flushed, lsn=written) == (True,)
        assert db.one(sql("SHOW synchronous_commit")) == ("off",)


@pytest.mark.parametrize(
    "url", ["postgresql://localhost/none?bogus=1", "postgres://[::1/none", "postgresql://no.such.host.invalid/none"]
)
def test_address_that_cannot_be_right_is_a_home_error(url: str) -> None:
    with pytest.raises(HomeError, match=r"cannot open PostgreSQL: .+; check the URL") as caught:
        connect(url)
    assert "\n" not in str(caught.value)


def test_server_that_does_not_run_is_away() -> None:
    with pytest.raises(DatabaseAway, match=r"does not answer: .+; see that the server runs") as caught:
        connect("postgresql://localhost:1/none")
    assert "\n" not in str(caught.value)


def test_unknown_database_is_a_home_error(empty_postgres: str) -> None:
    with pytest.raises(HomeError, match="does not exist"):
        connect(empty_postgres.replace("/tapebook_", "/never_"))


def test_lock_that_is_not_given_is_busy(empty_postgres: str) -> None:
    with closing(connect(empty_postgres)) as first, closing(connect(empty_postgres)) as second:
        first.execute_script("CREATE TABLE t (x BIGINT)")
        second.execute(sql("SET lock_timeout = '50ms'"))
        with first.transaction():
            first.execute(sql("LOCK TABLE t"))
            with pytest.raises(Busy, match="try again"):
                second.all(sql("SELECT x FROM t"))


def test_refused_write_is_a_failed_store(empty_postgres: str) -> None:
    with closing(connect(empty_postgres)) as db:
        db.execute_script("CREATE TABLE t (x BIGINT)")
        db.execute(sql("SET default_transaction_read_only = on"))
        with pytest.raises(StoreFailed, match="refused a write"):
            db.execute(sql("INSERT INTO t VALUES (1)"))


def test_other_errors_are_the_drivers_and_have_no_false_cause(empty_postgres: str) -> None:
    with closing(connect(empty_postgres)) as db:
        with pytest.raises(psycopg.errors.UndefinedTable) as caught:
            db.all(sql("SELECT 1 FROM nowhere"))
        assert caught.value.__cause__ is None


def test_broken_off_transaction_leaves_no_idle_session(empty_postgres: str) -> None:
    sessions = sql("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = :name AND state LIKE 'idle in%'")
    with closing(connect(empty_postgres)) as db, closing(connect(empty_postgres)) as admin:
        with pytest.raises(KeyboardInterrupt), db.transaction():
            db.execute(sql("SELECT 1"))
            raise KeyboardInterrupt
        name = admin.one(sql("SELECT current_database()"))
        assert name and admin.one(sessions, name=name[0]) == (0,)


def test_a_notification_beside_another_answer_is_not_lost(empty_postgres: str) -> None:
    with closing(connect(empty_postgres)) as one, closing(connect(empty_postgres)) as other:
        assert not one.wait_for("news", seconds=0)
        with pytest.raises(KeyboardInterrupt), other.transaction():
            other.notify("news")
            raise KeyboardInterrupt
        assert not one.wait_for("news", seconds=0.05), "what was rolled back wakes nobody"
        other.notify("news")
        assert one.one(sql("SELECT 1")) == (1,)
        assert one.wait_for("news", seconds=20) and not one.wait_for("news", seconds=0.05)
