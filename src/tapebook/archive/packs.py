"""Packs: many small objects in one object of the archive, compressed together, with an index in front.

    TBPACK1\\n | number of objects (4) | for each: sha256 (32), group's place, its size, offset in it, size (4 each)
    groups of objects, each compressed as one (xz)

Packets of one agent say nearly the same from tick to tick: together they take a tenth of what each takes alone, and
an archive that is paid by the request gets one for hundreds of objects. The key of a pack is made from its content.

`PackIndex` is a local file that says which pack holds an object. It is a cache: packs say it themselves, and it is
made again from them when it is gone, damaged, or older than the archive.
"""

import lzma
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from tapebook.archive.port import PACK_PREFIX, digest_of_key, key_of_digest
from tapebook.db import Database, Queries, connect, migrate
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import make_folders
from tapebook.errors import Damaged, HomeError, StoreFailed

_MAGIC = b"TBPACK1\n"
_COUNT = struct.Struct(">I")
_ENTRY = struct.Struct(">32sIIII")
# Smaller groups compress worse, larger ones take longer to read one object from: a decision of a day's packs takes 418
# bytes in groups of 64, 350 in groups of 128, 285 in groups of 256.
_GROUP_OBJECTS, _GROUP_BYTES = 128, 1_000_000
# A dictionary as large as a group; the usual one takes ten times the memory and finds no more.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
_QUERIES = Queries.load("tapebook.archive")


class PackedPlace(msgspec.Struct, frozen=True):
    """Where an object lies in a pack: its group, and the part of it."""

    key: str
    group_at: int
    group_bytes: int
    offset: int
    size: int


def make_pack(contents: Mapping[str, bytes]) -> bytes:
    """Objects by their keys as one pack."""
    entries: list[tuple[bytes, int, int, int, int]] = []
    groups: list[bytes] = []
    at = len(_MAGIC) + _COUNT.size + len(contents) * _ENTRY.size
    for group in _groups(contents):
        packed = lzma.compress(b"".join([content for _, content in group]), format=lzma.FORMAT_XZ, filters=_FILTERS)
        offset = 0
        for key, content in group:
            entries.append((digest_of_key(key), at, len(packed), offset, len(content)))
            offset += len(content)
        groups.append(packed)
        at += len(packed)
    index = b"".join([_ENTRY.pack(*entry) for entry in entries])
    return b"".join([_MAGIC, _COUNT.pack(len(entries)), index, *groups])


def pack_key(pack: bytes) -> str:
    """The key of a pack."""
    digest = sha256_hex(pack)
    return f"{PACK_PREFIX}{digest[:2]}/{digest}"


def pack_places(pack: bytes) -> list[PackedPlace]:
    """What a pack holds; Damaged when it is no pack."""
    start = len(_MAGIC) + _COUNT.size
    try:
        (count,) = _COUNT.unpack_from(pack, len(_MAGIC))
        rows = list(_ENTRY.iter_unpack(pack[start : start + count * _ENTRY.size]))
    except struct.error as error:
        raise Damaged(f"a pack of the archive cannot be read ({error}); restore it from a backup") from error
    if not pack.startswith(_MAGIC) or len(rows) != count:
        raise Damaged("a pack of the archive cannot be read (it does not begin like one); restore it from a backup")
    return [PackedPlace(key_of_digest(digest), *place) for digest, *place in rows]


def packed_group(pack: bytes, place: PackedPlace) -> bytes:
    """The objects of a group, one after the other; Damaged when it is torn."""
    try:
        return lzma.decompress(pack[place.group_at : place.group_at + place.group_bytes])
    except lzma.LZMAError as error:
        raise Damaged(f"a pack of the archive cannot be unpacked ({error}); restore it from a backup") from error


def _groups(contents: Mapping[str, bytes]) -> Iterator[list[tuple[str, bytes]]]:
    """The objects in groups; alike ones stand together: packets, which are long, apart from replies."""
    ordered = iter(sorted(contents.items(), key=lambda each: len(each[1]) > 2_000))
    while some := list(islice(ordered, _GROUP_OBJECTS)):
        group: list[tuple[str, bytes]] = []
        held = 0
        for key, content in some:
            if group and held + len(content) > _GROUP_BYTES:
                yield group
                group, held = [], 0
            group.append((key, content))
            held += len(content)
        yield group


class PackIndex:
    """Which pack of an archive holds which object, in a file that can be made again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: Database | None = None

    def find(self, key: str) -> tuple[str, PackedPlace] | None:
        """The pack of an object and where in it, as far as the index knows."""
        if self._db is None and not self._path.exists():
            return None
        row = self._open().one(_QUERIES.place, digest=digest_of_key(key))
        return None if row is None else (row[0], PackedPlace(key, *row[1:]))

    def packs(self) -> set[str]:
        """The packs that are in the index."""
        if self._db is None and not self._path.exists():
            return set()
        return {key for (key,) in self._open().all(_QUERIES.packs)}

    def add(self, key: str, places: Sequence[PackedPlace]) -> None:
        """Takes in what a pack holds; once more changes nothing."""
        db = self._open()
        with db.transaction():
            db.execute(_QUERIES.add_pack, key=key)
            row = db.one(_QUERIES.pack, key=key)
            number = row[0] if row else 0
            db.many(_QUERIES.add_place, [_place_row(number, each) for each in places])

    def keys(self) -> Iterator[str]:
        """Every object of every pack."""
        if self._db is not None or self._path.exists():
            for (digest,) in self._open().stream(_QUERIES.digests):
                yield key_of_digest(bytes(digest))

    def refresh(self, packs: Iterable[str], fetch: Callable[[str], bytes | None]) -> bool:
        """Takes in packs that it does not know yet; whether there were any."""
        known, new = self.packs(), False
        for key in packs:
            content = None if key in known else fetch(key)
            if content is not None:
                self.add(key, pack_places(content))
                new = True
        return new

    def discard(self) -> None:
        """Deletes the file, to be made again."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").unlink()

    def close(self) -> None:
        """Ends the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _open(self) -> Database:
        if self._db is None:
            self._db = self._connect()
        return self._db

    def _connect(self) -> Database:
        try:
            make_folders(self._path.parent, durable=False)
            return _index_database(str(self._path))
        except (Damaged, StoreFailed):
            # Nothing is lost with it.
            self.discard()
            return _index_database(str(self._path))
        except (HomeError, OSError):
            # A home that cannot be written is still read.
            return _index_database(":memory:")


def _index_database(place: str) -> Database:
    db = connect(place, durable=False)
    migrate(db, ("tapebook.archive",))
    return db


def _place_row(pack: int, place: PackedPlace) -> tuple[bytes, int, int, int, int, int]:
    return digest_of_key(place.key), pack, place.group_at, place.group_bytes, place.offset, place.size
