"""Search by words: BM25 over postings in a SQLite file, exact as of any commit."""

from collections.abc import Collection, Sequence

from tapebook.errors import StaleWriter
from tapebook.search.index import (
    DocumentVersion,
    Index,
    IndexAnswer,
    IndexCounts,
    IndexReport,
    IndexTerms,
    Progress,
    ignore_progress,
)
from tapebook.search.indexing import IndexBatchBuilder
from tapebook.search.query import Embeddings, Search
from tapebook.search.store import IndexStore

CHUNKS_PER_COMMIT = 1_000
"""New chunks that are committed together."""


class Bm25Index:
    """The index in one file."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embeddings: Embeddings | None = None) -> None:
        self._store = store
        self._rules = terms.rules
        self._search = Search(store, terms, embeddings)

    def head(self) -> int:
        """The newest sequence that is wholly indexed."""
        return self._store.head()

    def index(
        self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = ignore_progress
    ) -> IndexReport:
        """Takes in versions behind the head, a batch at a time; another process that does the same is no harm."""
        taken = written = kept = 0
        while waiting := [pair for pair in versions if pair[0].seq > self._store.head()]:
            intake = IndexBatchBuilder(self._store, rules=self._rules)
            for version, body in waiting:
                intake.add_version(version, body)
                if intake.new_chunk_count >= CHUNKS_PER_COMMIT:
                    break
            try:
                self._store.write(intake.batch)
            except StaleWriter:
                continue
            taken, written, kept = taken + intake.version_count, written + intake.new_chunk_count, kept + intake.kept
            progress(len(versions) - len(waiting) + intake.version_count, len(versions))
        return IndexReport(taken, written, kept, self.head())

    def search(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int = 10,
        kinds: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> IndexAnswer:
        """What the documents of these scopes said as of a sequence, save those at some paths."""
        return self._search.answer(query, scopes=scopes, seq=seq, limit=limit, kinds=kinds, without=without)

    def counts(self) -> IndexCounts:
        """How much it holds."""
        return self._store.counts()

    def close(self) -> None:
        """Ends the connection."""
        self._store.close()


def create(terms: IndexTerms) -> Index:
    """The adapter's entry point."""
    return Bm25Index(IndexStore(terms.path), terms)
