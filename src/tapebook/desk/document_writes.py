"""Writes to an agent's documents: entries, proposed manuals and the owner's decision on them, added folders.

An entry never becomes a rule, a lesson or a parameter. A manual changes when its owner approves a proposal, edits the
agent or writes into its files by hand (`adopt_manual_files`), and then as any other change of an agent: a new version
of its profile. A hand edit is never overwritten: whatever would do so is refused until a sync has taken it in.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from tapebook.archive import Archive
from tapebook.book.store import Book
from tapebook.clock import Clock
from tapebook.context import oversize_problems
from tapebook.desk import agents
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import sha256_hex
from tapebook.errors import BadInput, Busy, UnknownName
from tapebook.library.entries import MANUAL_FILE, EntryWriter, ManualFiles, archived_body, write_manual_file
from tapebook.library.sync import require_workspace, sync_documents
from tapebook.library.workspace import RESERVED_PREFIXES, RefusedFile, name_problem
from tapebook.log import Leases
from tapebook.search.documents import (
    END_OF_TIME,
    Documents,
    FolderAdded,
    FolderRemoved,
    ManualProposal,
    ManualProposed,
    ProposalDecided,
    check_manual,
    clean_entry,
    draft_document_event,
    entry_id_for,
    manual_diff,
    proposal_id_for,
    require_entry_kind,
)
from tapebook.uploads import send_documents
from tapebook.wiring import Rooms


class AppendedEntry(msgspec.Struct, frozen=True):
    """An entry that was kept: its id, the file it is in, and the hash of its text."""

    entry_id: str
    path: str
    sha256: str


class ProposalDiff(msgspec.Struct, frozen=True):
    """A proposal with what it would change, line by line."""

    proposal: ManualProposal
    diff: list[str]


class DecidedProposal(msgspec.Struct, frozen=True):
    """A proposal after the owner's word; `version` is that of the profile which has its manual, 0 for none."""

    proposal_id: str
    agent: str
    status: str
    version: int


def append_entry(
    rooms: Rooms, agent: str, what: str, text: str, *, run_id: str = "", by: str, at: int | None = None
) -> AppendedEntry:
    """Appends to an agent's journal, learnings or notes; the same words in the same run, or moment, are kept once."""
    kind, words = require_entry_kind(what), clean_entry(text)
    run_id = _whole_run_id(rooms.book, _profile(rooms.book, agent).name, run_id)
    require_workspace(rooms.documents, rooms.home)
    at, digest = rooms.clock.now() if at is None else at, sha256_hex(words.encode())
    name = entry_id_for(agent, kind, digest, run_id or at)
    with rooms.leases.holding(rooms.documents.stream):
        if rooms.documents.entry(name) is None:
            new = EntryWriter(rooms.documents, rooms.archive).draft_entry(
                agent, kind, words, by=by, run_id=run_id, at=at, entry_id=name
            )
            rooms.documents.append([new])
    send_documents(rooms.archive, rooms.config)
    # Whoever is at work on the documents finds the entry in the log, now or at the next sync.
    with suppress(Busy):
        sync_documents(rooms)
    entry = rooms.documents.entry(name)
    return AppendedEntry(name, entry.path if entry else "", digest)


def add_folder(documents: Documents, clock: Clock, home: Path, folder: Path, *, leases: Leases) -> str:
    """Makes the texts of a folder documents for every agent, from the next sync on; returns the name it has."""
    place = folder.expanduser().resolve()
    home = home.resolve()
    if not place.is_dir():
        raise BadInput(f"{place} is not a folder: name one that exists")
    if place.is_relative_to(home) or home.is_relative_to(place):
        raise BadInput(f"{place} and the home {home} lie in one another: what agents own must stay theirs")
    if problem := name_problem(place.name) or ("it has no name" if not place.name else None):
        raise BadInput(f"{str(place)!r} cannot be added: {problem}")
    known = documents.folders()
    if place.name in RESERVED_PREFIXES or known.get(place.name, str(place)) != str(place):
        raise BadInput(f"the name {place.name!r} is taken by {known.get(place.name, 'tapebook')}: rename the folder")
    if place.name not in known:
        with leases.holding(documents.stream):
            documents.append([draft_document_event(clock.now(), FolderAdded(place.name, str(place)))])
    return place.name


def remove_folder(documents: Documents, clock: Clock, leases: Leases, folder: str) -> str:
    """Ends what `add_folder` began, from the next sync on; the folder is named as it was added, or by its name."""
    known = documents.folders()
    place = str(Path(folder).expanduser().resolve())
    name = folder if folder in known else next((each for each, where in known.items() if where == place), None)
    if name is None:
        raise UnknownName(f"no folder {folder!r} was added; folders: {', '.join(known) or 'none'}")
    with leases.holding(documents.stream):
        documents.append([draft_document_event(clock.now(), FolderRemoved(name))])
    return name


def propose_manual(
    rooms: Rooms, agent: str, text: str, *, run_id: str = "", by: str, at: int | None = None
) -> ProposalDiff:
    """Proposes another manual for an agent, once at a moment; nothing changes until its owner approves."""
    profile = _profile(rooms.book, agent)
    run_id = _whole_run_id(rooms.book, agent, run_id)
    proposed = check_manual(text, manual=profile.manual)
    _require_fit(profile, proposed)
    rooms.archive.store_content_or_raise(proposed.encode())
    rooms.archive.store_content_or_raise(profile.manual.encode())
    at = rooms.clock.now() if at is None else at
    name = proposal_id_for(agent, base=profile.manual, text=proposed, at=at)
    base, digest = sha256_hex(profile.manual.encode()), sha256_hex(proposed.encode())
    with rooms.leases.holding(rooms.documents.stream):
        if not rooms.documents.has_proposal(name):
            rooms.documents.append([draft_document_event(at, ManualProposed(name, agent, base, digest, by, run_id))])
    send_documents(rooms.archive, rooms.config)
    return proposal_with_diff(rooms.documents, rooms.archive, name)


def read_manual_file(file: Path) -> str:
    """The text of a file that is to be proposed."""
    try:
        return file.expanduser().read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror}): name a file you may read") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text: save it as UTF-8") from error


def proposal_with_diff(
    documents: Documents, archive: Archive, proposal_id: str, *, as_of: int = END_OF_TIME
) -> ProposalDiff:
    """A proposal as it stood at a moment, with what it changes of the manual it was made for."""
    proposal = documents.proposal(proposal_id, as_of=as_of)
    before, after = (archived_body(archive, digest).decode() for digest in (proposal.base_sha256, proposal.sha256))
    return ProposalDiff(proposal, manual_diff(before, after, agent=proposal.agent))


def approve_proposal(rooms: Rooms, proposal_id: str, *, by: str) -> DecidedProposal:
    """Makes a proposed manual the agent's, as a new version of its profile, and writes it to the workspace."""
    proposal = _require_open(rooms.documents, proposal_id)
    profile, text = _profile(rooms.book, proposal.agent), archived_body(rooms.archive, proposal.sha256).decode()
    # A process that was killed here has saved the manual already, and only the owner's word is missing.
    if profile.manual != text and sha256_hex(profile.manual.encode()) != proposal.base_sha256:
        raise BadInput(f"the manual of {proposal.agent} has changed since {proposal_id} was proposed: propose it again")
    require_workspace(rooms.documents, rooms.home)
    files = ManualFiles(rooms.home, proposal.agent)
    if files.text != text:
        files.require_unedited(profile.manual)
    # The file first: it is the manual, so whoever is killed here has approved it, and the next sync takes it in.
    write_manual_file(rooms.home, proposal.agent, text)
    saved = agents.edit_agent(rooms, proposal.agent, {"manual": text}, reason=_approval_reason(proposal, profile, text))
    with rooms.leases.holding(rooms.documents.stream):
        rooms.documents.append(
            [draft_document_event(rooms.clock.now(), ProposalDecided(proposal_id, True, by, saved.version))]
        )
    with suppress(Busy):
        sync_documents(rooms)
    return DecidedProposal(proposal_id, proposal.agent, "approved", saved.version)


def _approval_reason(proposal: ManualProposal, profile: AgentProfile, text: str) -> str:
    """Why the manual changed; nothing where a killed process has changed it already."""
    return "" if profile.manual == text else f"proposal {proposal.proposal_id} of {proposal.written_by} was approved"


def adopt_manual_files(rooms: Rooms) -> list[RefusedFile]:
    """Makes what people wrote into `SOUL.md` and `TRADING_MANUAL.md` the manual of each agent: those files are it.

    What cannot be a manual is named, and the one that stands goes on.
    """
    refused = []
    for _, profile in rooms.book.agents():
        try:
            written = ManualFiles(rooms.home, profile.name).text
            if written is not None and written != profile.manual.strip("\n"):
                manual = check_manual(written, manual=profile.manual)
                agents.edit_agent(rooms, profile.name, {"manual": manual}, reason=f"{MANUAL_FILE} was edited by hand")
        except BadInput as error:
            refused.append(
                RefusedFile(f"agents/{profile.name}/{MANUAL_FILE}", f"it is not taken for the manual: {error}")
            )
    return refused


def reject_proposal(
    documents: Documents, clock: Clock, leases: Leases, proposal_id: str, *, by: str
) -> DecidedProposal:
    """Ends a proposal; the manual stays as it is."""
    proposal = _require_open(documents, proposal_id)
    with leases.holding(documents.stream):
        documents.append([draft_document_event(clock.now(), ProposalDecided(proposal_id, False, by, 0))])
    return DecidedProposal(proposal_id, proposal.agent, "rejected", 0)


def _require_open(documents: Documents, proposal_id: str) -> ManualProposal:
    proposal = documents.proposal(proposal_id)
    if proposal.status != "open":
        raise BadInput(f"proposal {proposal_id} was {proposal.status} already: propose it again to decide again")
    return proposal


def _profile(book: Book, agent: str) -> AgentProfile:
    return book.find_agent(agent).agent


def _whole_run_id(book: Book, agent: str, text: str) -> str:
    """The id of the agent's run that begins with a text; empty for none."""
    if not text:
        return ""
    run = book.find_run(text)
    if run.agent != agent:
        whose = f"{agent} has no run {run.run_id}, which is one of {run.agent}"
        raise UnknownName(f"{whose}; `tapebook runs --agent {agent}` lists its own")
    return run.run_id


def _require_fit(profile: AgentProfile, manual: str) -> None:
    too_long = oversize_problems(msgspec.structs.replace(profile, manual=manual))
    if too_long:
        raise BadInput("; ".join(too_long))
