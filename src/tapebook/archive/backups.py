"""Backups in an archive: files cut into pieces that are kept once, and a manifest for each backup.

    backups/manifests/20261118T003000.000Z   which files there were, of which pieces, and what the log said then
    backups/chunks/ab/abcd…                  a piece of a file, compressed (zstd), under the hash of its bytes

A manifest is written last: what a killed backup left is no backup. A piece that did not change since an earlier backup
is not stored again, so a backup every hour costs what changed in the hour. Backups that are no longer kept are deleted,
first their manifests, then the pieces that no other names.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tapebook.archive.port import BACKUP_PREFIX, CHUNK_PREFIX, Archive, verified_content
from tapebook.domain.canonical import CONTENT_PREFIX, content_key
from tapebook.domain.files import private_opener
from tapebook.domain.units import DAY, iso_text
from tapebook.errors import BadInput, Damaged, UnknownName

_MANIFESTS = f"{BACKUP_PREFIX}manifests/"
# Pages of a database stay where they are, so pieces of a fixed size find what did not change. Smaller ones would find
# more of it, and cost more requests.
_CHUNK_BYTES = 1 << 20
_LEVEL = 6


class BackedUpFile(msgspec.Struct, frozen=True):
    """A file of a backup: its place in the home, its size and hash, and the keys of its pieces."""

    path: str
    size: int
    sha256: str
    chunks: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True):
    """One backup.

    `home` is the hash of the first event of the owner, which no other home has. A head is owner, deployment, sequence
    number and hash; `anchor` is the newest anchor that the book had noted.
    """

    id: str
    made_at: int
    version: str
    home: str
    owner: str
    heads: tuple[tuple[str, str, int, str], ...]
    tape_seq: int
    anchor: int
    files: tuple[BackedUpFile, ...]
    format: int = 1

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)


_decode_manifest = msgspec.json.Decoder(Manifest).decode


def backup_id(made_at: int) -> str:
    """The name of a backup: its moment, so that names are in the order of time."""
    return iso_text(made_at).replace("-", "").replace(":", "")


def kept_backups(moments: Iterable[int], *, newest: int, days: int) -> set[int]:
    """Which backups are kept: the newest few, and of each of the last days that have one its last."""
    ordered = sorted(moments, reverse=True)
    last_of_day = {moment // DAY: moment for moment in reversed(ordered)}
    return {*ordered[:newest], *(last_of_day[day] for day in sorted(last_of_day, reverse=True)[:days])}


def mirror_archive(source: Archive, target: Archive, *, progress: Callable[[int], None]) -> int:
    """Copies what one archive has and another has not, backups apart; returns how many objects that were."""
    there, copied = set(target.walk_keys()), 0
    for key in source.walk_keys():
        if key in there or key.startswith(BACKUP_PREFIX):
            continue
        content = verified_content(key, source.get(key))
        if content is not None:
            target.create(key, content)
            copied += 1
            progress(copied)
    return copied


class BackupStore:
    """The backups of one home in an archive."""

    def __init__(self, archive: Archive, place: str) -> None:
        self._archive = archive
        self._place = place
        self._there: set[str] | None = None

    def manifests(self) -> list[Manifest]:
        """Every backup, newest first; Damaged when a manifest cannot be read."""
        return [self._manifest(key) for key in reversed(self._archive.keys(_MANIFESTS))]

    def ids(self) -> list[str]:
        """The names of all backups, newest first."""
        return [key.removeprefix(_MANIFESTS) for key in reversed(self._archive.keys(_MANIFESTS))]

    def manifest(self, name: str | None = None) -> Manifest:
        """The backup of a name, or the newest; UnknownName says which there are."""
        names = self.ids()
        if not names:
            raise UnknownName(f"there is no backup in {self._place}: make one with `tapebook backup {self._place}`")
        if name is not None and name not in names:
            raise UnknownName(f"there is no backup {name} in {self._place}; there are: {', '.join(names[:10])}")
        return self._manifest(f"{_MANIFESTS}{name or names[0]}")

    def add(self, manifest: Manifest) -> None:
        """Makes a backup one: its files are there already."""
        self._archive.create(f"{_MANIFESTS}{manifest.id}", msgspec.json.encode(manifest))

    def store_file(self, source: Path, path: str, *, progress: Callable[[int], None]) -> BackedUpFile:
        """Stores a file piece by piece; nothing of a piece that is there already."""
        digest, size, chunks = hashlib.sha256(), 0, list[str]()
        with open(source, "rb") as file:
            for raw in iter(partial(file.read, _CHUNK_BYTES), b""):
                digest.update(raw)
                size += len(raw)
                chunks.append(self._store_chunk(raw))
                progress(len(raw))
        return BackedUpFile(path, size, digest.hexdigest(), tuple(chunks))

    def fetch_file(self, file: BackedUpFile, target: Path, *, progress: Callable[[int], None]) -> None:
        """Writes a file of a backup, for its owner alone; Damaged when it is not what was backed up."""
        digest, left = hashlib.sha256(), file.size
        with open(target, "xb", opener=private_opener) as out:
            for key in file.chunks:
                raw = self._fetch_chunk(key, min(left, _CHUNK_BYTES))
                digest.update(raw)
                out.write(raw)
                left -= len(raw)
                progress(len(raw))
        if left or digest.hexdigest() != file.sha256:
            raise Damaged(f"{file.path} of the backup is not the file that was backed up; take another backup")

    def drop(self, *, newest: int, days: int) -> int:
        """Deletes the backups that are no longer kept, and every piece that none names; returns how many backups."""
        manifests = self.manifests()
        kept = kept_backups([each.made_at for each in manifests], newest=newest, days=days)
        old = [each for each in manifests if each.made_at not in kept]
        for each in old:
            self._archive.delete_backup(f"{_MANIFESTS}{each.id}")
        named = {key for each in manifests if each.made_at in kept for file in each.files for key in file.chunks}
        for key in self._archive.keys(CHUNK_PREFIX):
            if key not in named:
                self._archive.delete_backup(key)
        self._there = None
        return len(old)

    def _manifest(self, key: str) -> Manifest:
        content = self._archive.get(key)
        if content is None:
            raise Damaged(f"the archive has lost {key}; take another backup")
        try:
            found = _decode_manifest(content)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Damaged(f"{key} of {self._place} is no manifest of a backup: {error}; take another backup") from error
        if found.format != 1:
            raise BadInput(f"{key} of {self._place} was made by a newer tapebook ({found.version}): install that one")
        return found

    def _store_chunk(self, raw: bytes) -> str:
        packed = _codec().compress(raw, asbytes=True)
        key = CHUNK_PREFIX + content_key(packed).removeprefix(CONTENT_PREFIX)
        if self._there is None:
            self._there = set(self._archive.keys(CHUNK_PREFIX))
        if key not in self._there:
            self._archive.create(key, packed)
            self._there.add(key)
        return key

    def _fetch_chunk(self, key: str, size: int) -> bytes:
        packed = verified_content(key, self._archive.get(key))
        if packed is None:
            raise Damaged(f"the archive has lost {key}, a piece of the backup; take another backup")
        raw: bytes = _codec().decompress(packed, decompressed_size=size, asbytes=True)
        return raw


def _codec() -> Any:
    # It takes a while to load, and only backups need it.
    import pyarrow

    return pyarrow.Codec("zstd", _LEVEL)
