"""Vectors from the weights inside the wordllama wheel: no server, no download, the same numbers for ever.

The wheel's two files are read directly. Its own code would bring its logging set-up, and a client that looks for newer
files elsewhere; all it does with the files is to add up one row of numbers per token. Sixteen-bit weights are added in
64 bits, where no sum rounds: the order in which a machine adds does not matter.
"""

import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapebook.errors import ConfigError
from tapebook.search.index import Embedder, EmbedderTerms

MODEL = "l2_supercat"
DIMENSION = 256
# What begins a word in the vocabulary.
_BLANK = "\u2581"


class WordLlama:
    """The one model; its files are read when the first text comes."""

    name = f"wordllama:{MODEL}"
    is_local = True

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The sum of the weights of each text's tokens."""
        made, weights, tokenizer = np.zeros((len(texts), DIMENSION)), _weights(), _tokenizer()
        for row, text in enumerate(texts):
            # One by one: a batch would start threads, which a process that forks later must not have.
            # Half of a surrogate pair is no text to a tokenizer.
            plain = text.encode("utf-8", "replace").decode()
            tokens = tokenizer.encode(plain, add_special_tokens=False).ids
            made[row] = np.add.reduce(weights.take(tokens, axis=0), axis=0, dtype=np.float64)
        return made

    def embed_question(self, text: str) -> NDArray[np.float64]:
        """The vector of a question."""
        row: NDArray[np.float64] = self.embed_documents([text])[0]
        return row

    def knows_word(self, word: str) -> bool:
        """Whether a word is one piece of the vocabulary, or two that are no mere syllables.

        Any letters can be put together from small pieces, whose sum means nothing. Of the words of real manuals 83 in
        100 are known, of random letters 6 in 10,000.
        """
        return len(word) > 2 and (_is_known(word) or _is_known(word.lower()))


def _is_known(word: str) -> bool:
    plain = word.encode("utf-8", "replace").decode()
    pieces = [piece.lstrip(_BLANK) for piece in _tokenizer().encode(plain, add_special_tokens=False).tokens]
    lengths = sorted(len(piece) for piece in pieces if piece)
    return len(lengths) == 1 or (len(lengths) == 2 and lengths[0] > 2 and lengths[1] > 3)


# Once per process, however many indexes it opens.
@cache
def _weights() -> NDArray[np.float16]:
    path = _wheel_folder() / "weights" / f"{MODEL}_{DIMENSION}.safetensors"
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))["embedding.weight"]
    # Mapped, so that processes share it and only rows of words in use are read.
    return np.asarray(np.memmap(path, np.float16, "r", 8 + length + header["data_offsets"][0], tuple(header["shape"])))


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(_wheel_folder() / "tokenizers" / f"{MODEL}_tokenizer_config.json"))
    made.no_padding()
    made.no_truncation()
    return made


def _wheel_folder() -> Path:
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise ConfigError("the local embedder needs its weights: pip install wordllama, or name another embedder")
    return Path(found.origin).parent


def create(terms: EmbedderTerms) -> Embedder:
    """The adapter's entry point; there is one model."""
    if terms.model not in ("", MODEL):
        raise ConfigError(f"wordllama has one model, {MODEL}, and no {terms.model!r}: leave `model` empty")
    return WordLlama()
