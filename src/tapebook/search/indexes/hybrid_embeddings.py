"""Search by words and by meaning: the index of words, with vectors of passages beside it."""

from collections.abc import Sequence

import msgspec

from tapebook import plug
from tapebook.search.index import DocumentVersion, Embedder, Index, IndexReport, IndexTerms, Progress, ignore_progress
from tapebook.search.indexes.sqlite_fts import Bm25Index
from tapebook.search.query import Embeddings
from tapebook.search.store import IndexStore

EMBEDDERS = "tapebook.search.embedders"


class HybridIndex(Bm25Index):
    """The index in one file; wholly indexed is what has both."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embedder: Embedder) -> None:
        self._embeddings = Embeddings(store, embedder)
        super().__init__(store, terms, self._embeddings)

    def head(self) -> int:
        """The newest sequence whose words and vectors are there."""
        return self._embeddings.head()

    def index(
        self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = ignore_progress
    ) -> IndexReport:
        """Takes in versions, then makes the vectors that are missing: of new chunks, or of all for another model."""
        report = super().index(versions, progress=progress)
        self._embeddings.embed_missing()
        return msgspec.structs.replace(report, head=self.head())


def create(terms: IndexTerms) -> Index:
    """The adapter's entry point."""
    embedder: Embedder = plug.load(EMBEDDERS, terms.embedder).create(terms.embedding)
    return HybridIndex(IndexStore(terms.path), terms, embedder)
