"""An archive in a folder: one compressed file per object, written beside and moved into place."""

import os
import zlib
from pathlib import Path

from tapebook.errors import BadInput, Damaged, StoreFailed


class FolderArchive:
    """Objects as files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, key: str, content: bytes) -> None:
        """Stores an object once; a half-written file is never visible under its key."""
        path = self._path(key)
        if path.exists():
            if self.get(key) != content:
                raise Damaged(f"the archive already holds other bytes under {key}")
            return
        # The process id keeps two writers of the same key apart; whoever renames last wrote the same bytes.
        beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(zlib.compress(content, 1))
            os.replace(beside, path)
        except OSError as error:
            raise StoreFailed(
                f"cannot write {path}: {error.strerror}; make room or allow writing, then start again"
            ) from error

    def get(self, key: str) -> bytes | None:
        """An object's bytes."""
        try:
            return zlib.decompress(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        except zlib.error as error:
            raise Damaged(f"{self._path(key)} cannot be unpacked ({error}); restore it from a backup") from error

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix."""
        # Only the folder the prefix names is walked: packets lie elsewhere, and there are many of them.
        below = self._root / prefix.rpartition("/")[0]
        files = (path for path in below.rglob("*.z") if path.is_file())
        found = (path.relative_to(self._root).as_posix().removesuffix(".z") for path in files)
        return sorted(key for key in found if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        if key.startswith("/") or ".." in key.split("/"):
            raise BadInput(f"{key!r} is not an archive key: it must stay inside the archive")
        return self._root / f"{key}.z"


def create(place: str) -> FolderArchive:
    """The adapter's entry point."""
    return FolderArchive(Path(place))
