"""Searches, syncs and appends to the documents of a home, for surfaces and programs.

    tb.recall.search("what do I do when the feed disconnects")

Reads give values in people's units; the only writes are those of the policy (docs/recall.md).
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from tapebook.api.open_home import AsOf, HomePart, parse_moment
from tapebook.desk import document_writes
from tapebook.desk.document_writes import AppendedEntry, DecidedProposal, ProposalDiff
from tapebook.domain.units import iso_text
from tapebook.errors import BadInput
from tapebook.library.search import (
    DocumentText,
    IndexProgress,
    RecallStatus,
    SearchResult,
    documents_status,
    no_progress,
    read_document,
    reindex,
    search_documents,
)
from tapebook.library.sync import SyncReport, sync_documents, watch_documents
from tapebook.library.workspace import RefusedFile
from tapebook.search import IndexReport
from tapebook.search.documents import END_OF_TIME
from tapebook.wiring import Rooms

__all__ = [
    "AppendedEntry",
    "DecidedProposal",
    "DocumentText",
    "ProposalDiff",
    "Recall",
    "RecallStatus",
    "SearchResult",
    "SyncReport",
]


class ProposalView(TypedDict):
    """A proposed manual, and what came of it."""

    proposal_id: str
    agent: str
    base_sha256: str
    sha256: str
    written_by: str
    run_id: str
    known_at: str
    status: str
    decided_by: str
    decided_at: str | None
    version: int


class WriteView(TypedDict):
    """One thing that was written by way of the policy."""

    seq: int
    known_at: str
    kind: str
    agent: str
    written_by: str
    run_id: str
    sha256: str
    place: str


class Recall(HomePart):
    """The documents of a home."""

    def search(
        self,
        query: str,
        *,
        agent: str | None = None,
        limit: int = 10,
        as_of: AsOf = None,
        kinds: Iterable[str] | None = None,
    ) -> SearchResult:
        """Places in documents that answer a question: those an agent may see, or all; now, or as known at a moment."""
        with self._home.read() as rooms:
            moment = None if as_of is None else parse_moment(as_of)
            chosen = None if kinds is None else frozenset(kinds)
            return search_documents(rooms, query, agent=agent, limit=limit, as_of=moment, kinds=chosen)

    def document(
        self, path: str, *, agent: str | None = None, sha256: str | None = None, as_of: AsOf = None
    ) -> DocumentText:
        """A whole document by the path of a citation: one that an agent may see, or any.

        It is the one of now, as of a moment, or the version with the hash that a citation names.
        """
        moment = None if as_of is None else parse_moment(as_of)
        with self._home.read() as rooms:
            return read_document(
                rooms.book, rooms.documents, rooms.archive, path, agent=agent, sha256=sha256, as_of=moment
            )

    def status(self) -> RecallStatus:
        """The state of recall: documents, chunks, the last sync, what was refused, and how far the index is."""
        with self._home.read() as rooms:
            return documents_status(rooms.book, rooms.documents, rooms.home, indexes=rooms.indexes)

    def sync(self, *, progress: IndexProgress = no_progress) -> SyncReport:
        """Brings documents and index up to date."""
        with self._home.write() as rooms:
            refused = document_writes.adopt_manual_files(rooms)
            return _with_refused(sync_documents(rooms, progress=progress), refused)

    def reindex(self, *, progress: IndexProgress = no_progress) -> IndexReport:
        """Builds the index anew and puts it in place of the old one."""
        with self._home.write() as rooms:
            return reindex(rooms.documents, rooms.archive, rooms.home, progress=progress, indexes=rooms.indexes)

    def watch(self, *, seconds: float | None = None) -> Iterator[SyncReport]:
        """Syncs now, whenever a file changes, and every `recall.sync_minutes`; gives what each sync found."""
        # With rooms of its own: it may wait for ever, and nobody else could write.
        beside = self._home.writer
        with closing(Rooms(beside.home, clock=beside.clock, slot=beside.config.recall.slot)) as rooms:
            try:
                for report in watch_documents(rooms, seconds=seconds):
                    yield _with_refused(report, document_writes.adopt_manual_files(rooms))
            finally:
                self._home.anchor_written(rooms)

    def add(self, folder: str | Path, *, progress: IndexProgress = no_progress) -> SyncReport:
        """Makes the texts of a folder documents for every agent."""
        with self._home.write() as rooms:
            document_writes.add_folder(rooms.documents, rooms.clock, rooms.home, Path(folder), leases=rooms.leases)
            return sync_documents(rooms, progress=progress)

    def remove(self, folder: str, *, progress: IndexProgress = no_progress) -> SyncReport:
        """Ends what `add` began, by the folder's name or place; searches as of before still find its texts."""
        with self._home.write() as rooms:
            document_writes.remove_folder(rooms.documents, rooms.clock, rooms.leases, folder)
            return sync_documents(rooms, progress=progress)

    def append(
        self, what: str, agent: str, text: str, *, run: str | None = None, by: str = "owner", at: AsOf = None
    ) -> AppendedEntry:
        """Appends to an agent's `journal`, or to its `learning`s or `note`s; once at a moment (now by default)."""
        with self._home.write() as rooms:
            moment = None if at is None else self._home.moment(at)
            return document_writes.append_entry(rooms, agent, what, text, run_id=run or "", by=by, at=moment)

    def propose(
        self,
        agent: str,
        text: str | None = None,
        *,
        file: str | Path | None = None,
        run: str | None = None,
        by: str = "owner",
        at: AsOf = None,
    ) -> ProposalDiff:
        """Proposes a manual, from a text or a file; it stands when the owner approves it."""
        with self._home.write() as rooms:
            if (text is None) == (file is None):
                raise BadInput("a proposal is a text or a file: give one of the two")
            proposed = document_writes.read_manual_file(Path(file)) if file is not None else text or ""
            moment = None if at is None else self._home.moment(at)
            return document_writes.propose_manual(rooms, agent, proposed, run_id=run or "", by=by, at=moment)

    def proposals(self, agent: str | None = None, *, most: int = 20, as_of: AsOf = None) -> list[ProposalView]:
        """Proposals, newest first, of one agent or of all; as they stand or stood at a moment."""
        with self._home.read() as rooms:
            found = rooms.documents.proposals(agent or "", most=most, as_of=self._until(as_of))
            return [cast(ProposalView, _with_iso_times(each, "known_at", "decided_at")) for each in found]

    def proposal(self, proposal_id: str, *, as_of: AsOf = None) -> ProposalDiff:
        """One proposal, with what it changes; as it stands or stood at a moment."""
        with self._home.read() as rooms:
            return document_writes.proposal_with_diff(
                rooms.documents, rooms.archive, proposal_id, as_of=self._until(as_of)
            )

    def approve(self, proposal_id: str, *, by: str = "owner") -> DecidedProposal:
        """Makes a proposed manual the agent's: a new version of its profile."""
        with self._home.write() as rooms:
            return document_writes.approve_proposal(rooms, proposal_id, by=by)

    def reject(self, proposal_id: str, *, by: str = "owner") -> DecidedProposal:
        """Ends a proposal; the manual stays as it is."""
        with self._home.write() as rooms:
            return document_writes.reject_proposal(rooms.documents, rooms.clock, rooms.leases, proposal_id, by=by)

    def writes(self, agent: str | None = None, *, most: int = 50, as_of: AsOf = None) -> list[WriteView]:
        """Everything that was appended, proposed or approved, newest first: who, in which run, when, and its hash."""
        with self._home.read() as rooms:
            found = rooms.documents.writes(agent or "", most=most, as_of=self._until(as_of))
            return [cast(WriteView, _with_iso_times(each, "known_at")) for each in found]

    def _until(self, as_of: AsOf) -> int:
        # Without a moment everything counts, also what a clock that was ahead wrote.
        return END_OF_TIME if as_of is None else self._home.moment(as_of)


def _with_refused(report: SyncReport, refused: Iterable[RefusedFile]) -> SyncReport:
    return msgspec.structs.replace(report, refused=(*report.refused, *refused))


def _with_iso_times(record: msgspec.Struct, *names: str) -> dict[str, Any]:
    row = msgspec.structs.asdict(record)
    return row | {name: None if row[name] is None else iso_text(row[name]) for name in names}
