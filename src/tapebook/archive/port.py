"""What an archive offers; content keys are the same whichever adapter holds them."""

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from tapebook.domain.canonical import sha256_hex
from tapebook.errors import Damaged

CONTENT_PREFIX = "sha256/"
"""The beginning of every key that is made from content."""

_CONTENT_KEY = re.compile(r"sha256/([0-9a-f]{2})/\1[0-9a-f]{62}")


class Archive(Protocol):
    """Immutable objects by key. Keys are relative paths with `/`."""

    def create(self, key: str, content: bytes) -> None:
        """Stores an object; the same bytes again are fine, other bytes under the same key are refused (Damaged).

        What is there and cannot be read, or is not what its content key says, is replaced by the right bytes.
        """
        ...

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores several objects, with fewer waits for the disk than one by one."""
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


def content_key(content: bytes) -> str:
    """The key of content: its hash, spread over folders."""
    digest = sha256_hex(content)
    return f"{CONTENT_PREFIX}{digest[:2]}/{digest}"


def is_content_key(key: str) -> bool:
    """Whether a key could have been made from content."""
    return _CONTENT_KEY.fullmatch(key) is not None


def matches_key(key: str, content: bytes) -> bool:
    """Whether content is what its key says; a key that is not made from content says nothing."""
    return not key.startswith(CONTENT_PREFIX) or content_key(content) == key


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
