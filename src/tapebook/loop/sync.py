"""Brings documents up to date, and the index with them.

1. what the log told since the last time becomes documents (`write_annals`), what agents noted becomes entries;
2. entries are written to their files (`write_entries`);
3. the workspace and the added folders are walked: a file that changed is a new version, one that is gone is removed;
4. what is new is indexed (`catch_up`).

Everything is a function of the log and of the files, and is written in small appends: a sync that is killed is gone on
with by the next one, and a sync with nothing new writes nothing.
"""

import msgspec

from tapebook.clock import SystemClock
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import make_folders
from tapebook.errors import BadInput, Busy, TapebookError
from tapebook.log import Draft
from tapebook.loop.annals import write_annals
from tapebook.loop.entries import write_entries
from tapebook.loop.recall import Progress, catch_up, choose_terms, silent
from tapebook.recall import IndexReport, Version, seen, workspace
from tapebook.recall.events import DocumentKept, DocumentRemoved, Trust, draft
from tapebook.recall.refuse import Refused
from tapebook.recall.seen import Seen
from tapebook.recall.workspace import FOLDER, Found
from tapebook.wiring import Rooms

APPENDED = 200
"""Versions that are written in one append."""

# Kinds whose files agents append to: nobody vouches for what they say.
_AGENTS_WRITE = ("journal", "learning", "note")


class SyncReport(msgspec.Struct, frozen=True):
    """What a sync found: new versions of files, removals, files as they were, documents of the log, entries written,
    what was refused, and what was indexed."""

    at: int
    kept: int
    removed: int
    unchanged: int
    derived: int
    entries: int
    refused: tuple[Refused, ...]
    indexed: IndexReport

    @property
    def changed(self) -> bool:
        """Whether there was anything new."""
        return bool(self.kept or self.removed or self.derived or self.entries or self.indexed.versions)


def sync(rooms: Rooms, *, progress: Progress = silent) -> SyncReport:
    """Does all of it; Busy while another process does. What goes wrong is kept for `status`, and raised."""
    require_workspace(rooms)
    before = seen.load(rooms.home)
    try:
        return _sync(rooms, before, progress)
    except Busy:
        raise
    except TapebookError as error:
        seen.save(rooms.home, msgspec.structs.replace(before, problem=str(error)))
        raise


def _sync(rooms: Rooms, before: Seen, progress: Progress) -> SyncReport:
    with rooms.leases.holding(rooms.documents.stream):
        choose_terms(rooms)
        derived = write_annals(rooms)
        entries = write_entries(rooms, after=before.entries)
        files = _Files(rooms, before)
        files.sync()
        until = rooms.documents.log_head()
    indexed = catch_up(rooms, progress=progress)
    at = rooms.clock.now()
    seen.save(rooms.home, Seen(files.now_seen, at, tuple(files.refused), entries=until))
    return SyncReport(
        at, files.kept, files.removed, files.unchanged, derived, entries, tuple(files.refused), indexed
    )


def require_workspace(rooms: Rooms) -> None:
    """Makes the workspace; BadInput when its documents come from another machine, which alone knows its files."""
    folder = rooms.home / FOLDER
    if folder.is_dir():
        return
    if any(version.path.startswith(("agents/", "global/")) and version.sha256 for version in _files(rooms)):
        raise BadInput(f"the book has documents of {folder}, which is not there: put it back, or sync where it is")
    make_folders(folder, durable=True)


def _files(rooms: Rooms) -> list[Version]:
    return list(rooms.documents.files().values())


class _Files:
    """The files of a home beside what is known of them."""

    def __init__(self, rooms: Rooms, before: Seen) -> None:
        self._rooms = rooms
        self._before = before
        self._known = rooms.documents.files()
        self._drafts: list[Draft] = []
        # Market time may be another; this is the time files are stamped with.
        self._machine_now = SystemClock().now()
        self.now_seen: dict[str, tuple[workspace.Stamp, str]] = {}
        self.refused: list[Refused] = []
        self.kept = self.removed = self.unchanged = 0

    def sync(self) -> None:
        """Every change becomes a version."""
        there = set()
        for found in self._found():
            if self._take(found):
                there.add((found.scope, found.path))
        kept = [each.path for each in self.refused if each.keeps]
        for place, version in self._known.items():
            if version.sha256 and place not in there and not any(_lies_in(version.path, path) for path in kept):
                self._write(DocumentRemoved(version.scope, version.path, version.kind))
                self.removed += 1
        self._flush()

    def _found(self) -> list[Found]:
        rooms = self._rooms
        agents = [profile.name for _, profile in rooms.book.agents(removed=True)]
        areas, lost = workspace.areas(rooms.home / FOLDER, agents=agents, folders=rooms.documents.folders())
        walked = [found for area in areas for found in workspace.walk(area)]
        there, twice = workspace.once([found for found in walked if isinstance(found, Found)])
        self.refused += [*lost, *(found for found in walked if isinstance(found, Refused)), *twice]
        return there

    def _take(self, found: Found) -> bool:
        """Keeps a file if it changed; False when it is no document."""
        known, digest = self._known.get((found.scope, found.path)), self._before.hash_of(found)
        if known is None or known.sha256 != digest:
            read = workspace.read(found)
            if isinstance(read, Refused):
                self.refused.append(read)
                return False
            digest = sha256_hex(read)
            if known is None or known.sha256 != digest:
                self._keep(found, read, digest)
        if known is not None and known.sha256 == digest:
            self.unchanged += 1
        if seen.settled(found.stamp, now_ms=self._machine_now):
            self.now_seen[found.path] = (found.stamp, digest)
        return True

    def _keep(self, found: Found, content: bytes, digest: str) -> None:
        self._rooms.archive.put(content)
        trust: Trust = "agent" if found.kind in _AGENTS_WRITE else "owner"
        self._write(DocumentKept(found.scope, found.path, found.kind, digest, len(content), "file", trust))
        self.kept += 1

    def _write(self, body: msgspec.Struct) -> None:
        self._drafts.append(draft(self._rooms.clock.now(), body))
        if len(self._drafts) >= APPENDED:
            self._flush()

    def _flush(self) -> None:
        if self._drafts:
            self._rooms.documents.append(self._drafts)
            self._drafts = []
        self._rooms.leases.beat_if_due()


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
