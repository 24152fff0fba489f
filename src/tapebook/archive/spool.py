"""An archive with a spool in front: content is appended to a local file, and packed for the archive later.

1. `store_contents` is for whoever must not wait: it appends to a segment of the spool (`Segments`), one write and
   one wait for the disk for all that a decision says. Where the spool cannot be written, an archive on the disk takes
   the objects one by one.
2. `get` and `keys` look in the spool, in packs and in the archive itself, so a key is good from the moment it was
   given, in any process that has the same spool.
3. `drain` packs segments (`packs.py`) and puts the packs into the archive, when a pack is due (`longest_wait_ms`:
   after an hour where there are enough objects, after six in any case) or at once when asked to. A segment is deleted
   only after the archive has given its pack back whole. The librarian does so, and `tapebook doctor --fix`.

`create` is the archive's own: whoever deletes something after it was archived, or can try again later, must hear
that it was not. Only content is spooled, whose key is its hash; so two processes cannot disagree on what waits.

A segment is a file to which a process appends the content it stores, many objects to a file:

    TBS1 | length of the packed bytes (4) | sha256 of the content (32) | packed bytes

An append is one write and, with `durable`, one wait for the disk: a row that names the content may be written after
it. Whoever appends holds the segment's lock meanwhile, and so does whoever packs it and deletes it: a writer that
finds its segment packed, or being packed, begins another. So nothing waits for its writer to end. A writer that was
killed leaves at most a torn record at the end, behind which nobody writes: the next one begins a segment of its own.

The name of a segment begins with the moment it was begun, in UTC milliseconds: that is how long its first record has
waited, whatever is appended later and whoever restarts, dies, or restores the file from a backup.
"""

import fcntl
import os
import re
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from tapebook.archive.archives.folder import FolderArchive
from tapebook.archive.check import RESTORE_FROM_BACKUP, ArchiveFinding, ArchiveReference, check_archive
from tapebook.archive.packs import PackIndex, make_pack, pack_key, pack_places, packed_group
from tapebook.archive.port import (
    COLD_PREFIX,
    PACK_PREFIX,
    Archive,
    digest_of_key,
    is_cold_key,
    is_content_key,
    key_of_digest,
    matches_key,
    verified_content,
)
from tapebook.domain import files
from tapebook.domain.canonical import CONTENT_PREFIX, content_key
from tapebook.domain.units import HOUR
from tapebook.errors import Damaged, StoreFailed

SEGMENT_SUFFIX = ".seg"
_BEGUN = re.compile(r"(\d{13,})-")
_MAGIC = b"TBS1"
_HEADER = struct.Struct(">4sI32s")
# A reader that looks for one object reads a whole segment once.
_MAX_SEGMENT_BYTES = 4_000_000


class SegmentRecord(msgspec.Struct, frozen=True):
    """Where an object lies in a segment, still packed."""

    key: str
    start: int
    size: int


class TornRecord(msgspec.Struct, frozen=True):
    """Bytes of a segment that are no record; `at_end` when nothing follows, as a killed writer leaves it."""

    start: int
    at_end: bool


class Segments:
    """The segments of a folder: one of its own to append to, and an index of what all of them hold.

    The index is a cache of what was read; `refresh` extends it by what was written since, by whomever.
    """

    def __init__(self, folder: Path, *, durable: bool, now: Callable[[], int]) -> None:
        self._folder = folder
        self._durable = durable
        self._now = now
        self._handle: int | None = None
        # Closes it, at the latest when nobody has these segments any more.
        self._close_handle: Callable[[], object] = lambda: None
        self._bytes = 0
        self._places: dict[str, tuple[str, SegmentRecord]] = {}
        self._read_until: dict[str, int] = {}
        self._lock = threading.Lock()

    def append(self, contents: Mapping[str, bytes]) -> None:
        """Stores objects by their keys; on the disk when it returns. OSError when they are not."""
        records = b""
        for key, content in contents.items():
            packed = zlib.compress(content, 1)
            # Such a key ends with the hash.
            records += _HEADER.pack(_MAGIC, len(packed), bytes.fromhex(key.rpartition("/")[2])) + packed
        with self._lock:
            try:
                # A new one when somebody packs the last one just now, or has.
                if self._handle is not None and not (_has_locked(self._handle) and os.fstat(self._handle).st_nlink):
                    self._end_segment()
                if self._handle is None:
                    self._handle, self._bytes = self._new_segment(), 0
                    self._close_handle = weakref.finalize(self, os.close, self._handle)
                handle, rest = self._handle, memoryview(records)
                while rest:
                    rest = rest[os.write(handle, rest) :]
                if self._durable:
                    os.fsync(handle)
                self._bytes += len(records)
                fcntl.flock(handle, fcntl.LOCK_UN)
            except OSError:
                # What is half written must not stand before what comes next.
                self._end_segment()
                raise
            if self._bytes >= _MAX_SEGMENT_BYTES:
                self._end_segment()

    def close(self) -> None:
        """Ends the segment that is written to."""
        with self._lock:
            self._end_segment()

    def refresh(self) -> None:
        """Reads what was appended since, and forgets segments that are gone."""
        with self._lock:
            sizes = {path.name: size for path in segment_files(self._folder) if (size := _size_of(path)) is not None}
            for name in self._read_until.keys() - sizes.keys():
                del self._read_until[name]
                self._places = {key: place for key, place in self._places.items() if place[0] != name}
            for name, size in sizes.items():
                if size > self._read_until.get(name, 0):
                    self._extend(name)

    def get(self, key: str) -> bytes | None:
        """An object's bytes, None when no segment that was read has it; Damaged when it cannot be unpacked."""
        place = self._places.get(key)
        return None if place is None else read_record(self._folder / place[0], place[1])

    def has(self, key: str) -> bool:
        """Whether a segment that was read has an object."""
        return key in self._places

    def walk_keys(self) -> Iterator[str]:
        """The keys of all that was read."""
        return iter(sorted(self._places))

    def stray_files(self) -> Iterator[str]:
        """Nothing: what is torn has no name, and a check of the spool says where it is."""
        return iter(())

    def _new_segment(self) -> int:
        files.make_folders(self._folder, durable=self._durable)
        while True:
            handle, _ = tempfile.mkstemp(SEGMENT_SUFFIX, f"{self._now():013d}-", self._folder)
            # Whoever packs may have been faster, and has deleted an empty segment.
            if _has_locked(handle) and os.fstat(handle).st_nlink:
                break
            os.close(handle)
        if self._durable:
            files.sync_folder(self._folder)
        return handle

    def _end_segment(self) -> None:
        self._close_handle()
        self._handle = None

    def _extend(self, name: str) -> None:
        end = self._read_until.get(name, 0)
        for found in segment_records(self._folder / name, start=end):
            if isinstance(found, SegmentRecord):
                self._places[found.key] = (name, found)
                end = found.start + found.size
        # A torn end is read again: it may be a record whose writer was just about to finish it.
        self._read_until[name] = end


def segment_files(folder: Path) -> list[Path]:
    """The segments of a folder, oldest first."""
    try:
        found = [folder / name for name in os.listdir(folder) if name.endswith(SEGMENT_SUFFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda path: (begun_ms(path), path.name))


def begun_ms(path: Path) -> int:
    """When a segment was begun, by its name; a file without such a name, when it was last written; 0 when it is gone.

    Older versions named segments without it, and wrote to none that they left behind.
    """
    try:
        if found := _BEGUN.match(path.name):
            return int(found[1])
        return os.stat(path).st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def segment_records(path: Path, *, start: int = 0) -> Iterator[SegmentRecord | TornRecord]:
    """The records of a segment; after bytes that are none, the next that begins like one."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            content = file.read()
    except FileNotFoundError:
        return
    at = 0
    while at < len(content):
        end = _record_end(content, at)
        if end is None:
            following = content.find(_MAGIC, at + 1)
            yield TornRecord(start + at, at_end=following < 0)
            at = len(content) if following < 0 else following
            continue
        _, size, digest = _HEADER.unpack_from(content, at)
        yield SegmentRecord(key_of_digest(digest), start + end - size, size)
        at = end


def read_record(path: Path, record: SegmentRecord) -> bytes | None:
    """The content of a record, whatever its key says; None when its segment is gone, Damaged when it is torn."""
    try:
        with open(path, "rb") as file:
            file.seek(record.start)
            return zlib.decompress(file.read(record.size))
    except FileNotFoundError:
        return None
    except zlib.error as error:
        raise Damaged(f"{record.key} in {path} cannot be unpacked ({error}); restore it from a backup") from error


@contextmanager
def locked_segment(path: Path) -> Iterator[bool]:
    """Holds the lock of a segment; False when somebody appends to it or packs it just now, or it is gone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _has_locked(handle) and os.fstat(handle).st_nlink > 0
    finally:
        os.close(handle)


def delete_segment(path: Path) -> None:
    """Deletes a segment whose objects are all elsewhere."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def _record_end(content: bytes, at: int) -> int | None:
    """Where the record at a place ends; None when there is none that is whole."""
    if len(content) - at < _HEADER.size or not content.startswith(_MAGIC, at):
        return None
    end = at + _HEADER.size + int(_HEADER.unpack_from(content, at)[1])
    return end if end <= len(content) else None


def _has_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size_of(path: Path) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


_INDEX_FILE = "packs.db"
# So many objects make a pack at once; a pack holds about so many at most.
_MANY_OBJECTS = 512
_PACK_OBJECTS = 2_000
# So many do when the first of them has waited for an hour: 96 decisions with a packet and a reply each, so about ten
# packs for a thousand of them. Fewer go after six hours: four packs a day for the slowest desk.
_ENOUGH_OBJECTS = 192
_ENOUGH_WAIT_MS, _LONGEST_WAIT_MS = HOUR, 6 * HOUR
# Groups of packs that were unpacked last: whoever replays reads one object after the other.
_CACHED_GROUPS = 8
# Keys that were stored last: engines say the same things again and again.
_CACHED_KEYS = 512


class StoredContent(msgspec.Struct, frozen=True):
    """The key under which content can be read from now on, None when it could not be written anywhere, and why."""

    key: str | None
    problem: Exception | None = None


class SpoolState(msgspec.Struct, frozen=True):
    """What waits: how many objects, their bytes on the disk, and since when the first of them does in UTC ms."""

    objects: int = 0
    bytes: int = 0
    oldest_ms: int | None = None


def longest_wait_ms(objects: int) -> int:
    """How long the first of so many objects waits for a pack: six hours, one if they are enough, not at all if many."""
    if objects >= _MANY_OBJECTS:
        return 0
    return _ENOUGH_WAIT_MS if objects >= _ENOUGH_OBJECTS else _LONGEST_WAIT_MS


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

    `now` gives the machine's time in UTC milliseconds, whatever the clock of the home is: others share the spool.
    What is read under a content key is compared with it, whichever adapter the archive is: altered bytes are Damaged.
    """

    def __init__(self, archive: Archive, spool: Path, *, now: Callable[[], int], durable: bool = True) -> None:
        self._archive = archive
        self._folder = spool
        self._now = now
        self._segments = Segments(spool, durable=durable, now=now)
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
                    problem = (
                        f"{path.name} of the spool cannot be read from byte {found.start} on; {RESTORE_FROM_BACKUP}"
                    )
                    yield ArchiveFinding(f"spool/{path.name}", "torn", problem)
        self._refresh(skip_damaged=True)
        places = (self._archive, self._segments, self._loose)
        yield from check_archive(places, referenced, is_packed=self._is_packed, progress=progress)

    def store_content(self, content: bytes) -> StoredContent:
        """Stores content under its own hash, in the spool or else in the archive; never raises."""
        return self.store_contents([content])[0]

    def store_contents(self, contents: Iterable[bytes]) -> list[StoredContent]:
        """Does so for several, with one wait for the disk."""
        keys, new = list[str](), dict[str, bytes]()
        for content in contents:
            key = content_key(content)
            keys.append(key)
            if key not in self._stored_cache:
                new[key] = content
        problem = _error_of(partial(self._segments.append, new)) if new else None
        if problem is not None and self._archive.is_local:
            problem = problem if _error_of(partial(self._archive.create_all, new)) else None
        if problem is None:
            self._stored_cache.update(dict.fromkeys(new))
        # Before the oldest keys go: one of them may be asked for in this very call.
        stored = []
        for key in keys:
            stored.append(StoredContent(key) if key in self._stored_cache else StoredContent(None, problem))
        while len(self._stored_cache) > _CACHED_KEYS:
            del self._stored_cache[next(iter(self._stored_cache))]
        return stored

    def store_content_or_raise(self, content: bytes) -> str:
        """The key of content that is kept from now on, in the archive or in the spool; raises when it is in neither."""
        return self.store_contents_or_raise([content])[0]

    def store_contents_or_raise(self, contents: Iterable[bytes]) -> list[str]:
        """The keys of several, with one wait for the disk."""
        keys = []
        for kept in self.store_contents(contents):
            if kept.key is None:
                text = f"cannot write to {self._folder}, nor to the archive: {kept.problem}"
                raise StoreFailed(text) from kept.problem
            keys.append(kept.key)
        return keys

    def drain(self, *, when_due: bool = False) -> DrainResult:
        """Packs what waits, whoever wrote it, and moves it to the archive; `when_due` only after `longest_wait_ms`.

        What is damaged is left alone, and so is a segment that another process appends to at this very moment.
        """
        waiting = self.spool_state()
        if waiting.oldest_ms is None:
            return DrainResult()
        # What is from the future was stored before the clock was set back: it has waited for nobody knows how long.
        if when_due and 0 <= self._now() - waiting.oldest_ms < longest_wait_ms(waiting.objects):
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
                oldest += [begun_ms(path)] if count else []
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
        """Packs the next segments, which are locked meanwhile, and deletes them; returns what went wrong."""
        contents: dict[str, bytes] = {}
        packed: list[Path] = []
        damage: Exception | None = None
        with ExitStack() as held:
            while paths and len(contents) < _PACK_OBJECTS:
                path = paths.pop(0)
                if not held.enter_context(locked_segment(path)):
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


def _segment_contents(path: Path) -> dict[str, bytes]:
    """All objects of a segment; Damaged when one of them is not whole, its torn end apart."""
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
