"""Checksums of the tape: written with the rows, and compared by `tapebook verify --tape`.

What one commit writes to one chunk of a family is a batch: its rows in order of their key, packed, hashed. The seal
of a chunk is the sum of its batches, so it can be carried on without reading the chunk, taken back when rows leave
for the archive (`retention.py`), and computed for any commit of the past, which is what anchors name. Versions of
gaps, delistings and records are batches too. In tables that only grow every row is a batch; small tables that change
are hashed whole.

A chunk that was written before there were seals gets its own with the next row that is added to it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter

import msgspec

from tapebook.db import Database, Queries, Query, Row
from tapebook.domain.text import plural
from tapebook.domain.units import iso_text
from tapebook.errors import Damaged
from tapebook.log import Finding
from tapebook.tape.families import ALL_FAMILIES, Family

_QUERIES = Queries.load("tapebook.tape", "seals.sql")
_PACK = msgspec.msgpack.Encoder().encode
# Digests are added and subtracted modulo this, so that rows can leave a checksum in any order.
_MODULUS = 2**128
_LEFT = -1
_COMMITS = ("tape_commits", 0, 0)
_ALL = 2**62

HOUR_MARKS = "tape_unrolled_hours"
"""The table of hours that are to be rolled up."""

BY_COMMIT = {
    "tape_gaps": _QUERIES.tape_gaps,
    "tape_delistings": _QUERIES.tape_delistings,
    "tape_registry": _QUERIES.tape_registry,
}
BY_ROW = {
    "tape_archived": _QUERIES.tape_archived,
    "tape_recordings": _QUERIES.tape_recordings,
    "tape_set_backs": _QUERIES.tape_set_backs,
}
WHOLE = {
    "tape_symbols": _QUERIES.tape_symbols,
    "tape_channels": _QUERIES.tape_channels,
    HOUR_MARKS: _QUERIES.tape_unrolled_hours,
    "tape_problems": _QUERIES.tape_problems,
    "tape_quarantine": _QUERIES.tape_quarantine,
    # The snapshot that a migration wrote, whose checksum it brought along.
    "tape_registry_seed": _QUERIES.tape_registry_seed,
}

_OWN_TABLES = frozenset((*BY_COMMIT, *BY_ROW, *WHOLE, _COMMITS[0], ""))

SealPlace = tuple[str, int, int]
"""A table, the length of its bars or 0, and a chunk."""


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """How many rows a chunk or a table has, the sum of their batches, and the newest commit among them."""

    rows: int = 0
    digest: str = ""
    seq: int = 0

    def plus(self, rows: list[Row], *, seq: int) -> "Seal":
        """The seal after one more batch."""
        total = (int(self.digest or "0", 16) + rows_digest(rows)) % _MODULUS
        return Seal(self.rows + len(rows), f"{total:032x}", max(seq, self.seq))

    def minus(self, rows: list[Row]) -> "Seal":
        """The seal after a batch has left."""
        total = (int(self.digest or "0", 16) - rows_digest(rows)) % _MODULUS
        return Seal(self.rows - len(rows), f"{total:032x}", self.seq)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return self.rows == 0 and not self.digest.strip("0")


class TapeMark(msgspec.Struct, frozen=True):
    """The tape at one moment, for an anchor: its newest commit, and the seals that changed since an earlier one."""

    seq: int = 0
    known_at: int = 0
    checksum: int | None = None
    seals: tuple[tuple[str, int, int, int, str, int], ...] = ()


def rows_digest(rows: list[Row]) -> int:
    """The hash of rows in their order."""
    return int.from_bytes(hashlib.sha256(_PACK(rows)).digest()[:16], "big")


def commit_checksum(seq: int, known_at: int, rows_written: int, known_basis: str) -> int:
    """The checksum of a commit's own row, in the 63 bits that both databases hold."""
    packed = _PACK((seq, known_at, rows_written, known_basis))
    return int.from_bytes(hashlib.sha256(packed).digest()[:8], "big") >> 1


class SealWriter:
    """Carries seals on inside one transaction of the tape."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._touched: set[str] = set()
        # Rows of this commit by their place, with the seal of what was there before: a commit is one batch.
        self._batches: dict[tuple[SealPlace, int], tuple[Seal, list[Row]]] = {}

    def add_rows(self, family: Family, rows: list[Row], *, seq: int) -> None:
        """Seals what a commit has written to a family; the rows stand in order of their key."""
        rows = family.exact_values(rows)
        for (granularity, chunk), batch in _by_chunk(family, rows).items():
            place = (family.table, granularity, chunk)
            known = self._batches.get((place, seq))
            if known is None:
                known = self._seal(place) or self._seal_of_older_rows(family, place, before=seq), batch
            else:
                # What was said again and came once more is one row.
                known = known[0], sorted(dict.fromkeys([*known[1], *batch]), key=family.key_of)
            self._batches[place, seq] = known
            self._put(place, known[0].plus(known[1], seq=seq))

    def remove_rows(self, family: Family, rows: list[Row], *, granularity_sec: int, chunk: int) -> None:
        """Takes rows that left out of the seal of their chunk, and notes up to where chunks have left."""
        place = (family.table, granularity_sec, chunk)
        seal = self._seal(place)
        if seal is not None:
            for batch in _by_commit(family, family.exact_values(rows)).values():
                seal = seal.minus(batch)
            self._put(place, seal)
        self.note_left(family, granularity_sec=granularity_sec, chunk=chunk)

    def note_left(self, family: Family, *, granularity_sec: int, chunk: int) -> None:
        """Notes that chunks have left up to one."""
        left = self._seal((family.table, granularity_sec, _LEFT)) or Seal()
        self._put((family.table, granularity_sec, _LEFT), Seal(max(left.rows, chunk + 1)))

    def mark_unsealed(self, *, until: int) -> None:
        """Notes that commits up to one may be without checksums, as those of a tape that was begun again."""
        self._put(("", 0, 0), Seal(seq=until))

    def add_commit(self, table: str, *, seq: int) -> None:
        """Seals what a commit has written to a table of versions."""
        place, query = (table, 0, 0), BY_COMMIT[table]
        before = self._seal(place)
        if before is None:
            before = _sum_of_batches(_batches_by_commit(self._db.all(query, since_seq=0, until_seq=seq - 1)))
        rows = self._db.all(query, since_seq=seq, until_seq=seq)
        if rows:
            self._put(place, before.plus(rows, seq=seq))

    def add_row(self, table: str, row: Row) -> None:
        """Seals a row that was added to a table that only grows."""
        place = (table, 0, 0)
        before = self._seal(place)
        if before is None:
            seal = _sum_of_batches((0, [each]) for each in self._db.all(BY_ROW[table]))
        else:
            seal = before.plus([row], seq=0)
        self._put(place, seal)

    def table_seal(self, table: str) -> Seal | None:
        """The seal of a table as it was before this transaction."""
        return self._seal((table, 0, 0))

    def mark_changed(self, table: str) -> None:
        """A small table has changed: it is hashed before the transaction ends."""
        self._touched.add(table)

    def seal_changed_tables(self) -> None:
        """Hashes the small tables that have changed."""
        for table in sorted(self._touched):
            rows = self._db.all(WHOLE[table])
            self._put((table, 0, 0), Seal().plus(rows, seq=0))
        self._touched.clear()
        self._batches.clear()

    def import_commit(self) -> None:
        """Counts a commit of imported history, which is never forgotten; it is in its table already."""
        known = self._seal(_COMMITS) or Seal()
        self._put(_COMMITS, msgspec.structs.replace(known, rows=self._db.all(_QUERIES.imports)[0][0]))

    def forget_commits(self, *, until: int) -> None:
        """Notes up to where commits were forgotten."""
        known = self._seal(_COMMITS) or Seal(self._db.all(_QUERIES.imports)[0][0])
        self._put(_COMMITS, msgspec.structs.replace(known, seq=until))

    def _seal(self, place: SealPlace) -> Seal | None:
        row = self._db.one(_QUERIES.seal, **_place_params(place))
        return Seal(*row) if row else None

    def _put(self, place: SealPlace, seal: Seal) -> None:
        if place[2] >= 0 and seal.is_empty and place[0] not in _OWN_TABLES:
            self._db.execute(_QUERIES.drop_seal, **_place_params(place))
            return
        values = {"rows_sealed": seal.rows, "digest": seal.digest, "seq": seal.seq}
        self._db.execute(_QUERIES.put_seal, **_place_params(place), **values)

    def _seal_of_older_rows(self, family: Family, place: SealPlace, *, before: int) -> Seal:
        """The seal of rows that were there before there were seals; on a newer tape there are none."""
        if not unsealed_until(self._db):
            return Seal()
        rows = self._db.all(family.queries.whole_chunk, granularity_sec=place[1], chunk=place[2])
        return _seal_of_rows(family, [row for row in rows if row[-1] < before])


def unsealed_until(db: Database) -> int:
    """The newest commit that was written before there were seals; 0 when there is none."""
    row = db.one(_QUERIES.seal, table_name="", granularity_sec=0, chunk=0)
    return row[2] if row else 0


def tape_mark(db: Database, *, after: int) -> TapeMark:
    """The tape as it is now, with the seals that commits after one have changed."""
    with db.snapshot():
        last = db.one(_QUERIES.newest_commit)
        if last is None:
            return TapeMark()
        return TapeMark(last[0], last[1], last[4], tuple(db.all(_QUERIES.seals_since, after_seq=after)))


def _place_params(place: SealPlace) -> dict[str, str | int]:
    return {"table_name": place[0], "granularity_sec": place[1], "chunk": place[2]}


def _by_chunk(family: Family, rows: list[Row]) -> dict[tuple[int, int], list[Row]]:
    # Rows stand in order of their chunk: a frame lies in one, and its bars are of one length.
    if rows[0][0] == rows[-1][0] and (not family.has_granularity or len({row[2] for row in rows}) == 1):
        return {(rows[0][2] if family.has_granularity else 0, rows[0][0]): rows}
    found: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row[2] if family.has_granularity else 0, row[0]), []).append(row)
    return found


def _by_commit(family: Family, rows: Iterable[Row]) -> dict[int, list[Row]]:
    """Batches by commit, each in order of its key."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row[-1], []).append(row)
    for batch in found.values():
        batch.sort(key=family.key_of)
    return found


def _batches_by_commit(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    return ((seq, list(batch)) for seq, batch in groupby(rows, key=itemgetter(-1)))


def _sum_of_batches(batches: Iterable[tuple[int, list[Row]]]) -> Seal:
    seal = Seal()
    for seq, batch in batches:
        seal = seal.plus(batch, seq=seq)
    return seal


def _seal_of_rows(family: Family, rows: list[Row], *, until: int = _ALL) -> Seal:
    """The seal of a chunk's rows, as it was at a commit."""
    batches = _by_commit(family, family.exact_values(rows))
    return _sum_of_batches((seq, batch) for seq, batch in sorted(batches.items()) if seq <= until)


_SHOWN = 5
_BACKUP = "restore tape.db from a backup"
_AGAIN = "import the bars again, or let `tapebook ingest` fetch what the exchange has: a correction is a new revision"
_REMEDY = {
    "hyperliquid_candles": _AGAIN,
    "hyperliquid_funding_rates": "import the rates again: a correction is a new revision",
    "tape_problems": "none is needed: what goes wrong again is noted again",
    "tape_channels": "none is needed for decisions: only `doctor` and a start of `ingest` read it",
}


class UnsealedCounts(msgspec.Struct):
    """How many rows are older than checksums, and how many were compared."""

    rows: int = 0
    compared: int = 0


def check_tape(
    db: Database,
    *,
    anchored: Mapping[SealPlace, Seal],
    counts: UnsealedCounts,
    progress: Callable[[str, int], None],
    families: Iterable[Family] = ALL_FAMILIES,
) -> Iterator[Finding]:
    """Compares every row of the tape with its checksum, and checksums with those that anchors name.

    Rows are read chunk by chunk. `progress` gets a table and how many of its rows have been read.
    """
    with db.snapshot():
        try:
            seals = {(row[0], row[1], row[2]): Seal(*row[3:]) for row in db.all(_QUERIES.seals)}
        except Damaged as error:
            yield Finding("tape_seals", str(error), _BACKUP)
            return
        older = seals.get(("", 0, 0), Seal()).seq
        imported = {row[0] for row in db.all(_QUERIES.imported)}
        for family in families:
            check = _FamilyCheck(family, seals, anchored, older, imported)
            found = check.findings(db, counts)
            yield from _first_findings(_without_progress(found, progress, family.table), family.table)
        for table, query in (BY_COMMIT | BY_ROW | WHOLE).items():
            place = (table, 0, 0)
            check_one = _check_table(db, table, query, seals.get(place), anchor=anchored.get(place), older=older)
            yield from _readable_findings(table, check_one)
        yield from _readable_findings(
            "tape_commits", _check_commits(db, seals.get(("tape_commits", 0, 0)), older=older)
        )


def sealed_places(db: Database) -> tuple[set[SealPlace], dict[tuple[str, int], int]]:
    """Every chunk and table with a seal; and by table and length of bars, before which chunk chunks have left."""
    rows = db.all(_QUERIES.seals)
    return {(row[0], row[1], row[2]) for row in rows}, {(row[0], row[1]): row[3] for row in rows if row[2] == _LEFT}


def commit_at(db: Database, seq: int) -> tuple[int, int | None] | None:
    """When a commit was known, and its checksum; None when the tape does not have it."""
    row = db.one(_QUERIES.commit_row, seq=seq)
    return (row[1], row[4]) if row else None


def _without_progress(
    found: Iterable[Finding | int], progress: Callable[[str, int], None], table: str
) -> Iterator[Finding]:
    """Findings alone; the numbers of rows between them are progress."""
    for each in found:
        if isinstance(each, int):
            progress(table, each)
        else:
            yield each


def _first_findings(found: Iterator[Finding], table: str) -> Iterator[Finding]:
    """The first findings of a table, and how many there are beside them."""
    count = 0
    for count, each in enumerate(_readable_findings(table, found), 1):
        if count <= _SHOWN:
            yield each
    if count > _SHOWN:
        yield Finding(table, f"and {count - _SHOWN} more chunks", _REMEDY.get(table, _BACKUP))


def _readable_findings(table: str, found: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from found
    except (Damaged, TypeError) as error:
        # Values of other types than the table's cannot be put in order.
        yield Finding(table, f"cannot be read to its end: {error}", _BACKUP)


class _FamilyCheck(msgspec.Struct, frozen=True):
    """What the rows of a family are compared with; up to `older` they may be without checksum."""

    family: Family
    seals: Mapping[SealPlace, Seal]
    anchored: Mapping[SealPlace, Seal]
    older: int
    imported: set[int]

    def findings(self, db: Database, counts: UnsealedCounts) -> Iterator[Finding | int]:
        """Chunks that differ, and between them how many rows have been read."""
        family, read = self.family, 0
        unseen = {place for place in (*self.seals, *self.anchored) if place[0] == family.table and place[2] >= 0}
        length = itemgetter(2) if family.has_granularity else lambda row: 0
        for (granularity, chunk), group in groupby(
            db.stream(family.queries.all_rows), lambda row: (length(row), row[0])
        ):
            rows, place = list(group), (family.table, granularity, chunk)
            unseen.discard(place)
            if place not in self.seals and max(row[-1] for row in rows) <= self.older:
                counts.rows += len(rows)
            else:
                counts.compared += len(rows)
                if problem := self._problem(place, rows):
                    yield Finding(_place_text(family, place), problem, _REMEDY.get(family.table, _BACKUP))
            read += len(rows)
            yield read
        for place in sorted(unseen):
            if problem := self._loss(place):
                yield Finding(_place_text(family, place), problem, _REMEDY.get(family.table, _BACKUP))

    def _problem(self, place: SealPlace, rows: list[Row]) -> str | None:
        seal, anchor = self.seals.get(place), self.anchored.get(place)
        if seal is None:
            return f"no checksum of {plural(len(rows), 'row')}"
        if len(rows) != seal.rows:
            return f"{plural(len(rows), 'row')} here, {seal.rows:,} written"
        if _seal_of_rows(self.family, rows).digest != seal.digest:
            return f"a row of {len(rows):,} was changed: the checksum is another"
        if anchor is None or (self._has_left(place) and not self._are_observed(rows, until=anchor.seq)):
            return None
        if _seal_of_rows(self.family, rows, until=anchor.seq).digest != anchor.digest:
            return "rows and their checksum differ from the anchor in the archive"
        return None

    def _loss(self, place: SealPlace) -> str | None:
        sealed = self.seals.get(place)
        if sealed is not None and not sealed.rows:
            return "rows that left for the archive were not those that were written"
        if sealed is None and self._has_left(place):
            return None
        return f"lost: {plural((sealed or self.anchored[place]).rows, 'row')}"

    def _has_left(self, place: SealPlace) -> bool:
        """Whether rows of a chunk may have left for the archive."""
        return place[2] < self.seals.get((place[0], place[1], _LEFT), Seal()).rows

    def _are_observed(self, rows: list[Row], *, until: int) -> bool:
        """Whether rows that were not imported are still here; they all leave at once."""
        return any(row[-1] <= until and row[-1] not in self.imported for row in rows)


def _place_text(family: Family, place: SealPlace) -> str:
    begins = place[2] * (place[1] * family.span_per_granularity if place[1] else family.span_ms)
    length = f" of {place[1]} s" if place[1] else ""
    try:
        return f"{family.table}{length} from {iso_text(begins)}"
    except (ValueError, OverflowError):
        return f"{family.table}{length}, chunk {place[2]}"


def _check_table(
    db: Database, table: str, query: Query, seal: Seal | None, *, anchor: Seal | None, older: int
) -> Iterator[Finding]:
    rows = db.all(query, **({"since_seq": 0, "until_seq": _ALL} if table in BY_COMMIT else {}))
    if table in BY_COMMIT:
        found = _sum_of_batches(_batches_by_commit(rows))
    elif table in BY_ROW:
        found = _sum_of_batches((0, [row]) for row in rows)
    else:
        found = Seal().plus(rows, seq=0)
    if seal is None:
        if rows and not older:
            yield Finding(table, f"no checksum of {plural(len(rows), 'row')}", _REMEDY.get(table, _BACKUP))
    elif (found.rows, found.digest or found.rows) != (seal.rows, seal.digest or seal.rows):
        difference = (
            "a row was changed" if found.rows == seal.rows else f"{plural(found.rows, 'row')}, {seal.rows:,} written"
        )
        yield Finding(table, f"{difference}: the checksum is another", _REMEDY.get(table, _BACKUP))
    elif anchor is not None and table in BY_COMMIT:
        then = _sum_of_batches((seq, batch) for seq, batch in _batches_by_commit(rows) if seq <= anchor.seq)
        if then.digest != anchor.digest:
            yield Finding(table, "rows and their checksum differ from the anchor in the archive", _BACKUP)


def _check_commits(db: Database, noted: Seal | None, *, older: int) -> Iterator[Finding]:
    """Every commit's own row: the first, those of imported history, and all after the last one that was forgotten."""
    forgotten = max(older, noted.seq if noted else 0)
    imported, expected = 0, 1
    for seq, known_at, rows_written, basis, checksum in db.stream(_QUERIES.commit_rows):
        if seq > older and checksum != commit_checksum(seq, known_at, rows_written, basis):
            yield Finding(f"tape_commits, commit {seq}", "it was changed: the checksum is another", _BACKUP)
            return
        if seq > expected:
            yield Finding(f"tape_commits, commit {max(expected, forgotten + 1)}", "it is missing", _BACKUP)
            return
        imported += basis == "assumed"
        expected = seq + 1 if seq > forgotten else forgotten + 1
    if noted is not None and imported != noted.rows:
        problem = f"{plural(imported, 'commit')} of imported history, {noted.rows:,} written"
        yield Finding("tape_commits", problem, _BACKUP)
