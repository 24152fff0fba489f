"""The vectors of an index: made for rows that have none, and compared with a question's.

Words and vectors are written apart. A row that has no vector yet is found by its words alone, and an index says that it
is indexed only as far as both are there; so another model, or a process that was killed, is the same case as new rows.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.canonical import sha256_hex
from tapebook.recall import vectors
from tapebook.recall.embedder import Embedder
from tapebook.recall.index_store import IndexStore, Model
from tapebook.recall.passages import passages
from tapebook.recall.rows import RowArray
from tapebook.recall.sight import Sight

AT_ONCE = 256
"""Rows that are embedded and written together."""


class Meant(msgspec.Struct):
    """A question's vector, of which model, and how alike each row in sight is to it."""

    model: Model
    vector: NDArray[np.void]
    likeness: NDArray[np.float64]


class Embeddings:
    """The vectors of one model in one store."""

    def __init__(self, store: IndexStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    def head(self) -> int:
        """The newest sequence all of whose rows have vectors."""
        head, model = self._store.head(), self._store.model(self._embedder.name)
        waiting = self._store.waiting(model)
        return head if waiting is None else min(head, waiting - 1)

    def fill(self) -> int:
        """Embeds every row that has no vector; returns how many."""
        if self._store.waiting(self._store.model(self._embedder.name)) is None:
            return 0
        made = sum(self._fill(scope_id) for scope_id in self._store.scopes().values())
        model = self._store.model(self._embedder.name)
        if model is not None:
            self._store.forget_others(model)
        return made

    def _fill(self, scope_id: int) -> int:
        made = 0
        while (first := self._done(scope_id)) < len(self._store.rows(scope_id)):
            texts = [passages(text, above) for above, text in self._store.texts(scope_id, first, first + AT_ONCE)]
            given = self._embedder.documents([passage for each in texts for passage in each])
            # A model that changed its dimension is another model, and begins with the first row.
            model = self._store.made_model(self._embedder.name, given.shape[1])
            end = first + len(texts)
            self._store.add_vectors(model, scope_id, vectors.quantised(given), first=first, end=end)
            made += len(texts)
        return made

    def meant(self, question: str, sight: Sight) -> Meant | None:
        """What the meaning of a question says of the rows in sight; None when none has a vector."""
        model = self._store.model(self._embedder.name)
        vector = None if model is None else self._vector(model, question)
        if model is None or vector is None:
            return None
        parts = [self._likeness(model, vector, scope_id=part.scope_id, rows=part.rows) for part in sight.parts]
        return Meant(model, vector, np.concatenate(parts))

    def closest(self, meant: Meant, sight: Sight, at: int) -> int:
        """Which passage of a row is the most alike."""
        part, row = sight.place_of(at)
        counts = part.rows["passages"]
        first = int(counts[:row].sum(dtype=np.int64))
        end = first + int(counts[row])
        kept = self._store.vectors(meant.model, part.scope_id, count=end)[first:end]
        return int(np.argmax(vectors.cosines(kept, meant.vector))) if len(kept) else 0

    def _vector(self, model: Model, question: str) -> NDArray[np.void] | None:
        key = sha256_hex(question.encode(errors="replace"))
        packed = None if self._embedder.is_local else self._store.question(model, key)
        if packed is None:
            asked = self._embedder.question(question)
            if len(asked) != model.dimension:
                return None
            packed = vectors.quantised(asked[np.newaxis])[0].tobytes()
            if not self._embedder.is_local:
                self._store.keep_question(model, key, packed)
        made: NDArray[np.void] = np.frombuffer(packed, vectors.dtype(model.dimension))[0]
        return made

    def _likeness(
        self, model: Model, vector: NDArray[np.void], *, scope_id: int, rows: RowArray
    ) -> NDArray[np.float64]:
        """How alike each of the first rows of a scope is; 0 for those without a vector."""
        found = np.zeros(len(rows))
        ends = np.cumsum(rows["passages"], dtype=np.int64)
        kept = self._store.vectors(model, scope_id, count=int(ends[-1]) if len(ends) else 0)
        # Fewer than there are rows, when some wait for theirs.
        done = int(np.searchsorted(ends, len(kept), side="right"))
        if done:
            cosines = vectors.cosines(kept[: ends[done - 1]], vector)
            found[:done] = np.maximum.reduceat(cosines, np.concatenate(([0], ends[: done - 1])))
        return found

    def _done(self, scope_id: int) -> int:
        model = self._store.model(self._embedder.name)
        return 0 if model is None else self._store.embedded(model, scope_id)
