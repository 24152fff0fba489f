"""An archive in a folder: one compressed file per object, written beside and then linked into place."""

import os
import threading
import zlib
from contextlib import suppress
from pathlib import Path

from tapebook.errors import BadInput, Damaged, StoreFailed

# What is remembered of short texts takes a megabyte at most.
_SHORT = 4_096
_REMEMBERED = 256


class FolderArchive:
    """Objects as files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stored: dict[str, bytes] = {}
        self._lock = threading.Lock()
        # A folder that was there and is gone, such as a disk that was unmounted, is not made anew in its place.
        self._was_there = root.is_dir()

    def create(self, key: str, content: bytes) -> None:
        """Stores an object once; a half-written file is never visible under its key."""
        path = f"{self._root}/{_inside(key)}.z"
        is_there = os.path.exists(path)
        if is_there and self._stored.get(key) == content:
            return
        if not is_there:
            if self._was_there and not self._root.is_dir():
                raise StoreFailed(f"cannot write {self._root}: the folder is gone; put it back, or make an empty one")
            is_there = not _is_first(path, zlib.compress(content, 1))
            self._was_there = True
        if is_there and self.get(key) != content:
            raise Damaged(f"the archive already holds other bytes under {key}")
        self._remember(key, content)

    def _remember(self, key: str, content: bytes) -> None:
        """What was stored or compared just now is not read again: engines say the same things again and again."""
        if len(content) > _SHORT:
            return
        with self._lock:
            while len(self._stored) >= _REMEMBERED:
                del self._stored[next(iter(self._stored))]
            self._stored[key] = content

    def get(self, key: str) -> bytes | None:
        """An object's bytes."""
        try:
            return zlib.decompress(self.path(key).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailed(f"cannot read {self.path(key)}: {error.strerror}; allow reading it") from error
        except zlib.error as error:
            raise Damaged(f"{self.path(key)} cannot be unpacked ({error}); restore it from a backup") from error

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix."""
        # Only the folder the prefix names is walked: packets lie elsewhere, and there are many of them.
        folder = prefix.rpartition("/")[0]
        below = self._root / _inside(folder) if "/" in prefix else self._root
        files = (path for path in below.rglob("*.z") if path.is_file())
        found = (path.relative_to(self._root).as_posix().removesuffix(".z") for path in files)
        return sorted(key for key in found if key.startswith(prefix))

    def path(self, key: str) -> Path:
        """The file of an object, whether it is there or not."""
        return self._root / f"{_inside(key)}.z"


def _inside(key: str) -> str:
    """The key, unless it leads out of the archive or to a file that another key names as well."""
    if "\0" in key or {"", ".", ".."} & set(key.split("/")):
        raise BadInput(f"{key!r} is not an archive key: it must stay inside the archive, with one name per folder")
    return key


def _is_first(path: str, packed: bytes) -> bool:
    """Writes a file unless there is one; False when another writer was first."""
    # Every writer has a name of its own; a link, unlike a rename, never takes the place of what is there.
    beside = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        try:
            _write(Path(beside), packed)
            os.link(beside, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(beside)
    except OSError as error:
        if isinstance(error, FileExistsError) and os.path.exists(path):
            return False
        raise StoreFailed(
            f"cannot write {path}: {error.strerror}; make room or allow writing, then start again"
        ) from error
    return True


def _write(path: Path, packed: bytes) -> None:
    try:
        path.write_bytes(packed)
    except FileNotFoundError:
        # Made when it is missing, not looked for every time: there are a few hundred folders and many files.
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(packed)


def create(place: str) -> FolderArchive:
    """The adapter's entry point."""
    return FolderArchive(Path(place))
