"""Checks that the log and its tables still say what was written, and rebuilds tables that do not.

Checking (`verify_log`):
1. every event's hash follows from the one before it, and its place and times are in order;
2. every anchored head (kept outside the database) is still in the stream, and no row is outside it;
3. a scratch database gets every event again, and every table of it must be equal row by row, those that a migration
   filled among them; tables that are neither computed nor fixed (`operational`) are checked by whoever writes them.

Events are read page by page, rows are compared in order of their key, and the scratch database of a long log lies
on the disk: memory does not grow with the log. Not found are events cut off the end of a stream together with their
projected rows, as long as no anchor names them; and anything, by whoever can rewrite the anchors as well.

Rebuilding (`rebuild_tables`):
1. nobody else writes meanwhile: the caller holds the lease of every stream;
2. the log itself is checked, for what is computed from a damaged one would only look whole;
3. every table is compared, and those that differ are emptied and written anew from all events, in one transaction:
   all of them or, when anything goes wrong, none.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice

import msgspec

from tapebook.db import Database, Queries, Query, Row, connect, migrate
from tapebook.db.buffered import BufferedDatabase
from tapebook.db.database import MIGRATIONS_TABLE
from tapebook.domain.text import plural
from tapebook.errors import Damaged, TapebookError
from tapebook.log.event import GENESIS, Event, Projector, Stream, Write, apply_event, projectors_by_kind
from tapebook.log.lease import Lease, fence_write
from tapebook.log.store import SET_BACK_KIND as SET_BACK
from tapebook.log.store import Log

# Enough to recognise a pattern; a damaged table may differ in every row.
_ROWS_SHOWN = 5
_EVENTS_PER_PAGE = 2_000
# A scratch database of so many events fits into memory; a larger one is written to the disk.
_IN_MEMORY = 20_000
# The log itself, which the chain is for, and what its own modules look after.
_OWN_TABLES = frozenset(
    {"log_events", "log_packs", "log_anchors", "log_anchored", "log_restores", "log_keyed_events", "leases"}
)
SCRATCH_QUERIES = Queries.load("tapebook.log", "verify.sql")
_RESTORE = "restore book.db from a backup: the log is the truth, nothing else has it"
_REBUILD = "the log has what this table should say, and it is whole: `tapebook rebuild` computes the table again"

Anchors = Mapping[Stream, Mapping[int, str]]
Progress = Callable[[str], None]


class Finding(msgspec.Struct, frozen=True):
    """One contradiction: where, what is wrong, and from what it can be rebuilt."""

    where: str
    problem: str
    remedy: str = ""


def verify_log(
    log: Log,
    db: Database,
    *,
    packages: tuple[str, ...],
    anchors: Anchors | None = None,
    operational: frozenset[str] = frozenset(),
    progress: Progress = lambda words: None,
) -> list[Finding]:
    """Everything that contradicts; an empty list means the log and its tables are whole.

    `db` is the log's own database: all is read as of one moment, so that nobody needs to stop writing.
    """
    with db.snapshot():
        broken = check_streams(log, anchors or {}, progress=progress)
        # Tables rebuilt from events that cannot be trusted would only add noise.
        return broken or compare_tables(log, db, packages, operational=operational, progress=progress)


def check_streams(log: Log, anchors: Anchors, *, progress: Progress) -> list[Finding]:
    """What contradicts in the log itself, whatever its tables say."""
    try:
        streams = sorted({*log.streams(), *anchors}, key=lambda stream: stream.name)
    except Damaged as error:
        return [Finding("log_events", str(error), _RESTORE)]
    broken: list[Finding] = []
    for stream in streams:
        progress(f"the chain of {stream.name}")
        broken += _check_stream(log, stream, anchors.get(stream, {}))
    return broken


def check_chain(events: Iterable[Event], anchors: Mapping[int, str], *, name: str, size: int) -> Iterator[Finding]:
    """Walks one stream of `size` rows; stops at the first break."""
    # Every hash after a break would be wrong as well, and say nothing new.
    previous, seq, known_at = GENESIS, 0, 0
    waiting = dict(anchors)
    for event in events:
        problem = _chain_break(event, previous=previous, seq=seq + 1, known_at=known_at)
        if problem is None and waiting.pop(event.seq, event.hash) != event.hash:
            problem = "differs from the anchor in the archive"
        if problem:
            yield Finding(f"{name}#{event.seq}", problem, _RESTORE)
            return
        previous, seq, known_at = event.hash, event.seq, event.known_at
    if waiting:
        cut = f"the archive has an anchor here, but the stream ends at {seq}: it was cut off"
        yield Finding(f"{name}#{max(waiting)}", cut, _RESTORE)
    if size != seq:
        yield Finding(name, f"{plural(size - seq, 'row')} with numbers that no event can have", _RESTORE)


def _check_stream(log: Log, stream: Stream, anchors: Mapping[int, str]) -> Iterator[Finding]:
    try:
        yield from check_chain(log.events(stream), anchors, name=stream.name, size=log.event_count(stream))
    except Damaged as error:
        yield Finding(stream.name, f"cannot be read to its end: {error}", _RESTORE)
    except TypeError:
        yield Finding(stream.name, "a row holds values of other types than it was written with", _RESTORE)


def _chain_break(event: Event, *, previous: str, seq: int, known_at: int) -> str | None:
    if event.seq != seq:
        return f"event {seq} is missing"
    if event.hash_after(previous) != event.hash:
        return "the event or one before it was changed: its hash does not follow"
    if event.known_at < known_at and event.kind != SET_BACK:
        return "known earlier than the event before it"
    return None


@contextmanager
def scratch_database(packages: tuple[str, ...], *, events: int) -> Iterator[Database]:
    """An empty database with the tables of the packages, gone at the end."""
    with ExitStack() as stack:
        place = ":memory:"
        if events > _IN_MEMORY:
            place = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='tapebook-verify-'))}/scratch.db"
        db = stack.enter_context(closing(connect(place, durable=False)))
        migrate(db, packages)
        yield db


def compare_tables(
    log: Log, db: Database, packages: tuple[str, ...], *, operational: frozenset[str], progress: Progress
) -> list[Finding]:
    """What the tables of a database say otherwise than its log; each is named in `where`."""
    streams = log.streams()
    total = sum(log.head(stream).seq for stream in streams)
    with scratch_database(packages, events=total) as scratch:
        _fill_scratch(log, scratch, streams, total=total, progress=progress)
        left_out = _OWN_TABLES | operational
        found: list[Finding] = []
        with scratch.snapshot():
            for table in (name for (name,) in scratch.all(SCRATCH_QUERIES.tables) if name not in left_out):
                progress(f"the table {table}")
                found += _first_findings(table, _different_rows(db, scratch, table, packages))
        return found


def _fill_scratch(log: Log, scratch: Database, streams: list[Stream], *, total: int, progress: Progress) -> None:
    projectors, buffered, done = projectors_by_kind(log.projections), BufferedDatabase(scratch), 0
    events = (event for stream in streams for event in log.events(stream))
    while page := list(islice(events, _EVENTS_PER_PAGE)):
        with buffered.transaction():
            for event in page:
                apply_event(buffered, projectors, event)
        done += len(page)
        progress(f"{done:,} of {total:,} events computed again")


def _first_findings(table: str, odd: Iterator[tuple[Row, str]]) -> list[Finding]:
    """The first rows that differ, and how many there are beside them."""
    remedy = _RESTORE if table == MIGRATIONS_TABLE else _REBUILD
    try:
        found = [Finding(table, f"row {_row_text(row)} {problem}", remedy) for row, problem in islice(odd, _ROWS_SHOWN)]
        more = sum(1 for _ in odd)
    except TapebookError as error:
        return [Finding(table, f"cannot be read to its end: {error}", remedy)]
    return [*found, Finding(table, f"and {more} more rows", remedy)] if more else found


def _different_rows(
    db: Database, scratch: Database, table: str, packages: tuple[str, ...]
) -> Iterator[tuple[Row, str]]:
    """The rows of which the stored table and the computed one do not both have the same, in order of their key."""
    about = scratch.all(SCRATCH_QUERIES.columns, table_name=table)
    key = [name for name, place in sorted(about, key=lambda column: column[1]) if place]
    columns = [*key, *(name for name, place in about if not place)]
    wide = len(key) or len(columns)
    query = Query.ordered_table(table, columns, by=columns[:wide])
    stored, computed = db.stream(query), scratch.stream(query)
    ours, theirs = next(stored, None), next(computed, None)
    while ours is not None or theirs is not None:
        mine, right = _sortable(ours, wide), _sortable(theirs, wide)
        if mine == right and _same_values(ours, theirs):
            ours, theirs = next(stored, None), next(computed, None)
            continue
        if ours is not None and (right is None or (mine is not None and mine <= right)):
            # Other packages may keep their migrations in the same database.
            if table != MIGRATIONS_TABLE or ours[0] in packages:
                yield ours, "is not in the log"
            ours = next(stored, None)
        if theirs is not None and (mine is None or (right is not None and right <= mine)):
            yield theirs, "is missing or was changed"
            theirs = next(computed, None)


def _same_values(ours: Row | None, theirs: Row | None) -> bool:
    # Text "1" and the number, or a number and a float, are different values.
    return ours == theirs and list(map(type, ours or ())) == list(map(type, theirs or ()))


def _sortable(row: Row | None, wide: int) -> list[tuple[int, Row | str | bytes | float]] | None:
    """A row's key in the order of the databases: nothing, numbers, text, bytes."""
    if row is None:
        return None
    return [
        (0, ()) if value is None else (2 if isinstance(value, str) else 3 if isinstance(value, bytes) else 1, value)
        for value in row[:wide]
    ]


def _row_text(row: Row) -> str:
    return ", ".join(map(repr, row))[:120]


# Rows wait in memory no longer than this, whatever the length of the log.
_EVENTS_PER_FLUSH = 2_000
_LOG_BROKEN = "{where}: {problem}; tables can only be computed from a log that is whole: {remedy}"


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
        tables, known = {found.where for found in odd}, {name for (name,) in fresh.all(SCRATCH_QUERIES.tables)}
        for found in odd:
            if broken or found.where not in known - {MIGRATIONS_TABLE}:
                raise Damaged(_LOG_BROKEN.format(**msgspec.structs.asdict(found)))
        if not tables:
            return RebuiltTables()
        return _rewrite_tables(log, db, tables, fresh=fresh, leases=leases, progress=progress)


def _rewrite_tables(
    log: Log, db: Database, tables: set[str], *, fresh: Database, leases: Sequence[Lease], progress: Progress
) -> RebuiltTables:
    streams = log.streams()
    heads = {stream: log.head(stream).seq for stream in streams}
    events = (event for stream in streams for event in log.events(stream, until=heads[stream]))
    buffered, projectors, done, total = (
        BufferedDatabase(db),
        projectors_by_kind(log.projections),
        0,
        sum(heads.values()),
    )
    with buffered.transaction():
        for table in sorted(tables):
            db.execute(Query.empty_table(table))
            # What a migration wrote is there before the first event.
            columns = [name for name, _ in fresh.all(SCRATCH_QUERIES.columns, table_name=table)]
            db.many(Query.insert(table, columns), fresh.all(Query.ordered_table(table, columns, by=columns)))
        while page := list(islice(events, _EVENTS_PER_FLUSH)):
            for write in _writes_to_tables(projectors, page, tables):
                values = write.values
                buffered.execute_row(
                    write.query, write.query.values_in_order(values) if isinstance(values, dict) else values
                )
            buffered.flush()
            done += len(page)
            progress(f"{done:,} of {total:,} events written again")
        for lease in leases:
            # A server lets others write meanwhile; who took a stream over has the last word.
            fence_write(db, lease.stream, lease)
    return RebuiltTables(tuple(sorted(tables)), total)


def _writes_to_tables(
    projectors: Mapping[str, Sequence[Projector]], events: Iterable[Event], tables: set[str]
) -> Iterator[Write]:
    """What events mean to some tables."""
    for event in events:
        for projector in projectors.get(event.kind, ()):
            yield from (write for write in projector(event) if not tables.isdisjoint(write.query.tables))
