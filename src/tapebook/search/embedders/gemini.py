"""Vectors from Google's Gemini API, which makes those of questions and of documents differently."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tapebook.search.embedding_server import EmbeddingDialect, ServerEmbedder
from tapebook.search.index import Embedder, EmbedderTerms


class _GeminiEmbedding(msgspec.Struct):
    values: list[float]


class _GeminiResponse(msgspec.Struct):
    embeddings: list[_GeminiEmbedding]


def _ask(model: str, texts: Sequence[str], is_question: bool) -> tuple[str, dict[str, Any]]:
    task = "RETRIEVAL_QUERY" if is_question else "RETRIEVAL_DOCUMENT"
    requests = [
        {"model": f"models/{model}", "content": {"parts": [{"text": text}]}, "taskType": task} for text in texts
    ]
    return f"/models/{model}:batchEmbedContents", {"requests": requests}


def _read(content: bytes) -> list[list[float]]:
    return [row.values for row in msgspec.json.decode(content, type=_GeminiResponse).embeddings]


GEMINI = EmbeddingDialect(
    provider="gemini",
    url="https://generativelanguage.googleapis.com/v1beta",
    model="gemini-embedding-001",
    key_variable="GEMINI_API_KEY",
    most_texts=100,
    ask=_ask,
    read=_read,
    key_header="x-goog-api-key",
    key_prefix="",
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(GEMINI, terms)
