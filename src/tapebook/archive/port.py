"""What an archive offers; content keys (`content_key`) are the same whichever adapter holds them.

`open_archive` finds the adapter by the scheme of its address: `s3://…` is the module `s3` of `archives/`, or of an
entry point. A path, or `file://…`, is a folder.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from tapebook import plug
from tapebook.domain.canonical import CONTENT_PREFIX, content_key, sha256_hex
from tapebook.errors import BadInput, ConfigError, Damaged, UnknownName

PACK_PREFIX = "packs/"
"""The beginning of the keys of packs, which are made from their content too."""

OBJECT_SUFFIX = ".z"
"""The end of the name of a stored object, which is compressed by itself."""

COLD_PREFIX = "cold/"
"""The beginning of the keys of cold months: `cold/FAMILY/MONTH/HASH.parquet`, by the hash of the file."""

PARQUET_SUFFIX = ".parquet"
"""The end of the keys of Parquet files, which are stored as they are, for any tool that reads them."""

BACKUP_PREFIX = "backups/"
"""The beginning of the keys of backups: the only objects that are ever deleted."""

CHUNK_PREFIX = f"{BACKUP_PREFIX}chunks/"
"""The beginning of the keys of pieces of backups, which are made from their content."""

_CONTENT_KEY = re.compile(r"sha256/([0-9a-f]{2})/\1[0-9a-f]{62}")
_COLD_KEY = re.compile(r"cold/.+/[0-9a-f]{64}\.parquet")


class Archive(Protocol):
    """Immutable objects by key. Keys are relative paths with `/`."""

    @property
    def is_local(self) -> bool:
        """Whether a write takes no longer than the disk: a decision then writes here at once, else to the spool."""
        ...

    def create(self, key: str, content: bytes) -> None:
        """Stores an object; the same bytes again are fine, other bytes under the same key are refused (Damaged).

        What is there and cannot be read, or is not what its content key says, is replaced by the right bytes.
        """
        ...

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores several objects, with fewer waits for the disk than one by one."""
        ...

    def delete_backup(self, key: str) -> None:
        """Deletes an object of a backup; BadInput for any other, and nothing when it is gone."""
        ...

    def get(self, key: str) -> bytes | None:
        """An object's bytes as they are stored, or None when there is none; Damaged when it is torn."""
        ...

    def has(self, key: str) -> bool:
        """Whether there is an object, whole or not."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        ...

    def walk_keys(self) -> Iterator[str]:
        """Every key, a folder at a time: for archives that are larger than the memory."""
        ...

    def stray_files(self) -> Iterator[str]:
        """What lies in the archive and is no object of any key; writes under way apart."""
        ...

    def repaired_objects(self) -> list[str]:
        """The names of objects that were damaged and have been replaced by the right bytes."""
        ...

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Deletes what killed writers left half written before a moment, where it usually lies or everywhere."""
        ...

    def write_problem(self) -> str | None:
        """Why nothing can be written now, as far as can be told without writing."""
        ...


ARCHIVES_FOLDER = "tapebook.archive.archives"

# Other tools write the same stores with other schemes.
_SAME_SCHEMES = {"s3a": "s3"} | dict.fromkeys(("abfs", "abfss", "adl", "azure"), "az")


def open_archive(place: str, *, home: Path, durable: bool) -> Archive:
    """The archive at a path, which is of the home unless it is absolute, or at an address; ConfigError for others."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        made: Archive = plug.load(ARCHIVES_FOLDER, "folder").create(str(home / place), durable=durable)
        return made
    if scheme == "file":
        parts = urlsplit(place)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise ConfigError(f"the archive {place} is no folder of this machine: write it like file:///srv/archive")
        return open_archive(unquote(parts.path), home=home, durable=durable)
    if not rest:
        raise ConfigError(f"the archive {place} names no place: write it like {scheme}://…")
    try:
        adapter = plug.load(ARCHIVES_FOLDER, _SAME_SCHEMES.get(scheme, scheme))
    except UnknownName:
        spoken = sorted({*plug.names(ARCHIVES_FOLDER), *_SAME_SCHEMES, "file"} - {"folder"})
        listed = ", ".join(f"{each}://" for each in spoken)
        raise ConfigError(f"no archive speaks {scheme}://: name a folder, or an address that begins {listed}") from None
    made = adapter.create(place, durable=durable)
    return made


def is_content_key(key: str) -> bool:
    """Whether a key could have been made from content."""
    return _CONTENT_KEY.fullmatch(key) is not None


def is_cold_key(key: str) -> bool:
    """Whether a key could be that of a cold month."""
    return _COLD_KEY.fullmatch(key) is not None


def checked_key(key: str) -> str:
    """The key, unless it leads out of the archive or to an object that another key names as well."""
    if "\0" in key or {"", ".", ".."} & set(key.split("/")):
        raise BadInput(f"{key!r} is not an archive key: it must stay inside the archive, with one name per folder")
    return key


def backup_key(key: str) -> str:
    """The key of an object of a backup; BadInput for any other: what the archive has else is never deleted."""
    if not checked_key(key).startswith(BACKUP_PREFIX):
        raise BadInput(f"{key} is no part of a backup: an archive forgets nothing else")
    return key


def object_name(key: str) -> str:
    """The name under which an archive of files or of a bucket stores the object of a key."""
    return key if key.endswith(PARQUET_SUFFIX) else f"{key}{OBJECT_SUFFIX}"


def key_of_name(name: str) -> str | None:
    """The key of a stored object; None for a name that no object has."""
    if name.endswith(PARQUET_SUFFIX):
        return name
    return name.removesuffix(OBJECT_SUFFIX) if name.endswith(OBJECT_SUFFIX) else None


def pack_object(key: str, content: bytes) -> bytes:
    """The bytes that are stored for content; Parquet is compressed already."""
    return content if key.endswith(PARQUET_SUFFIX) else zlib.compress(content, 1)


def unpack_object(packed: bytes, place: str) -> bytes:
    """The content of the object that is stored under a name; Damaged, with its place, when it is torn."""
    if place.endswith(PARQUET_SUFFIX):
        # Its key says the hash of its bytes, and whoever reads compares.
        return packed
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed)
    except zlib.error as error:
        raise Damaged(f"{place} cannot be unpacked ({error}); restore it from a backup") from error
    if not unpacker.eof or unpacker.unused_data:
        torn = "bytes behind its end" if unpacker.eof else "its end is missing"
        raise Damaged(f"{place} cannot be unpacked ({torn}); restore it from a backup")
    return content


def key_of_digest(digest: bytes) -> str:
    """The key of content with a sha256."""
    text = digest.hex()
    return f"{CONTENT_PREFIX}{text[:2]}/{text}"


def digest_of_key(key: str) -> bytes:
    """The sha256 that a key made from content names."""
    return bytes.fromhex(key.rpartition("/")[2].removesuffix(PARQUET_SUFFIX))


def matches_key(key: str, content: bytes) -> bool:
    """Whether content is what its key says; a key that is not made from content says nothing."""
    if key.startswith(COLD_PREFIX):
        return key.rpartition("/")[2] == f"{sha256_hex(content)}{PARQUET_SUFFIX}"
    for prefix in (CONTENT_PREFIX, PACK_PREFIX, CHUNK_PREFIX):
        if key.startswith(prefix):
            return key.removeprefix(prefix) == content_key(content).removeprefix(CONTENT_PREFIX)
    return True


def verified_content(key: str, content: bytes | None) -> bytes | None:
    """What was read under a key; Damaged when it is not what the key says."""
    if content is not None and not matches_key(key, content):
        altered = "was altered: its bytes are not what its name says"
        raise Damaged(f"the archive's {key} {altered}; restore it from a backup")
    return content


def put_content(archive: Archive, content: bytes) -> str:
    """Stores content under its own hash and returns the key."""
    key = content_key(content)
    archive.create(key, content)
    return key


def put_cold(archive: Archive, folder: str, content: bytes) -> str:
    """Stores a Parquet file of a cold month in its folder; returns its key once the archive has given it back whole.

    Whoever deletes rows after this can rely on it.
    """
    key = f"{COLD_PREFIX}{folder}/{sha256_hex(content)}{PARQUET_SUFFIX}"
    archive.create(key, content)
    if archive.get(key) != content:
        raise Damaged(f"the archive took {key} and does not give it back whole: its rows stay where they are")
    return key
