"""Brings documents and the index up to date, once (`sync_documents`) or whenever a file changes (`watch_documents`).

1. what is new in the log becomes documents (`write_log_documents`), what agents noted becomes entries;
2. entries are written to their files (`write_entry_files`);
3. the workspace and the added folders are walked: a file that changed is a new version, one that is gone is removed;
4. what is new is indexed (`index_new_versions`).

Everything is a function of the log and of the files, and is written in small appends: the next sync goes on where a
killed one stopped, and a sync with nothing new writes nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import msgspec

from tapebook.clock import SystemClock, elapsed_seconds
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import make_folders
from tapebook.errors import BadInput, Busy, Retry, TapebookError
from tapebook.library import workspace
from tapebook.library.entries import write_entry_files
from tapebook.library.log_documents import write_log_documents
from tapebook.library.search import IndexProgress, index_new_versions, no_progress, store_search_terms
from tapebook.library.workspace import WORKSPACE_FOLDER, RefusedFile, WorkspaceFile, WorkspaceState
from tapebook.log import Draft
from tapebook.search import DocumentVersion, IndexReport
from tapebook.search.documents import DocumentKept, DocumentRemoved, Documents, Trust, draft_document_event
from tapebook.uploads import send_documents
from tapebook.wiring import Rooms

VERSIONS_PER_APPEND = 200
"""Versions that are written in one append."""

# Kinds whose files agents append to: nobody vouches for what they say.
_AGENT_WRITTEN_KINDS = ("journal", "learning", "note")


class SyncReport(msgspec.Struct, frozen=True):
    """What a sync found: new versions of files, removals, files as they were, documents of the log, entries written,
    what was refused, and what was indexed."""

    at: int
    kept: int
    removed: int
    unchanged: int
    derived: int
    entries: int
    refused: tuple[RefusedFile, ...]
    indexed: IndexReport

    @property
    def has_changes(self) -> bool:
        """Whether there was anything new."""
        return bool(self.kept or self.removed or self.derived or self.entries or self.indexed.versions)


def sync_documents(rooms: Rooms, *, progress: IndexProgress = no_progress) -> SyncReport:
    """Does all of it; Busy while another process does. What goes wrong is kept for `status`, and raised."""
    require_workspace(rooms.documents, rooms.home)
    before = workspace.load_workspace_state(rooms.home)
    try:
        return _sync_under_lease(rooms, before, progress)
    except Busy:
        raise
    except TapebookError as error:
        workspace.save_workspace_state(rooms.home, msgspec.structs.replace(before, problem=str(error)))
        raise


def _sync_under_lease(rooms: Rooms, before: WorkspaceState, progress: IndexProgress) -> SyncReport:
    with rooms.leases.holding(rooms.documents.stream):
        store_search_terms(rooms.documents, rooms.clock, rooms.indexes)
        derived = write_log_documents(rooms)
        entries = write_entry_files(rooms.documents, rooms.archive, rooms.home, after=before.entries)
        files = _FileSync(rooms, before)
        files.sync_files()
        until = rooms.documents.log_head()
    if files.kept or derived:
        send_documents(rooms.archive, rooms.config)
    indexed = index_new_versions(rooms.documents, rooms.archive, rooms.indexes, progress=progress)
    at = rooms.clock.now()
    workspace.save_workspace_state(rooms.home, WorkspaceState(files.now_seen, at, tuple(files.refused), entries=until))
    return SyncReport(at, files.kept, files.removed, files.unchanged, derived, entries, tuple(files.refused), indexed)


def require_workspace(documents: Documents, home: Path) -> None:
    """Makes the workspace; BadInput when its documents come from another machine, which alone knows its files."""
    folder = home / WORKSPACE_FOLDER
    if folder.is_dir():
        return
    if any(version.path.startswith(("agents/", "global/")) and version.sha256 for version in _known_files(documents)):
        raise BadInput(f"the book has documents of {folder}, which is not there: put it back, or sync where it is")
    make_folders(folder, durable=True)


def _known_files(documents: Documents) -> list[DocumentVersion]:
    return list(documents.files().values())


class _FileSync:
    """The files of a home beside what is known of them."""

    def __init__(self, rooms: Rooms, before: WorkspaceState) -> None:
        self._rooms = rooms
        self._before = before
        self._known = rooms.documents.files()
        self._drafts: list[Draft] = []
        # Market time may be another; this is the time files are stamped with.
        self._machine_now = SystemClock().now()
        self.now_seen: dict[str, tuple[workspace.Stamp, str]] = {}
        self.refused: list[RefusedFile] = []
        self.kept = self.removed = self.unchanged = 0

    def sync_files(self) -> None:
        """Every change becomes a version."""
        there = set()
        for found in self._walk_files():
            if self._keep_if_changed(found):
                there.add((found.scope, found.path))
        kept = [each.path for each in self.refused if each.keeps]
        for place, version in self._known.items():
            if version.sha256 and place not in there and not any(_lies_in(version.path, path) for path in kept):
                self._write(DocumentRemoved(version.scope, version.path, version.kind))
                self.removed += 1
        self._flush()

    def _walk_files(self) -> list[WorkspaceFile]:
        agents = self._rooms.book.agent_names()
        areas, lost = workspace.workspace_areas(
            self._rooms.home / WORKSPACE_FOLDER, agents=agents, folders=self._rooms.documents.folders()
        )
        walked = [found for area in areas for found in workspace.walk_area(area)]
        there, twice = workspace.drop_duplicates([found for found in walked if isinstance(found, WorkspaceFile)])
        self.refused += [*lost, *(found for found in walked if isinstance(found, RefusedFile)), *twice]
        return there

    def _keep_if_changed(self, found: WorkspaceFile) -> bool:
        """Keeps a file if it changed; False when it is no document."""
        known, digest = self._known.get((found.scope, found.path)), self._before.hash_of(found)
        if known is None or known.sha256 != digest:
            read = workspace.read_document(found)
            if isinstance(read, RefusedFile):
                self.refused.append(read)
                return False
            digest = sha256_hex(read)
            if known is None or known.sha256 != digest:
                self._store_version(found, read, digest)
        if known is not None and known.sha256 == digest:
            self.unchanged += 1
        if workspace.is_stamp_reliable(found.stamp, now_ms=self._machine_now):
            self.now_seen[found.path] = (found.stamp, digest)
        return True

    def _store_version(self, found: WorkspaceFile, content: bytes, digest: str) -> None:
        self._rooms.archive.store_content_or_raise(content)
        trust: Trust = "agent" if found.kind in _AGENT_WRITTEN_KINDS else "owner"
        self._write(DocumentKept(found.scope, found.path, found.kind, digest, len(content), "file", trust))
        self.kept += 1

    def _write(self, body: msgspec.Struct) -> None:
        self._drafts.append(draft_document_event(self._rooms.clock.now(), body))
        if len(self._drafts) >= VERSIONS_PER_APPEND:
            self._flush()

    def _flush(self) -> None:
        if self._drafts:
            self._rooms.documents.append(self._drafts)
            self._drafts = []
        self._rooms.leases.heartbeat_if_due()


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


# Changes that come within this time of one another are one.
_DEBOUNCE_MS = 400


def watch_documents(rooms: Rooms, *, seconds: float | None = None, stop: Event | None = None) -> Iterator[SyncReport]:
    """Syncs now, and then after every change, until its time is over; gives what each sync found.

    A sync that somebody else is in the way of is tried again at the next change or the next round.
    """
    from watchfiles import watch as changes

    require_workspace(rooms.documents, rooms.home)
    yield from _sync_if_free(rooms)
    end = None if seconds is None else elapsed_seconds() + seconds
    round_ms = rooms.config.recall.sync_minutes * 60_000
    places = [str(rooms.home / WORKSPACE_FOLDER), *rooms.documents.folders().values()]
    # An empty set is what comes when nothing changed for a while; it lets us look at the time.
    waited = 0
    step_ms = round_ms if seconds is None else min(round_ms, 500)
    for changed in changes(
        *places, debounce=_DEBOUNCE_MS, rust_timeout=step_ms, yield_on_timeout=True, stop_event=stop
    ):
        waited += step_ms
        if changed or waited >= round_ms:
            waited = 0
            yield from _sync_if_free(rooms)
        if end is not None and elapsed_seconds() >= end:
            return


def _sync_if_free(rooms: Rooms) -> Iterator[SyncReport]:
    try:
        yield sync_documents(rooms)
    except Retry:
        return
