"""Begins a tape again that was lost, from what the archive has of it: cold files, and a catalogue of small tables.

    catalogue/tape/000000012345-HASH.json.z    as the tape was at a commit; the newest counts

Rows that had left for the archive are read from there as they were before. Rows that had not are lost with the tape,
unless a backup has it: the seals of a tape that was begun again say up to which chunks it is whole, so that
`tapebook verify --tape` names what anchors know and the tape does not have. The next commit follows the newest one
that anybody knows of: no number is given twice.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged
from tapebook.tape.cold import ColdRows
from tapebook.tape.families import Family
from tapebook.tape.seals import SealWriter, TapeMark

COLD_FILES, CATALOGUES = "cold/tape/", "catalogue/tape/"
"""Where in the archive the rows of a tape are, and where its catalogues."""

_QUERIES = Queries.load("tapebook.tape", "recovery.sql")
# In an order in which they can be filled; columns as the queries of their names give them.
_TABLES = {
    "tape_symbols": (_QUERIES.symbols, ("symbol_id", "symbol", "kind")),
    "tape_set_backs": (_QUERIES.set_backs, ("seq", "known_before", "known_at")),
    "tape_delistings": (_QUERIES.delistings, ("symbol", "seq", "known_at", "bucket_ts", "settlement_e8")),
    "tape_registry": (_QUERIES.registry, ("register", "subject", "seq", "known_at", "record_json")),
}

Catalogue = dict[str, list[tuple[Any, ...]]]
"""The rows of the small tables, by table."""


class RecoveredTape(msgspec.Struct, frozen=True):
    """A tape that was begun again: how many files and rows of the archive it names, and its newest commit."""

    files: int
    rows: int
    seq: int


def encode_catalogue(db: Database, *, seq: int, newest: str = "") -> tuple[str, bytes] | None:
    """The small tables of a tape at a commit, and the key under which the archive keeps them.

    None when the `newest` key there names the same rows, whatever commit the tape had reached.
    """
    tables: Catalogue = {table: db.all(query) for table, (query, _) in _TABLES.items()}
    content = msgspec.json.encode(tables)
    name = f"{sha256_hex(content)}.json.z"
    # Compressing takes longer than all the rest, and most hours change nothing.
    return None if newest.endswith(name) else (f"{CATALOGUES}{seq:012d}-{name}", zlib.compress(content, 9))


def decode_catalogue(key: str, content: bytes) -> Catalogue:
    """The small tables as they were written; Damaged when they are others."""
    try:
        text = zlib.decompress(content)
        tables = msgspec.json.decode(text, type=Catalogue)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise Damaged(f"{key} cannot be read ({error}): restore the archive from a backup") from error
    if sha256_hex(text) not in key:
        raise Damaged(f"{key} is not what was written: restore the archive from a backup")
    return tables


def recover_tape(
    db: Database,
    families: Sequence[Family],
    *,
    keys: Iterable[str],
    fetch: Callable[[str], bytes | None],
    catalogue: Catalogue,
    newest: TapeMark,
) -> RecoveredTape:
    """Fills an empty tape with what the archive has of it, in one transaction; `newest` is the last commit known of."""
    # Files are read first and outside of the transaction: an archive may be far away.
    files = [_read_file(key, families, fetch) for key in sorted(keys)]
    head = max([(newest.seq, newest.known_at), *(file.newest for file in files)])
    checksum = newest.checksum if head[0] == newest.seq else None
    with db.transaction():
        for table, (_, columns) in _TABLES.items():
            if rows := catalogue.get(table):
                db.insert_rows(table, columns, [tuple(row) for row in rows])
        _add_symbols(db, files)
        seals = SealWriter(db)
        for file in files:
            file.add_notes(db, seals)
        db.execute(_QUERIES.add_commit, seq=head[0], known_at=head[1], checksum=checksum)
        # Of the first it is known only that it was before all others.
        first = min((file.first_known_at for file in files), default=head[1])
        db.execute(_QUERIES.add_commit, seq=1, known_at=first, checksum=None)
        seals.mark_unsealed(until=head[0])
    return RecoveredTape(len(files), sum(sum(file.counts.values()) for file in files), head[0])


class _ColdFile(msgspec.Struct, frozen=True):
    """What a file of the archive says about the tape it is from."""

    key: str
    family: Family
    granularity_sec: int
    counts: dict[int, int]
    symbols: list[str]
    newest: tuple[int, int]
    first_known_at: int

    def add_notes(self, db: Database, seals: SealWriter) -> None:
        """Notes where its chunks are, and that all up to them have left."""
        place = {"table_name": self.family.table, "granularity_sec": self.granularity_sec}
        columns = ("table_name", "granularity_sec", "chunk", "archive_key", "rows_moved")
        rows = [(*place.values(), chunk, self.key, count) for chunk, count in sorted(self.counts.items())]
        db.insert_rows("tape_archived", columns, rows)
        seals.note_left(self.family, granularity_sec=self.granularity_sec, chunk=max(self.counts))


def _read_file(key: str, families: Sequence[Family], fetch: Callable[[str], bytes | None]) -> _ColdFile:
    channel = key.removeprefix(COLD_FILES).partition("/")[0]
    found = _family_of(channel, families)
    if found is None:
        problem = f"the archive has rows of {channel!r}, which no source of the settings brings"
        raise Damaged(f"{problem}: name it in `sources`")
    content = fetch(key)
    if content is None or not content.startswith(b"PAR1"):
        raise Damaged(f"{key} is no file of market rows: restore the archive from a backup")
    rows = ColdRows(found[0], content, {})
    newest, first = rows.known_range()
    return _ColdFile(key, found[0], found[1], rows.chunk_counts(), rows.symbols(), newest, first)


def _family_of(channel: str, families: Sequence[Family]) -> tuple[Family, int] | None:
    """The family and the length of bars that a folder of the archive is named after."""
    by_name: Mapping[str, Family] = {family.channel: family for family in families}
    name, _, length = channel.rpartition("_")
    if channel in by_name and not by_name[channel].has_granularity:
        return by_name[channel], 0
    family = by_name.get(name)
    return (family, int(length)) if family is not None and family.has_granularity and length.isdigit() else None


def _add_symbols(db: Database, files: Sequence[_ColdFile]) -> None:
    """Gives symbols a number that the catalogue does not have: what was moved after it was written."""
    known = {symbol: number for number, symbol, _ in db.all(_QUERIES.symbols)}
    new = sorted({symbol for file in files for symbol in file.symbols} - known.keys())
    first = max(known.values(), default=0) + 1
    # The kind is put right by the source when it speaks of the symbol again.
    rows = [(number, symbol, "perp") for number, symbol in enumerate(new, first)]
    db.insert_rows("tape_symbols", ("symbol_id", "symbol", "kind"), rows)
