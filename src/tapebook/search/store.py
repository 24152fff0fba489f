"""Stores an index in its database: rows, postings and vectors of every scope, in a file that can be made anew.

A chunk has a row for ever. It can be found from the sequence of its first version until it was replaced or
removed, so as of a sequence the chunks are a beginning of the rows, less those that had ended (`VisibleChunks`).
Readers need no transaction: what was committed up to a sequence never changes for whoever asks as of it.
Postings and rows are kept in pages, so that one more chunk rewrites a page and not the whole list. Vectors are
whole numbers from -127 to 127: products stay below 2**24, which 32-bit floats hold exactly in whatever order a
library adds them, so every machine gives the same cosine.
"""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.db import Queries, Row, connect, migrate
from tapebook.errors import StaleWriter
from tapebook.search.index import IndexCounts

# A page of postings is one row: common terms are read in few of them.
POSTINGS_PAGE = 1_024
_COUNT_BITS = 6
MAX_TERM_COUNT = 2**_COUNT_BITS - 1
"""More often than this counts as this: the score has long stopped growing."""


def pack_posting(row: int, times: int) -> int:
    """A row with how often, as one number; numbers of later rows are larger."""
    return row << _COUNT_BITS | (times if times < MAX_TERM_COUNT else MAX_TERM_COUNT)


def posting_pages(numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Rising numbers as the bytes of their pages."""
    first, last = _page_of_posting(numbers[0]), _page_of_posting(numbers[-1])
    if first == last:
        yield first, _pack_numbers(numbers)
    else:
        for page, part in groupby(numbers, key=_page_of_posting):
            yield page, _pack_numbers(list(part))


def unpack_postings(content: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows, and how often the term stands in each."""
    numbers = np.frombuffer(content, "<u4")
    return (numbers >> _COUNT_BITS).astype(np.int64), (numbers & MAX_TERM_COUNT).astype(np.float64)


def _page_of_posting(number: int) -> int:
    return (number >> _COUNT_BITS) // POSTINGS_PAGE


def _pack_numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


ROW_PAGE = 512
NEVER = 2**63 - 1
"""The end of a chunk that stands."""
MAX_CHUNK_LENGTH = 2**16 - 1
"""The longest a chunk counts as."""

ROW_DTYPE = np.dtype(
    [("first", "<i8"), ("end", "<i8"), ("document", "<u4"), ("length", "<u2"), ("kind", "u1"), ("passages", "u1")]
)

RowArray = NDArray[np.void]


def rows_as_of(rows: RowArray, seq: int) -> RowArray:
    """The rows that were committed as of a sequence."""
    return rows[: int(np.searchsorted(rows["first"], seq, side="right"))]


def unpack_rows(pages: list[bytes]) -> RowArray:
    """Rows from their pages, in order."""
    return np.frombuffer(b"".join(pages), ROW_DTYPE)


VECTOR_PAGE = 256
# Vectors are stored as int8, so that products of two are exact integers on every machine.
_LARGEST_COMPONENT = 127
# Up to here float32 holds every integer.
_EXACT_LIMIT = 2**24
# Small enough for one processor: OpenBLAS would wake others, which takes longer than the work.
_PRODUCT_BLOCK = 1_024


def vector_dtype(dimension: int) -> np.dtype[np.void]:
    """A vector with the square of its length."""
    return np.dtype([("square", "<f4"), ("values", "i1", (dimension,))])


def quantise(rows: NDArray[np.float64]) -> NDArray[np.void]:
    """Rows of floats as vectors; what is not a number, or nothing but zeros, is like nothing."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0] = 1.0
    made = np.zeros(len(rows), vector_dtype(rows.shape[1]))
    reach = np.full((len(rows), 1), float(_LARGEST_COMPONENT))
    while True:
        values = np.rint(rows / largest * reach)
        square = (values * values).sum(axis=1)
        if not len(rows) or square.max() < _EXACT_LIMIT:
            break
        # Long vectors of even numbers: fewer steps, and still exact.
        reach[square >= _EXACT_LIMIT] /= 2
    made["values"], made["square"] = values, square
    return made


def cosine_similarities(vectors: NDArray[np.void], question: NDArray[np.void]) -> NDArray[np.float64]:
    """How alike each vector is to a question's, from -1 to 1."""
    asked = question["values"].astype(np.float32)
    products = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _PRODUCT_BLOCK):
        block = vectors["values"][start : start + _PRODUCT_BLOCK].astype(np.float32)
        np.matmul(block, asked, out=products[start : start + _PRODUCT_BLOCK])
    lengths = np.sqrt(vectors["square"].astype(np.float64) * float(question["square"]))
    lengths[lengths == 0] = 1.0
    return products / lengths


MIGRATIONS = "tapebook.recall.indexes"

_QUERIES = Queries.load("tapebook.search", "index.sql")


class FoundChunk(msgspec.Struct, frozen=True):
    """A chunk as of a sequence: where it stands, what it says, and the hash of the document it stands in."""

    path: str
    headings: tuple[str, ...]
    text: str
    sha256: str
    start_line: int
    end_line: int


class LiveChunk(msgspec.Struct, frozen=True):
    """A chunk of a document that stands, by its row."""

    row: int
    identity: bytes
    start_line: int
    end_line: int


class VectorModel(msgspec.Struct, frozen=True):
    """A model whose vectors are kept."""

    model_id: int
    dimension: int


class IndexBatch:
    """What some versions change, to be written together: rows of tables as the statements take them."""

    def __init__(self, head: int) -> None:
        self.begins_at = head
        self.seq = head
        self.scopes: list[Row] = []
        self.kinds: list[Row] = []
        self.documents: list[Row] = []
        self.bodies: list[Row] = []
        self.chunks: list[Row] = []
        self.places: list[Row] = []
        self.rows: dict[int, list[tuple[int, ...]]] = {}
        self.ended: dict[int, dict[int, int]] = {}
        self.postings: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))


class IndexStore:
    """One file, opened by one process for one thread."""

    def __init__(self, path: str) -> None:
        # Derived: what a power cut takes is indexed again.
        self._db = connect(path, durable=False)
        migrate(self._db, (MIGRATIONS,))
        self._rows: dict[int, tuple[int, list[bytes], RowArray]] = {}
        self._vectors: dict[tuple[int, int], NDArray[np.void]] = {}
        self._scopes: dict[str, int] = {}

    def head(self) -> int:
        """The newest sequence whose words are indexed."""
        found = self._db.one(_QUERIES.head)
        return int(found[0]) if found else 0

    def scopes(self) -> dict[str, int]:
        """The numbers of all scopes."""
        return dict(self._db.all(_QUERIES.scopes))

    def scope_ids(self, names: Iterable[str]) -> list[int]:
        """The numbers of those scopes that have documents, in the order of their names."""
        wanted = sorted(set(names))
        if any(name not in self._scopes for name in wanted):
            self._scopes = self.scopes()
        return [self._scopes[name] for name in wanted if name in self._scopes]

    def kinds(self) -> dict[str, int]:
        """The numbers of all kinds."""
        return dict(self._db.all(_QUERIES.kinds))

    def document_number(self, scope_id: int, path: str) -> int | None:
        """The number of a document, if it ever had a body."""
        found = self._db.one(_QUERIES.document, scope_id=scope_id, path=path)
        return found[0] if found else None

    def newest_document(self) -> int:
        """The highest number given to a document."""
        found = self._db.one(_QUERIES.newest_document)
        return int(found[0]) if found else 0

    def live_chunks(self, document_id: int) -> list[LiveChunk]:
        """The chunks of a document that stand."""
        return [LiveChunk(*found) for found in self._db.all(_QUERIES.standing, document_id=document_id)]

    def rows(self, scope_id: int) -> RowArray:
        """The rows of a scope; read again only as far as they changed."""
        head = self.head()
        since, pages, known = self._rows.get(scope_id, (-1, [], np.zeros(0, ROW_DTYPE)))
        if since != head:
            changed = self._db.all(_QUERIES.row_pages, scope_id=scope_id, since=since)
            for page, content in changed:
                pages[page : page + 1] = [content]
            if changed:
                known = unpack_rows(pages)
            self._rows[scope_id] = (head, pages, known)
        return known

    def postings(self, scope_id: int, term: str, *, count: int) -> bytes:
        """The postings of a term in the first rows of a scope, and some behind them."""
        last = count // POSTINGS_PAGE
        found = self._db.all(_QUERIES.postings, scope_id=scope_id, term=term, last_page=last)
        return found[0][0] if len(found) == 1 else b"".join(row[0] for row in found)

    def chunk_as_of(self, scope_id: int, row: int, *, seq: int) -> FoundChunk:
        """All that is said of a chunk as of a sequence."""
        found = self._db.one(_QUERIES.found, scope_id=scope_id, row_number=row, seq=seq)
        assert found is not None
        path, headings, text, *rest = found
        return FoundChunk(path, _split_headings(headings), text, *rest)

    def texts(self, scope_id: int, first: int, end: int) -> list[tuple[tuple[str, ...], str]]:
        """Headings and text of some rows."""
        found = self._db.all(_QUERIES.texts, scope_id=scope_id, first=first, end=end)
        return [(_split_headings(headings), text) for headings, text in found]

    def write(self, batch: IndexBatch) -> None:
        """Writes a batch, unless somebody else moved the head since it was begun: then nothing is, and StaleWriter."""
        with self._db.transaction():
            if self.head() != batch.begins_at:
                raise StaleWriter("another process indexed these documents; go on from where it is")
            for query, values in (
                (_QUERIES.new_scope, batch.scopes),
                (_QUERIES.new_kind, batch.kinds),
                (_QUERIES.new_document, batch.documents),
                (_QUERIES.new_body, batch.bodies),
                (_QUERIES.new_chunk, batch.chunks),
                (_QUERIES.new_place, batch.places),
                (_QUERIES.end_chunk, [(scope, row) for scope, ended in batch.ended.items() for row in ended]),
                (_QUERIES.add_postings, _posting_rows(batch)),
            ):
                self._db.many(query, values)
            for scope_id in batch.rows.keys() | batch.ended.keys():
                self._write_rows(scope_id, batch)
            self._db.execute(_QUERIES.set_head, seq=batch.seq)

    def _write_rows(self, scope_id: int, batch: IndexBatch) -> None:
        before = self.rows(scope_id)
        after = np.concatenate([before, np.array(batch.rows.get(scope_id, []), ROW_DTYPE)])
        ended = batch.ended.get(scope_id, {})
        after["end"][list(ended)] = list(ended.values())
        pages = {row // ROW_PAGE for row in (*ended, *range(len(before), len(after)))}
        content = [
            (scope_id, page, batch.seq, after[page * ROW_PAGE : (page + 1) * ROW_PAGE].tobytes())
            for page in sorted(pages)
        ]
        self._db.many(_QUERIES.put_row_page, content)

    def find_model(self, name: str, dimension: int | None = None) -> VectorModel | None:
        """The newest model of a name, or that of a dimension."""
        known = [VectorModel(*found) for found in self._db.all(_QUERIES.models, name=name)]
        return next((each for each in known if dimension in (None, each.dimension)), None)

    def ensure_model(self, name: str, dimension: int) -> VectorModel:
        """The model of a name and dimension, new if need be."""
        with self._db.transaction():
            known = self.find_model(name, dimension)
            if known is None:
                self._db.execute(_QUERIES.new_model, name=name, dimension=dimension)
        made = known or self.find_model(name, dimension)
        assert made is not None
        return made

    def embedded_count(self, model: VectorModel, scope_id: int) -> int:
        """How many rows of a scope have vectors."""
        found = self._db.one(_QUERIES.embedded, model_id=model.model_id, scope_id=scope_id)
        return int(found[0]) if found else 0

    def first_seq_without_vectors(self, model: VectorModel | None) -> int | None:
        """The sequence of the first row that has no vector of a model."""
        found = self._db.one(_QUERIES.waiting, model_id=model.model_id if model else 0)
        return found[0] if found else None

    def add_vectors(self, model: VectorModel, scope_id: int, made: NDArray[np.void], *, first: int, end: int) -> None:
        """Appends the vectors of the rows from `first` to `end`; nothing when somebody else was faster."""
        with self._db.transaction():
            if self.embedded_count(model, scope_id) != first:
                return
            place = int(self.rows(scope_id)["passages"][:first].sum(dtype=np.int64))
            pages = [
                (model.model_id, scope_id, page, made[max(start - place, 0) : stop - place].tobytes())
                for page, start, stop in _vector_pages(place, place + len(made), VECTOR_PAGE)
            ]
            self._db.many(_QUERIES.add_vectors, pages)
            self._db.execute(_QUERIES.set_embedded, model_id=model.model_id, scope_id=scope_id, row_count=end)

    def vectors(self, model: VectorModel, scope_id: int, *, count: int) -> NDArray[np.void]:
        """The first vectors of a scope; as many as there are, if those are fewer."""
        kind = vector_dtype(model.dimension)
        known = self._vectors.get((model.model_id, scope_id), np.zeros(0, kind))
        if len(known) < count:
            page = len(known) // VECTOR_PAGE
            where = {"model_id": model.model_id, "scope_id": scope_id, "page": page}
            new = b"".join(found[0] for found in self._db.all(_QUERIES.vector_pages, **where))
            whole = known[: page * VECTOR_PAGE]
            known = np.concatenate([whole, np.frombuffer(new, kind)]) if len(whole) else np.frombuffer(new, kind)
            self._vectors[(model.model_id, scope_id)] = known
        return known[:count]

    def drop_other_models(self, model: VectorModel) -> None:
        """Drops the vectors of all other models."""
        if self._db.one(_QUERIES.another_model, model_id=model.model_id) is None:
            return
        with self._db.transaction():
            for query in ("forget_vectors", "forget_embedded", "forget_questions", "forget_models"):
                self._db.execute(getattr(_QUERIES, query), model_id=model.model_id)

    def question_vector(self, model: VectorModel, sha256: str) -> bytes | None:
        """The vector of a question that a server was asked for before."""
        found = self._db.one(_QUERIES.question, model_id=model.model_id, sha256=sha256)
        return found[0] if found else None

    def store_question_vector(self, model: VectorModel, sha256: str, packed: bytes) -> None:
        """Remembers the vector of a question."""
        self._db.execute(_QUERIES.keep_question, model_id=model.model_id, sha256=sha256, packed=packed)

    def counts(self) -> IndexCounts:
        """How much it holds."""
        values: list[Any] = []
        for query in (_QUERIES.documents_standing, _QUERIES.chunks_standing, _QUERIES.size):
            values += self._db.one(query) or ()
        return IndexCounts(*values)

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()


def _split_headings(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _posting_rows(batch: IndexBatch) -> list[Row]:
    return [
        (scope_id, term, page, content)
        for scope_id, terms in batch.postings.items()
        for term, numbers in sorted(terms.items())
        for page, content in posting_pages(numbers)
    ]


def _vector_pages(first: int, end: int, size: int) -> Sequence[tuple[int, int, int]]:
    """The pages that numbers from `first` to `end` lie in, each with where it begins and ends."""
    numbers = range(first // size, -(-end // size)) if end > first else range(0)
    return [(page, page * size, (page + 1) * size) for page in numbers]


FloatArray = NDArray[np.float64]


class ScopeRows(msgspec.Struct):
    """The rows of one scope, which of them stand, and where they begin among those of all scopes."""

    scope_id: int
    rows: RowArray
    standing: NDArray[np.bool_]
    base: int


class VisibleChunks:
    """The rows of scopes, one scope behind the other; a row's place among them is its number here."""

    def __init__(self, store: IndexStore, scopes: Collection[str], seq: int) -> None:
        self._store = store
        self.seq = seq
        self.parts: list[ScopeRows] = []
        self.size = 0
        for scope_id in store.scope_ids(scopes):
            rows = rows_as_of(store.rows(scope_id), seq)
            self.parts.append(ScopeRows(scope_id, rows, rows["end"] > seq, self.size))
            self.size += len(rows)
        self.standing = np.concatenate([np.zeros(0, bool), *(part.standing for part in self.parts)])

    def rows_with_term(self, term: str) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """The rows that stand and have a term, how often each has it, and their lengths."""
        found = [self._scope_rows_with_term(part, term) for part in self.parts]
        if len(found) == 1:
            return found[0]
        places, times, lengths = zip((np.zeros(0, np.int64), np.zeros(0), np.zeros(0)), *found, strict=True)
        return np.concatenate(places), np.concatenate(times), np.concatenate(lengths)

    def _scope_rows_with_term(self, part: ScopeRows, term: str) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        where, often = unpack_postings(self._store.postings(part.scope_id, term, count=len(part.rows)))
        end = int(np.searchsorted(where, len(part.rows)))
        where, often = where[:end], often[:end]
        keep = part.standing[where]
        if not keep.all():
            where, often = where[keep], often[keep]
        return where + part.base, often, part.rows["length"][where]

    def rows_with_any(self, terms: Collection[str]) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """The rows that stand and have some of these terms, how often each has them together, and their lengths."""
        places, times, lengths = map(np.concatenate, zip(*map(self.rows_with_term, terms), strict=True))
        rows, first, which = np.unique(places, return_index=True, return_inverse=True)
        often = np.zeros(len(rows))
        np.add.at(often, which, times)
        return rows, often, lengths[first]

    def rows_not_at(self, paths: Collection[str]) -> NDArray[np.bool_]:
        """Which rows are of no document at one of these paths."""
        found = []
        for part in self.parts:
            documents = [self._store.document_number(part.scope_id, path) for path in paths]
            found.append(~np.isin(part.rows["document"], [each for each in documents if each is not None]))
        return np.concatenate([np.zeros(0, bool), *found])

    def rows_of_kinds(self, kinds: Collection[str] | None) -> NDArray[np.bool_]:
        """Which rows stand and are of one of these kinds; of any, if none is named."""
        if kinds is None:
            return self.standing
        numbers = self._store.kinds()
        wanted = [numbers[kind] for kind in kinds if kind in numbers]
        allowed = [part.standing & np.isin(part.rows["kind"], wanted) for part in self.parts]
        return np.concatenate([np.zeros(0, bool), *allowed])

    def documents_and_kinds(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """The documents and the kinds of rows, by their numbers."""
        documents, kinds = np.zeros(len(rows), np.uint32), np.zeros(len(rows), np.uint8)
        for part in self.parts:
            inside = (rows >= part.base) & (rows < part.base + len(part.rows))
            own = part.rows[rows[inside] - part.base]
            documents[inside], kinds[inside] = own["document"], own["kind"]
        return documents, kinds

    def chunk_at(self, at: int) -> FoundChunk:
        """All that is said of a row."""
        part, row = self.scope_and_row(at)
        return self._store.chunk_as_of(part.scope_id, row, seq=self.seq)

    def scope_and_row(self, at: int) -> tuple[ScopeRows, int]:
        """The part a row is of, and its number there."""
        part = next(part for part in reversed(self.parts) if part.base <= at)
        return part, at - part.base
