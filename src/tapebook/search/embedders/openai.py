"""Vectors from OpenAI, and from the many servers that speak its words."""

from collections.abc import Sequence
from typing import Any

from tapebook.search.embedding_server import EmbeddingDialect, ServerEmbedder, read_openai_rows
from tapebook.search.index import Embedder, EmbedderTerms


def _ask(model: str, texts: Sequence[str], _is_question: bool) -> tuple[str, dict[str, Any]]:
    """One request for some texts."""
    return "/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"}


OPENAI = EmbeddingDialect(
    provider="openai",
    url="https://api.openai.com/v1",
    model="text-embedding-3-small",
    key_variable="OPENAI_API_KEY",
    most_texts=1_000,
    ask=_ask,
    read=read_openai_rows,
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(OPENAI, terms)
