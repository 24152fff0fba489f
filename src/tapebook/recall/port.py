"""What an index is: versions of documents in, citations out, as of any commit."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import msgspec

from tapebook.domain.citation import Citation
from tapebook.recall.embedder import EmbedderTerms
from tapebook.recall.terms import RULES
from tapebook.recall.version import Version

Progress = Callable[[int, int], None]


class IndexTerms(msgspec.Struct, frozen=True):
    """What an index needs to be made: its file, and how it weighs what it finds.

    `minimum_percent` is the cosine below which meaning alone finds nothing; what words find is never lost to it.
    `per_path` is how many places of one document are given at most, `per_kind` of one kind; 0 and nothing mean all.
    `rules` are those of `SearchTerms`.
    """

    path: str
    embedder: str = "wordllama"
    embedding: EmbedderTerms = EmbedderTerms()
    lexical_percent: int = 50
    semantic_percent: int = 50
    minimum_percent: int = 30
    per_path: int = 0
    per_kind: dict[str, int] = {}
    rules: int = RULES


class Part(msgspec.Struct, frozen=True):
    """What one number contributed to a hit's score, in ten-thousandths."""

    name: str
    value_e4: int


class Answer(msgspec.Struct, frozen=True):
    """Citations, best first; when there are none, `why` says so in a sentence. `explained` stands beside them."""

    citations: tuple[Citation, ...] = ()
    why: str = ""
    explained: tuple[tuple[Part, ...], ...] = ()


class IndexReport(msgspec.Struct, frozen=True):
    """What indexing did: versions taken in, chunks written and chunks that were there already."""

    versions: int = 0
    written: int = 0
    kept: int = 0
    head: int = 0


class IndexCounts(msgspec.Struct, frozen=True):
    """What an index holds at its head: documents and chunks that can be found, and all chunks and bytes it keeps."""

    documents: int
    chunks: int
    kept_chunks: int
    bytes: int


def silent(_done: int, _of: int) -> None:
    """Progress that nobody watches."""


class Index(Protocol):
    """Chunks of documents in the order of their commits, searched as of any of them."""

    def head(self) -> int:
        """The newest sequence that is wholly indexed; 0 before the first."""
        ...

    def index(self, versions: Sequence[tuple[Version, bytes]], *, progress: Progress = silent) -> IndexReport:
        """Takes in versions with their bodies, in the order of their sequence; those at or before the head are passed
        over. Committed in batches, each with its head: whoever is killed goes on from there."""
        ...

    def search(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int = 10,
        kinds: Collection[str] | None = None,
        without: Collection[str] = (),
    ) -> Answer:
        """What the documents of these scopes said as of a sequence; nothing outside them has any influence.

        Documents at the paths `without` are not given, but count when a word is weighed.
        """
        ...

    def counts(self) -> IndexCounts:
        """How much it holds."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...
