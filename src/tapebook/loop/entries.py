"""Entries: words an agent, or somebody for it, appends to its journal, its learnings or its notes.

The log is first: an entry is an event, and its text is in the archive. Then it is written to its file, once, however
often a process was killed on the way (`write_entries`).
"""

import os
from collections import Counter
from pathlib import Path

from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import PRIVATE_FILE, make_folders
from tapebook.errors import BadInput, Damaged, StoreFailed
from tapebook.log import Draft
from tapebook.recall import policy
from tapebook.recall.events import EntryAppended, What, draft
from tapebook.recall.policy import Entry
from tapebook.recall.workspace import FOLDER
from tapebook.wiring import Rooms


class Pen:
    """Makes entries for one append to the log: it knows which of their files are full by then."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._more: Counter[tuple[str, str, int]] = Counter()

    def entry(self, agent: str, what: What, text: str, *, by: str, run_id: str, at: int, entry_id: str) -> Draft:
        """The event of an entry; its text is kept at once."""
        content = policy.cleaned(text).encode()
        self._rooms.archive.put(content)
        span = policy.span(what, at)
        before = self._rooms.documents.entry_count(agent, what, span=span) + self._more[agent, what, span[0]]
        self._more[agent, what, span[0]] += 1
        path = policy.place(agent, what, at=at, before=before)
        return draft(at, EntryAppended(entry_id, agent, what, path, sha256_hex(content), by, run_id))


def write_entries(rooms: Rooms, *, after: int) -> int:
    """Writes entries to their files that are not there yet; returns how many there were."""
    waiting: dict[str, list[Entry]] = {}
    for entry in rooms.documents.unwritten(after=after):
        waiting.setdefault(entry.path, []).append(entry)
    for path, entries in waiting.items():
        _append(rooms, path, entries)
    return sum(map(len, waiting.values()))


def body(rooms: Rooms, sha256: str) -> bytes:
    """What has a hash, from the archive."""
    content = rooms.archive.get(f"sha256/{sha256[:2]}/{sha256}")
    if content is None:
        raise Damaged(f"the archive has nothing with the hash {sha256}: restore it from a backup")
    return content


def own_file(rooms: Rooms, agent: str, path: str) -> Path:
    """A file in an agent's folder; BadInput when a link leads it elsewhere."""
    workspace = rooms.home / FOLDER
    file = workspace / path
    try:
        make_folders(file.parent, durable=True)
    except OSError as error:
        raise StoreFailed(f"cannot write {file.parent}: {error.strerror}; make room or allow writing") from error
    inside = workspace.resolve() / "agents" / agent
    if file.is_symlink() or not file.parent.resolve().is_relative_to(inside):
        raise BadInput(f"{file} is a link, or lies behind one: only files of {inside} are written")
    return file


def _append(rooms: Rooms, path: str, entries: list[Entry]) -> None:
    file = own_file(rooms, entries[0].agent, path)
    before = file.read_bytes().decode(errors="replace") if file.exists() else ""
    there = policy.entries_in(before)
    texts = [
        policy.entry_text(entry, body(rooms, entry.sha256).decode())
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
