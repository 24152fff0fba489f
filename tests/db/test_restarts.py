"""A PostgreSQL server that goes away and comes back: who asks meanwhile is told so, and then is answered again."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.db import connect, postgres
from tapebook.errors import DatabaseAway, HomeError
from tapebook.surfaces.cli import main
from tests.db.places import sql
from tests.db.servers import Server, Shutdown, own_server

COUNT = sql("SELECT COUNT(*) FROM t")
ADD = sql("INSERT INTO t VALUES (:x)")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of this module's own."""
    with own_server() as running:
        yield running


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_a_connection_that_died_is_replaced_when_the_server_is_back(server: Server, how: Shutdown) -> None:
    with closing(connect(server.url, durable=False)) as db:
        db.execute_script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        server.stop(how)
        for _ in range(2):
            with pytest.raises(DatabaseAway, match=r"PostgreSQL does not answer: .+; see that the server runs") as away:
                db.all(COUNT)
            assert "\n" not in str(away.value)
        with pytest.raises(DatabaseAway), db.transaction():
            pytest.fail("no transaction can begin")
        server.start()
        with db.transaction():
            db.execute(ADD, x=30_000)
        # The settings of the session are those of the first one.
        assert db.one(sql("SHOW synchronous_commit")) == ("off",)
        assert db.one(sql("SELECT x + :y FROM t"), y=30_000) == (60_000,)


def test_a_transaction_that_was_cut_wrote_nothing(server: Server) -> None:
    with closing(connect(server.url)) as db:
        db.execute_script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        with pytest.raises(DatabaseAway), db.transaction():
            db.execute(ADD, x=1)
            assert server.kill_backends() == 1
            # Not on a new connection, where it would be written by itself.
            db.execute(ADD, x=2)
        assert db.one(COUNT) == (0,)


def test_a_cut_that_nobody_noticed_inside_is_noticed_at_the_end(server: Server) -> None:
    with closing(connect(server.url)) as db:
        db.execute_script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        with pytest.raises(DatabaseAway), db.transaction():
            db.execute(ADD, x=1)
            server.kill_backends()
        assert db.one(COUNT) == (0,)


def test_a_server_that_starts_is_waited_for_and_a_wrong_address_is_not(server: Server) -> None:
    with pytest.raises(HomeError, match="does not exist"):
        connect(server.url.replace("/postgres?", "/nowhere?"))
    with pytest.raises(HomeError, match="does not exist"):
        connect(server.url.replace("postgres@", "nobody@"))
    server.stop()
    with pytest.raises(DatabaseAway):
        connect(server.url)
    server.start()
    with closing(connect(server.url)) as db:
        server.kill_backends()
        with pytest.raises(DatabaseAway):
            db.one(sql("SELECT 1"))
        assert db.one(sql("SELECT 1")) == (1,)


def test_a_database_that_was_dropped_does_not_come_back(server: Server) -> None:
    with closing(connect(server.url)) as admin:
        admin.execute(sql("CREATE DATABASE brief"))
        with closing(connect(server.url.replace("/postgres?", "/brief?"))) as db:
            admin.execute(sql("DROP DATABASE brief WITH (FORCE)"))
            with pytest.raises(DatabaseAway):
                db.one(sql("SELECT 1"))
            with pytest.raises(HomeError, match="does not exist"):
                db.one(sql("SELECT 1"))


def test_a_database_that_was_closed_stays_closed(server: Server) -> None:
    db = connect(server.url)
    db.close()
    with pytest.raises(DatabaseAway):
        db.one(sql("SELECT 1"))


def test_a_name_is_claimed_by_one_process_at_a_time(server: Server) -> None:
    with closing(connect(server.url)) as first, closing(connect(server.url)) as second:
        assert first.claim("local/scheduler", holder="scheduler here:1") is None
        assert first.claim("local/scheduler", holder="scheduler here:1") is None
        assert second.claim("local/scheduler", holder="scheduler there:2") == "scheduler here:1"
        assert second.claim("local/executor", holder="executor there:2") is None
    with closing(connect(server.url)) as third:
        assert third.claim("local/scheduler", holder="scheduler here:3") is None, "who is gone holds nothing"


def test_a_claim_outlives_a_restart_unless_somebody_was_faster(server: Server) -> None:
    with closing(connect(server.url)) as first, closing(connect(server.url)) as second:
        assert first.claim("local/ingest", holder="ingest here:1") is None
        server.restart("immediate")
        with pytest.raises(DatabaseAway):
            first.one(sql("SELECT 1"))
        assert first.one(sql("SELECT 1")) == (1,)
        with pytest.raises(DatabaseAway):
            second.one(sql("SELECT 1"))
        assert second.claim("local/ingest", holder="ingest there:2") == "ingest here:1"
        server.kill_backends()
        with pytest.raises(DatabaseAway):
            second.one(sql("SELECT 1"))
        assert second.claim("local/ingest", holder="ingest there:2") is None
        with pytest.raises(DatabaseAway):
            first.one(sql("SELECT 1"))
        with pytest.raises(HomeError, match="ingest there:2 has taken 'local/ingest' over"):
            first.one(sql("SELECT 1"))


def test_a_server_that_stands_still_is_away_and_a_slow_statement_is_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_WAKES", 2)
    with closing(connect(f"{server.url}&connect_timeout=2")) as db:
        assert db.one(sql("SELECT 1 FROM pg_sleep(0.7)")) == (1,)
        server.freeze()
        try:
            with pytest.raises(DatabaseAway, match="neither answers nor hangs up") as away:
                db.one(sql("SELECT 1"))
            assert "\n" not in str(away.value)
        finally:
            server.thaw()
        assert db.one(sql("SELECT 1")) == (1,)


def test_a_wrong_password_is_one_line_without_it(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.guard("ann", password="r1ght-secret")
    home = tmp_path / "home"
    home.mkdir()
    for password, code, says in (("wr0ng-secret", 2, "password authentication failed"), ("r1ght-secret", 0, "")):
        url = server.url.replace("postgres@", f"ann:{password}@", 1)
        (home / "tapebook.toml").write_text(f'[store]\nbook = "{url}"\n', "utf-8")
        assert main(["agents", "--home", str(home)]) == code
        err = capsys.readouterr().err
        assert says in err and "secret" not in err and err.count("\n") == (1 if code else 0)
