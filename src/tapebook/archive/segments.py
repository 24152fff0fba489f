"""Segments: the files of the spool, to which a process appends the content it stores, many objects to a file.

    TBS1 | length of the packed bytes (4) | sha256 of the content (32) | packed bytes

An append is one write and, with `durable`, one wait for the disk: a row that names the content may be written after
it. Whoever writes a segment holds its lock, so a segment that can be locked is finished, whatever became of its
writer; only such a segment is packed and deleted. A writer that was killed leaves at most a torn record at the end,
behind which nobody writes: the next writer begins a segment of its own.
"""

import fcntl
import os
import struct
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tapebook.archive.port import digest_of_key, key_of_digest
from tapebook.domain import files
from tapebook.errors import Damaged

SEGMENT_SUFFIX = ".seg"
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

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        self._handle: int | None = None
        # Closes it, at the latest when nobody has these segments any more.
        self._close_handle: Callable[[], object] = lambda: None
        self._bytes = 0
        self._places: dict[str, tuple[str, SegmentRecord]] = {}
        self._read_until: dict[str, int] = {}
        self._lock = threading.Lock()

    def append(self, contents: Mapping[str, bytes]) -> None:
        """Stores objects by their keys; on the disk when it returns. OSError when they are not."""
        records = b"".join([_record(key, content) for key, content in contents.items()])
        with self._lock:
            try:
                self._write(records)
            except OSError:
                # What is half written must not stand before what comes next.
                self._end_segment()
                raise
            if self._bytes >= _MAX_SEGMENT_BYTES:
                self._end_segment()

    def close(self) -> None:
        """Ends the segment that is written to: from now on it may be packed."""
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

    def _write(self, records: bytes) -> None:
        if self._handle is None:
            self._handle, self._bytes = self._new_segment(), 0
            self._close_handle = weakref.finalize(self, os.close, self._handle)
        rest = memoryview(records)
        while rest:
            rest = rest[os.write(self._handle, rest) :]
        if self._durable:
            os.fsync(self._handle)
        self._bytes += len(records)

    def _new_segment(self) -> int:
        files.make_folders(self._folder, durable=self._durable)
        while True:
            handle, _ = tempfile.mkstemp(SEGMENT_SUFFIX, dir=self._folder)
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
    """The segments of a folder, oldest first by modification, then by name."""
    try:
        found = [folder / name for name in os.listdir(folder) if name.endswith(SEGMENT_SUFFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=lambda path: (modified_ms(path), path.name))


def modified_ms(path: Path) -> int:
    """When a file was last written, by the machine's clock; 0 when it is gone."""
    try:
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
def finished_segment(path: Path) -> Iterator[bool]:
    """Holds the lock of a segment that nobody writes to any more; False when somebody does, or it is gone."""
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


def _record(key: str, content: bytes) -> bytes:
    packed = zlib.compress(content, 1)
    return _HEADER.pack(_MAGIC, len(packed), digest_of_key(key)) + packed


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
