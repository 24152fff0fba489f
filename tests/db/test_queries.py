"""Query files: how they are read, and that every one of the package names and explains its queries."""

import re
from pathlib import Path

import pytest

from tapebook.book import pages, records
from tapebook.db import Database, Queries, Query, migrate
from tapebook.db.database import _parse_queries
from tapebook.tape import families

PACKAGE = Path(__file__).parents[2] / "src" / "tapebook"
QUERY_FILES = sorted(path for path in PACKAGE.rglob("*.sql") if path.parent.name != "migrations")
# Sources add views on tables of the tape.
MIGRATED = sorted(
    (path.parent for path in PACKAGE.rglob("migrations") if path.is_dir()),
    key=lambda folder: ("sources" in folder.parts, folder),
)

FILE = """-- What stands before the first name is for the reader.

-- name: head
-- The newest event
-- of a stream.
SELECT seq FROM events
-- only this one
WHERE owner = :owner ORDER BY seq DESC;

-- name: add
-- Adds an event.
INSERT INTO events VALUES (:owner, :seq, :owner)
"""


def test_file_is_a_list_of_named_queries() -> None:
    head, add = _parse_queries(FILE).values()
    assert (head.name, add.name) == ("head", "add")
    assert (head.sentence, add.sentence) == ("The newest event of a stream.", "Adds an event.")
    assert head.sqlite == "SELECT seq FROM events\n-- only this one\nWHERE owner = ? ORDER BY seq DESC"
    assert add.postgres == "INSERT INTO events VALUES (%s, %s, %s)"
    assert add.params == ("owner", "seq", "owner")


def test_file_without_entries_has_no_queries() -> None:
    assert _parse_queries("") == _parse_queries("SELECT 1;\n") == {}


def test_two_queries_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two queries are named 'head'"):
        _parse_queries(FILE + FILE)


@pytest.mark.parametrize(
    ("text", "params", "sqlite", "postgres"),
    [
        ("a = :a1 AND b=:b_2", ("a1", "b_2"), "a = ? AND b=?", "a = %s AND b=%s"),
        ("a LIKE '%:x' AND b = :b", ("b",), "a LIKE '%:x' AND b = ?", "a LIKE '%%:x' AND b = %s"),
        ("'it''s :x' || :a", ("a",), "'it''s :x' || ?", "'it''s :x' || %s"),
        ('":x" = :a', ("a",), '":x" = ?', '":x" = %s'),
        ("a::bigint = :a", ("a",), "a::bigint = ?", "a::bigint = %s"),
        ("-- :x and it's\na = :a", ("a",), "-- :x and it's\na = ?", "-- :x and it's\na = %s"),
    ],
)
def test_parameters_are_found_outside_of_literals(
    text: str, params: tuple[str, ...], sqlite: str, postgres: str
) -> None:
    query = Query.compile("q", "", text)
    assert (query.params, query.sqlite, query.postgres) == (params, sqlite, postgres)


def test_queries_are_attributes_and_an_unknown_one_names_the_others() -> None:
    queries = Queries(_parse_queries(FILE))
    assert [query.name for query in queries] == ["head", "add"]
    assert queries.add.name == "add"
    with pytest.raises(AttributeError, match="no query named 'tail'; there are: head, add"):
        _ = queries.tail


def test_package_has_query_files() -> None:
    assert {"log/queries.sql", "db/migrations.sql"} <= {path.relative_to(PACKAGE).as_posix() for path in QUERY_FILES}


@pytest.mark.parametrize("path", QUERY_FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_every_query_has_a_name_and_a_sentence(path: Path) -> None:
    text = path.read_text("utf-8")
    entries = _parse_queries(text)
    assert len(re.findall(r"(?i)^\s*--\s*name\b", text, re.MULTILINE)) == len(entries) > 0
    for query in entries.values():
        where = f"{path.relative_to(PACKAGE)}: {query.name}"
        assert re.fullmatch(r"[A-Z].+[.]", query.sentence), (
            f"{where} is not explained by a sentence: {query.sentence!r}"
        )
        assert not hasattr(Queries, query.name), f"{where} has the name of a method and cannot be reached"
        bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*", "", query.sqlite)
        assert bare.strip() and ";" not in bare, f"{where} is not one statement"


def test_every_query_is_understood_by_both_databases(database: Database) -> None:
    """All migrations, then EXPLAIN of every query: tables, columns and types exist, whatever engine it is."""
    rooms = [room for room in MIGRATED if "VIRTUAL TABLE" not in _migrations(room)]
    # Tables of the book are filled from the log.
    rooms.sort(key=lambda room: room.name != "log")
    migrate(database, tuple(".".join(("tapebook", *room.relative_to(PACKAGE).parts)) for room in rooms))
    # The index of documents and what a verification compares with are local SQLite files wherever the book is.
    apart = ("family.sql", "index.sql", "verify.sql")
    files = [path for path in QUERY_FILES if path.parent in rooms and path.name not in apart]
    # Those of the book are filled in with the columns of a trade.
    files.remove(PACKAGE / "book/queries.sql")
    files.remove(PACKAGE / "book/pages.sql")
    asked = [query for path in files for query in _parse_queries(path.read_text("utf-8")).values()]
    asked += [*records.QUERIES, *pages._QUERIES]
    # One file serves all families of market rows, each with its own table.
    asked += [query for family in families.ALL_FAMILIES for query in family.queries]
    for query in asked:
        explain = Query(query.name, "", query.params, f"EXPLAIN {query.sqlite}", f"EXPLAIN {query.postgres}")
        assert database.all(explain, **dict.fromkeys(query.params))
    assert len(asked) >= 6


def _migrations(room: Path) -> str:
    return "".join(path.read_text("utf-8") for path in (room / "migrations").glob("*.sql"))
