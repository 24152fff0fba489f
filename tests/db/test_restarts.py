"""A PostgreSQL server that goes away and comes back: who asks meanwhile is told so, and then is answered again."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tapebook.db import connect
from tapebook.errors import DatabaseAway, HomeError
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
        db.script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        server.stop(how)
        for _ in range(2):
            with pytest.raises(DatabaseAway, match="PostgreSQL does not answer: .+; see that the server runs") as away:
                db.all(COUNT)
            assert "\n" not in str(away.value)
        with pytest.raises(DatabaseAway), db.transaction():
            pytest.fail("no transaction can begin")
        server.start()
        with db.transaction():
            db.run(ADD, x=30_000)
        # The settings of the session are those of the first one.
        assert db.one(sql("SHOW synchronous_commit")) == ("off",)
        assert db.one(sql("SELECT x + :y FROM t"), y=30_000) == (60_000,)


def test_a_transaction_that_was_cut_wrote_nothing(server: Server) -> None:
    with closing(connect(server.url)) as db:
        db.script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        with pytest.raises(DatabaseAway), db.transaction():
            db.run(ADD, x=1)
            assert server.kill_backends() == 1
            # Not on a new connection, where it would be written by itself.
            db.run(ADD, x=2)
        assert db.one(COUNT) == (0,)


def test_a_cut_that_nobody_noticed_inside_is_noticed_at_the_end(server: Server) -> None:
    with closing(connect(server.url)) as db:
        db.script("CREATE TABLE IF NOT EXISTS t (x BIGINT); DELETE FROM t")
        with pytest.raises(DatabaseAway), db.transaction():
            db.run(ADD, x=1)
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
        admin.run(sql("CREATE DATABASE brief"))
        with closing(connect(server.url.replace("/postgres?", "/brief?"))) as db:
            admin.run(sql("DROP DATABASE brief WITH (FORCE)"))
            with pytest.raises(DatabaseAway):
                db.one(sql("SELECT 1"))
            with pytest.raises(HomeError, match="does not exist"):
                db.one(sql("SELECT 1"))


def test_a_database_that_was_closed_stays_closed(server: Server) -> None:
    db = connect(server.url)
    db.close()
    with pytest.raises(DatabaseAway):
        db.one(sql("SELECT 1"))
