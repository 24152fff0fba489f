"""Keeps documents in the book: their events, the rules of writing, their tables, and reads as of any sequence.

All of an owner's document events lie in one stream, whatever agent they belong to: its numbers are the documents'
watermark. Bodies are in the archive, under their hash.
Agents append to three kinds of file, people agree to a manual, and nothing else can be written. An entry stands
behind a fence below who said it, when and in which run, so that it is never taken for the words of a person, and a
file is not given the same entry twice.
An `Outage` is a time in which decisions or reflections did not work. It can be longer than what was read of the
log at once, so it is a value that is carried on from run to run and kept with `LogRead`.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from tapebook.db import Database, Queries
from tapebook.domain.cache import LastCall
from tapebook.domain.canonical import canonical_json, sha256_hex, short_id
from tapebook.domain.run import DecisionRun
from tapebook.domain.text import has_hidden_characters, quote_block, sanitise_lines
from tapebook.domain.units import DAY, floor_to_step, iso_text
from tapebook.errors import BadInput, UnknownName
from tapebook.log import Draft, Event, Leases, Log, Projection, Stream, Write
from tapebook.search.index import DocumentVersion

MAX_MESSAGES_KEPT = 12
"""How many of its failures a trouble tells; the rest are counted."""


class Outage(msgspec.Struct, frozen=True):
    """What went wrong since when: what is still troubled, what ever was, how often, and what was said.

    `ended_at` is 0 while something is troubled.
    """

    began_at: int
    troubled: tuple[str, ...]
    touched: tuple[str, ...]
    counts: dict[str, int]
    said: tuple[str, ...]
    missing: tuple[str, ...] = ()
    ended_at: int = 0


def failure_state(run: DecisionRun) -> str:
    """What is wrong with a run, in a word; empty when nothing is."""
    if run.status in ("failed", "expired"):
        return run.status
    return "degraded" if run.degraded else ""


def outage_after_run(trouble: Outage | None, run: DecisionRun, words: str) -> Outage | None:
    """The trouble of a deployment after one more run; `words` say what is wrong with it, if anything is."""
    state = failure_state(run)
    if state:
        return add_failure(trouble, run.symbol, at=run.as_of, state=state, words=words, missing=run.degraded)
    return None if trouble is None else _without_subject(trouble, run.symbol, at=run.as_of)


def add_failure(
    trouble: Outage | None, subject: str, *, at: int, state: str, words: str, missing: tuple[str, ...] = ()
) -> Outage:
    """The trouble with one more failure."""
    before = trouble or Outage(at, (), (), {}, ())
    return msgspec.structs.replace(
        before,
        troubled=_with_name(before.troubled, subject),
        touched=_with_name(before.touched, subject),
        counts=before.counts | {state: before.counts.get(state, 0) + 1},
        said=(*before.said, words)[:MAX_MESSAGES_KEPT],
        missing=tuple(sorted({*before.missing, *missing})),
    )


def _without_subject(trouble: Outage, subject: str, *, at: int) -> Outage:
    left = tuple(name for name in trouble.troubled if name != subject)
    return msgspec.structs.replace(trouble, troubled=left, ended_at=0 if left else at)


def end_outage(trouble: Outage, *, at: int) -> Outage:
    """The trouble, over."""
    return msgspec.structs.replace(trouble, troubled=(), ended_at=at)


def _with_name(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


DOCUMENTS_STREAM = "@documents"
"""The name of that stream; no deployment can have it, since names of agents begin with a letter or a digit."""

Trust = Literal["owner", "agent", "system"]
"""Who vouches for a text: people who write files, agents who append, tapebook that writes down what happened."""
Origin = Literal["file", "log"]
EntryKind = Literal["journal", "learning", "note"]

DocumentBody = TypeVar("DocumentBody", bound=msgspec.Struct)


class DocumentKept(msgspec.Struct, frozen=True):
    """A new version of a document; its body is in the archive, under its hash."""

    scope: str
    path: str
    kind: str
    sha256: str
    size: int
    origin: Origin
    trust: Trust


class DocumentRemoved(msgspec.Struct, frozen=True):
    """A document is there no more; what was known before still knows it."""

    scope: str
    path: str
    kind: str


class EntryAppended(msgspec.Struct, frozen=True):
    """Words for a file of an agent's workspace, with who said them in which run; the text is in the archive."""

    entry_id: str
    agent: str
    what: EntryKind
    path: str
    sha256: str
    written_by: str
    run_id: str


class FolderAdded(msgspec.Struct, frozen=True):
    """From now on the texts of a folder outside the workspace are documents too, for every agent."""

    name: str
    place: str


class FolderRemoved(msgspec.Struct, frozen=True):
    """From now on the texts of a folder that was added are no documents any more."""

    name: str


class ManualProposed(msgspec.Struct, frozen=True):
    """Somebody would like another manual for an agent; nothing changes until its owner agrees."""

    proposal_id: str
    agent: str
    base_sha256: str
    sha256: str
    written_by: str
    run_id: str


class ProposalDecided(msgspec.Struct, frozen=True):
    """The owner's word on a proposal; `version` is that of the profile which has the manual since, 0 for none."""

    proposal_id: str
    approved: bool
    decided_by: str
    version: int


class LogRead(msgspec.Struct, frozen=True):
    """How far a stream of the log was read for documents, and the troubles that had not ended there."""

    reader: str
    until: int
    troubles: dict[str, Outage] = {}


class TermsChosen(msgspec.Struct, frozen=True):
    """How decisions search from now on, as canonical JSON: settings may change, an old search does not."""

    terms_json: str


DOCUMENT_EVENT_KINDS: dict[type[msgspec.Struct], str] = {
    DocumentKept: "document.kept",
    DocumentRemoved: "document.removed",
    EntryAppended: "entry.appended",
    FolderAdded: "folder.added",
    FolderRemoved: "folder.removed",
    ManualProposed: "manual.proposed",
    ProposalDecided: "proposal.decided",
    LogRead: "log.read",
    TermsChosen: "terms.chosen",
}


def draft_document_event(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.from_body(DOCUMENT_EVENT_KINDS[type(body)], happened_at, body)


def document_event_body(event: Event, kind: type[DocumentBody]) -> DocumentBody:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)


MAX_ENTRY_CHARACTERS = 2_000
ENTRIES_PER_FILE = 80
"""So many of the longest entries still fit into the largest file that is a document."""

END_OF_TIME = 2**62

_ENTRY_PATHS: dict[EntryKind, str] = {
    "journal": "journal/{day}{part}.md",
    "learning": "memory/learnings{part}.md",
    "note": "memory/notes{part}.md",
}
_ENTRY_ID = re.compile(r"^entry ([0-9a-f]{20}),", re.MULTILINE)


class Entry(msgspec.Struct, frozen=True):
    """Words to append: who said them, in which run (empty for none), for which file, and when."""

    entry_id: str
    agent: str
    what: EntryKind
    path: str
    sha256: str
    written_by: str
    run_id: str
    happened_at: int


def require_entry_kind(what: str) -> EntryKind:
    """The kind of an entry; BadInput names those there are."""
    for known in _ENTRY_PATHS:
        if what == known:
            return known
    raise BadInput(f"{what!r} cannot be written: agents append to {', '.join(_ENTRY_PATHS)}, and to nothing else")


def clean_entry(text: str) -> str:
    """The words of an entry, without what is not seen; BadInput when there are none or too many."""
    kept = "\n".join(sanitise_lines(text))
    if not kept:
        raise BadInput("there is nothing to append: give a text of at least one character")
    if len(kept) > MAX_ENTRY_CHARACTERS:
        raise BadInput(
            f"the text has {len(kept):,} characters and at most {MAX_ENTRY_CHARACTERS:,} are kept: shorten it"
        )
    return kept


def entry_id_for(*parts: str | int) -> str:
    """An id that is the same on every attempt."""
    return short_id("entry", *parts)


def entry_path(agent: str, what: EntryKind, *, at: int, before: int) -> str:
    """The path of the file an entry belongs to, given how many came before it; after a full one comes `notes-2.md`."""
    part = before // ENTRIES_PER_FILE + 1
    number = f"-{part}" if part > 1 else ""
    return f"agents/{agent}/{_ENTRY_PATHS[what].format(day=iso_text(at)[:10], part=number)}"


def entry_span(what: EntryKind, at: int) -> tuple[int, int]:
    """The time in which entries go to the same files: a day of a journal, all time for the rest."""
    day = floor_to_step(at, DAY)
    return (day, day + DAY) if what == "journal" else (0, END_OF_TIME)


def entry_text(entry: Entry, text: str) -> str:
    """An entry as its file has it."""
    run = f"run {entry.run_id}" if entry.run_id else "no run"
    heading = f"## {iso_text(entry.happened_at)[:16].replace('T', ' ')} UTC, {entry.what}"
    attribution = f"entry {entry.entry_id}, {run}, written by {entry.written_by}, trust: agent"
    return f"{heading}\n{attribution}\n\n{quote_block(text)}\n"


def entry_ids_in(content: str) -> set[str]:
    """The ids of the entries a file has already."""
    return set(_ENTRY_ID.findall(content))


ProposalStatus = Literal["open", "approved", "rejected"]


class ManualProposal(msgspec.Struct, frozen=True):
    """A proposed manual: which manual it is meant to follow, who proposed it, and what came of it."""

    proposal_id: str
    agent: str
    base_sha256: str
    sha256: str
    written_by: str
    run_id: str
    known_at: int
    status: ProposalStatus
    decided_by: str
    decided_at: int | None
    version: int


def _proposal_as_of(proposal: ManualProposal, as_of: int) -> ManualProposal:
    """A proposal without the word on it that came after a moment."""
    if proposal.decided_at is None or proposal.decided_at <= as_of:
        return proposal
    return msgspec.structs.replace(proposal, status="open", decided_by="", decided_at=None, version=0)


def proposal_id_for(agent: str, *, base: str, text: str, at: int) -> str:
    """An id for people to type."""
    return short_id("proposal", agent, sha256_hex(base.encode()), sha256_hex(text.encode()), at)[:10]


def check_manual(text: str, *, manual: str) -> str:
    """A proposed manual; BadInput when it is empty, hides something, or changes nothing."""
    proposed = text.replace("\r\n", "\n").strip("\n")
    if not proposed.strip():
        raise BadInput("the proposed manual is empty: write the whole manual as it should be")
    if has_hidden_characters(proposed.replace("\n", "").replace("\t", "")):
        raise BadInput("the proposed manual has control or invisible characters: remove them")
    if proposed == manual.strip("\n"):
        raise BadInput("the proposed manual is the one that stands: there is nothing to decide")
    return proposed


def manual_diff(before: str, after: str, *, agent: str) -> list[str]:
    """The lines of a unified diff from the manual that stands to the one that is proposed."""
    name = f"agents/{agent}/TRADING_MANUAL.md"
    pair = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(*pair, f"{name} (now)", f"{name} (proposed)", lineterm=""))


_PROJECTION_QUERIES = Queries.load("tapebook.search", "projections.sql")

# What a removal has of a version: nothing but the place.
_REMOVED_VERSION = {"sha256": "", "size": 0, "origin": "file", "trust": "owner"}


def _event_values(event: Event, body: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(body) | event.columns() | {"happened_at": event.happened_at}


def _project_version(event: Event) -> list[Write]:
    return [Write(_PROJECTION_QUERIES.version, _event_values(event, document_event_body(event, DocumentKept)))]


def _project_removal(event: Event) -> list[Write]:
    return [
        Write(
            _PROJECTION_QUERIES.version,
            _event_values(event, document_event_body(event, DocumentRemoved)) | _REMOVED_VERSION,
        )
    ]


def _project_entry(event: Event) -> list[Write]:
    return [Write(_PROJECTION_QUERIES.entry, _event_values(event, document_event_body(event, EntryAppended)))]


def _project_folder(event: Event) -> list[Write]:
    return [Write(_PROJECTION_QUERIES.folder, _event_values(event, document_event_body(event, FolderAdded)))]


def _project_folder_removal(event: Event) -> list[Write]:
    return [
        Write(
            _PROJECTION_QUERIES.folder, _event_values(event, document_event_body(event, FolderRemoved)) | {"place": ""}
        )
    ]


def _project_proposal(event: Event) -> list[Write]:
    return [Write(_PROJECTION_QUERIES.proposal, _event_values(event, document_event_body(event, ManualProposed)))]


def _project_decision(event: Event) -> list[Write]:
    body = document_event_body(event, ProposalDecided)
    word = {"status": "approved" if body.approved else "rejected", "decided_at": event.known_at}
    return [Write(_PROJECTION_QUERIES.decide, _event_values(event, body) | word)]


def _project_mark(event: Event) -> list[Write]:
    body = document_event_body(event, LogRead)
    return [
        Write(
            _PROJECTION_QUERIES.mark,
            _event_values(event, body) | {"troubles_json": canonical_json(body.troubles).decode()},
        )
    ]


def _project_terms(event: Event) -> list[Write]:
    return [Write(_PROJECTION_QUERIES.terms, _event_values(event, document_event_body(event, TermsChosen)))]


PROJECTION = Projection(
    tables=(
        *("document_versions", "document_entries", "document_folders", "manual_proposals"),
        *("document_marks", "document_terms"),
    ),
    projectors={
        DOCUMENT_EVENT_KINDS[DocumentKept]: _project_version,
        DOCUMENT_EVENT_KINDS[DocumentRemoved]: _project_removal,
        DOCUMENT_EVENT_KINDS[EntryAppended]: _project_entry,
        DOCUMENT_EVENT_KINDS[FolderAdded]: _project_folder,
        DOCUMENT_EVENT_KINDS[FolderRemoved]: _project_folder_removal,
        DOCUMENT_EVENT_KINDS[ManualProposed]: _project_proposal,
        DOCUMENT_EVENT_KINDS[ProposalDecided]: _project_decision,
        DOCUMENT_EVENT_KINDS[LogRead]: _project_mark,
        DOCUMENT_EVENT_KINDS[TermsChosen]: _project_terms,
    },
)


MIGRATIONS = "tapebook.recall"
_QUERIES = Queries.load("tapebook.search")

_NO_END = 2**62

DocumentPlace = tuple[str, str]


class ReadMark(msgspec.Struct, frozen=True):
    """How far a stream of the log was read, and the troubles that had not ended there."""

    until: int = 0
    troubles: dict[str, Outage] = {}


class DocumentsAsOf(msgspec.Struct, frozen=True):
    """As of a sequence number: the newest version up to it, and how decisions search (None before anybody chose)."""

    newest: int
    terms: str | None


class WriteRecord(msgspec.Struct, frozen=True):
    """One thing that was written by way of the policy; `place` is a path, a proposal or a version of a profile."""

    seq: int
    known_at: int
    kind: str
    agent: str
    written_by: str
    run_id: str
    sha256: str
    place: str


class Documents:
    """The documents of one owner."""

    def __init__(self, log: Log, db: Database, *, owner: str, leases: Leases | None = None) -> None:
        self._log = log
        self._db = db
        self._owner = owner
        self._leases = leases
        self.stream = Stream(owner, DOCUMENTS_STREAM)
        # Asked at every tick, and another only after a sync.
        self.state_as_of = LastCall(self._state_as_of)

    def head(self) -> int:
        """The newest version; 0 when there never was a document."""
        return self._newest(_NO_END)

    def log_head(self) -> int:
        """The newest event of the stream, which may be none of a document."""
        return self._log.head(self.stream).seq

    def seq_as_of(self, as_of: int) -> int:
        """The watermark of a moment: the newest event known then."""
        return self._log.seq_as_of(self.stream, as_of)

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Writes events at the end of the stream; StaleWriter, and nothing is written, when another was faster."""
        lease = self._leases.for_write(self.stream) if self._leases else None
        return self._log.append(self.stream, drafts, expected_seq=self.log_head(), lease=lease)

    def versions(self, *, after: int, most: int, until: int = _NO_END) -> list[DocumentVersion]:
        """Versions after a sequence number and up to another, in order."""
        rows = self._db.all(_QUERIES.versions, owner=self._owner, after=after, until=until, most=most)
        return [DocumentVersion(*row) for row in rows]

    def version(self, scope: str, path: str, *, seq: int, sha256: str | None = None) -> DocumentVersion | None:
        """A document as of a sequence number, or its version with a hash; one that was removed has no hash."""
        where = {"owner": self._owner, "scope": scope, "path": path, "seq": seq}
        if sha256 is None:
            row = self._db.one(_QUERIES.version, **where)
        else:
            row = self._db.one(_QUERIES.version_of_hash, **where, sha256=sha256)
        return DocumentVersion(*row) if row else None

    def files(self) -> dict[DocumentPlace, DocumentVersion]:
        """The newest version of every document that is or was a file, by scope and path."""
        found = [DocumentVersion(*row) for row in self._db.all(_QUERIES.files, owner=self._owner)]
        return {(version.scope, version.path): version for version in found}

    def kinds(self) -> dict[str, int]:
        """How many documents there are now, by kind."""
        return {row[0]: row[1] for row in self._db.all(_QUERIES.kinds, owner=self._owner)}

    def unwritten_entries(self, *, after: int) -> list[Entry]:
        """Entries appended after a sequence number that may not be in their files yet, oldest first."""
        rows = self._db.all(_QUERIES.unwritten, owner=self._owner, after=after)
        return [Entry(*row) for row in rows]

    def entry_count(self, agent: str, what: EntryKind, *, span: tuple[int, int]) -> int:
        """How many entries of a kind an agent has from a time."""
        where = {"owner": self._owner, "agent": agent, "what": what, "since": span[0], "until": span[1]}
        return int(self._db.all(_QUERIES.entry_count, **where)[0][0])

    def entry(self, entry_id: str) -> Entry | None:
        """One entry, if it was appended."""
        row = self._db.one(_QUERIES.entry, owner=self._owner, entry_id=entry_id)
        return Entry(*row) if row else None

    def writes(self, agent: str = "", *, most: int, as_of: int = END_OF_TIME) -> list[WriteRecord]:
        """What was written for an agent, or for all, up to a moment: entries, proposals and manuals, newest first."""
        where = {"owner": self._owner, "agent": agent, "most": most, "as_of": as_of}
        return [WriteRecord(*row) for row in self._db.all(_QUERIES.writes, **where)]

    def folders(self) -> dict[str, str]:
        """The folders outside the workspace, by name."""
        newest = {row[0]: row[1] for row in self._db.all(_QUERIES.folders, owner=self._owner)}
        return {name: place for name, place in newest.items() if place}

    def proposal(self, proposal_id: str, *, as_of: int = END_OF_TIME) -> ManualProposal:
        """One proposal, as it stands or stood at a moment."""
        row = self._db.one(_QUERIES.proposal, owner=self._owner, proposal_id=proposal_id)
        found = None if row is None else ManualProposal(*row)
        if found is None or found.known_at > as_of:
            when = "" if found is None else f" at {iso_text(as_of)}"
            raise UnknownName(f"there is no proposal {proposal_id!r}{when}; `tapebook recall proposals` lists them")
        return _proposal_as_of(found, as_of)

    def has_proposal(self, proposal_id: str) -> bool:
        """Whether there is such a proposal, decided or not."""
        return self._db.one(_QUERIES.proposal, owner=self._owner, proposal_id=proposal_id) is not None

    def proposals(self, agent: str = "", *, most: int, as_of: int = END_OF_TIME) -> list[ManualProposal]:
        """The proposals of an agent, or of all, newest first; as they stand or stood at a moment."""
        where = {"owner": self._owner, "agent": agent, "most": most, "as_of": as_of}
        return [_proposal_as_of(ManualProposal(*row), as_of) for row in self._db.all(_QUERIES.proposals, **where)]

    def read_mark(self, reader: str) -> ReadMark:
        """How far a stream of the log was read for documents."""
        row = self._db.one(_QUERIES.mark, owner=self._owner, reader=reader)
        return ReadMark(row[0], msgspec.json.decode(row[1], type=dict[str, Outage])) if row else ReadMark()

    def _state_as_of(self, seq: int) -> DocumentsAsOf:
        row = self._db.one(_QUERIES.terms, owner=self._owner, seq=seq)
        return DocumentsAsOf(self._newest(seq), row[0] if row else None)

    def _newest(self, seq: int) -> int:
        row = self._db.one(_QUERIES.newest, owner=self._owner, seq=seq)
        return row[0] if row else 0
