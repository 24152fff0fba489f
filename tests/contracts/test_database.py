"""The contract of the database port, kept by SQLite in memory, SQLite in a file, and PostgreSQL."""

from collections.abc import Iterator

import apsw
import psycopg
import pytest

from tapebook.db import Database, Row
from tapebook.errors import BadInput, StoreFailed
from tests.db import places
from tests.db.places import Connector, sql

database = places.database
connect_again = places.connect_again
empty_postgres = places.empty_postgres
shared_postgres = places.shared_postgres

PAIRS = "CREATE TABLE pairs (name TEXT NOT NULL PRIMARY KEY, size BIGINT) WITHOUT ROWID;"
ADD = sql("INSERT INTO pairs (name, size) VALUES (:name, :size)")
PAIRS_BY_NAME = sql("SELECT name, size FROM pairs ORDER BY name")
BROKEN_RULE = (apsw.ConstraintError, psycopg.IntegrityError)

LONGEST = 2**63 - 1


@pytest.fixture
def pairs(database: Database) -> Database:
    """A database with one small table."""
    database.execute_script(PAIRS)
    return database


def test_rows_are_tuples_in_the_order_asked_for(pairs: Database) -> None:
    for name, size in [("b", 2), ("a", 1), ("c", None)]:
        pairs.execute(ADD, name=name, size=size)
    assert pairs.all(PAIRS_BY_NAME) == [("a", 1), ("b", 2), ("c", None)]
    assert pairs.one(PAIRS_BY_NAME) == ("a", 1)
    assert pairs.all(sql("SELECT name FROM pairs WHERE size > 9")) == []
    assert pairs.one(sql("SELECT name FROM pairs WHERE size > 9")) is None


def test_rows_can_be_streamed_two_tables_at_once(pairs: Database) -> None:
    pairs.many(ADD, [(f"{number:05}", number) for number in range(5_000)])
    with pairs.snapshot():
        first, second = pairs.stream(PAIRS_BY_NAME), pairs.stream(PAIRS_BY_NAME)
        assert all(one == other for one, other in zip(first, second, strict=True))
        assert next(first, None) is None
        assert sum(1 for _ in pairs.stream(sql("SELECT name FROM pairs WHERE size < :size"), size=2_500)) == 2_500


def test_a_whole_database_has_nothing_to_complain_of(pairs: Database) -> None:
    pairs.execute(ADD, name="a", size=1)
    assert pairs.integrity_problems() == []


def test_sync_changes_nothing_and_may_be_asked_for_at_any_time(pairs: Database) -> None:
    pairs.sync()
    pairs.execute(ADD, name="a", size=1)
    pairs.sync()
    pairs.sync()
    assert pairs.all(PAIRS_BY_NAME) == [("a", 1)]


def test_parameters_go_by_name_and_may_repeat(pairs: Database) -> None:
    pairs.execute(ADD, size=1, name="a")
    where = sql("SELECT name, size + :more FROM pairs WHERE size = :size AND name = :name AND size = :size")
    assert pairs.all(where, name="a", size=1, more=10) == [("a", 11)]
    assert pairs.all(where, name="a", size=2, more=10) == []


def test_parameter_that_was_forgotten_is_an_error(pairs: Database) -> None:
    with pytest.raises(KeyError, match="size"):
        pairs.execute(ADD, name="a")
    assert pairs.all(PAIRS_BY_NAME) == []


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("SELECT '100%', 7 % 4", ("100%", 3)),
        ("SELECT '%s %(a)s', CAST(:a AS BIGINT)", ("%s %(a)s", 5)),
        ("SELECT '12:30', ':a', CAST(:a AS BIGINT)", ("12:30", ":a", 5)),
        ("SELECT 'it''s :a', CAST(:a AS BIGINT)", ("it's :a", 5)),
        ('SELECT CAST(:a AS BIGINT) AS ":a ?" -- not a :parameter, and 5 % of nothing?', (5,)),
        ("SELECT 'ab' LIKE 'a%', 'a?', CAST(:a AS BIGINT)", (True, "a?", 5)),
    ],
)
def test_signs_in_literals_and_comments_are_text(database: Database, text: str, row: Row) -> None:
    assert database.one(sql(text), a=5) == row
    assert database.all(sql(text), a=5) == [row]


@pytest.mark.parametrize(
    "text", ["", "Zürich", "日本語", "👩‍🚀", "e\u0301", "\u202e\ufeff", "'; DROP TABLE pairs; --", "\\x00\t\r\n"]
)
def test_text_comes_back_as_it_went_in(pairs: Database, text: str) -> None:
    pairs.execute(ADD, name=text, size=len(text))
    assert pairs.one(sql("SELECT name FROM pairs WHERE name = :name"), name=text) == (text,)


def test_text_with_a_nul_is_kept_or_refused(pairs: Database) -> None:
    try:
        pairs.execute(ADD, name="a\0b", size=1)
    except BadInput:
        assert "PostgreSQL" in pairs.description
        assert pairs.all(PAIRS_BY_NAME) == []
    else:
        assert pairs.all(PAIRS_BY_NAME) == [("a\0b", 1)]


def test_half_a_surrogate_pair_is_refused(pairs: Database) -> None:
    with pytest.raises(UnicodeEncodeError):
        pairs.execute(ADD, name="\ud83d", size=1)
    assert pairs.all(PAIRS_BY_NAME) == []


@pytest.mark.parametrize("number", [0, -1, 2**15, 2**31, 2**53 + 1, LONGEST, -LONGEST])
def test_integers_of_64_bits_are_exact(pairs: Database, number: int) -> None:
    pairs.execute(ADD, name="a", size=number)
    assert pairs.all(sql("SELECT size FROM pairs WHERE size = :size"), size=number) == [(number,)]
    assert pairs.all(sql("SELECT name FROM pairs WHERE size < :size"), size=number) == []


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_longer_integers_are_refused(pairs: Database, number: int) -> None:
    with pytest.raises(BadInput):
        pairs.execute(ADD, name="a", size=number)
    assert pairs.all(PAIRS_BY_NAME) == []


def test_small_integers_are_added_as_64_bits(database: Database) -> None:
    assert database.one(sql("SELECT :a + :b, :a * :b"), a=30_000, b=2_000_000_000) == (
        2_000_030_000,
        60_000_000_000_000,
    )
    assert database.one(sql("SELECT :a + :a"), a=30_000) == (60_000,)


def test_every_type_comes_back_as_itself(database: Database) -> None:
    database.execute_script("CREATE TABLE kinds (i INTEGER, b BIGINT, r REAL, d DOUBLE PRECISION, t TEXT, x BLOB)")
    add = sql("INSERT INTO kinds VALUES (:i, :b, :r, :d, :t, :x)")
    rows: list[Row] = [
        (LONGEST, -LONGEST, 0.1, 1 / 3, "007", b"\x00\xff"),
        (0, 0, 1e308, 5e-324, "", b""),
        (None, None, None, None, None, None),
        (1, 1, 2.0, float("inf"), "1", b"text"),
    ]
    database.many(add, rows)
    stored = database.all(sql("SELECT i, b, r, d, t, x FROM kinds"))
    assert [[(type(value), value) for value in row] for row in stored] == [
        [(type(value), value) for value in row] for row in rows
    ]


def test_returning_gives_the_row_or_nothing(pairs: Database) -> None:
    add = sql("INSERT INTO pairs (name, size) VALUES (:name, 1) ON CONFLICT (name) DO NOTHING RETURNING name, size")
    assert pairs.one(add, name="a") == ("a", 1)
    assert pairs.one(add, name="a") is None
    pairs.execute(add, name="b")
    assert pairs.all(PAIRS_BY_NAME) == [("a", 1), ("b", 1)]


def test_text_is_ordered_by_its_bytes(pairs: Database) -> None:
    names = [
        "a",
        "B",
        "ä",
        "Z",
        "_",
        "b",
        "A",
        "é",
        "e",
        "ab",
        "a b",
        "a-b",
        "aB",
        "10",
        "9",
        "\U0001f600",
        "\uffee",
        "ß",
    ]
    pairs.many(ADD, [(name, 0) for name in names])
    by_bytes = sorted(names, key=str.encode)
    assert [row[0] for row in pairs.all(PAIRS_BY_NAME)] == by_bytes
    assert pairs.one(sql("SELECT MIN(name), MAX(name) FROM pairs")) == (by_bytes[0], by_bytes[-1])
    below = sql("SELECT name FROM pairs WHERE name < :name ORDER BY name DESC LIMIT 1")
    assert pairs.one(below, name="ä") == (by_bytes[by_bytes.index("ä") - 1],)


def test_many_takes_any_number_of_rows_from_anywhere(pairs: Database) -> None:
    pairs.many(ADD, [])
    pairs.many(ADD, ((f"{number:05}", number) for number in range(3_000)))
    assert pairs.one(sql("SELECT COUNT(*), MIN(name), MAX(size) FROM pairs")) == (3_000, "00000", 2_999)


def test_many_writes_all_rows_or_none(pairs: Database) -> None:
    rows: list[Row] = [*((f"{number:05}", number) for number in range(3_000)), ("00000", 0)]
    with pytest.raises(BROKEN_RULE):
        pairs.many(ADD, rows)
    assert pairs.all(PAIRS_BY_NAME) == []


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 99, 100, 149])
def test_many_rows_are_as_many_single_ones(pairs: Database, count: int) -> None:
    """Of two rows with one name the first is kept, whether it was there before or comes in the same call."""
    add = sql("INSERT INTO pairs (name, size) VALUES (:name, :size) ON CONFLICT (name) DO NOTHING")
    pairs.many(ADD, [("3", -1), ("70", -1)])
    rows: list[Row] = [(str(number % 60), number) for number in range(count)]
    kept = {"3": -1, "70": -1}
    new = [kept.setdefault(name, size) for name, size in rows if name not in kept]
    with pairs.transaction():
        assert pairs.many(add, iter(rows)) == len(new)
    assert dict(pairs.all(PAIRS_BY_NAME)) == kept


@pytest.mark.parametrize("count", [1, 50, 149])
@pytest.mark.parametrize("shared", [{"size"}, {"kind"}, {"kind", "size"}, {"kind", "size", "name"}, {"other"}, set()])
def test_values_that_rows_share_are_those_of_every_row(database: Database, count: int, shared: set[str]) -> None:
    database.execute_script("CREATE TABLE items (kind TEXT, name TEXT, size BIGINT);")
    rows: list[Row] = [
        ("a", "b" if "name" in shared else str(number), 7 if "size" in shared else number) for number in range(count)
    ]
    add = sql("INSERT INTO items (kind, name, size) VALUES (:kind, :name, :size)")
    assert database.many(add, rows, shared=frozenset(shared)) == count
    assert sorted(database.all(sql("SELECT kind, name, size FROM items"))) == sorted(rows)


@pytest.mark.parametrize("place", [0, 60, 149])
def test_a_row_that_is_refused_undoes_the_transaction(pairs: Database, place: int) -> None:
    rows: list[Row] = [(str(number), number) for number in range(150)]
    rows.insert(place, ("77", None))
    with pytest.raises(BROKEN_RULE), pairs.transaction():
        pairs.execute(ADD, name="before", size=1)
        pairs.many(ADD, rows)
    assert pairs.all(PAIRS_BY_NAME) == []


@pytest.mark.parametrize("row", [("a",), ("a", 1, 2)])
def test_a_row_of_the_wrong_length_is_an_error(pairs: Database, row: Row) -> None:
    rows: list[Row] = [(str(number), number) for number in range(150)]
    # Errors of the drivers differ, and none of them is ours to translate: this is a mistake in the program.
    with pytest.raises(Exception, match=r"parameters|bindings"), pairs.transaction():
        pairs.many(ADD, [*rows, row])
    assert pairs.all(PAIRS_BY_NAME) == []


def test_many_belongs_to_its_transaction(pairs: Database) -> None:
    with pytest.raises(ValueError, match="no"), pairs.transaction():
        pairs.many(ADD, [("a", 1), ("b", 2)])
        raise ValueError("no")
    assert pairs.all(PAIRS_BY_NAME) == []


def test_statements_together_are_executed_in_their_order_or_not_at_all(pairs: Database) -> None:
    drop = sql("DELETE FROM pairs WHERE name = :name")
    pairs.many_together([(ADD, [("a", 1), ("b", 2)]), (drop, [("a",)]), (ADD, [("a", 3)])])
    assert pairs.all(PAIRS_BY_NAME) == [("a", 3), ("b", 2)]
    with pytest.raises(BROKEN_RULE), pairs.transaction():
        pairs.many_together([(drop, [("b",)]), (ADD, [("a", 4)])])
    assert pairs.all(PAIRS_BY_NAME) == [("a", 3), ("b", 2)]


def test_script_runs_every_statement(database: Database) -> None:
    database.execute_script(
        "CREATE TABLE t (a BIGINT); SELECT 1; INSERT INTO t VALUES (1); SELECT 'x;y'; INSERT INTO t VALUES (2);"
    )
    assert database.all(sql("SELECT a FROM t ORDER BY a")) == [(1,), (2,)]


def test_transaction_commits_at_its_end(pairs: Database) -> None:
    with pairs.transaction():
        pairs.execute(ADD, name="a", size=1)
        assert pairs.all(PAIRS_BY_NAME) == [("a", 1)]
    assert pairs.all(PAIRS_BY_NAME) == [("a", 1)]


@pytest.mark.parametrize("error", [ValueError, BadInput, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_transaction_leaves_nothing_after_any_error(pairs: Database, error: type[BaseException]) -> None:
    with pytest.raises(error), pairs.transaction():
        pairs.execute(ADD, name="a", size=1)
        pairs.execute_script("CREATE TABLE left_over (a BIGINT)")
        raise error("on purpose")
    assert pairs.all(PAIRS_BY_NAME) == []
    pairs.execute_script("CREATE TABLE left_over (a BIGINT)")


def test_transaction_leaves_nothing_after_a_refused_statement(pairs: Database) -> None:
    with pytest.raises(BROKEN_RULE), pairs.transaction():
        pairs.execute(ADD, name="a", size=1)
        pairs.execute(ADD, name="a", size=2)
    assert pairs.all(PAIRS_BY_NAME) == []
    with pairs.transaction():
        pairs.execute(ADD, name="a", size=3)
    assert pairs.all(PAIRS_BY_NAME) == [("a", 3)]


@pytest.mark.parametrize("caught", [{"name": "a", "size": 2}, {"name": "b", "size": 2**63}])
def test_error_caught_inside_a_transaction_is_not_committed_over(pairs: Database, caught: dict[str, object]) -> None:
    with pytest.raises(RuntimeError, match="caught inside"), pairs.transaction():
        pairs.execute(ADD, name="a", size=1)
        with pytest.raises((*BROKEN_RULE, BadInput)):
            pairs.execute(ADD, **caught)
    assert pairs.all(PAIRS_BY_NAME) == []


def test_transactions_are_not_nested(pairs: Database) -> None:
    with pytest.raises(RuntimeError, match="not nested"), pairs.transaction():
        pairs.execute(ADD, name="a", size=1)
        with pairs.transaction():
            pairs.execute(ADD, name="b", size=1)
    with pytest.raises(RuntimeError, match="not nested"), pairs.snapshot(), pairs.transaction():
        pass
    assert pairs.all(PAIRS_BY_NAME) == []


def test_snapshot_reads_and_does_not_write(pairs: Database) -> None:
    pairs.execute(ADD, name="a", size=1)
    with pairs.snapshot():
        assert pairs.all(PAIRS_BY_NAME) == [("a", 1)]
    with pytest.raises(StoreFailed), pairs.snapshot():
        pairs.execute(ADD, name="b", size=1)
    with pytest.raises(KeyboardInterrupt), pairs.snapshot():
        raise KeyboardInterrupt
    pairs.execute(ADD, name="c", size=1)
    assert pairs.all(PAIRS_BY_NAME) == [("a", 1), ("c", 1)]


def test_description_names_the_engine(database: Database) -> None:
    assert database.description.startswith(("SQLite 3.", "PostgreSQL 1"))


@pytest.fixture
def two(connect_again: Connector) -> Iterator[tuple[Database, Database]]:
    """Two connections to one database."""
    first = connect_again()
    first.execute_script(PAIRS)
    yield first, connect_again()


def test_others_see_a_transaction_when_it_is_committed(two: tuple[Database, Database]) -> None:
    writer, reader = two
    with writer.transaction():
        writer.execute(ADD, name="a", size=1)
        assert reader.all(PAIRS_BY_NAME) == []
    assert reader.all(PAIRS_BY_NAME) == [("a", 1)]


def test_snapshot_is_of_one_moment_and_holds_nobody_up(two: tuple[Database, Database]) -> None:
    writer, reader = two
    with reader.snapshot():
        assert reader.all(PAIRS_BY_NAME) == []
        with writer.transaction():
            writer.execute(ADD, name="a", size=1)
        assert reader.all(PAIRS_BY_NAME) == []
    assert reader.all(PAIRS_BY_NAME) == [("a", 1)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_broken_off_transaction_keeps_no_lock(two: tuple[Database, Database], error: type[BaseException]) -> None:
    first, second = two
    with pytest.raises(error), first.transaction():
        first.execute(ADD, name="a", size=1)
        raise error
    with second.transaction():
        second.execute(ADD, name="a", size=2)
    assert first.all(PAIRS_BY_NAME) == [("a", 2)]
