"""Search by words and by meaning: the index of words, with vectors of passages beside it."""

from collections.abc import Sequence

import msgspec

from tapebook import plug
from tapebook.recall.embedder import Embedder
from tapebook.recall.embeddings import Embeddings
from tapebook.recall.index_store import IndexStore
from tapebook.recall.indexes.sqlite_fts import SqliteFts
from tapebook.recall.port import Index, IndexReport, IndexTerms, Progress, silent
from tapebook.recall.version import Version

EMBEDDERS = "tapebook.recall.embedders"


class HybridEmbeddings(SqliteFts):
    """The index in one file; wholly indexed is what has both."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embedder: Embedder) -> None:
        self._embeddings = Embeddings(store, embedder)
        super().__init__(store, terms, self._embeddings)

    def head(self) -> int:
        """The newest sequence whose words and vectors are there."""
        return self._embeddings.head()

    def index(self, versions: Sequence[tuple[Version, bytes]], *, progress: Progress = silent) -> IndexReport:
        """Takes in versions, then makes the vectors that are missing: of new chunks, or of all for another model."""
        report = super().index(versions, progress=progress)
        self._embeddings.fill()
        return msgspec.structs.replace(report, head=self.head())


def create(terms: IndexTerms) -> Index:
    """The adapter's entry point."""
    embedder: Embedder = plug.load(EMBEDDERS, terms.embedder).create(terms.embedding)
    return HybridEmbeddings(IndexStore(terms.path), terms, embedder)
