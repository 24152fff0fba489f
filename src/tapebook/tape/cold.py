"""Rows that left the tape's database, read back from the archive when a read needs them.

A chunk is archived as one object (`retention.py`). When a read touches an archived chunk, its rows
are loaded into a scratch database of the same shape, and the same query runs on both. A scratch
database that has grown too large is thrown away, so a process that runs for months stays small.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tapebook.db import Database, Queries, Query, Row, connect, migrate
from tapebook.errors import Damaged
from tapebook.tape.families import Family

Fetch = Callable[[str], bytes | None]

MOST_ROWS = 500_000
"""Rows kept in the scratch database: some 60 MB, and more than a day of one-minute bars of all symbols."""

_PACKAGE = "tapebook.tape"
_QUERIES = Queries.load(_PACKAGE)
# A chunk can be archived twice when rows came late, so revisions begin at 0 again; within a commit there are few.
_REVISIONS_PER_COMMIT = 1_000


class Cold:
    """The archived part of a tape."""

    def __init__(self, db: Database, fetch: Fetch, *, most_rows: int = MOST_ROWS) -> None:
        self._db = db
        self._fetch = fetch
        self._most_rows = most_rows
        self._scratch: Database | None = None
        self._loaded: set[tuple[str, str]] = set()
        self._rows_loaded = 0

    def both(self, family: Family, query: Query, *, first: int, last: int, **params: Any) -> list[Row]:
        """The rows of a query from the database and, where chunks were archived, from the archive, in bucket order."""
        rows = self._db.all(query, **params)
        where = {"table_name": family.table, "granularity_sec": params.get("granularity_sec", 0)}
        archived = self._db.all(_QUERIES.archived, first_chunk=first, last_chunk=last, **where)
        # An object may hold the rows of several chunks.
        keys = list(dict.fromkeys(row[1] for row in archived))
        if not keys:
            return rows
        away = self._opened(family, keys).all(query, **params)
        # Archived rows are older than those still here, so of one bucket they come first.
        return sorted(away + rows, key=lambda row: row[family.bucket_at])

    def chunk_before(self, family: Family, chunk: int, granularity_sec: int = 0) -> int | None:
        """The newest archived chunk before another one."""
        where = {"table_name": family.table, "granularity_sec": granularity_sec, "chunk": chunk}
        row = self._db.one(_QUERIES.archived_before, **where)
        return row[0] if row else None

    def first_chunk(self, family: Family, granularity_sec: int) -> int | None:
        """The oldest archived chunk."""
        row = self._db.one(_QUERIES.archived_first, table_name=family.table, granularity_sec=granularity_sec)
        return row[0] if row else None

    def _opened(self, family: Family, keys: list[str]) -> Database:
        """The scratch database with these objects in it; equal rows of two families would be one object."""
        missing = [(family.table, key) for key in keys if (family.table, key) not in self._loaded]
        if missing and self._rows_loaded > self._most_rows:
            self._close()
            missing = [(family.table, key) for key in keys]
        if self._scratch is None:
            self._scratch = connect(":memory:")
            migrate(self._scratch, (_PACKAGE,))
        # The same query must see the same of what a clock that was ahead has stamped.
        if set_backs := self._db.all(_QUERIES.set_backs):
            self._scratch.many(_QUERIES.add_set_back, set_backs)
        for place in missing:
            self._rows_loaded += self._scratch.many(family.queries.add, self._rows(family, place[1]))
            self._loaded.add(place)
        return self._scratch

    def _close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()
        self._scratch, self._rows_loaded = None, 0
        self._loaded.clear()

    def _rows(self, family: Family, key: str) -> list[Row]:
        content = self._fetch(key)
        if content is None:
            raise Damaged(f"the archive has lost {key}, which holds market rows; restore it from a backup")
        rows = msgspec.json.decode(content, type=list[tuple[Any, ...]])
        # The chunk is that of today, however it was counted when the row left. The order of revisions is that of their
        # commits, whichever object they are in.
        return [
            (family.chunk_of(row), *row[1:-3], row[-1] * _REVISIONS_PER_COMMIT + row[-3], *row[-2:]) for row in rows
        ]
