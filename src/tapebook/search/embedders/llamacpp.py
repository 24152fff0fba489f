"""Vectors from a llama.cpp server (`llama-server --embeddings`), which speaks OpenAI's words and wants no key."""

import msgspec

from tapebook.search.embedders.openai import OPENAI
from tapebook.search.embedding_server import ServerEmbedder
from tapebook.search.index import Embedder, EmbedderTerms

LLAMACPP = msgspec.structs.replace(
    OPENAI, provider="llamacpp", url="http://127.0.0.1:8080/v1", model="default", key_variable="", most_texts=64
)


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point."""
    return ServerEmbedder(LLAMACPP, terms)
