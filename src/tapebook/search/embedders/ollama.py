"""Vectors from an Ollama server on this machine or another."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tapebook.search.embedding_server import EmbeddingDialect, ServerEmbedder
from tapebook.search.index import Embedder, EmbedderTerms


class _OllamaResponse(msgspec.Struct):
    embeddings: list[list[float]]


def _ask(model: str, texts: Sequence[str], _is_question: bool) -> tuple[str, dict[str, Any]]:
    return "/api/embed", {"model": model, "input": list(texts)}


def _read(content: bytes) -> list[list[float]]:
    return msgspec.json.decode(content, type=_OllamaResponse).embeddings


OLLAMA = EmbeddingDialect(
    provider="ollama",
    url="http://127.0.0.1:11434",
    model="embeddinggemma",
    key_variable="",
    most_texts=64,
    ask=_ask,
    read=_read,
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(OLLAMA, terms)
