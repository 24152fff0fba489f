"""How documents are searched: chosen in the settings, and kept with the documents from then on.

A decision is replayed with the terms of its time, whatever the settings say later. Shares are in percent, so that they
have canonical bytes.
"""

from functools import lru_cache

import msgspec

from tapebook.domain.canonical import canonical
from tapebook.errors import Damaged

BY_WORDS = "sqlite_fts"
"""The slot that knows nothing of meaning."""

RULES = 2
"""The rules that documents are searched by from now on (docs/decisions/0013)."""


class SearchTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The slot, its embedder with its model, what their scores weigh, and how much of one document or kind is given.

    Without meaning there is no embedder. Under the `rules` 2 front matter is no text, words that nobody knows find
    nothing, a word that no document has is looked for by its family, a decision asks about its situation alone, and
    what its packet shows is not cited again.
    """

    slot: str = "hybrid_embeddings"
    embedder: str = "wordllama"
    model: str = ""
    lexical_percent: int = 50
    semantic_percent: int = 50
    minimum_percent: int = 30
    per_path: int = 3
    per_kind: tuple[tuple[str, int], ...] = (("trade", 2), ("transcript", 1))
    rules: int = 1

    @property
    def text(self) -> str:
        """The terms as an event has them."""
        return canonical(self).decode()


@lru_cache(maxsize=16)
def terms_of(text: str | None) -> SearchTerms:
    """The terms of an event; the usual ones before there was any."""
    terms = SearchTerms() if text is None else msgspec.json.decode(text, type=SearchTerms)
    if terms.rules > RULES:
        raise Damaged(f"documents were searched by rules {terms.rules}, which this tapebook lacks: use a newer one")
    return terms
