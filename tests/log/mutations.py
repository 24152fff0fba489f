"""Every way to tamper with a log that its check must find: edits, deletions, moves, swaps, copies, renumbering.

A mutation is a label and the statements that make it. `made` runs one and says whether the
database took it and anything changed: PostgreSQL refuses a text in a number's column, and a key
can forbid a copy; what was refused needs no finding.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw
import psycopg

from tapebook.db import Database, Query, Row
from tapebook.errors import BadInput
from tests.db.places import sql
from tests.log.journal import STREAMS, TABLES

LOG = "log_events"
TEXTS = ("owner", "deployment", "kind", "body", "hash")
NUMBERS = ("seq", "schema_version", "happened_at", "known_at")
PLACE = "owner = :owner AND deployment = :deployment AND seq = :seq"
REFUSED = (apsw.ConstraintError, psycopg.Error, BadInput)
LAST = 10


class Mutation(NamedTuple):
    """Statements with their values, and how to call them in a report."""

    label: str
    steps: list[tuple[str, dict[str, Any]]]


def every_mutation() -> list[Mutation]:
    """The whole matrix, in a fixed order."""
    families = [
        _edits(),
        _deletions(),
        _swaps(),
        _moves(),
        _copies(),
        _renumberings(),
        _forgeries(),
        _table_mutations(),
    ]
    return [mutation for family in families for mutation in family]


def contents(db: Database) -> dict[str, list[Row]]:
    """All rows of the log and of its tables, in one order."""
    return {table: sorted(db.all(Query.whole_table(table)), key=repr) for table in (LOG, *TABLES)}


def restore(db: Database, rows: dict[str, list[Row]]) -> None:
    """Puts back what `contents` gave."""
    with db.transaction():
        for table, kept in rows.items():
            db.execute(sql(f"DELETE FROM {table}"))
            db.many(sql(f"INSERT INTO {table} VALUES ({', '.join(f':c{n}' for n in range(len(kept[0])))})"), kept)


def made(db: Database, mutation: Mutation) -> bool:
    """Tampers; False where the database refused it or nothing is different now."""
    before = repr(contents(db))
    try:
        with db.transaction():
            for text, values in mutation.steps:
                db.execute(sql(text), **values)
    except REFUSED:
        return False
    return repr(contents(db)) != before


def _rows(*seqs: int) -> Iterator[dict[str, Any]]:
    """The places of some events in every stream."""
    for stream in STREAMS:
        for seq in seqs:
            yield {"owner": stream.owner, "deployment": stream.deployment, "seq": seq}


def _named(verb: str, place: dict[str, Any]) -> str:
    return f"{verb} {place['owner']}/{place['deployment']}#{place['seq']}"


def _edits() -> Iterator[Mutation]:
    """Every column of the first, some middle, and the last events, to values of all sorts."""
    texts = ["{c} || 'x'", "''", "UPPER({c})", "SUBSTR({c}, 2)", "'7'", "CAST({c} AS BLOB)", "{c} || :line"]
    numbers = [
        "{c} + 1",
        "{c} - 1",
        "0",
        "-{c}",
        "9223372036854775807",
        "4611686018427387905",
        "'x'",
        "{c} + 0.5",
        "x'00'",
    ]
    changes = [(column, value) for column in TEXTS for value in texts]
    changes += [(column, value) for column in NUMBERS for value in numbers]
    for place in _rows(1, 2, 5, LAST):
        for column, value in changes:
            new = value.format(c=column)
            edit = f"UPDATE {LOG} SET {column} = {new} WHERE {PLACE}"
            yield Mutation(_named(f"set {column} = {new} of", place), [(edit, place | {"line": "\n"})])


def _deletions() -> Iterator[Mutation]:
    """Every event by itself, with the gap and with the rest renumbered so that none shows."""
    for place in _rows(*range(1, LAST + 1)):
        delete = (f"DELETE FROM {LOG} WHERE {PLACE}", place)
        yield Mutation(_named("delete", place), [delete])
        yield Mutation(_named("delete and close the gap at", place), [delete, *_shift(place, -1)])


def _shift(place: dict[str, Any], by: int) -> list[tuple[str, dict[str, Any]]]:
    """Renumbers what comes after a place; in two steps, since keys must stay unique at every row."""
    later = "owner = :owner AND deployment = :deployment AND seq > :seq"
    away = (f"UPDATE {LOG} SET seq = seq + 1000 WHERE {later}", place)
    back = (f"UPDATE {LOG} SET seq = seq - 1000 + :by WHERE {later} AND seq > 1000", place | {"by": by})
    return [away, back]


def _swaps() -> Iterator[Mutation]:
    """Two events of a stream change places, with their times and hashes or without."""
    for place in _rows(1, 4, 9):
        for other in (place["seq"] + 1, 7):
            both = place | {"other": other}
            there = "owner = :owner AND deployment = :deployment AND seq = :other"
            aside = "owner = :owner AND deployment = :deployment AND seq = -1"
            steps = [
                (f"UPDATE {LOG} SET seq = -1 WHERE {PLACE}", both),
                (f"UPDATE {LOG} SET seq = :seq WHERE {there}", both),
                (f"UPDATE {LOG} SET seq = :other WHERE {aside}", both),
            ]
            yield Mutation(_named(f"swap with {other}:", place), steps)
            kept = [
                f"UPDATE {LOG} SET {column} = CASE seq WHEN :seq THEN"
                f" (SELECT {column} FROM {LOG} WHERE {there}) ELSE (SELECT {column} FROM {LOG} WHERE {PLACE}) END"
                " WHERE owner = :owner AND deployment = :deployment AND seq IN (:seq, :other)"
                for column in ("kind", "body", "happened_at")
            ]
            yield Mutation(_named(f"swap what {other} says with", place), [(text, both) for text in kept])


def _moves() -> Iterator[Mutation]:
    """An event goes to the end of another stream, in the place of another's event, or to a stream of its own."""
    for place in _rows(1, 5, LAST):
        for stream in STREAMS:
            target = place | {"to_owner": stream.owner, "to_deployment": stream.deployment, "end": LAST + 1}
            if (stream.owner, stream.deployment) == (place["owner"], place["deployment"]):
                continue
            move = f"UPDATE {LOG} SET owner = :to_owner, deployment = :to_deployment, seq = :end WHERE {PLACE}"
            yield Mutation(_named(f"move to the end of {stream.name}:", place), [(move, target)])
            gone = f"DELETE FROM {LOG} WHERE owner = :to_owner AND deployment = :to_deployment AND seq = :seq"
            put = f"UPDATE {LOG} SET owner = :to_owner, deployment = :to_deployment WHERE {PLACE}"
            yield Mutation(_named(f"replace that of {stream.name} by", place), [(gone, target), (put, target)])
        alone = f"UPDATE {LOG} SET owner = 'new', seq = 1 WHERE {PLACE}"
        yield Mutation(_named("make a stream of", place), [(alone, place)])
    for stream in STREAMS:
        values = {"owner": stream.owner, "deployment": stream.deployment}
        rename = f"UPDATE {LOG} SET owner = 'new' WHERE owner = :owner AND deployment = :deployment"
        yield Mutation(f"rename the stream {stream.name}", [(rename, values)])


def _copies() -> Iterator[Mutation]:
    """An event is there twice: at the end, before the beginning, in another stream."""
    columns = "kind, schema_version, happened_at, known_at, body, hash, packed"
    for place in _rows(1, 5, LAST):
        for to, seq in (("end", LAST + 1), ("beginning", 0), ("far", 2**62 + 1)):
            copy = (
                f"INSERT INTO {LOG} SELECT owner, deployment, CAST(:to AS BIGINT), {columns} FROM {LOG} WHERE {PLACE}"
            )
            yield Mutation(_named(f"copy to the {to}:", place), [(copy, place | {"to": seq})])
        other = f"INSERT INTO {LOG} SELECT 'new', deployment, 1, {columns} FROM {LOG} WHERE {PLACE}"
        yield Mutation(_named("copy to a new stream:", place), [(other, place)])


def _renumberings() -> Iterator[Mutation]:
    """All or the last events of a stream get other numbers."""
    for place in _rows(0, 4, LAST - 1):
        for by in (1, 5, -20):
            yield Mutation(_named(f"renumber by {by} after", place), _shift(place, by))


def _forgeries() -> Iterator[Mutation]:
    """An invented event is put at the end."""
    values = "'entry.added', 1, 1700000000000, 1700000009000, '{}'"
    for place in _rows(LAST + 1):
        forged = f"INSERT INTO {LOG} VALUES (:owner, :deployment, :seq, {values}, :hash, NULL)"
        yield Mutation(_named("forge", place), [(forged, place | {"hash": "ab" * 32})])


def _table_mutations() -> Iterator[Mutation]:
    """The computed tables are edited, emptied, and added to."""
    columns = {
        "title": ["title || ' '", "UPPER(title)", "''"],
        "amount_e8": ["amount_e8 + 1", "-amount_e8", "0"],
        "share": ["share * 1.0000000000000002", "0.0", "-share"],
        "bytes": [":bytes"],
        "known_at": ["known_at + 1"],
        "settled_seq": ["3", "NULL", "99"],
        "owner": ["'eve'"],
        "deployment": ["'d9'"],
        "seq": ["seq + 100"],
    }
    for place in _rows(1, 4, 5, 7, LAST):
        for column, values in columns.items():
            for value in values:
                edit = f"UPDATE journal_entries SET {column} = {value} WHERE {PLACE}"
                yield Mutation(
                    _named(f"set {column} = {value} of the row of", place), [(edit, place | {"bytes": b"\0"})]
                )
        yield Mutation(_named("delete the row of", place), [(f"DELETE FROM journal_entries WHERE {PLACE}", place)])
        row = ":owner, :deployment, :seq + 100, 'invented', 1, 1.0, :bytes, 1, NULL"
        insert = f"INSERT INTO journal_entries VALUES ({row})"
        yield Mutation(_named("invent a row after", place), [(insert, place | {"bytes": b""})])
        tag = {"owner": place["owner"], "deployment": place["deployment"]}
        twice = "INSERT INTO journal_tags VALUES (:owner, :deployment, 'both')"
        yield Mutation(_named("write a tag again in", place), [(twice, tag)])
        untag = "DELETE FROM journal_tags WHERE owner = :owner AND deployment = :deployment AND tag = 'new'"
        yield Mutation(_named("delete tags in", place), [(untag, tag)])
    for table in TABLES:
        yield Mutation(f"empty {table}", [(f"DELETE FROM {table}", {})])
