"""Computes tables again that do not say what the log says.

1. nobody else writes meanwhile: the caller holds the lease of every stream;
2. the log itself is checked, for what is computed from a damaged one would only look whole;
3. every table is compared, and those that differ are emptied and written anew from all events, in one transaction: all
   of them or, when anything goes wrong, none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from tapebook.db import Database, Query
from tapebook.db.buffered import Buffered
from tapebook.errors import Damaged
from tapebook.log.event import Event
from tapebook.log.lease import Lease, fence
from tapebook.log.projection import Projector, Write, by_kind
from tapebook.log.store import Log
from tapebook.log.verify import MIGRATIONS, QUERIES, Progress, check_streams, compare_tables, scratch_database

_TOGETHER = 2_000
_REFUSED = "{where}: {problem}; tables can only be computed from a log that is whole: {remedy}"


class RebuiltTables(msgspec.Struct, frozen=True):
    """The tables that were written anew, and how many events were read for it."""

    tables: tuple[str, ...] = ()
    events: int = 0


def rebuild_tables(
    log: Log,
    db: Database,
    *,
    packages: tuple[str, ...],
    leases: Sequence[Lease],
    operational: frozenset[str] = frozenset(),
    progress: Progress = lambda words: None,
) -> RebuiltTables:
    """Writes every table anew that contradicts the log; Damaged, and nothing is written, when the log is not whole."""
    with db.snapshot():
        broken = check_streams(log, {}, progress=progress)
        odd = broken or compare_tables(log, db, packages, operational=operational, progress=progress)
    with scratch_database(packages, events=0) as fresh:
        tables, known = {found.where for found in odd}, {name for (name,) in fresh.all(QUERIES.tables)}
        for found in odd:
            if broken or found.where not in known - {MIGRATIONS}:
                raise Damaged(_REFUSED.format(**msgspec.structs.asdict(found)))
        if not tables:
            return RebuiltTables()
        return _write_anew(log, db, tables, fresh=fresh, leases=leases, progress=progress)


def _write_anew(
    log: Log, db: Database, tables: set[str], *, fresh: Database, leases: Sequence[Lease], progress: Progress
) -> RebuiltTables:
    streams = log.streams()
    heads = {stream: log.head(stream).seq for stream in streams}
    events = (event for stream in streams for event in log.events(stream, until=heads[stream]))
    buffered, projectors, done, total = Buffered(db), by_kind(log.projections), 0, sum(heads.values())
    with buffered.transaction():
        for table in sorted(tables):
            db.run(Query.empty_table(table))
            # What a migration wrote is there before the first event.
            columns = [name for name, _ in fresh.all(QUERIES.columns, table_name=table)]
            db.many(Query.insert(table, columns), fresh.all(Query.ordered_table(table, columns, by=columns)))
        while page := list(islice(events, _TOGETHER)):
            for write in _writes(projectors, page, tables):
                values = write.values
                buffered.put(write.query, write.query.row(values) if isinstance(values, dict) else values)
            buffered.flush()
            done += len(page)
            progress(f"{done:,} of {total:,} events written again")
        for lease in leases:
            # A server lets others write meanwhile; who took a stream over has the last word.
            fence(db, lease.stream, lease)
    return RebuiltTables(tuple(sorted(tables)), total)


def _writes(
    projectors: Mapping[str, Sequence[Projector]], events: Iterable[Event], tables: set[str]
) -> Iterator[Write]:
    """What events mean to some tables."""
    for event in events:
        for projector in projectors.get(event.kind, ()):
            yield from (write for write in projector(event) if not tables.isdisjoint(write.query.tables))
