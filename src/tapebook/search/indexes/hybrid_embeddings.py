"""Search by words and by meaning: the index of words, with vectors of passages beside it."""

from tapebook import plug
from tapebook.search.index import Embedder, Index, IndexTerms
from tapebook.search.query import HybridIndex
from tapebook.search.store import IndexStore

EMBEDDERS = "tapebook.search.embedders"


def create(terms: IndexTerms) -> Index:
    """The adapter's entry point."""
    embedder: Embedder = plug.load(EMBEDDERS, terms.embedder).create(terms.embedding)
    return HybridIndex(IndexStore(terms.path), terms, embedder)
