"""An archive in a folder: one compressed file per object, written beside and then linked into place.

With `durable`, an object is on the disk when `create` returns: first its content, then the name it is linked to. That
holds for an object somebody else has just written too, since they may not be as careful.

    sha256/ab/abcd….z   an object
    cold/…/….parquet    an object that is stored as it is
    .parts/*.part       writes under way; what killed writers left there is deleted by `clean`
    healed/*            damaged objects that were replaced by the right bytes, for whoever wants to know why
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tapebook.archive.port import (
    backup_key,
    checked_key,
    key_of_name,
    matches_key,
    object_name,
    pack_object,
    unpack_object,
)
from tapebook.domain import files
from tapebook.domain.canonical import CONTENT_PREFIX
from tapebook.errors import Damaged, StoreFailed

# What is remembered takes a megabyte at most.
_SHORT = 1_024
_REMEMBERED = 512
_PART = ".part"
_PARTS = ".parts"
_HEALED = "healed"
_DAMAGED = ".damaged"


class FolderArchive:
    """Objects as files below a folder."""

    is_local = True

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self._root = root
        self._durable = durable
        # Cache of what was stored or compared just now, by key; nothing invalidates it, since objects never change.
        self._stored: dict[str, bytes | None] = {}
        # Folders whose own names are on the disk.
        self._settled: set[str] = set()
        self._lock = threading.Lock()
        # A folder that was there and is gone, such as a disk that was unmounted, is not made anew in its place.
        self._was_there = root.is_dir()

    def create(self, key: str, content: bytes) -> None:
        """Stores an object once; a half-written file is never visible under its key."""
        self.create_all({key: content})

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores objects with fewer waits for the disk: all contents first, then their names, then each folder once."""
        new = {checked_key(key): content for key, content in objects.items() if not self._is_known(key, content)}
        if not new:
            return
        written: dict[str, str] = {}
        try:
            absent = [key for key in new if not os.path.exists(self._place(key))]
            if absent:
                self._require_root()
            for key in absent:
                written[key] = self._write_beside(pack_object(key, new[key]))
            self._sync(written.values())
            first = {key for key in absent if self._is_first(self._place(key), written[key])}
            self._was_there = True
            for key in [key for key in new if key not in first]:
                self._compare(key, new[key])
            self._settle({os.path.dirname(self._place(key)) for key in new})
        except OSError as error:
            raise StoreFailed(
                f"cannot write {self._place(next(iter(new)))}: {error.strerror}; "
                "make room or allow writing, then start again"
            ) from error
        finally:
            for beside in written.values():
                with suppress(FileNotFoundError):
                    os.unlink(beside)
        self._remember(new)

    def _place(self, key: str) -> str:
        return f"{self._root}/{object_name(key)}"

    def _is_known(self, key: str, content: bytes) -> bool:
        """Whether this very object was stored or compared just now, and is still there."""
        if key not in self._stored or not self.has(key):
            return False
        stored = self._stored[key]
        return matches_key(key, content) if stored is None else stored == content

    def _require_root(self) -> None:
        if self._was_there and not self._root.is_dir():
            raise StoreFailed(f"cannot write {self._root}: the folder is gone; put it back, or make an empty one")

    def _is_first(self, path: str, beside: str) -> bool:
        """Links a file into place unless there is one; False when another writer was first."""
        try:
            # A link, unlike a rename, never takes the place of what is there.
            self._with_folder(path, lambda: os.link(beside, path))
        except FileExistsError:
            if not os.path.exists(path):
                raise
            return False
        return True

    def _write_beside(self, packed: bytes) -> str:
        """A new file outside of every object's folder, of a name that nobody has used."""
        # Not even a process that was killed and has the same number: an object may be linked to what it left.
        folder = f"{self._root}/{_PARTS}"
        if not os.path.isdir(folder):
            files.make_folders(folder, durable=self._durable)
        handle, beside = tempfile.mkstemp(_PART, dir=folder)
        try:
            with open(handle, "wb") as file:
                file.write(packed)
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
            raise
        return beside

    def _with_folder(self, path: str, act: Callable[[], None]) -> None:
        try:
            act()
        except FileNotFoundError:
            # Made when it is missing, not looked for every time: there are a few hundred folders and many files.
            files.make_folders(os.path.dirname(path), durable=self._durable)
            act()

    def _compare(self, key: str, content: bytes) -> None:
        """Sees that a file that is there holds the content; what cannot be read or does not fit its key is replaced."""
        path = self._place(key)
        try:
            found = self.get(key)
        except Damaged:
            found = None
        if found == content:
            self._sync([path])
            return
        if (found is not None and matches_key(key, found)) or not matches_key(key, content):
            raise Damaged(f"the archive already holds other bytes under {key}")
        evidence = f"{self._root}/{_HEALED}/{key.replace('/', '_')}{_DAMAGED}"
        # The first damage of an object is kept; what befalls it later says no more.
        with suppress(FileExistsError):
            self._with_folder(evidence, lambda: os.link(path, evidence))
        whole = self._write_beside(pack_object(key, content))
        self._sync([os.path.dirname(evidence), whole])
        os.replace(whole, path)

    def _settle(self, folders: set[str]) -> None:
        """Waits until the names in folders are on the disk, and once in a process those of the folders themselves."""
        top, new = os.path.dirname(str(self._root)), set[str]()
        for folder in folders:
            # Somebody else may have made it a moment ago, so that it is there says little.
            while folder not in self._settled | new and folder != top:
                new.add(folder)
                folder = os.path.dirname(folder)
        self._sync(folders | {os.path.dirname(folder) or "." for folder in new})
        self._settled |= new

    def _sync(self, paths: Iterable[str]) -> None:
        if self._durable:
            files.sync_all(paths)

    def _remember(self, objects: Mapping[str, bytes]) -> None:
        """What was stored or compared just now is not read again: engines say the same things again and again."""
        with self._lock:
            while len(self._stored) > _REMEMBERED:
                del self._stored[next(iter(self._stored))]
            # A content key says all of its content.
            self._stored |= {
                key: None if key.startswith(CONTENT_PREFIX) else content
                for key, content in objects.items()
                if key.startswith(CONTENT_PREFIX) or len(content) <= _SHORT
            }

    def delete_backup(self, key: str) -> None:
        """Deletes the file of an object of a backup."""
        path = self.path(backup_key(key))
        self._stored.pop(key, None)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailed(f"cannot delete {path}: {error.strerror}; allow writing in its folder") from error

    def get(self, key: str) -> bytes | None:
        """An object's bytes."""
        try:
            packed = self.path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailed(f"cannot read {self.path(key)}: {error.strerror}; allow reading it") from error
        return unpack_object(packed, str(self.path(key)))

    def has(self, key: str) -> bool:
        """Whether there is a file for an object."""
        return self.path(key).is_file()

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix."""
        # Only the folder the prefix names is walked: packets lie elsewhere, and there are many of them.
        folder = prefix.rpartition("/")[0]
        below = self._root / checked_key(folder) if "/" in prefix else self._root
        found = (self._key_of(path) for path in files.walk_folder(below))
        return sorted(key for key in found if key is not None and key.startswith(prefix))

    def walk_keys(self) -> Iterator[str]:
        """Every key, a folder at a time."""
        for path in files.walk_folder(self._root):
            key = self._key_of(path)
            if key is not None:
                yield key

    def stray_files(self) -> Iterator[str]:
        """Files that are no object, outside of the folders for writes under way and for healed objects."""
        for path in files.walk_folder(self._root):
            place = path.relative_to(self._root)
            at_work = place.parts[0] in (_PARTS, _HEALED) or path.name.endswith(_PART)
            if not (at_work or path.is_dir() or self._key_of(path) is not None):
                yield place.as_posix()

    def repaired_objects(self) -> list[str]:
        """Every object that was damaged and replaced, by the name its damaged file was moved to."""
        return sorted(path.name.removesuffix(_DAMAGED) for path in files.walk_folder(self._root / _HEALED))

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Deletes half-written files of killed writers; the age keeps those of writers at work, on any machine.

        They lie in one folder; `everywhere` looks for those of earlier versions too, which lie beside objects.
        """
        places = files.walk_folder(self._root if everywhere else self._root / _PARTS)
        old = [path for path in places if path.name.endswith(_PART) and _changed_ms(path) < before_ms]
        for path in old:
            with suppress(FileNotFoundError):
                path.unlink()
        return len(old)

    def write_problem(self) -> str | None:
        """Why nothing can be written now: the folder is gone, is none, or may not be written."""
        if not self._root.exists():
            return f"{self._root} is gone" if self._was_there else None
        writable = self._root.is_dir() and os.access(self._root, os.W_OK | os.X_OK)
        return None if writable else f"{self._root} cannot be written"

    def path(self, key: str) -> Path:
        """The file of an object, whether it is there or not."""
        return self._root / object_name(checked_key(key))

    def _key_of(self, path: Path) -> str | None:
        """The key of the object in a file; None for what is no object."""
        key = key_of_name(path.relative_to(self._root).as_posix())
        return key if key is not None and path.is_file() else None


def _changed_ms(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns // 1_000_000
    except FileNotFoundError:
        # Its writer has just linked it into place.
        return 2**62


def create(place: str | Path, *, durable: bool = True) -> FolderArchive:
    """The adapter's entry point."""
    return FolderArchive(Path(place), durable=durable)
