"""The vectors of an index: made for rows that have none, and compared with a question's.

Words and vectors are written apart. A row that has no vector yet is found by its words alone, and an index says that it
is indexed only as far as both are there; so another model, or a process that was killed, is the same case as new rows.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tapebook.domain.canonical import sha256_hex
from tapebook.recall import vectors
from tapebook.recall.embedder import Embedder
from tapebook.recall.index_store import IndexStore, Model
from tapebook.recall.likeness import Likeness, PartLikeness
from tapebook.recall.passages import passages
from tapebook.recall.sight import Part, Sight
from tapebook.recall.sketch import Sketch

AT_ONCE = 256
"""Rows that are embedded and written together."""


class Embeddings:
    """The vectors of one model in one store."""

    def __init__(self, store: IndexStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._sketches: dict[tuple[int, int], Sketch] = {}
        self._edges: dict[int, NDArray[np.int64]] = {}

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

    def knows_any(self, words: Iterable[str]) -> bool:
        """Whether at least one of some words means something to the model."""
        return any(map(self._embedder.knows, words))

    def likeness(self, question: str, sight: Sight) -> Likeness | None:
        """How alike the rows in sight are to a question; None when none has a vector."""
        model = self._store.model(self._embedder.name)
        vector = None if model is None else self._vector(model, question)
        if model is None or vector is None:
            return None
        return Likeness([self._part(model, vector, part) for part in sight.parts])

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

    def _part(self, model: Model, vector: NDArray[np.void], part: Part) -> PartLikeness:
        edges = self._edges_of(part)
        kept = self._store.vectors(model, part.scope_id, count=int(edges[-1]))
        key = (model.model_id, part.scope_id)
        sketch = self._sketches.get(key)
        if sketch is None:
            # Whoever asks but once is answered sooner without short forms than with.
            sketch = self._sketches[key] = Sketch()
        else:
            sketch.grow(kept)
        return PartLikeness(vector, kept, edges, sketch=sketch, base=part.base)

    def _edges_of(self, part: Part) -> NDArray[np.int64]:
        """Where the vectors of each row begin and end; a row has as many for ever."""
        known = self._edges.get(part.scope_id, np.zeros(1, np.int64))
        if len(known) <= len(part.rows):
            known = np.concatenate((known[:1], np.cumsum(part.rows["passages"], dtype=np.int64)))
            self._edges[part.scope_id] = known
        return known[: len(part.rows) + 1]

    def _done(self, scope_id: int) -> int:
        model = self._store.model(self._embedder.name)
        return 0 if model is None else self._store.embedded(model, scope_id)
