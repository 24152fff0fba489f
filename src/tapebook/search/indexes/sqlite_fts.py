"""Search by words: BM25 over postings in a SQLite file, exact as of any commit."""

from tapebook.search.index import Index, IndexTerms
from tapebook.search.query import Bm25Index
from tapebook.search.store import IndexStore


def create(terms: IndexTerms) -> Index:
    """The adapter's entry point."""
    return Bm25Index(IndexStore(terms.path), terms)
