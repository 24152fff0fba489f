"""Entries: texts an agent, or somebody for it, appends to its journal, its learnings or its notes.

The log is first: an entry is an event, and its text is in the archive. Then it is written to its file, once, however
often a process was killed on the way (`write_entry_files`).
"""

import os
from collections import Counter
from pathlib import Path

from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import PRIVATE_FILE, make_folders
from tapebook.errors import BadInput, Damaged, StoreFailed
from tapebook.library.workspace import WORKSPACE_FOLDER
from tapebook.log import Draft
from tapebook.search import documents
from tapebook.search.documents import Entry, EntryAppended, EntryKind, draft_document_event
from tapebook.wiring import Rooms


class EntryWriter:
    """Makes entries for one append to the log: it knows which of their files are full by then."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._more: Counter[tuple[str, str, int]] = Counter()

    def draft_entry(
        self, agent: str, what: EntryKind, text: str, *, by: str, run_id: str, at: int, entry_id: str
    ) -> Draft:
        """The event of an entry; its text is kept at once."""
        content = documents.clean_entry(text).encode()
        self._rooms.archive.store_content_or_raise(content)
        span = documents.entry_span(what, at)
        before = self._rooms.documents.entry_count(agent, what, span=span) + self._more[agent, what, span[0]]
        self._more[agent, what, span[0]] += 1
        path = documents.entry_path(agent, what, at=at, before=before)
        return draft_document_event(at, EntryAppended(entry_id, agent, what, path, sha256_hex(content), by, run_id))


def write_entry_files(rooms: Rooms, *, after: int) -> int:
    """Writes entries to their files that are not there yet; returns how many there were."""
    waiting: dict[str, list[Entry]] = {}
    for entry in rooms.documents.unwritten_entries(after=after):
        waiting.setdefault(entry.path, []).append(entry)
    for path, entries in waiting.items():
        _append_to_file(rooms, path, entries)
    return sum(map(len, waiting.values()))


def archived_body(rooms: Rooms, sha256: str) -> bytes:
    """What has a hash, from the archive."""
    content = rooms.archive.get(f"sha256/{sha256[:2]}/{sha256}")
    if content is None:
        raise Damaged(f"the archive has nothing with the hash {sha256}: restore it from a backup")
    return content


def agent_file(rooms: Rooms, agent: str, path: str) -> Path:
    """A file in an agent's folder; BadInput when a link leads it elsewhere."""
    workspace = rooms.home / WORKSPACE_FOLDER
    file = workspace / path
    try:
        make_folders(file.parent, durable=True)
    except OSError as error:
        raise StoreFailed(f"cannot write {file.parent}: {error.strerror}; make room or allow writing") from error
    inside = workspace.resolve() / "agents" / agent
    if file.is_symlink() or not file.parent.resolve().is_relative_to(inside):
        raise BadInput(f"{file} is a link, or lies behind one: only files of {inside} are written")
    return file


def _append_to_file(rooms: Rooms, path: str, entries: list[Entry]) -> None:
    file = agent_file(rooms, entries[0].agent, path)
    before = file.read_bytes().decode(errors="replace") if file.exists() else ""
    there = documents.entry_ids_in(before)
    texts = [
        documents.entry_text(entry, archived_body(rooms, entry.sha256).decode())
        for entry in entries
        if entry.entry_id not in there
    ]
    if not texts:
        return
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, PRIVATE_FILE)
        with open(handle, "wb") as out:
            out.write((gap + "\n".join(texts)).encode())
            out.flush()
            os.fsync(handle)
    except OSError as error:
        raise StoreFailed(f"cannot write {file}: {error.strerror}; make room or allow writing") from error
