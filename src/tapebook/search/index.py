"""Defines what an index is, the terms a search is made with, and the index files of a home.

`Index` takes in versions of documents and gives citations as of any commit; `Embedder` turns texts into vectors.
`SearchTerms` are chosen in the settings and kept with the documents from then on: a decision is replayed with the
terms of its time, whatever the settings say later. Shares are in percent, so that they have canonical bytes.
`IndexFiles` opens an index when it is first asked for, and again when its file was replaced or removed since. A
new one is built in a file beside it (`new_index`) and takes its place at once (`install_new_index`): whoever has
the old one open reads it to the end. Nothing here imports numpy.
"""

import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from tapebook.domain.canonical import canonical_json
from tapebook.domain.files import private_opener
from tapebook.domain.packet import Citation
from tapebook.errors import Damaged
from tapebook.llm import Key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


GLOBAL_SCOPE = ""


class DocumentVersion(msgspec.Struct, frozen=True):
    """A document as it was from one commit on, until the next version of the same scope and path.

    `seq` is its place in the owner's stream of documents; `scope` is the agent whose workspace it lies in, or empty for
    the global one; `sha256` is of the body, and empty when the document was removed.
    """

    seq: int
    scope: str
    path: str
    kind: str
    sha256: str
    known_at: int


WORDS_ONLY_SLOT = "sqlite_fts"
"""The slot that knows nothing of meaning."""

RULES = 3
"""The rules that documents are searched by from now on (docs/decisions/0013)."""


class SearchTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The slot, its embedder with its model, what their scores weigh, and how much of one document or kind is given.

    Without meaning there is no embedder. Under the `rules` 2 front matter is no text, words that nobody knows find
    nothing, a word that no document has is looked for by its family, a decision asks about its situation alone, and
    what its packet shows is not cited again. Under the rules 3 scripts without blanks are found by two letters at a
    time. `filler_percent` is for people's searches: decisions have none.
    """

    slot: str = "hybrid_embeddings"
    embedder: str = "wordllama"
    model: str = ""
    lexical_percent: int = 50
    semantic_percent: int = 50
    minimum_percent: int = 30
    per_path: int = 3
    per_kind: tuple[tuple[str, int], ...] = (("trade", 2), ("transcript", 1))
    rules: int = 1
    filler_percent: int = 0

    @property
    def text(self) -> str:
        """The terms as an event has them."""
        return canonical_json(self).decode()


@lru_cache(maxsize=16)
def decode_search_terms(text: str | None) -> SearchTerms:
    """The terms of an event; the usual ones before there was any."""
    terms = SearchTerms() if text is None else msgspec.json.decode(text, type=SearchTerms)
    if terms.rules > RULES:
        raise Damaged(f"documents were searched by rules {terms.rules}, which this tapebook lacks: use a newer one")
    return terms


class EmbedderTerms(msgspec.Struct, frozen=True):
    """Which model to ask, where, with which key, and how patiently; empty words mean the adapter's own default.

    `elapsed` counts seconds; without it a server that failed is asked again at once.
    """

    model: str = ""
    url: str = ""
    key: Key = Key()
    attempts: int = 4
    timeout_seconds: float = 30.0
    sleep: Callable[[float], None] = time.sleep
    elapsed: Callable[[], float] | None = None


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

    def embed_documents(self, texts: Sequence[str]) -> "NDArray[np.float64]":
        """A row for each text of documents; Retry when a server did not answer, Fix when it never will."""
        ...

    def embed_question(self, text: str) -> "NDArray[np.float64]":
        """The row of a question."""
        ...

    def knows_word(self, word: str) -> bool:
        """Whether a word means something to the model; a server that cannot be asked knows all of them."""
        ...


Progress = Callable[[int, int], None]


class IndexTerms(msgspec.Struct, frozen=True):
    """What an index needs to be made: its file, and how it weighs what it finds.

    `minimum_percent` is the cosine below which meaning alone finds nothing; what words find is never lost to it.
    `per_path` is how many places of one document are given at most, `per_kind` of one kind; 0 and nothing mean all.
    `rules` are those of `SearchTerms`. `filler_percent` is the score below which common words alone find nothing.
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
    filler_percent: int = 0


class ScorePart(msgspec.Struct, frozen=True):
    """What one number contributed to a hit's score, in ten-thousandths."""

    name: str
    value_e4: int


class IndexAnswer(msgspec.Struct, frozen=True):
    """Citations, best first; when there are none, `why` says so in a sentence. `explained` stands beside them."""

    citations: tuple[Citation, ...] = ()
    why: str = ""
    explained: tuple[tuple[ScorePart, ...], ...] = ()


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


def ignore_progress(_done: int, _of: int) -> None:
    """Progress that nobody watches."""


class Index(Protocol):
    """Chunks of documents in the order of their commits, searched as of any of them."""

    def head(self) -> int:
        """The newest sequence that is wholly indexed; 0 before the first."""
        ...

    def index(
        self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = ignore_progress
    ) -> IndexReport:
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
    ) -> IndexAnswer:
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


@runtime_checkable
class WordsFirstIndex(Index, Protocol):
    """An index that knows words and meaning, and can do with words alone while the server of meanings is away."""

    @property
    def is_local(self) -> bool:
        """Whether nobody has to be asked for the meaning of a text."""
        ...

    def words_head(self) -> int:
        """The newest sequence whose words are indexed."""
        ...

    def index_words(self, versions: Sequence[tuple[DocumentVersion, bytes]]) -> IndexReport:
        """Takes in versions as `index` does, without their meaning."""
        ...

    def search_words(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int = 10,
        kinds: Collection[str] | None = None,
    ) -> IndexAnswer:
        """What words alone find."""
        ...


# SQLite's files beside a database; they must never meet another database of the same name.
_SQLITE_SIDE_FILES = ("-wal", "-shm")


class IndexFiles:
    """Every index of a home: one file for what is stored alike, whatever its scores weigh.

    `chosen` are the terms of the settings.
    """

    def __init__(
        self, home: Path, make: Callable[[SearchTerms, Path], Index], *, chosen: SearchTerms, alone: bool = False
    ) -> None:
        self.chosen = chosen
        self._home = home
        self._make = make
        self._alone = alone
        self._found: bool | None = None
        # The rules of before are asked until the next sync.
        before = [msgspec.structs.replace(chosen, rules=rules) for rules in range(1, chosen.rules)]
        self._likely = {str(self.path_for(terms)) for terms in (chosen, *before, SearchTerms())}
        self._open: dict[SearchTerms, tuple[str, int, Index]] = {}

    def has_index(self) -> bool:
        """Whether there is an index that decisions of now could ask; alone, one look at the disk is enough."""
        if self._found is None or not self._alone:
            self._found = any(map(os.path.exists, self._likely))
        return self._found

    def path_for(self, terms: SearchTerms) -> Path:
        """The file of an index."""
        usual = SearchTerms()
        parts: list[str] = []
        if (terms.slot, terms.embedder, terms.model) != (usual.slot, usual.embedder, usual.model):
            parts = [terms.slot, terms.embedder, *("".join(c if c.isalnum() else "_" for c in terms.model).split())]
        rules = f"r{terms.rules}" if terms.rules > 1 else ""
        return self._home / f"{'-'.join(filter(None, ['recall', *parts, rules]))}.db"

    def open_index(self, terms: SearchTerms) -> Index:
        """The index of these terms, opened."""
        known = self._open.get(terms)
        if known is not None:
            path, number, index = known
            if number == _inode(path):
                return index
            index.close()
        place = self.path_for(terms)
        with self._files_locked(fcntl.LOCK_SH):
            opened = self._make(terms, place)
            self._open[terms] = (str(place), _inode(str(place)), opened)
            # It is there now, whatever a look at the disk said before.
            self._found = None
        return opened

    def new_index(self, terms: SearchTerms) -> Index:
        """An index in a new file, or in the one a killed process was building."""
        return self._make(terms, self._new_path(terms))

    def install_new_index(self, terms: SearchTerms) -> None:
        """Puts a fresh index, which nobody has open, in the place of the one there is."""
        place = self.path_for(terms)
        old = place.with_name(f"{place.stem}.old.db")
        with self._files_locked(fcntl.LOCK_EX):
            # In this order, whoever is killed leaves a home without an index, and never one with files of two.
            if place.exists():
                os.replace(place, old)
            for name in _SQLITE_SIDE_FILES:
                Path(f"{place}{name}").unlink(missing_ok=True)
            os.replace(self._new_path(terms), place)
            old.unlink(missing_ok=True)

    def close(self) -> None:
        """Ends all connections."""
        for _, _, index in self._open.values():
            index.close()
        self._open.clear()

    def _new_path(self, terms: SearchTerms) -> Path:
        place = self.path_for(terms)
        return place.with_name(f"{place.stem}.next.db")

    @contextmanager
    def _files_locked(self, how: int) -> Iterator[None]:
        """Keeps an index from being opened while its file is replaced."""
        with open(self._home / ".recall-files.lock", "a", encoding="utf-8", opener=private_opener) as file:
            fcntl.flock(file, how)
            yield


def _inode(path: str) -> int:
    """What tells a file from another of the same name; 0 when there is none."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0
