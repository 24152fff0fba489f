"""A database that puts its writes off, against one that does not."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.db import Database, Query, connect
from tapebook.db.buffered import BufferedDatabase

ADD = Query.compile("add", "", "INSERT INTO pets (name, legs) VALUES (:name, :legs)")
KEEP = Query.compile("keep", "", "INSERT INTO pets (name, legs) VALUES (:name, :legs) ON CONFLICT (name) DO NOTHING")
GROW = Query.compile("grow", "", "UPDATE pets SET legs = legs + :legs WHERE name = :name")
DROP = Query.compile("drop", "", "DELETE FROM pets WHERE name = :name")
ALL = Query.compile("all", "", "SELECT name, legs FROM pets ORDER BY name")
OWN = Query.compile("own", "", "INSERT INTO owners (name) VALUES (:name)")
OTHERS = Query.compile("others", "", "SELECT COUNT(*) FROM owners")
TABLES = (
    "CREATE TABLE pets (name TEXT PRIMARY KEY, legs INTEGER NOT NULL); CREATE TABLE owners (name TEXT PRIMARY KEY);"
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with closing(connect(str(tmp_path / "pets.db"))) as opened:
        opened.execute_script(TABLES)
        yield opened


def test_what_waits_is_written_before_it_is_read(db: Database) -> None:
    buffered = BufferedDatabase(db)
    with buffered.transaction():
        buffered.execute(ADD, name="cat", legs=4)
        buffered.execute(GROW, name="cat", legs=1)
        assert db.all(ALL) == []
        assert buffered.all(OTHERS) == [(0,)] and db.all(ALL) == [], "a table nobody wrote to does not hurry it"
        assert buffered.all(ALL) == [("cat", 5)] == db.all(ALL)


def test_what_waits_for_another_table_waits_on(db: Database) -> None:
    buffered = BufferedDatabase(db)
    with buffered.transaction():
        buffered.execute(ADD, name="cat", legs=4)
        buffered.execute(OWN, name="ann")
        assert buffered.all(OTHERS) == [(1,)] and db.all(ALL) == []
    assert db.all(ALL) == [("cat", 4)] and db.all(OTHERS) == [(1,)]


def test_all_of_it_is_committed_and_none_of_it_when_it_fails(db: Database) -> None:
    buffered = BufferedDatabase(db)
    with buffered.transaction():
        buffered.execute(ADD, name="cat", legs=4)
    with pytest.raises(ValueError, match="no"), buffered.transaction():
        buffered.execute(ADD, name="dog", legs=4)
        raise ValueError("no")
    with buffered.transaction():
        buffered.execute(ADD, name="emu", legs=2)
    assert buffered.all(ALL) == [("cat", 4), ("emu", 2)]


def test_rows_given_by_their_places_wait_with_those_given_by_name(db: Database) -> None:
    buffered = BufferedDatabase(db)
    with buffered.transaction():
        buffered.execute(ADD, legs=4, name="cat")
        buffered.execute_row(ADD, ("dog", 3))
        buffered.execute_row(GROW, (1, "dog"))
        assert db.all(ALL) == []
    buffered.execute_row(ADD, ("emu", 2))
    assert db.all(ALL) == [("cat", 4), ("dog", 4), ("emu", 2)]


def test_outside_a_transaction_nothing_waits(db: Database) -> None:
    BufferedDatabase(db).execute(ADD, name="cat", legs=4)
    assert db.all(ALL) == [("cat", 4)]


NAMES = st.sampled_from(["ant", "bee", "cat", "dog"])


@given(st.lists(st.tuples(st.sampled_from([ADD, KEEP, GROW, DROP, ALL]), NAMES, st.integers(0, 9)), max_size=40))
def test_nobody_can_tell_the_difference(steps: list[tuple[Query, str, int]]) -> None:
    """Statements as a writer has them: an insert is of a row that is not there."""
    plain, other = connect(":memory:"), connect(":memory:")
    with closing(plain), closing(other):
        plain.execute_script(TABLES)
        other.execute_script(TABLES)
        buffered, there = BufferedDatabase(other), set[str]()
        with plain.transaction(), buffered.transaction():
            for query, name, legs in steps:
                if query is ALL:
                    assert buffered.all(ALL) == plain.all(ALL)
                elif query is not ADD or name not in there:
                    there = there - {name} if query is DROP else there | {name} if query in (ADD, KEEP) else there
                    plain.execute(query, name=name, legs=legs)
                    buffered.execute(query, name=name, legs=legs)
        assert buffered.all(ALL) == plain.all(ALL)


def test_a_query_knows_its_tables() -> None:
    joined = Query.compile("j", "", "SELECT 1 FROM pets p JOIN owners o ON o.name = p.name WHERE p.legs = :legs")
    assert joined.tables == {"pets", "owners"}
    assert [each.tables for each in (ADD, KEEP, GROW, DROP)] == [{"pets"}] * 4
