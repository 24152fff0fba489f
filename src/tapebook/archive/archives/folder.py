"""An archive in a folder: one compressed file per object, written beside and then linked into place."""

import os
import threading
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
        if not path.exists() and _is_first(path, zlib.compress(content, 1)):
            return
        if self.get(key) != content:
            raise Damaged(f"the archive already holds other bytes under {key}")

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
        folder = prefix.rpartition("/")[0]
        below = self._root / _inside(folder) if "/" in prefix else self._root
        files = (path for path in below.rglob("*.z") if path.is_file())
        found = (path.relative_to(self._root).as_posix().removesuffix(".z") for path in files)
        return sorted(key for key in found if key.startswith(prefix))

    def _path(self, key: str) -> Path:
        return self._root / f"{_inside(key)}.z"


def _inside(key: str) -> str:
    """The key, unless it leads out of the archive or to a file that another key names as well."""
    if "\0" in key or {"", ".", ".."} & set(key.split("/")):
        raise BadInput(f"{key!r} is not an archive key: it must stay inside the archive, with one name per folder")
    return key


def _is_first(path: Path, packed: bytes) -> bool:
    """Writes a file unless there is one; False when another writer was first."""
    # Every writer has a name of its own; a link, unlike a rename, never takes the place of what is there.
    beside = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(packed)
            os.link(beside, path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            return False
        raise StoreFailed(
            f"cannot write {path}: {error.strerror}; make room or allow writing, then start again"
        ) from error
    return True


def create(place: str) -> FolderArchive:
    """The adapter's entry point."""
    return FolderArchive(Path(place))
