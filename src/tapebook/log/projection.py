"""Tables computed from events: pure functions from one event to the statements it causes.

A projection never reads: everything a row needs is in its event, so rebuilding from the log gives
the same rows whatever the order of streams.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.db import Database, Query, Row
from tapebook.log.event import Event

Projector = Callable[[Event], "list[Write]"]


class Write(msgspec.Struct, frozen=True):
    """One statement with its values: by their names, or, for what every tick writes, in the order of `query.params`."""

    query: Query
    values: dict[str, Any] | Row


class Projection(msgspec.Struct, frozen=True):
    """The tables of one room, and what each kind of event writes to them."""

    tables: tuple[str, ...]
    projectors: Mapping[str, Projector]


def by_kind(projections: Iterable[Projection]) -> dict[str, list[Projector]]:
    """All projectors of each kind of event."""
    found: dict[str, list[Projector]] = {}
    for projection in projections:
        for kind, projector in projection.projectors.items():
            found.setdefault(kind, []).append(projector)
    return found


def apply(db: Database, projectors: Mapping[str, Sequence[Projector]], event: Event) -> None:
    """Writes what an event means to every table that knows its kind."""
    for projector in projectors.get(event.kind, ()):
        for write in projector(event):
            values = write.values
            db.put(write.query, write.query.row(values) if isinstance(values, dict) else values)
