"""Vectors from Voyage AI, which makes those of questions and of documents differently."""

from collections.abc import Sequence
from typing import Any

from tapebook.recall.embedder import Embedder, EmbedderTerms
from tapebook.recall.embedding_server import Dialect, ServerEmbedder, read_rows


def _ask(model: str, texts: Sequence[str], is_question: bool) -> tuple[str, dict[str, Any]]:
    return "/embeddings", {"model": model, "input": list(texts), "input_type": "query" if is_question else "document"}


VOYAGE = Dialect(
    provider="voyage",
    url="https://api.voyageai.com/v1",
    model="voyage-4",
    key_variable="VOYAGE_API_KEY",
    most_texts=128,
    ask=_ask,
    read=read_rows,
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(VOYAGE, terms)
