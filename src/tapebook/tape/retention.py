"""How long rows stay in the tape's database, and how rows are read that have left for the archive.

Whole chunks leave once all of a chunk is old enough, many in one Parquet file of a family and a month (`cold.py`). A
file is archived first, and given back whole; then chunk by chunk is compared with the rows as they are, noted and
deleted, each in one transaction. A process killed in between leaves chunks that are still here and in a file that does
not count for them: a note names the file and the chunk. Of midpoints, by far the most rows, only those of watched
symbols are archived: nothing that was decided is made from others. Imported history never leaves. Commits are forgotten
like rows, apart from the first, the newest and those of imported history: every row says itself when and in which
commit it became known.

When a read touches an archived chunk, `ArchivedRows` loads its rows into a scratch database of the same shape and
runs the same query on both. A scratch database that has grown too large is thrown away, so a process that runs for
months stays small.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.db import Database, Queries, Query, Row, connect, migrate
from tapebook.errors import Damaged
from tapebook.tape.cold import ColdRows, cold_folder, encode_rows
from tapebook.tape.families import ALL_FAMILIES, MIDS, Family
from tapebook.tape.seals import SealWriter, rows_digest

FetchObject = Callable[[str], bytes | None]

MOST_SCRATCH_ROWS = 500_000
"""Rows kept in the scratch database: some 60 MB, and more than a day of one-minute bars of all symbols."""

_PACKAGE = "tapebook.tape"
_QUERIES = Queries.load(_PACKAGE)
# Files that were read last: chunks of one are asked for one after the other.
_CACHED_FILES = 8
# A chunk can be archived twice when rows came late, so revisions begin at 0 again; within a commit there are few.
_REVISIONS_PER_COMMIT = 1_000


class ArchivedRows:
    """The archived part of a tape."""

    def __init__(
        self,
        db: Database,
        fetch: FetchObject,
        *,
        most_rows: int = MOST_SCRATCH_ROWS,
        packages: tuple[str, ...] = (_PACKAGE,),
    ) -> None:
        self._db = db
        self._fetch = fetch
        self._packages = packages
        self._most_rows = most_rows
        self._scratch: Database | None = None
        # Chunks that are in the scratch database, by table and object.
        self._loaded: dict[tuple[str, str], set[int]] = {}
        self._rows_loaded = 0
        # Cache of objects by table and key; nothing invalidates it, since objects never change.
        self._files: dict[tuple[str, str], ColdRows] = {}

    def rows_with_archived(self, family: Family, query: Query, *, first: int, last: int, **params: Any) -> list[Row]:
        """The rows of a query from the database and, where chunks were archived, from the archive, in bucket order."""
        rows = self._db.all(query, **params)
        # Behind the rows: a chunk that leaves in between is seen twice, never lost.
        where = {"table_name": family.table, "granularity_sec": params.get("granularity_sec", 0)}
        notes = self._db.all(_QUERIES.archived, first_chunk=first, last_chunk=last, **where)
        return self.add_archived(rows, notes, family, query=query, **params) if notes else rows

    def add_archived(
        self, rows: list[Row], notes: Sequence[Row], family: Family, *, query: Query, **params: Any
    ) -> list[Row]:
        """Rows that a query found in the database, and those it finds in archived chunks, in bucket order.

        `notes` name the chunks and where they are.
        """
        wanted: dict[str, set[int]] = {}
        for chunk, key in notes:
            wanted.setdefault(key, set()).add(chunk)
        away = self._scratch_with(family, wanted).all(query, **params)
        # Archived rows are older than those still here, so of one bucket they come first.
        return sorted(away + rows, key=lambda row: row[family.bucket_at])

    def first_chunk(self, family: Family, granularity_sec: int) -> int | None:
        """The oldest archived chunk."""
        row = self._db.one(_QUERIES.archived_first, table_name=family.table, granularity_sec=granularity_sec)
        return row[0] if row else None

    def _scratch_with(self, family: Family, wanted: Mapping[str, set[int]]) -> Database:
        """The scratch database with these chunks of these objects in it."""
        # Equal rows of two families would be one object.
        missing = {key: chunks - self._loaded.get((family.table, key), set()) for key, chunks in wanted.items()}
        if any(missing.values()) and self._rows_loaded > self._most_rows:
            self._close()
            missing = dict(wanted)
        if self._scratch is None:
            self._scratch = connect(":memory:")
            migrate(self._scratch, self._packages)
        # The same query must see the same of what a clock that was ahead has stamped.
        if set_backs := self._db.all(_QUERIES.set_backs):
            self._scratch.many(_QUERIES.add_set_back, set_backs)
        for key, chunks in missing.items():
            if chunks:
                self._rows_loaded += self._scratch.many(family.queries.add, self._rows_of(family, key, chunks))
                self._loaded.setdefault((family.table, key), set()).update(chunks)
        return self._scratch

    def _close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()
        self._scratch, self._rows_loaded = None, 0
        self._loaded.clear()

    def _rows_of(self, family: Family, key: str, chunks: set[int]) -> list[Row]:
        file = self._files.pop((family.table, key), None) or self._read_file(family, key)
        # The newest at the end: the first one goes.
        self._files[family.table, key] = file
        if len(self._files) > _CACHED_FILES:
            del self._files[next(iter(self._files))]
        # The order of revisions is that of their commits, whichever object they are in.
        return [
            (*row[:-3], row[-1] * _REVISIONS_PER_COMMIT + row[-3], *row[-2:]) for row in file.rows_of_chunks(chunks)
        ]

    def _read_file(self, family: Family, key: str) -> ColdRows:
        content = self._fetch(key)
        if content is None:
            raise Damaged(f"the archive has lost {key}, which holds market rows; restore it from a backup")
        return ColdRows(family, content, {symbol: number for symbol, number, _ in self._db.all(_QUERIES.symbols)})


# Chunks of imported history that are passed over in one step; each has its rows looked at.
_PASSED_AT_ONCE = 20
# A step must not hold the writer's lock for longer than a source can wait.
_COMMITS_AT_ONCE = 2_000

RetentionPeriods = Mapping[str, int]
"""How many milliseconds each channel's rows stay; candles by granularity as `candles_60` and `candles_3600`; and how
many milliseconds `commits` do. Rows of a channel that is not named stay: no source of the settings delivers it."""

PutObject = Callable[[str, bytes], str]
"""Stores a Parquet file in a folder of the archive; returns its key only when the archive has given it back whole."""

MOST_PART_ROWS = 50_000
"""Rows of one file: a few hundred kilobytes, which a read fetches as a whole."""

WatchedSymbols = Callable[[], Container[str]]
"""The symbols whose midpoints are archived, as they are when it is asked."""


def retire_rows(
    db: Database,
    put: PutObject,
    *,
    keep: RetentionPeriods,
    now: int,
    watched: WatchedSymbols,
    families: Iterable[Family] = ALL_FAMILIES,
) -> int:
    """Moves everything that is old enough out of the database at once; returns how many rows left."""
    return sum(retire_in_steps(db, put, keep=keep, now=now, watched=watched, families=families))


def retire_in_steps(
    db: Database,
    put: PutObject,
    *,
    keep: RetentionPeriods,
    now: int,
    watched: WatchedSymbols,
    families: Iterable[Family] = ALL_FAMILIES,
    wait_ms: int = 0,
) -> Iterator[int]:
    """Retires old rows in steps of a few hundredths of a second, so others can go between; gives the rows of each.

    With `wait_ms`, rows of a family that are old enough stay so much longer, unless they fill a file before.
    """
    for family in families:
        for granularity in (60, 3600) if family.has_granularity else (0,):
            name = f"{family.channel}_{granularity}" if granularity else family.channel
            if name not in keep:
                continue
            # A chunk goes when its last bucket is old: the one that holds this moment is still needed.
            limit, overdue = (family.chunk(now - keep[name] - wait, granularity) for wait in (0, wait_ms))
            mover = _FamilyMover(db, put, family, watched=watched)
            yield from mover.move_chunks(granularity, limit=limit, overdue=overdue)
    yield from _forget_commits(db, before=now - keep["commits"])


def _chunks(db: Database, family: Family, *, granularity: int, limit: int) -> Iterator[Mapping[str, int] | None]:
    """The chunks before a limit that have observed rows, oldest first; None as a pause among those that have none."""
    where, passed = {"chunk": -1, "granularity_sec": granularity}, 0
    while True:
        found = db.one(family.queries.next_chunk, after_chunk=where["chunk"], before_chunk=limit, **where)
        if found is None or found[0] is None:
            return
        where = {"chunk": found[0], "granularity_sec": granularity}
        if db.one(family.queries.observed_row, **where) is not None:
            yield where
        elif (passed := passed + 1) % _PASSED_AT_ONCE == 0:
            yield None


class _OldChunk(msgspec.Struct, frozen=True):
    """A chunk that is old enough: where it is, the hash of its rows, and those of them that are archived."""

    where: Mapping[str, int]
    digest: int
    kept: list[Row]


class _FamilyMover:
    """Moves old chunks of one family, those of a month together."""

    def __init__(self, db: Database, put: PutObject, family: Family, *, watched: WatchedSymbols) -> None:
        self._db, self._put, self._family, self._watched = db, put, family, watched

    def move_chunks(self, granularity: int, *, limit: int, overdue: int) -> Iterator[int]:
        """Moves the chunks before a limit in files that are full, or of a month, or have a chunk that is overdue."""
        part, folder, rows = list[_OldChunk](), "", 0
        for where in _chunks(self._db, self._family, granularity=granularity, limit=limit):
            yield 0
            if where is None:
                continue
            month = cold_folder(self._family, granularity, where["chunk"])
            if part and (month != folder or rows >= MOST_PART_ROWS):
                yield from self._archive_part(folder, part)
                part, rows = [], 0
            folder = month
            part.append(self._read_chunk(where)[0])
            # A file has the rows of watched symbols alone: of midpoints most rows are others.
            rows += len(part[-1].kept)
        if part and (part[0].where["chunk"] < overdue or rows >= MOST_PART_ROWS):
            yield from self._archive_part(folder, part)

    def _read_chunk(self, where: Mapping[str, int]) -> tuple[_OldChunk, list[Row]]:
        """A chunk as it is now, and all its rows: of many chunks only those are remembered that are archived."""
        rows = self._db.all(self._family.queries.chunk_rows, **where)
        kept = _of_watched(self._db, rows, self._watched()) if self._family is MIDS else rows
        return _OldChunk(where, rows_digest(rows), kept), rows

    def _archive_part(self, folder: str, part: Sequence[_OldChunk]) -> Iterator[int]:
        """Archives chunks of one month in one file, then deletes them one by one; gives the rows of each."""
        kept, key = [row for each in part for row in each.kept], None
        if kept:
            names = {number: symbol for symbol, number, _ in self._db.all(_QUERIES.symbols)}
            # Outside of a transaction: an archive may be far away, and others write to the tape meanwhile.
            key = self._put(folder, encode_rows(self._family, kept, names))
        for each in part:
            yield self._delete_chunk(each, key)

    def _delete_chunk(self, old: _OldChunk, key: str | None) -> int:
        db, family = self._db, self._family
        with db.transaction():
            now, rows = self._read_chunk(old.where)
            if now != old:
                # A row came late, or somebody watches one more symbol: the chunk is moved so, the next time.
                return 0
            seals = SealWriter(db)
            if key is not None and old.kept:
                note = {"table_name": family.table, "archive_key": key, "rows_moved": len(old.kept)}
                if noted := db.one(_QUERIES.add_archived, **note, **old.where):
                    seals.add_row("tape_archived", noted)
            db.execute(family.queries.drop_chunk, **old.where)
            seals.remove_rows(family, rows, **old.where)
        return len(rows)


def _of_watched(db: Database, rows: list[Row], watched: Container[str]) -> list[Row]:
    chosen = {symbol_id for symbol, symbol_id, _ in db.all(_QUERIES.symbols) if symbol in watched}
    return [row for row in rows if row[1] in chosen]


def _forget_commits(db: Database, *, before: int) -> Iterator[int]:
    first, head = db.one(_QUERIES.first_commit), db.one(_QUERIES.head)
    if first is None or head is None:
        return
    after = first[0]
    while True:
        found = db.all(_QUERIES.commits_after, after_seq=after, most=_COMMITS_AT_ONCE)
        old = [seq for seq, known_at in found if known_at < before and seq < head[0]]
        if old:
            with db.transaction():
                db.execute(_QUERIES.forget_commits, after_seq=after, last_seq=old[-1])
                SealWriter(db).forget_commits(until=old[-1])
            after = old[-1]
        if len(old) < _COMMITS_AT_ONCE:
            return
        yield 0
