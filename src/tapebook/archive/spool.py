"""An archive with a spool: what cannot be written to it now waits in a folder of the home, and nothing is lost.

1. `store_content` is for whoever must not wait: it writes to an archive on the disk, or else to the spool, under the
   same key. An archive that is elsewhere is not waited for: what is for it goes to the spool at once.
2. `get` and `keys` look in both, so a key is good from the moment it was given.
3. `drain` moves what waits once the archive can be written again. `store_content` does so a few objects at a time
   where the archive is on the disk, the librarian and `tapebook doctor --fix` all of them. An object leaves the spool
   only after the archive has given it back whole.
4. `check_archive` reads archives to their end and lists what is missing, torn, altered or misplaced.

`create` is the archive's own: whoever deletes something after it was archived, or can try again later, must hear
that it was not. Only content is spooled, whose key is its hash; so two processes cannot disagree on what waits.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.port import CONTENT_PREFIX, Archive, content_key, is_content_key, matches_key, verified_content
from tapebook.errors import Damaged, StoreFailed, TapebookError

_BACKUP = "restore it from a backup"
_LOOK = "look at it, then move it away"
# Damaged objects that wait for the row that names them, and missing ones that were told already.
_MOST_REMEMBERED = 10_000

ArchiveFindingKind = Literal["missing", "torn", "altered", "misplaced", "unreadable"]


class ArchiveReference(msgspec.Struct, frozen=True):
    """A key that a row names, and which row that is, in words: `packet of run r1`."""

    key: str
    by: str


class ArchiveFinding(msgspec.Struct, frozen=True):
    """An object that is not as it should be, what is wrong with it in one line, and what names it, if that is known."""

    key: str
    kind: ArchiveFindingKind
    problem: str
    by: str = ""


def check_archive(
    archives: Sequence[Archive],
    referenced: Iterable[ArchiveReference],
    *,
    progress: Callable[[int], None] = lambda objects: None,
) -> Iterator[ArchiveFinding]:
    """Everything that is wrong with the objects of archives that are read as one, as it is found.

    Every object is read once, then every key that a row names is looked for; what is in memory at a time is one object,
    and as many names as something is wrong with, up to some thousands. References may come in any order, and twice.
    """
    damaged: dict[str, ArchiveFinding] = {}
    objects = 0
    for archive in archives:
        for key in archive.walk_keys():
            objects += 1
            found = _damage_of(archive, key)
            if found is not None and len(damaged) < _MOST_REMEMBERED:
                damaged[key] = found
            elif found is not None:
                yield found
            progress(objects)
        for place in archive.stray_files():
            yield ArchiveFinding(place, "misplaced", f"{place} is no object of the archive; {_LOOK}")
    reported: set[str] = set()
    for reference in referenced:
        found = damaged.pop(reference.key, None)
        if found is not None:
            yield msgspec.structs.replace(found, by=reference.by)
        elif reference.key not in reported and not any(archive.has(reference.key) for archive in archives):
            if len(reported) < _MOST_REMEMBERED:
                reported.add(reference.key)
            lost = f"the archive has lost {reference.key}; {_BACKUP}"
            yield ArchiveFinding(reference.key, "missing", lost, reference.by)
    yield from damaged.values()


def _damage_of(archive: Archive, key: str) -> ArchiveFinding | None:
    """What is wrong with one object."""
    try:
        content = archive.get(key)
    except Damaged as error:
        return ArchiveFinding(key, "torn", str(error))
    except TapebookError as error:
        return ArchiveFinding(key, "unreadable", str(error))
    if content is None:
        # Another process has moved it to where the next archive of the list finds it.
        return None
    if key.startswith(CONTENT_PREFIX) and not is_content_key(key):
        return ArchiveFinding(key, "misplaced", f"no content has the key {key}; {_LOOK}")
    if not matches_key(key, content):
        return ArchiveFinding(key, "altered", f"the bytes of {key} are not what its name says; {_BACKUP}")
    return None


SPOOL = "spool"
"""The folder of a home in which content waits for the archive."""

# What one who keeps something moves on the way: some milliseconds.
_DRAINED_AT_ONCE = 16


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


class DrainResult(msgspec.Struct, frozen=True):
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

    @property
    def is_local(self) -> bool:
        """Whether the archive itself is on the disk."""
        return self._archive.is_local

    def create(self, key: str, content: bytes) -> None:
        """Stores an object in the archive itself, or raises."""
        self._archive.create(key, content)

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores objects in the archive itself, or raises."""
        self._archive.create_all(objects)

    def get(self, key: str) -> bytes | None:
        """An object's bytes, from wherever they are."""
        if not self._archive.is_local and (near := self._spooled_content(key)) is not None:
            return near
        try:
            found = verified_content(key, self._archive.get(key))
        except Exception:
            # What the archive cannot give may still wait here; if it does not, the archive's error stands.
            waiting = self._spooled_content(key)
            if waiting is None:
                raise
            return waiting
        if found is None and self._folder.is_dir():
            found = self._spooled_content(key)
            # Somebody may have moved it while it was looked for.
            found = verified_content(key, self._archive.get(key)) if found is None else found
        return found

    def has(self, key: str) -> bool:
        """Whether there is an object, here or there."""
        return self._archive.has(key) or self._spool.has(key)

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        found = self._archive.keys(prefix)
        return sorted({*found, *self._spool.keys(prefix)}) if self._folder.is_dir() else found

    def walk_keys(self) -> Iterator[str]:
        """Every key, those that wait last."""
        yield from self._archive.walk_keys()
        yield from self._spool.walk_keys()

    def stray_files(self) -> Iterator[str]:
        """What is no object, here or there."""
        yield from self._archive.stray_files()
        yield from self._spool.stray_files()

    def repaired_objects(self) -> list[str]:
        """The names of objects that were damaged and have been replaced by the right bytes, here or there."""
        return [*self._archive.repaired_objects(), *self._spool.repaired_objects()]

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Deletes what killed writers left half written before a moment, here and there."""
        return sum(
            place.delete_partial_writes(before_ms=before_ms, everywhere=everywhere)
            for place in (self._archive, self._spool)
        )

    def check(
        self, referenced: Iterable[ArchiveReference], *, progress: Callable[[int], None] = lambda objects: None
    ) -> Iterator[ArchiveFinding]:
        """Reads everything and gives what is wrong as it is found; see `check_archive`."""
        return check_archive((self._archive, self._spool), referenced, progress=progress)

    def store_content(self, content: bytes) -> StoredContent:
        """Stores content under its own hash, in the archive or else in the spool; never raises."""
        return self.store_contents([content])[0]

    def store_contents(self, contents: Iterable[bytes]) -> list[StoredContent]:
        """Does so for several, with fewer waits for the disk than one by one."""
        objects = [(content_key(content), content) for content in contents]
        problem: Exception | None = None
        if self._archive.is_local:
            problem = _error_of(lambda: self._archive.create_all(dict(objects)))
            if problem is None:
                if self._waits is not False:
                    self.drain(most=_DRAINED_AT_ONCE)
                return [StoredContent(key) for key, _ in objects]
        unspooled = _error_of(lambda: self._spool.create_all(dict(objects)))
        if unspooled is None:
            self._waits = True
        return [StoredContent(None if unspooled else key, problem or unspooled) for key, _ in objects]

    def store_content_or_raise(self, content: bytes) -> str:
        """The key of content that is kept from now on, in the archive or in the spool; raises when it is in neither."""
        kept = self.store_content(content)
        if kept.key is None:
            raise kept.problem or StoreFailed(f"cannot write to the archive, nor to {self._folder}")
        return kept.key

    def drain(self, *, most: int | None = None) -> DrainResult:
        """Moves what waits to the archive, all of it or some, until it takes no more; what is damaged is left alone."""
        waiting = self._spool.keys("") if self._folder.is_dir() else []
        moved, problem = 0, None
        for key in waiting[:most]:
            failed = _error_of(partial(self._move_to_archive, key))
            moved, problem = moved + (failed is None), failed or problem
            if failed is not None and not isinstance(failed, Damaged):
                break
        self._waits = moved < len(waiting)
        return DrainResult(moved, len(waiting) - moved, problem)

    def spool_state(self) -> SpoolState:
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

    def _spooled_content(self, key: str) -> bytes | None:
        """An object of the spool, if it is whole."""
        found = self._spool.get(key) if self._folder.is_dir() else None
        if found is not None and not matches_key(key, found):
            raise Damaged(f"{self._spool.path(key)} is not what its name says; look at it before it is deleted")
        return found

    def _move_to_archive(self, key: str) -> None:
        content = self._spooled_content(key)
        if content is None:
            # Another process was faster.
            return
        self._archive.create(key, content)
        if self._archive.get(key) != content:
            raise Damaged(f"the archive took {key} and does not give it back; it stays in {self._folder}")
        with suppress(FileNotFoundError):
            os.unlink(self._spool.path(key))


def _error_of(call: Callable[[], None]) -> Exception | None:
    """Calls something and gives what it raised: archives of others may raise anything, and a tick must go on."""
    try:
        call()
    except Exception as error:
        return error
    return None
