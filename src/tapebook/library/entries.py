"""Entries: texts an agent, or somebody for it, appends to its journal, its learnings or its notes.

`SOUL.md` and `TRADING_MANUAL.md` of an agent are its manual, one after the other (`ManualFiles`): whoever changes the
manual writes the file first, and what a person writes there is taken in by the next sync.

The log is first: an entry is an event, and its text is in the archive. Then it is written to its file, once, however
often a process was killed on the way (`write_entry_files`).
"""

import os
from collections import Counter
from pathlib import Path

from tapebook.archive import Archive, SpooledArchive
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import PRIVATE_FILE, make_folders, write_whole
from tapebook.errors import BadInput, Damaged, StoreFailed
from tapebook.library.workspace import WORKSPACE_FOLDER
from tapebook.log import Draft
from tapebook.search.documents import (
    Documents,
    Entry,
    EntryAppended,
    EntryKind,
    clean_entry,
    draft_document_event,
    entry_ids_in,
    entry_path,
    entry_span,
    entry_text,
)


class EntryWriter:
    """Makes entries for one append to the log: it knows which of their files are full by then."""

    def __init__(self, documents: Documents, archive: SpooledArchive) -> None:
        self._documents = documents
        self._archive = archive
        self._more: Counter[tuple[str, str, int]] = Counter()

    def draft_entry(
        self, agent: str, what: EntryKind, text: str, *, by: str, run_id: str, at: int, entry_id: str
    ) -> Draft:
        """The event of an entry; its text is kept at once."""
        content = clean_entry(text).encode()
        self._archive.store_content_or_raise(content)
        span = entry_span(what, at)
        before = self._documents.entry_count(agent, what, span=span) + self._more[agent, what, span[0]]
        self._more[agent, what, span[0]] += 1
        path = entry_path(agent, what, at=at, before=before)
        return draft_document_event(at, EntryAppended(entry_id, agent, what, path, sha256_hex(content), by, run_id))


SOUL_FILE, MANUAL_FILE = "SOUL.md", "TRADING_MANUAL.md"


class ManualFiles:
    """The files of one agent that are its manual, as they are now."""

    def __init__(self, home: Path, agent: str) -> None:
        self._folder = home / WORKSPACE_FOLDER / "agents" / agent
        self.soul, self.rules = _manual_file(self._folder / SOUL_FILE), _manual_file(self._folder / MANUAL_FILE)

    @property
    def text(self) -> str | None:
        """The manual they make; None when there is no such file."""
        parts = [part for part in (self.soul, self.rules) if part]
        return "\n\n".join(parts) if parts else None

    def rules_of(self, manual: str) -> str:
        """What `TRADING_MANUAL.md` has of a manual; BadInput when that does not begin with `SOUL.md`."""
        if not self.soul:
            return manual
        if not manual.startswith(self.soul):
            raise BadInput(f"a manual begins with {self._folder / SOUL_FILE}: change that part there, by hand")
        return manual.removeprefix(self.soul).strip("\n")

    def require_unedited(self, manual: str) -> None:
        """BadInput when a person has written something else there than the manual that stands."""
        if self.text is not None and self.text != manual.strip("\n"):
            edited = f"the files of {self._folder} were edited by hand and are not the manual that stands"
            raise BadInput(f"{edited}: `tapebook recall sync` takes them in, then try again")


def _manual_file(file: Path) -> str | None:
    """The text of a file without what stands around it; None when there is none, or nothing in it."""
    if file.is_symlink() or not file.is_file():
        return None
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").strip("\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text: save it as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror}): allow reading it") from error
    return text if text.strip() else None


def write_manual_file(home: Path, agent: str, manual: str) -> None:
    """Writes the manual of an agent to its file, whole or not at all."""
    text = ManualFiles(home, agent).rules_of(manual)
    file = agent_file(home, agent, f"agents/{agent}/{MANUAL_FILE}")
    try:
        write_whole(file, f"{text}\n".encode(), durable=True)
    except OSError as error:
        raise StoreFailed(f"cannot write {file}: {error.strerror}; make room or allow writing") from error


def write_entry_files(documents: Documents, archive: Archive, home: Path, *, after: int) -> int:
    """Writes entries to their files that are not there yet; returns how many there were."""
    waiting: dict[str, list[Entry]] = {}
    for entry in documents.unwritten_entries(after=after):
        waiting.setdefault(entry.path, []).append(entry)
    for path, entries in waiting.items():
        _append_to_file(archive, home, path, entries)
    return sum(map(len, waiting.values()))


def archived_body(archive: Archive, sha256: str) -> bytes:
    """What has a hash, from the archive."""
    content = archive.get(f"sha256/{sha256[:2]}/{sha256}")
    if content is None:
        raise Damaged(
            f"the archive has nothing with the hash {sha256}: if another machine wrote it, run `tapebook doctor --fix`"
            " there, which sends what waits; else restore it from a backup"
        )
    return content


def agent_file(home: Path, agent: str, path: str) -> Path:
    """A file in an agent's folder; BadInput when a link leads it elsewhere."""
    workspace = home / WORKSPACE_FOLDER
    file = workspace / path
    try:
        make_folders(file.parent, durable=True)
    except OSError as error:
        raise StoreFailed(f"cannot write {file.parent}: {error.strerror}; make room or allow writing") from error
    inside = workspace.resolve() / "agents" / agent
    if file.is_symlink() or not file.parent.resolve().is_relative_to(inside):
        raise BadInput(f"{file} is a link, or lies behind one: only files of {inside} are written")
    return file


def _append_to_file(archive: Archive, home: Path, path: str, entries: list[Entry]) -> None:
    file = agent_file(home, entries[0].agent, path)
    before = file.read_bytes().decode(errors="replace") if file.exists() else ""
    there = entry_ids_in(before)
    texts = [
        entry_text(entry, archived_body(archive, entry.sha256).decode())
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
