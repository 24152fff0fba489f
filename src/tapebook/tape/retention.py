"""How long rows stay in the tape's database: whole chunks leave for the archive once all of them is old enough.

A chunk is archived first and deleted after the archive has it, in one transaction with the note of
where it went; a process killed in between archives the same bytes again, under the same key.
Of midpoints, by far the most rows, only those of watched symbols are archived: nothing that was
decided is made from others. Imported history never leaves.

Commits are forgotten like rows, apart from the first, the newest and those of imported history:
every row says itself when and in which commit it became known.
"""

from collections.abc import Callable, Container, Iterator, Mapping

import msgspec

from tapebook.db import Database, Queries, Row
from tapebook.tape.families import ALL, MIDS, Family
from tapebook.tape.seals import Seals

_QUERIES = Queries.load("tapebook.tape")

# Chunks of imported history that are passed over in one step; each has its rows looked at.
_PASSED_AT_ONCE = 20
_COMMITS_AT_ONCE = 2_000

Keep = Mapping[str, int]
"""How many milliseconds each channel's rows stay; candles by granularity as `candles_60` and `candles_3600`; and how
many milliseconds `commits` do."""

Put = Callable[[bytes], str]
Watched = Callable[[], Container[str]]
"""The symbols whose midpoints are archived, as they are when it is asked."""


def retire(db: Database, put: Put, *, keep: Keep, now: int, watched: Watched) -> int:
    """Moves everything that is old enough out of the database; returns how many rows left."""
    return sum(retirement(db, put, keep=keep, now=now, watched=watched))


def retirement(db: Database, put: Put, *, keep: Keep, now: int, watched: Watched) -> Iterator[int]:
    """The same in steps of a few hundredths of a second, so that others can go first; gives the rows of each step."""
    for family in ALL:
        for granularity in (60, 3600) if family.has_granularity else (0,):
            name = f"{family.channel}_{granularity}" if granularity else family.channel
            # A chunk goes when its last bucket is old: the one that holds this moment is still needed.
            limit = family.chunk(now - keep[name], granularity)
            for where in _chunks(db, family, granularity=granularity, limit=limit):
                yield 0 if where is None else _move(db, put, family, where=where, watched=watched)
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


def _move(db: Database, put: Put, family: Family, *, where: Mapping[str, int], watched: Watched) -> int:
    with db.transaction():
        seals, rows = Seals(db), db.all(family.queries.chunk_rows, **where)
        if kept := _of_watched(db, rows, watched()) if family is MIDS else rows:
            key = put(msgspec.json.encode(kept))
            note = {"table_name": family.table, "archive_key": key, "rows_moved": len(kept)}
            if noted := db.one(_QUERIES.add_archived, **note, **where):
                seals.add_row("tape_archived", noted)
        db.run(family.queries.drop_chunk, **where)
        seals.remove(family, rows, **where)
    return len(rows)


def _of_watched(db: Database, rows: list[Row], watched: Container[str]) -> list[Row]:
    chosen = {symbol_id for symbol, symbol_id in db.all(_QUERIES.symbols) if symbol in watched}
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
                db.run(_QUERIES.forget_commits, after_seq=after, last_seq=old[-1])
                Seals(db).forget_commits(until=old[-1])
            after = old[-1]
        if len(old) < _COMMITS_AT_ONCE:
            return
        yield 0
