"""What may be written by way of recall: an entry, a proposal, the owner's word on one, a folder to read.

An entry never becomes a rule, a lesson or a parameter. A manual changes only when its owner approves a proposal, and
then as any other change of an agent: a new version of its profile.
"""

from contextlib import suppress
from pathlib import Path

import msgspec

from tapebook.context import oversize
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import sha256_hex
from tapebook.domain.files import replace_file
from tapebook.errors import BadInput, Busy, StoreFailed, UnknownName
from tapebook.loop import enlist
from tapebook.loop.deploy import require_agent
from tapebook.loop.entries import Pen, body, own_file
from tapebook.loop.sync import require_workspace, sync
from tapebook.recall import policy, proposals
from tapebook.recall.events import FolderAdded, FolderRemoved, ManualProposed, ProposalDecided, draft
from tapebook.recall.proposals import Proposal
from tapebook.recall.refuse import name_problem
from tapebook.recall.workspace import RESERVED
from tapebook.wiring import Rooms

MANUAL = "TRADING_MANUAL.md"


class Appended(msgspec.Struct, frozen=True):
    """An entry that was kept: its id, the file it is in, and the hash of its text."""

    entry_id: str
    path: str
    sha256: str


class Proposed(msgspec.Struct, frozen=True):
    """A proposal with what it would change, line by line."""

    proposal: Proposal
    diff: list[str]


class Decided(msgspec.Struct, frozen=True):
    """A proposal after the owner's word; `version` is that of the profile which has its manual, 0 for none."""

    proposal_id: str
    agent: str
    status: str
    version: int


def append(rooms: Rooms, agent: str, what: str, text: str, *, run_id: str = "", by: str) -> Appended:
    """Appends to an agent's journal, learnings or notes; the same words in the same run are kept once."""
    kind, words = policy.required_what(what), policy.cleaned(text)
    run_id = _whole_run_id(rooms, _profile(rooms, agent).name, run_id)
    require_workspace(rooms)
    at, digest = rooms.clock.now(), sha256_hex(words.encode())
    name = policy.entry_id(agent, kind, digest, run_id or at)
    with rooms.leases.holding(rooms.documents.stream):
        if rooms.documents.entry(name) is None:
            new = Pen(rooms).entry(agent, kind, words, by=by, run_id=run_id, at=at, entry_id=name)
            rooms.documents.append([new])
    # Whoever is at work on the documents finds the entry in the log, now or at the next sync.
    with suppress(Busy):
        sync(rooms)
    entry = rooms.documents.entry(name)
    return Appended(name, entry.path if entry else "", digest)


def add_folder(rooms: Rooms, folder: Path) -> str:
    """Makes the texts of a folder documents for every agent, from the next sync on; returns the name it has."""
    place = folder.expanduser().resolve()
    home = rooms.home.resolve()
    if not place.is_dir():
        raise BadInput(f"{place} is no folder: name one that is there")
    if place.is_relative_to(home) or home.is_relative_to(place):
        raise BadInput(f"{place} and the home {home} lie in one another: what agents own must stay theirs")
    if problem := name_problem(place.name) or ("it has no name" if not place.name else None):
        raise BadInput(f"{str(place)!r} cannot be added: {problem}")
    known = rooms.documents.folders()
    if place.name in RESERVED or known.get(place.name, str(place)) != str(place):
        raise BadInput(f"the name {place.name!r} is taken by {known.get(place.name, 'tapebook')}: rename the folder")
    if place.name not in known:
        with rooms.leases.holding(rooms.documents.stream):
            rooms.documents.append([draft(rooms.clock.now(), FolderAdded(place.name, str(place)))])
    return place.name


def remove_folder(rooms: Rooms, folder: str) -> str:
    """Ends what `add_folder` began, from the next sync on; the folder is named as it was added, or by its name."""
    known = rooms.documents.folders()
    place = str(Path(folder).expanduser().resolve())
    name = folder if folder in known else next((each for each, where in known.items() if where == place), None)
    if name is None:
        raise UnknownName(f"no folder {folder!r} was added; folders: {', '.join(known) or 'none'}")
    with rooms.leases.holding(rooms.documents.stream):
        rooms.documents.append([draft(rooms.clock.now(), FolderRemoved(name))])
    return name


def propose(rooms: Rooms, agent: str, text: str, *, run_id: str = "", by: str) -> Proposed:
    """Proposes another manual for an agent; nothing changes until its owner approves."""
    profile = _profile(rooms, agent)
    run_id = _whole_run_id(rooms, agent, run_id)
    proposed = proposals.checked(text, manual=profile.manual)
    _require_fit(profile, proposed)
    rooms.archive.put(proposed.encode())
    rooms.archive.put(profile.manual.encode())
    at = rooms.clock.now()
    name = proposals.proposal_id(agent, base=profile.manual, text=proposed, at=at)
    base, digest = sha256_hex(profile.manual.encode()), sha256_hex(proposed.encode())
    with rooms.leases.holding(rooms.documents.stream):
        rooms.documents.append([draft(at, ManualProposed(name, agent, base, digest, by, run_id))])
    return shown(rooms, name)


def manual_of(file: Path) -> str:
    """The text of a file that is to be proposed."""
    try:
        return file.expanduser().read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror}): name a file you may read") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text: save it as UTF-8") from error


def shown(rooms: Rooms, proposal_id: str) -> Proposed:
    """A proposal with what it changes of the manual it was made for."""
    proposal = rooms.documents.proposal(proposal_id)
    before, after = (body(rooms, digest).decode() for digest in (proposal.base_sha256, proposal.sha256))
    return Proposed(proposal, proposals.difference(before, after, agent=proposal.agent))


def approve(rooms: Rooms, proposal_id: str, *, by: str) -> Decided:
    """Makes a proposed manual the agent's, as a new version of its profile, and writes it to the workspace."""
    proposal = _require_open(rooms, proposal_id)
    profile, text = _profile(rooms, proposal.agent), body(rooms, proposal.sha256).decode()
    # A process that was killed here has saved the manual already, and only the owner's word is missing.
    if profile.manual != text and sha256_hex(profile.manual.encode()) != proposal.base_sha256:
        raise BadInput(f"the manual of {proposal.agent} has changed since {proposal_id} was proposed: propose it again")
    require_workspace(rooms)
    saved = enlist.edit(rooms, proposal.agent, {"manual": text})
    with rooms.leases.holding(rooms.documents.stream):
        rooms.documents.append([draft(rooms.clock.now(), ProposalDecided(proposal_id, True, by, saved.version))])
    _write_manual(rooms, proposal.agent, text)
    with suppress(Busy):
        sync(rooms)
    return Decided(proposal_id, proposal.agent, "approved", saved.version)


def reject(rooms: Rooms, proposal_id: str, *, by: str) -> Decided:
    """Ends a proposal; the manual stays as it is."""
    proposal = _require_open(rooms, proposal_id)
    with rooms.leases.holding(rooms.documents.stream):
        rooms.documents.append([draft(rooms.clock.now(), ProposalDecided(proposal_id, False, by, 0))])
    return Decided(proposal_id, proposal.agent, "rejected", 0)


def _write_manual(rooms: Rooms, agent: str, text: str) -> None:
    file = own_file(rooms, agent, f"agents/{agent}/{MANUAL}")
    try:
        replace_file(file, f"{text}\n".encode(), durable=True)
    except OSError as error:
        raise StoreFailed(f"cannot write {file}: {error.strerror}; make room or allow writing") from error


def _require_open(rooms: Rooms, proposal_id: str) -> Proposal:
    proposal = rooms.documents.proposal(proposal_id)
    if proposal.status != "open":
        raise BadInput(f"proposal {proposal_id} was {proposal.status} already: propose it again to decide again")
    return proposal


def _profile(rooms: Rooms, agent: str) -> AgentProfile:
    return require_agent(rooms.book, agent)[1]


def _whole_run_id(rooms: Rooms, agent: str, text: str) -> str:
    """The id of the agent's run that begins with a text; empty for none."""
    if not text:
        return ""
    run = rooms.book.find_run(text)
    if run.agent != agent:
        whose = f"{agent} has no run {run.run_id}, which is one of {run.agent}"
        raise UnknownName(f"{whose}; `tapebook runs --agent {agent}` lists its own")
    return run.run_id


def _require_fit(profile: AgentProfile, manual: str) -> None:
    too_long = oversize(msgspec.structs.replace(profile, manual=manual))
    if too_long:
        raise BadInput("; ".join(too_long))
