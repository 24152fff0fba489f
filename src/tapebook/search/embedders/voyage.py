"""Vectors from Voyage AI, which makes those of questions and of documents differently."""

from collections.abc import Sequence
from typing import Any

from tapebook.search.embedding_server import EmbeddingDialect, ServerEmbedder, read_openai_rows
from tapebook.search.index import Embedder, EmbedderTerms


def _ask(model: str, texts: Sequence[str], is_question: bool) -> tuple[str, dict[str, Any]]:
    return "/embeddings", {"model": model, "input": list(texts), "input_type": "query" if is_question else "document"}


VOYAGE = EmbeddingDialect(
    provider="voyage",
    url="https://api.voyageai.com/v1",
    model="voyage-4",
    key_variable="VOYAGE_API_KEY",
    most_texts=128,
    ask=_ask,
    read=read_openai_rows,
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(VOYAGE, terms)
