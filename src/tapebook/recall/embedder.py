"""What an embedder is: texts in, one row of numbers each out. Vectors of different models are never compared."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from tapebook.llm import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class EmbedderTerms(msgspec.Struct, frozen=True):
    """Which model to ask, where, with which key, and how patiently; empty words mean the adapter's own default."""

    model: str = ""
    url: str = ""
    key: Key = Key()
    attempts: int = 4
    timeout_seconds: float = 30.0
    sleep: Callable[[float], None] = time.sleep


class Embedder(Protocol):
    """One model. A text without words becomes zeros, which are like nothing."""

    @property
    def name(self) -> str:
        """Provider and model: stored with vectors, which are made anew when it changes."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether the same text gives the same numbers for ever, without asking anybody."""
        ...

    def documents(self, texts: Sequence[str]) -> "NDArray[np.float64]":
        """A row for each text of documents; Retry when a server did not answer, Fix when it never will."""
        ...

    def question(self, text: str) -> "NDArray[np.float64]":
        """The row of a question."""
        ...

    def knows(self, word: str) -> bool:
        """Whether a word means something to the model; a server that cannot be asked knows all of them."""
        ...
