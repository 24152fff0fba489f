"""An archive in memory, for tests of what leaves the tape and comes back."""

from tapebook.archive.port import content_key


class Shelf:
    """Objects by the hash of their content."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        """Stores an object and gives its key."""
        key = content_key(content)
        self.objects[key] = content
        return key

    def get(self, key: str) -> bytes | None:
        """An object, or None."""
        return self.objects.get(key)
