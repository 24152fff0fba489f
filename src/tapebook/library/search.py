"""Searches documents for people and for decisions, and keeps the index up to date.

The index is derived: it takes in versions of the book with bodies of the archive, in their order
(`index_new_versions`), and can be thrown away at any time. A decision searches as of its watermark and with the
search terms of that time (`index_as_of`, `citations_for`), so a replay finds the same places in an index that was
built anew.

`DecisionQuestion` is the fixed sentence a decision asks. Reasons that a model gave are no part of it: their words
would choose what is found. Packets of the first rules asked in the words of the last exit too, and are replayed so.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tapebook.archive import Archive
from tapebook.book.store import Book
from tapebook.clock import Clock
from tapebook.domain.agent import AgentProfile
from tapebook.domain.packet import Citation
from tapebook.domain.units import iso_text
from tapebook.errors import BadInput, ConfigError, Retry, StaleWriter, StoreFailed, UnknownName
from tapebook.home import exclusive_lock
from tapebook.library import workspace
from tapebook.library.entries import ManualFiles, archived_body
from tapebook.library.workspace import WORKSPACE_FOLDER, RefusedFile
from tapebook.search import GLOBAL_SCOPE, DocumentVersion, Index, IndexAnswer, IndexReport
from tapebook.search.documents import Documents, TermsChosen, draft_document_event
from tapebook.search.index import IndexFiles, WordsFirstIndex, decode_search_terms
from tapebook.wiring import Rooms

VERSIONS_PER_BATCH = 200
"""Versions whose bodies are in memory at a time."""

IndexProgress = Callable[[int, int], None]


def no_progress(_done: int, _of: int) -> None:
    """Progress that nobody watches."""


def index_as_of(documents: Documents, archive: Archive, indexes: IndexFiles, seq: int) -> Index:
    """The index with the terms of a watermark, knowing all versions up to it."""
    state = documents.state_as_of(seq)
    terms = decode_search_terms(state.terms)
    index = indexes.open_index(terms)
    if index.head() < state.newest:
        # No further than the watermark: what came later may be damaged, and a replay of before does not need it.
        fill_index(documents, archive, index, until=state.newest)
    return index


def store_search_terms(documents: Documents, clock: Clock, indexes: IndexFiles) -> None:
    """Keeps the terms of the settings, if they are not those that stand; decisions search with them from now on."""
    chosen = indexes.chosen.text
    if documents.state_as_of(documents.log_head()).terms != chosen:
        documents.append([draft_document_event(clock.now(), TermsChosen(chosen))])


def index_new_versions(
    documents: Documents, archive: Archive, indexes: IndexFiles, *, progress: IndexProgress = no_progress
) -> IndexReport:
    """Indexes every version that is not indexed yet."""
    if not documents.head():
        return IndexReport()
    terms = decode_search_terms(documents.state_as_of(documents.log_head()).terms)
    return fill_index(documents, archive, indexes.open_index(terms), progress=progress)


def fill_index(
    documents: Documents,
    archive: Archive,
    index: Index,
    *,
    until: int | None = None,
    progress: IndexProgress = no_progress,
) -> IndexReport:
    """Gives an index the versions behind its head, a batch at a time; whoever is killed goes on from there."""
    begun, newest = index.head(), documents.head() if until is None else until
    done = IndexReport(head=begun)
    while batch := documents.versions(after=done.head, until=newest, most=VERSIONS_PER_BATCH):
        try:
            report = index.index([(version, _version_body(archive, version)) for version in batch])
        except StaleWriter:
            # Another process took some of them in; what is left is behind its head.
            done = msgspec.structs.replace(done, head=index.head())
            continue
        if report.head <= done.head:
            raise StoreFailed(f"the index stays at {report.head}: run `tapebook recall reindex`")
        done = IndexReport(
            done.versions + report.versions, done.written + report.written, done.kept + report.kept, report.head
        )
        progress(batch[-1].seq - begun, newest - begun)
    return done


def reindex(
    documents: Documents, archive: Archive, home: Path, *, indexes: IndexFiles, progress: IndexProgress = no_progress
) -> IndexReport:
    """Builds the index anew beside the one that is there, and then puts it in its place.

    What a killed process has built by then is kept, and the next one continues.
    """
    terms = indexes.chosen
    with exclusive_lock(home, "recall"):
        fresh = indexes.new_index(terms)
        try:
            report = fill_index(documents, archive, fresh, progress=progress)
        finally:
            fresh.close()
        indexes.install_new_index(terms)
    return report


def _version_body(archive: Archive, version: DocumentVersion) -> bytes:
    return archived_body(archive, version.sha256) if version.sha256 else b""


MAX_RESULTS = 100
_MOST_FILES = 200
_NO_LIMIT = 2**31 - 1
_NO_DOCUMENTS = "there are no documents yet: write some to the workspace and run `tapebook recall sync`"
_NO_DOCUMENTS_THEN = "there were no documents by then"


class SearchResult(msgspec.Struct, frozen=True):
    """The citations that were found, best first, as of which commit; without any, why.

    `explained` says beside each what its score is made of; `missing` what could not be asked, so that words alone have
    answered.
    """

    query: str
    seq: int
    citations: tuple[Citation, ...]
    why: str
    explained: tuple[dict[str, float], ...]
    missing: str = ""

    def __iter__(self) -> Iterator[Citation]:
        return iter(self.citations)

    def __len__(self) -> int:
        return len(self.citations)

    def __getitem__(self, place: int) -> Citation:
        return self.citations[place]

    def to_dict(self) -> dict[str, Any]:
        """The result as programs read it."""
        found = [each.to_dict() for each in self.citations]
        said = {"query": self.query, "seq": self.seq, "citations": found, "why": self.why}
        return said | {"explained": self.explained, "missing": self.missing}


class DocumentText(msgspec.Struct, frozen=True):
    """A document as it was at a moment; lines are counted from 1, as in citations.

    `scope` is the agent whose it is, and empty where it is for all agents.
    """

    path: str
    kind: str
    text: str
    content_sha256: str
    scope: str
    known_at: str


class DocumentFile(msgspec.Struct, frozen=True):
    """A document that is a file; `scope` is the agent whose it is, and empty where it is for all agents."""

    path: str
    kind: str
    scope: str
    content_sha256: str
    known_at: str


class RecallStatus(msgspec.Struct, frozen=True):
    """The state of documents and index; `head` is how far the index is, `documents_head` how far it could be.

    `files` are the documents that are files, those that changed last first, and no more than people would look through.
    """

    slot: str
    embedder: str
    workspace: str
    folders: dict[str, str]
    synced_at: str | None
    documents: int
    kinds: dict[str, int]
    files: list[DocumentFile]
    chunks: int
    index_bytes: int
    head: int
    documents_head: int
    open_proposals: list[str]
    manuals_differ: list[str]
    refused: tuple[RefusedFile, ...]
    problem: str


def search_documents(
    rooms: Rooms,
    query: str,
    *,
    agent: str | None = None,
    limit: int = 10,
    as_of: int | None = None,
    kinds: Collection[str] | None = None,
) -> SearchResult:
    """Places that answer a question: those an agent may see, or all there are; now, or as known at a moment."""
    if not query.strip() or not 1 <= limit <= MAX_RESULTS:
        raise BadInput(f"a search needs words, and a limit from 1 to {MAX_RESULTS}")
    scopes = _visible_scopes(rooms.book, agent)
    documents, newest = rooms.documents, rooms.documents.head()
    seq = newest if as_of is None else min(newest, documents.seq_as_of(as_of))
    if not seq:
        return SearchResult(query, 0, (), _NO_DOCUMENTS_THEN if newest else _NO_DOCUMENTS, ())
    # Caps of kinds leave room for others in a packet; people have room enough, and are told nothing for the sake of it.
    fewest = round(100 * rooms.config.recall.minimum_score)
    terms = msgspec.structs.replace(rooms.indexes.chosen, per_kind=(), filler_percent=fewest)
    index = rooms.indexes.open_index(terms)
    asked = {"scopes": scopes, "seq": seq, "limit": limit, "kinds": kinds}
    answer, missing = _search_now(rooms.documents, rooms.archive, index, query, until=newest, **asked)
    explained = tuple({part.name: part.value_e4 / 10_000 for part in parts} for parts in answer.explained)
    return SearchResult(query, seq, answer.citations, answer.why, explained, missing)


def read_document(
    book: Book,
    documents: Documents,
    archive: Archive,
    path: str,
    *,
    agent: str | None = None,
    sha256: str | None = None,
    as_of: int | None = None,
) -> DocumentText:
    """A document by its path: one that an agent may see, or any; now, as known at a moment, or the one with a hash."""
    newest = documents.head()
    seq = newest if as_of is None else min(newest, documents.seq_as_of(as_of))
    # An agent's own document comes before one of the same name that is for all.
    for scope in reversed(_visible_scopes(book, agent)):
        # A citation may be of a version that was changed or removed since.
        found = documents.version(scope, path, seq=seq, sha256=sha256)
        if found is not None and found.sha256:
            body = archived_body(archive, found.sha256).decode(errors="replace")
            return DocumentText(path, found.kind, body, found.sha256, found.scope, iso_text(found.known_at))
    version = f" with hash {sha256}" if sha256 else ""
    raise UnknownName(f"there is no document {path!r}{version}: give a path as a search gives it")


def _search_now(
    documents: Documents, archive: Archive, index: Index, query: str, *, until: int, **asked: Any
) -> tuple[IndexAnswer, str]:
    """The answer as far as it can be had at once, and what is missing of it: people do not wait for a server."""
    if not isinstance(index, WordsFirstIndex) or index.is_local:
        fill_index(documents, archive, index, until=until)
        return index.search(query, **asked), ""
    while batch := documents.versions(after=index.words_head(), until=until, most=VERSIONS_PER_BATCH):
        index.index_words([(version, _version_body(archive, version)) for version in batch])
    behind = until - index.head()
    waiting = "the newest documents have no vectors yet and are found by words: run `tapebook recall sync`"
    try:
        return index.search(query, **asked), waiting if behind > 0 else ""
    except (Retry, ConfigError) as error:
        return index.search_words(query, **asked), f"meaning: {error}; this is what words alone find"


def documents_status(book: Book, documents: Documents, home: Path, *, indexes: IndexFiles) -> RecallStatus:
    """The state of documents and index; nothing is written, and the index is not brought up to date."""
    terms, last, newest = indexes.chosen, workspace.load_workspace_state(home), documents.head()
    index = indexes.open_index(terms) if indexes.path_for(terms).exists() else None
    counts = index.counts() if index else None
    kinds = documents.kinds()
    open_ones = [each.proposal_id for each in documents.proposals(most=_NO_LIMIT) if each.status == "open"]
    return RecallStatus(
        slot=terms.slot,
        embedder=terms.embedder,
        workspace=str(home / WORKSPACE_FOLDER),
        folders=documents.folders(),
        synced_at=iso_text(last.synced_at) if last.synced_at else None,
        documents=sum(kinds.values()),
        kinds=kinds,
        files=_newest_files(documents),
        chunks=counts.chunks if counts else 0,
        index_bytes=counts.bytes if counts else 0,
        head=index.head() if index else 0,
        documents_head=newest,
        open_proposals=open_ones,
        manuals_differ=_differing_manuals(book, home),
        refused=last.refused,
        problem=last.problem,
    )


def _newest_files(documents: Documents) -> list[DocumentFile]:
    found = [each for each in documents.files().values() if each.sha256]
    found.sort(key=lambda each: (-each.seq, each.path))
    return [
        DocumentFile(each.path, each.kind, each.scope, each.sha256, iso_text(each.known_at))
        for each in found[:_MOST_FILES]
    ]


def _visible_scopes(book: Book, agent: str | None) -> tuple[str, ...]:
    if agent is not None:
        return (GLOBAL_SCOPE, book.find_agent(agent, removed=True).agent.name)
    return (GLOBAL_SCOPE, *(profile.name for _, profile in book.agents(removed=True)))


def _differing_manuals(book: Book, home: Path) -> list[str]:
    """Agents whose files say something else than the manual they are given, which the next sync may take in."""
    return [profile.name for _, profile in book.agents() if _is_manual_edited(home, profile)]


def _is_manual_edited(home: Path, profile: AgentProfile) -> bool:
    try:
        written = ManualFiles(home, profile.name).text
    except BadInput:
        return True
    return written is not None and written != profile.manual.strip("\n")
