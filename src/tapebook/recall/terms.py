"""How documents are searched: chosen in the settings, and kept with the documents from then on.

A decision is replayed with the terms of its time, whatever the settings say later. Shares are in percent, so that they
have canonical bytes.
"""

from functools import lru_cache

import msgspec

from tapebook.domain.canonical import canonical

BY_WORDS = "sqlite_fts"
"""The slot that knows nothing of meaning."""


class SearchTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The slot, its embedder with its model, what their scores weigh, and how much of one document or kind is given.

    Without meaning there is no embedder.
    """

    slot: str = "hybrid_embeddings"
    embedder: str = "wordllama"
    model: str = ""
    lexical_percent: int = 50
    semantic_percent: int = 50
    minimum_percent: int = 30
    per_path: int = 3
    per_kind: tuple[tuple[str, int], ...] = (("trade", 2), ("transcript", 1))

    @property
    def text(self) -> str:
        """The terms as an event has them."""
        return canonical(self).decode()


@lru_cache(maxsize=16)
def terms_of(text: str | None) -> SearchTerms:
    """The terms of an event; the usual ones before there was any."""
    return SearchTerms() if text is None else msgspec.json.decode(text, type=SearchTerms)
