"""How long rows stay in the tape's database: whole chunks leave for the archive once all of them is old enough.

A chunk is archived first and deleted after the archive has it, in one transaction with the note of
where it went; a process killed in between archives the same bytes again, under the same key.
Imported history never leaves.
"""

from collections.abc import Callable, Mapping

import msgspec

from tapebook.db import Database, Queries
from tapebook.tape.families import ALL, Family

_QUERIES = Queries.load("tapebook.tape")

Keep = Mapping[str, int]
"""How many milliseconds each channel's rows stay; candles by granularity as `candles_60` and `candles_3600`."""


def retire(db: Database, put: Callable[[bytes], str], *, keep: Keep, now: int) -> int:
    """Moves everything that is old enough into the archive; returns how many rows left."""
    moved = 0
    for family in ALL:
        for granularity in (60, 3600) if family.has_granularity else (0,):
            name = f"{family.channel}_{granularity}" if granularity else family.channel
            moved += _retire(db, put, family, granularity=granularity, before=now - keep[name])
    return moved


def _retire(db: Database, put: Callable[[bytes], str], family: Family, *, granularity: int, before: int) -> int:
    # A chunk goes when its last bucket is old: the one that holds `before` is still needed.
    limit, moved = family.chunk(before, granularity), 0
    while True:
        found = db.one(family.queries.oldest_chunk, chunk=limit, granularity_sec=granularity)
        if found is None or found[0] is None:
            return moved
        moved += _move(db, put, family, chunk=found[0], granularity=granularity)


def _move(db: Database, put: Callable[[bytes], str], family: Family, *, chunk: int, granularity: int) -> int:
    where = {"chunk": chunk, "granularity_sec": granularity}
    with db.transaction():
        rows = db.all(family.queries.chunk_rows, **where)
        key = put(msgspec.json.encode(rows))
        note = {"table_name": family.table, "archive_key": key, "rows_moved": len(rows)}
        db.run(_QUERIES.add_archived, **note, **where)
        db.run(family.queries.drop_chunk, **where)
    return len(rows)
