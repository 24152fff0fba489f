"""An archive with a spool in front: content is appended to a local file, and packed for the archive later.

1. `store_contents` is for whoever must not wait: it appends to a segment of the spool (`segments.py`), one write and
   one wait for the disk for all that a decision says. Where the spool cannot be written, an archive on the disk takes
   the objects one by one.
2. `get` and `keys` look in the spool, in packs and in the archive itself, so a key is good from the moment it was
   given, in any process that has the same spool.
3. `drain` packs finished segments (`packs.py`) and puts the packs into the archive: when some hundred objects wait or
   the oldest has waited for an hour, or all of them when asked to. A segment is deleted only after the archive
   has given its pack back whole. The librarian does so, and `tapebook doctor --fix`.
4. `check_archive` reads archives to their end and lists what is missing, torn, altered or misplaced.

`create` is the archive's own: whoever deletes something after it was archived, or can try again later, must hear
that it was not. Only content is spooled, whose key is its hash; so two processes cannot disagree on what waits.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.packs import PackIndex, make_pack, pack_key, pack_places, packed_group
from tapebook.archive.port import (
    COLD_PREFIX,
    CONTENT_PREFIX,
    PACK_PREFIX,
    Archive,
    content_key,
    digest_of_key,
    is_cold_key,
    is_content_key,
    matches_key,
    verified_content,
)
from tapebook.archive.segments import (
    SegmentRecord,
    Segments,
    TornRecord,
    delete_segment,
    finished_segment,
    modified_ms,
    read_record,
    segment_files,
    segment_records,
)
from tapebook.errors import Damaged, StoreFailed, TapebookError

_BACKUP = "restore it from a backup"
_LOOK = "look at it, then move it away"
# Damaged objects that wait for the row that names them, and missing ones that were told already.
_MOST_REMEMBERED = 10_000

ArchiveFindingKind = Literal["missing", "torn", "altered", "misplaced", "unreadable"]


class ArchiveReference(msgspec.Struct, frozen=True):
    """A key that a row names, and which row that is, in words: `packet of run r1`.

    `owner` is whose row it is, empty for the tape, which all owners of a database share.
    """

    key: str
    by: str
    owner: str = ""


class ArchiveFinding(msgspec.Struct, frozen=True):
    """An object that is not as it should be, what is wrong with it in one line, and what names it, if that is known."""

    key: str
    kind: ArchiveFindingKind
    problem: str
    by: str = ""


class ReadableArchive(Protocol):
    """As much of an archive as a check needs."""

    def walk_keys(self) -> Iterator[str]:
        """Every key."""
        ...

    def stray_files(self) -> Iterator[str]:
        """What is no object of any key."""
        ...

    def get(self, key: str) -> bytes | None:
        """An object's bytes; Damaged when it is torn."""
        ...

    def has(self, key: str) -> bool:
        """Whether there is an object."""
        ...


def check_archive(
    archives: Sequence[ReadableArchive],
    referenced: Iterable[ArchiveReference],
    *,
    is_packed: Callable[[str], bool] = lambda key: False,
    progress: Callable[[int], None] = lambda objects: None,
) -> Iterator[ArchiveFinding]:
    """Everything that is wrong with the objects of archives that are read as one, as it is found.

    `is_packed` says of a key that a pack, which is an object of its own, holds it.

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
        elif reference.key not in reported and not (
            is_packed(reference.key) or any(archive.has(reference.key) for archive in archives)
        ):
            if len(reported) < _MOST_REMEMBERED:
                reported.add(reference.key)
            lost = f"the archive has lost {reference.key}; {_BACKUP}"
            yield ArchiveFinding(reference.key, "missing", lost, reference.by)
    yield from damaged.values()


def _damage_of(archive: ReadableArchive, key: str) -> ArchiveFinding | None:
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


_INDEX_FILE = "packs.db"
# So many objects make a pack, whoever waits; a pack holds about so many at most.
_WAITING_OBJECTS = 512
_PACK_OBJECTS = 2_000
# Groups of packs that were unpacked last: whoever replays reads one object after the other.
_CACHED_GROUPS = 16
# Keys that were stored last: engines say the same things again and again.
_CACHED_KEYS = 512


class StoredContent(msgspec.Struct, frozen=True):
    """The key under which content can be read from now on, None when it could not be written anywhere, and why."""

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


class _LooseSpool(FolderArchive):
    """A spool with a file for each object, beside the segments of this version."""

    def stray_files(self) -> Iterator[str]:
        """Nothing: what else lies in the spool is not an archive's."""
        return iter(())


class SpooledArchive:
    """An archive, and the folder in which content waits for it; as `durable` as whatever names what is kept in it.

    What is read under a content key is compared with it, whichever adapter the archive is: altered bytes are Damaged.
    """

    def __init__(self, archive: Archive, spool: Path, *, durable: bool = True) -> None:
        self._archive = archive
        self._folder = spool
        self._segments = Segments(spool, durable=durable)
        self._packs = PackIndex(spool / _INDEX_FILE)
        # What an older tapebook left in the spool: a file for each object.
        self._loose = _LooseSpool(spool, durable=durable)
        self._group_cache: dict[tuple[str, int], bytes] = {}
        self._stored_cache: dict[str, None] = {}

    @property
    def is_local(self) -> bool:
        """Whether the archive itself is on the disk."""
        return self._archive.is_local

    @property
    def behind(self) -> Archive:
        """The archive itself, without what waits for it."""
        return self._archive

    def close(self) -> None:
        """Ends the segment and closes the index."""
        self._segments.close()
        self._packs.close()

    def create(self, key: str, content: bytes) -> None:
        """Stores an object in the archive itself, or raises."""
        self._archive.create(key, content)

    def create_all(self, objects: Mapping[str, bytes]) -> None:
        """Stores objects in the archive itself, or raises."""
        self._archive.create_all(objects)

    def delete_backup(self, key: str) -> None:
        """Deletes an object of a backup from the archive itself."""
        self._archive.delete_backup(key)

    def get(self, key: str) -> bytes | None:
        """An object's bytes, from wherever they are."""
        if not is_content_key(key):
            return verified_content(key, self._archive.get(key))
        found = self._local_content(key)
        if found is None:
            problem = None
            try:
                found = self._archived_content(key)
            except Exception as error:
                # What the archive cannot give may still wait here; if it does not, the archive's error stands.
                problem = error
            if found is None:
                # Somebody may have written or packed it since the spool was looked at.
                found = self._content_after_refresh(key)
            if found is None and problem is not None:
                raise problem
        return found

    def has(self, key: str) -> bool:
        """Whether there is an object, here or there."""
        if self._archive.has(key) or self._loose.has(key):
            return True
        if not is_content_key(key):
            return False
        self._segments.refresh()
        return self._segments.has(key) or self._is_packed(key)

    def keys(self, prefix: str) -> list[str]:
        """Every key that begins with a prefix, in order."""
        found = set(self._archive.keys(prefix))
        if CONTENT_PREFIX.startswith(prefix) or prefix.startswith(CONTENT_PREFIX):
            self._refresh()
            spooled = {*self._segments.walk_keys(), *self._packs.keys(), *self._loose.keys(CONTENT_PREFIX)}
            found |= {key for key in spooled if key.startswith(prefix)}
        return sorted(found)

    def stored_digests(self) -> set[bytes]:
        """The hash of every object by content that is here or there, in packs and cold months too."""
        if not self._packs.packs() <= set(self._archive.keys(PACK_PREFIX)):
            # It promises what is not there any more.
            self._packs.discard()
        cold = filter(is_cold_key, self._archive.keys(COLD_PREFIX))
        return {digest_of_key(key) for key in (*self.keys(CONTENT_PREFIX), *cold)}

    def walk_keys(self) -> Iterator[str]:
        """Every key, those that wait last; those in a pack by the pack's."""
        yield from self._archive.walk_keys()
        self._segments.refresh()
        yield from sorted({*self._segments.walk_keys(), *self._loose.keys(CONTENT_PREFIX)})

    def stray_files(self) -> Iterator[str]:
        """What is no object of the archive itself."""
        yield from self._archive.stray_files()

    def repaired_objects(self) -> list[str]:
        """The names of objects that were damaged and have been replaced by the right bytes, here or there."""
        return [*self._archive.repaired_objects(), *self._loose.repaired_objects()]

    def delete_partial_writes(self, *, before_ms: int, everywhere: bool = False) -> int:
        """Deletes what killed writers left half written before a moment, here and there."""
        return sum(
            place.delete_partial_writes(before_ms=before_ms, everywhere=everywhere)
            for place in (self._archive, self._loose)
        )

    def write_problem(self) -> str | None:
        """Why nothing can be written to the archive itself now."""
        return self._archive.write_problem()

    def check(
        self, referenced: Iterable[ArchiveReference], *, progress: Callable[[int], None] = lambda objects: None
    ) -> Iterator[ArchiveFinding]:
        """Reads everything and gives what is wrong as it is found; see `check_archive`."""
        # The index is made again from the packs: a damaged one would hide what is there, or promise what is not.
        self._packs.discard()
        for path in segment_files(self._folder):
            for found in segment_records(path):
                if isinstance(found, TornRecord) and not found.at_end:
                    problem = f"{path.name} of the spool cannot be read from byte {found.start} on; {_BACKUP}"
                    yield ArchiveFinding(f"spool/{path.name}", "torn", problem)
        self._refresh(skip_damaged=True)
        places = (self._archive, self._segments, self._loose)
        yield from check_archive(places, referenced, is_packed=self._is_packed, progress=progress)

    def store_content(self, content: bytes) -> StoredContent:
        """Stores content under its own hash, in the spool or else in the archive; never raises."""
        return self.store_contents([content])[0]

    def store_contents(self, contents: Iterable[bytes]) -> list[StoredContent]:
        """Does so for several, with one wait for the disk."""
        objects = [(content_key(content), content) for content in contents]
        new = {key: content for key, content in objects if key not in self._stored_cache}
        problem = _error_of(lambda: self._segments.append(new)) if new else None
        if problem is not None and self._archive.is_local:
            problem = problem if _error_of(lambda: self._archive.create_all(new)) else None
        if problem is None:
            self._remember_keys(new)
        return [StoredContent(key) if key in self._stored_cache else StoredContent(None, problem) for key, _ in objects]

    def store_content_or_raise(self, content: bytes) -> str:
        """The key of content that is kept from now on, in the archive or in the spool; raises when it is in neither."""
        kept = self.store_content(content)
        if kept.key is None:
            raise StoreFailed(f"cannot write to {self._folder}, nor to the archive: {kept.problem}") from kept.problem
        return kept.key

    def drain(self, *, since_ms: int | None = None) -> DrainResult:
        """Packs what waits and moves it to the archive; with `since_ms`, UTC, only when it is worth a pack.

        It is when many objects wait, or one of them since that moment or longer. What is damaged is left alone, and so
        is what another process still writes to.
        """
        waiting = self.spool_state()
        if waiting.oldest_ms is None:
            return DrainResult()
        if since_ms is not None and waiting.oldest_ms > since_ms and waiting.objects < _WAITING_OBJECTS:
            return DrainResult(left=waiting.objects)
        self._segments.close()
        problem = self._move_loose()
        paths = segment_files(self._folder)
        while paths and (problem is None or isinstance(problem, Damaged)):
            problem = self._pack_some(paths) or problem
        left = self.spool_state().objects
        return DrainResult(max(0, waiting.objects - left), left, problem)

    def spool_state(self) -> SpoolState:
        """What waits in the spool."""
        objects, size, oldest = 0, 0, list[int]()
        for path in [*segment_files(self._folder), *map(self._loose.path, self._loose.keys(CONTENT_PREFIX))]:
            # Somebody may have moved it meanwhile.
            with suppress(FileNotFoundError):
                found = os.stat(path)
                records = segment_records(path) if path.suffix != ".z" else [SegmentRecord("", 0, found.st_size)]
                count = sum(isinstance(each, SegmentRecord) for each in records)
                objects, size = objects + count, size + (found.st_size if count else 0)
                oldest += [modified_ms(path)] if count else []
        return SpoolState(objects, size, min(oldest, default=None))

    def _local_content(self, key: str) -> bytes | None:
        """An object of a segment that was read already."""
        return verified_content(key, self._segments.get(key))

    def _archived_content(self, key: str) -> bytes | None:
        """An object of a pack, or one by itself."""
        place = self._packs.find(key)
        if place is None:
            found = verified_content(key, self._archive.get(key))
            return verified_content(key, self._loose.get(key)) if found is None else found
        pack, where = place
        group = self._group_cache.get((pack, where.group_at))
        if group is None:
            content = self._archive.get(pack)
            if content is None:
                raise Damaged(f"the archive has lost {pack}, which holds {key}; restore it from a backup")
            group = packed_group(content, where)
            while len(self._group_cache) >= _CACHED_GROUPS:
                del self._group_cache[next(iter(self._group_cache))]
            self._group_cache[pack, where.group_at] = group
        return verified_content(key, group[where.offset : where.offset + where.size])

    def _content_after_refresh(self, key: str) -> bytes | None:
        self._segments.refresh()
        found = self._local_content(key)
        if found is not None:
            return found
        self._refresh()
        return self._archived_content(key) if self._is_packed(key) else None

    def _is_packed(self, key: str) -> bool:
        return self._packs.find(key) is not None

    def _refresh(self, *, skip_damaged: bool = False) -> None:
        """Takes in what other processes have written and packed."""

        def pack(key: str) -> bytes | None:
            try:
                return verified_content(key, self._archive.get(key))
            except Damaged:
                if not skip_damaged:
                    raise
                return None

        self._segments.refresh()
        self._packs.refresh(self._archive.keys(PACK_PREFIX), pack)

    def _pack_some(self, paths: list[Path]) -> Exception | None:
        """Packs the next finished segments, which are held meanwhile, and deletes them; returns what went wrong."""
        contents: dict[str, bytes] = {}
        packed: list[Path] = []
        damage: Exception | None = None
        with ExitStack() as held:
            while paths and len(contents) < _PACK_OBJECTS:
                path = paths.pop(0)
                if not held.enter_context(finished_segment(path)):
                    continue
                try:
                    contents |= _segment_contents(path)
                    packed.append(path)
                except Damaged as error:
                    damage = error
            failed = _error_of(partial(self._put_pack, contents)) if contents else None
            for path in packed if failed is None else ():
                delete_segment(path)
        return failed or damage

    def _put_pack(self, contents: Mapping[str, bytes]) -> None:
        pack = make_pack(contents)
        key = pack_key(pack)
        self._archive.create(key, pack)
        if self._archive.get(key) != pack:
            raise Damaged(f"the archive took {key} and does not give it back; its objects stay in {self._folder}")
        self._packs.add(key, pack_places(pack))

    def _move_loose(self) -> Exception | None:
        """Moves what an older tapebook left in the spool, object by object; returns why it stopped."""
        problem: Exception | None = None
        for key in self._loose.keys(CONTENT_PREFIX):
            failed = _error_of(partial(self._move_one, key))
            problem = failed or problem
            if failed is not None and not isinstance(failed, Damaged):
                break
        return problem

    def _move_one(self, key: str) -> None:
        content = verified_content(key, self._loose.get(key))
        if content is None:
            # Another process was faster.
            return
        self._archive.create(key, content)
        if self._archive.get(key) != content:
            raise Damaged(f"the archive took {key} and does not give it back; it stays in {self._folder}")
        with suppress(FileNotFoundError):
            os.unlink(self._loose.path(key))

    def _remember_keys(self, keys: Iterable[str]) -> None:
        self._stored_cache.update(dict.fromkeys(keys))
        # Those of this very call stay: they are about to be looked up.
        while len(self._stored_cache) > _CACHED_KEYS and len(self._stored_cache) > len(list(keys)):
            del self._stored_cache[next(iter(self._stored_cache))]


def _segment_contents(path: Path) -> dict[str, bytes]:
    """All objects of a finished segment; Damaged when one of them is not whole, its torn end apart."""
    contents: dict[str, bytes] = {}
    for record in segment_records(path):
        if isinstance(record, TornRecord):
            if not record.at_end:
                raise Damaged(f"{path} cannot be read from byte {record.start} on: it stays where it is")
            continue
        content = read_record(path, record)
        if content is None or not matches_key(record.key, content):
            raise Damaged(f"{record.key} in {path} is not what its name says: it stays where it is")
        contents[record.key] = content
    return contents


def _error_of(call: Callable[[], None]) -> Exception | None:
    """Calls something and gives what it raised: archives of others may raise anything, and a tick must go on."""
    try:
        call()
    except Exception as error:
        return error
    return None
