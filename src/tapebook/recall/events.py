"""The events of documents: versions, entries that were appended, folders, proposals, and how far the log was read.

All of an owner's lie in one stream, whatever agent they belong to: its numbers are the documents' watermark.
"""

from typing import Literal, TypeVar

import msgspec

from tapebook.log import Draft, Event
from tapebook.recall.trouble import Trouble

STREAM = "@documents"
"""The name of that stream; no deployment can have it, since names of agents begin with a letter or a digit."""

Trust = Literal["owner", "agent", "system"]
"""Who vouches for a text: people who write files, agents who append, tapebook that writes down what happened."""
Origin = Literal["file", "log"]
What = Literal["journal", "learning", "note"]

Body = TypeVar("Body", bound=msgspec.Struct)


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
    what: What
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
    troubles: dict[str, Trouble] = {}


class TermsChosen(msgspec.Struct, frozen=True):
    """How decisions search from now on, as canonical JSON: settings may change, an old search does not."""

    terms_json: str


KINDS: dict[type[msgspec.Struct], str] = {
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


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.of(KINDS[type(body)], happened_at, body)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)
