"""An archive with a spool: what cannot be written to it now waits in a folder of the home, and nothing is lost.

1. `keep` is for whoever must not wait: it writes to the archive, or else to the spool, under the same key.
2. `get` and `keys` look in both, so a key is good from the moment it was given.
3. `drain` moves what waits once the archive can be written again. `keep` does so a few objects at a time, the librarian
   and `tapebook doctor --fix` all of them. An object leaves the spool only after the archive has given it back whole.

`create` is the archive's own: whoever deletes something after it was archived, or can try again later, must hear that
it was not. Only content is spooled, whose key is its hash; so two processes cannot disagree on what waits.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.check import ArchiveFinding, Reference, check_archive
from tapebook.archive.port import Archive, checked, content_key, fits_key
from tapebook.errors import Damaged, StoreFailed

SPOOL = "spool"
"""The folder of a home in which content waits for the archive."""

# What one who keeps something moves on the way: some milliseconds.
_AT_ONCE = 16


class StoredContent(msgspec.Struct, frozen=True):
    """The key under which content can be read from now on, None when it could not be written anywhere.

    `problem` is why it is not in the archive itself.
    """

    key: str | None
    problem: Exception | None = None


class SpoolState(msgspec.Struct, frozen=True):
    """What waits: how many objects, their bytes on the disk, and the modification time of the oldest in UTC ms."""

    objects: int = 0
    bytes: int = 0
    oldest_ms: int | None = None


class Drained(msgspec.Struct, frozen=True):
    """How many objects were moved, how many are left, and why."""

    moved: int = 0
    left: int = 0
    problem: Exception | None = None


class SpooledArchive:
    """An archive, and the folder in which content waits for it; as `durable` as whatever names what is kept in it.

    What is read under a content key is compared with it, whichever adapter the archive is: altered bytes are Damaged.
    """

    def __init__(self, archive: Archive, spool: Path, *, durable: bool = True) -> None:
        self._archive = archive
        self._folder = spool
        self._spool = FolderArchive(spool, durable=durable)
        # Whether something may wait: unknown at first, since another process may have left it.
        self._waits: bool | None = None

    def create(self, key: str, content: bytes) -> None:
        """Stores an object in the archive itself, or raises."""
        self._archive.create(key, content)

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores objects in the archive itself, or raises."""
        self._archive.create_all(objects)

    def get(self, key: str) -> bytes | None:
        """An object's bytes, from wherever they are."""
        try:
            found = checked(key, self._archive.get(key))
        except Exception:
            # What the archive cannot give may still wait here; if it does not, the archive's error stands.
            waiting = self._waiting(key)
            if waiting is None:
                raise
            return waiting
        if found is None and self._folder.is_dir():
            found = self._waiting(key)
            # Somebody may have moved it while it was looked for.
            found = checked(key, self._archive.get(key)) if found is None else found
        return found

    def has(self, key: str) -> bool:
        """Whether there is an object, here or there."""
        return self._archive.has(key) or self._spool.has(key)

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        found = self._archive.keys(prefix)
        return sorted({*found, *self._spool.keys(prefix)}) if self._folder.is_dir() else found

    def walk(self) -> Iterator[str]:
        """Every key, those that wait last."""
        yield from self._archive.walk()
        yield from self._spool.walk()

    def strays(self) -> Iterator[str]:
        """What is no object, here or there."""
        yield from self._archive.strays()
        yield from self._spool.strays()

    def repaired(self) -> list[str]:
        """The names of objects that were damaged and have been replaced by the right bytes, here or there."""
        return [*self._archive.repaired(), *self._spool.repaired()]

    def clean(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Deletes what killed writers left half written before a moment, here and there."""
        return sum(place.clean(before_ms=before_ms, everywhere=everywhere) for place in (self._archive, self._spool))

    def check(
        self, referenced: Iterable[Reference], *, progress: Callable[[int], None] = lambda objects: None
    ) -> Iterator[ArchiveFinding]:
        """Reads everything and gives what is wrong as it is found; see `check_archive`."""
        return check_archive((self._archive, self._spool), referenced, progress=progress)

    def keep(self, content: bytes) -> StoredContent:
        """Stores content under its own hash, in the archive or else in the spool; never raises."""
        return self.keep_all([content])[0]

    def keep_all(self, contents: Iterable[bytes]) -> list[StoredContent]:
        """Does so for several, with fewer waits for the disk than one by one."""
        objects = [(content_key(content), content) for content in contents]
        problem = _attempt(lambda: self._archive.create_all(dict(objects)))
        if problem is None:
            if self._waits is not False:
                self.drain(most=_AT_ONCE)
            return [StoredContent(key) for key, _ in objects]
        unspooled = _attempt(lambda: self._spool.create_all(dict(objects)))
        if unspooled is None:
            self._waits = True
        return [StoredContent(None if unspooled else key, problem) for key, _ in objects]

    def put(self, content: bytes) -> str:
        """The key of content that is kept from now on, in the archive or in the spool; raises when it is in neither."""
        kept = self.keep(content)
        if kept.key is None:
            raise kept.problem or StoreFailed(f"cannot write to the archive, nor to {self._folder}")
        return kept.key

    def drain(self, *, most: int | None = None) -> Drained:
        """Moves what waits to the archive, all of it or some, until it takes no more; what is damaged is left alone."""
        waiting = self._spool.keys("") if self._folder.is_dir() else []
        moved, problem = 0, None
        for key in waiting[:most]:
            failed = _attempt(partial(self._move, key))
            moved, problem = moved + (failed is None), failed or problem
            if failed is not None and not isinstance(failed, Damaged):
                break
        self._waits = moved < len(waiting)
        return Drained(moved, len(waiting) - moved, problem)

    def waiting(self) -> SpoolState:
        """What waits in the spool."""
        objects, size, oldest = 0, 0, None
        for key in self._spool.keys("") if self._folder.is_dir() else ():
            # Somebody may have moved it meanwhile.
            with suppress(FileNotFoundError):
                found = os.stat(self._spool.path(key))
                objects, size = objects + 1, size + found.st_size
                at = int(found.st_mtime * 1_000)
                oldest = at if oldest is None else min(oldest, at)
        return SpoolState(objects, size, oldest)

    def _waiting(self, key: str) -> bytes | None:
        """An object of the spool, if it is whole."""
        found = self._spool.get(key) if self._folder.is_dir() else None
        if found is not None and not fits_key(key, found):
            raise Damaged(f"{self._spool.path(key)} is not what its name says; look at it before it is deleted")
        return found

    def _move(self, key: str) -> None:
        content = self._waiting(key)
        if content is None:
            # Another process was faster.
            return
        self._archive.create(key, content)
        if self._archive.get(key) != content:
            raise Damaged(f"the archive took {key} and does not give it back; it stays in {self._folder}")
        with suppress(FileNotFoundError):
            os.unlink(self._spool.path(key))


def _attempt(call: Callable[[], None]) -> Exception | None:
    """Calls something and gives what it raised: archives of others may raise anything, and a tick must go on."""
    try:
        call()
    except Exception as error:
        return error
    return None
