"""What a search can see: the rows of some scopes as of a sequence, as if nothing else had ever been written."""

from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.recall import postings
from tapebook.recall.index_store import Found, IndexStore
from tapebook.recall.rows import RowArray, known

Numbers = NDArray[np.float64]


class Part(msgspec.Struct):
    """The rows of one scope, which of them stand, and where they begin among those of all scopes."""

    scope_id: int
    rows: RowArray
    standing: NDArray[np.bool_]
    base: int


class Sight:
    """The rows of scopes, one scope behind the other; a row's place among them is its number here."""

    def __init__(self, store: IndexStore, scopes: Collection[str], seq: int) -> None:
        self._store = store
        self.seq = seq
        self.parts: list[Part] = []
        self.size = 0
        for scope_id in store.scope_ids(scopes):
            rows = known(store.rows(scope_id), seq)
            self.parts.append(Part(scope_id, rows, rows["end"] > seq, self.size))
            self.size += len(rows)
        self.standing = np.concatenate([np.zeros(0, bool), *(part.standing for part in self.parts)])

    def with_term(self, term: str) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        """The rows that stand and have a term, how often each has it, and their lengths."""
        found = [self._with_term(part, term) for part in self.parts]
        if len(found) == 1:
            return found[0]
        places, times, lengths = zip((np.zeros(0, np.int64), np.zeros(0), np.zeros(0)), *found, strict=True)
        return np.concatenate(places), np.concatenate(times), np.concatenate(lengths)

    def _with_term(self, part: Part, term: str) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        where, often = postings.unpacked(self._store.postings(part.scope_id, term, count=len(part.rows)))
        end = int(np.searchsorted(where, len(part.rows)))
        where, often = where[:end], often[:end]
        keep = part.standing[where]
        if not keep.all():
            where, often = where[keep], often[keep]
        return where + part.base, often, part.rows["length"][where]

    def with_any(self, terms: Collection[str]) -> tuple[NDArray[np.int64], Numbers, Numbers]:
        """The rows that stand and have some of these terms, how often each has them together, and their lengths."""
        places, times, lengths = map(np.concatenate, zip(*map(self.with_term, terms), strict=True))
        rows, first, which = np.unique(places, return_index=True, return_inverse=True)
        often = np.zeros(len(rows))
        np.add.at(often, which, times)
        return rows, often, lengths[first]

    def not_at(self, paths: Collection[str]) -> NDArray[np.bool_]:
        """Which rows are of no document at one of these paths."""
        found = []
        for part in self.parts:
            documents = [self._store.document(part.scope_id, path) for path in paths]
            found.append(~np.isin(part.rows["document"], [each for each in documents if each is not None]))
        return np.concatenate([np.zeros(0, bool), *found])

    def of_kinds(self, kinds: Collection[str] | None) -> NDArray[np.bool_]:
        """Which rows stand and are of one of these kinds; of any, if none is named."""
        if kinds is None:
            return self.standing
        numbers = self._store.kinds()
        wanted = [numbers[kind] for kind in kinds if kind in numbers]
        allowed = [part.standing & np.isin(part.rows["kind"], wanted) for part in self.parts]
        return np.concatenate([np.zeros(0, bool), *allowed])

    def sources(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """The documents and the kinds of rows, by their numbers."""
        documents, kinds = np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint8)
        for part in self.parts:
            inside = (rows >= part.base) & (rows < part.base + len(part.rows))
            own = part.rows[rows[inside] - part.base]
            documents[inside], kinds[inside] = own["document"], own["kind"]
        return documents, kinds

    def found(self, at: int) -> Found:
        """All that is said of a row."""
        part, row = self.place_of(at)
        return self._store.found(part.scope_id, row, seq=self.seq)

    def place_of(self, at: int) -> tuple[Part, int]:
        """The part a row is of, and its number there."""
        part = next(part for part in reversed(self.parts) if part.base <= at)
        return part, at - part.base
