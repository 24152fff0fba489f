"""What people ask of recall: a search over documents, and how it goes with them."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tapebook.domain.citation import Citation
from tapebook.domain.instants import iso
from tapebook.errors import BadInput, UnknownName
from tapebook.loop.recall import catch_up
from tapebook.recall import GLOBAL, Answer, seen
from tapebook.recall.refuse import Refused
from tapebook.recall.workspace import FOLDER
from tapebook.wiring import Rooms

MOST_FOUND = 100
_ALL = 2**31 - 1
_NOTHING = "there are no documents yet: write some to the workspace and run `tapebook recall sync`"
_UNKNOWN_THEN = "there were no documents by then"


class Recollection(msgspec.Struct, frozen=True):
    """The citations that were found, best first, as of which commit; without any, why.

    `explained` says beside each what its score is made of.
    """

    query: str
    seq: int
    citations: tuple[Citation, ...]
    why: str
    explained: tuple[dict[str, float], ...]

    def __iter__(self) -> Iterator[Citation]:
        return iter(self.citations)

    def __len__(self) -> int:
        return len(self.citations)

    def __getitem__(self, place: int) -> Citation:
        return self.citations[place]

    def to_dict(self) -> dict[str, Any]:
        """The same for programs."""
        found = [each.to_dict() for each in self.citations]
        return {"query": self.query, "seq": self.seq, "citations": found, "why": self.why, "explained": self.explained}


class RecallStatus(msgspec.Struct, frozen=True):
    """The state of documents and index; `head` is how far the index is, `documents_head` how far it could be."""

    slot: str
    embedder: str
    workspace: str
    folders: dict[str, str]
    synced_at: str | None
    documents: int
    kinds: dict[str, int]
    chunks: int
    index_bytes: int
    head: int
    documents_head: int
    open_proposals: list[str]
    manuals_differ: list[str]
    refused: tuple[Refused, ...]
    problem: str


def search(
    rooms: Rooms,
    query: str,
    *,
    agent: str | None = None,
    limit: int = 10,
    as_of: int | None = None,
    kinds: Collection[str] | None = None,
) -> Recollection:
    """Places that answer a question: those an agent may see, or all there are; now, or as known at a moment."""
    if not query.strip() or not 1 <= limit <= MOST_FOUND:
        raise BadInput(f"a search needs words, and a limit from 1 to {MOST_FOUND}")
    scopes = _scopes(rooms, agent)
    documents, newest = rooms.documents, rooms.documents.head()
    seq = newest if as_of is None else min(newest, documents.seq_as_of(as_of))
    if not seq:
        return Recollection(query, 0, (), _UNKNOWN_THEN if newest else _NOTHING, ())
    # Caps of kinds leave room for others in a packet; people have room enough.
    terms = msgspec.structs.replace(rooms.search_terms(), per_kind=())
    catch_up(rooms, terms)
    answer = rooms.indexes.of(terms).search(query, scopes=scopes, seq=seq, limit=limit, kinds=kinds)
    return Recollection(query, seq, answer.citations, answer.why, _explained(answer))


def status(rooms: Rooms) -> RecallStatus:
    """How it goes; nothing is written, and the index is not brought up to date."""
    terms, last, newest = rooms.search_terms(), seen.load(rooms.home), rooms.documents.head()
    index = rooms.indexes.of(terms) if rooms.indexes.place(terms).exists() else None
    counts = index.counts() if index else None
    kinds = rooms.documents.kinds()
    open_ones = [each.proposal_id for each in rooms.documents.proposals(most=_ALL) if each.status == "open"]
    return RecallStatus(
        slot=terms.slot,
        embedder=terms.embedder,
        workspace=str(rooms.home / FOLDER),
        folders=rooms.documents.folders(),
        synced_at=iso(last.synced_at) if last.synced_at else None,
        documents=sum(kinds.values()),
        kinds=kinds,
        chunks=counts.chunks if counts else 0,
        index_bytes=counts.bytes if counts else 0,
        head=index.head() if index else 0,
        documents_head=newest,
        open_proposals=open_ones,
        manuals_differ=_differing_manuals(rooms),
        refused=last.refused,
        problem=last.problem,
    )


def _scopes(rooms: Rooms, agent: str | None) -> tuple[str, ...]:
    names = [profile.name for _, profile in rooms.book.agents(removed=True)]
    if agent is None:
        return (GLOBAL, *names)
    if agent not in names:
        raise UnknownName(f"there is no agent called {agent!r}; agents: {', '.join(names) or 'none yet'}")
    return (GLOBAL, agent)


def _explained(answer: Answer) -> tuple[dict[str, float], ...]:
    return tuple({part.name: part.value_e4 / 10_000 for part in parts} for parts in answer.explained)


def _differing_manuals(rooms: Rooms) -> list[str]:
    """Agents whose file says something else than the manual they are given."""
    found = []
    for _, profile in rooms.book.agents():
        file = rooms.home / FOLDER / "agents" / profile.name / "TRADING_MANUAL.md"
        if file.is_file() and _text(file).strip() != profile.manual.strip():
            found.append(profile.name)
    return found


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="replace").replace("\r\n", "\n")
