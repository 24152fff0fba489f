"""What an archive offers; content keys are the same whichever adapter holds them."""

from typing import Protocol

from tapebook.domain.canonical import sha256_hex


class Archive(Protocol):
    """Immutable objects by key. Keys are relative paths with `/`."""

    def create(self, key: str, content: bytes) -> None:
        """Stores an object; the same bytes again are fine, other bytes under the same key are refused (Damaged)."""
        ...

    def get(self, key: str) -> bytes | None:
        """An object's bytes, or None when there is none."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        ...


def content_key(content: bytes) -> str:
    """The key of content: its hash, spread over folders."""
    digest = sha256_hex(content)
    return f"sha256/{digest[:2]}/{digest}"


def put_content(archive: Archive, content: bytes) -> str:
    """Stores content under its own hash and returns the key."""
    key = content_key(content)
    archive.create(key, content)
    return key
