"""An archive in memory, for tests of what leaves the tape and comes back."""

from tapebook.domain.canonical import sha256_hex


class Shelf:
    """Parquet files by folder and hash."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, folder: str, content: bytes) -> str:
        """Stores a file and gives its key."""
        key = f"cold/{folder}/{sha256_hex(content)}.parquet"
        self.objects[key] = content
        return key

    def get(self, key: str) -> bytes | None:
        """An object, or None."""
        return self.objects.get(key)

    def put_content(self, content: bytes) -> str:
        """Stores an object by the hash of its content and gives its key."""
        return self.put("content", content)
