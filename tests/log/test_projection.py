"""Projections: what an event writes, and to which tables."""

from tapebook.db import Database, Query, migrate
from tapebook.log import Event, Projection, Stream, Write
from tapebook.log.event import apply_event, projectors_by_kind
from tests.db.places import sql

ADD = sql("INSERT INTO seen (name, seq) VALUES (:name, :seq)")


def projection(name: str, *kinds: str) -> Projection:
    """Writes the projection's name for each event of some kinds, twice."""

    def project(event: Event) -> list[Write]:
        return [Write(ADD, {"name": f"{name}{turn}", "seq": event.seq}) for turn in (1, 2)]

    return Projection(tables=("seen",), projectors=dict.fromkeys(kinds, project))


def test_every_projection_that_knows_the_kind_writes_in_order(database: Database) -> None:
    migrate(database, ())
    database.execute_script("CREATE TABLE seen (name TEXT, seq BIGINT)")
    both = projectors_by_kind([projection("b", "k", "l"), projection("a", "k"), projection("c")])
    apply_event(database, both, Event(Stream("o"), 1, "k", 1, 0, 0, "{}", ""))
    apply_event(database, both, Event(Stream("o"), 2, "l", 1, 0, 0, "{}", ""))
    apply_event(database, both, Event(Stream("o"), 3, "unknown", 1, 0, 0, "{}", ""))
    rows = database.all(Query.whole_table("seen"))
    assert rows == [("b1", 1), ("b2", 1), ("a1", 1), ("a2", 1), ("b1", 2), ("b2", 2)]
