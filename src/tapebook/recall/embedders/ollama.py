"""Vectors from an Ollama server on this machine or another."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tapebook.recall.embedder import Embedder, EmbedderTerms
from tapebook.recall.embedding_server import Dialect, ServerEmbedder


class _Answer(msgspec.Struct):
    embeddings: list[list[float]]


def _ask(model: str, texts: Sequence[str], _is_question: bool) -> tuple[str, dict[str, Any]]:
    return "/api/embed", {"model": model, "input": list(texts)}


def _read(content: bytes) -> list[list[float]]:
    return msgspec.json.decode(content, type=_Answer).embeddings


OLLAMA = Dialect(
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
