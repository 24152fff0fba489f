"""The index in its database: rows, postings and vectors of every scope, in a file that can be made anew.

Readers need no transaction: what was committed up to a sequence never changes for whoever asks as of it. Rows and
vectors are kept in memory once they were read, and only what is new is read again.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.db import Queries, Row, connect, migrate
from tapebook.errors import StaleWriter
from tapebook.recall import postings, rows, vectors
from tapebook.recall.port import IndexCounts

MIGRATIONS = "tapebook.recall.indexes"

_QUERIES = Queries.load("tapebook.recall", "index.sql")


class Found(msgspec.Struct, frozen=True):
    """A chunk as of a sequence: where it stands, what it says, and the hash of the document it stands in."""

    path: str
    headings: tuple[str, ...]
    text: str
    sha256: str
    start_line: int
    end_line: int


class Standing(msgspec.Struct, frozen=True):
    """A chunk of a document that stands, by its row."""

    row: int
    identity: bytes
    start_line: int
    end_line: int


class Model(msgspec.Struct, frozen=True):
    """A model whose vectors are kept."""

    model_id: int
    dimension: int


class Batch:
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
        self._rows: dict[int, tuple[int, list[bytes], rows.RowArray]] = {}
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

    def document(self, scope_id: int, path: str) -> int | None:
        """The number of a document, if it ever had a body."""
        found = self._db.one(_QUERIES.document, scope_id=scope_id, path=path)
        return found[0] if found else None

    def newest_document(self) -> int:
        """The highest number given to a document."""
        found = self._db.one(_QUERIES.newest_document)
        return int(found[0]) if found else 0

    def standing(self, document_id: int) -> list[Standing]:
        """The chunks of a document that stand."""
        return [Standing(*found) for found in self._db.all(_QUERIES.standing, document_id=document_id)]

    def rows(self, scope_id: int) -> rows.RowArray:
        """The rows of a scope; read again only as far as they changed."""
        head = self.head()
        since, pages, known = self._rows.get(scope_id, (-1, [], np.zeros(0, rows.ROW)))
        if since != head:
            changed = self._db.all(_QUERIES.row_pages, scope_id=scope_id, since=since)
            for page, content in changed:
                pages[page : page + 1] = [content]
            if changed:
                known = rows.unpacked(pages)
            self._rows[scope_id] = (head, pages, known)
        return known

    def postings(self, scope_id: int, term: str, *, count: int) -> bytes:
        """The postings of a term in the first rows of a scope, and some behind them."""
        last = count // postings.PAGE
        found = self._db.all(_QUERIES.postings, scope_id=scope_id, term=term, last_page=last)
        return found[0][0] if len(found) == 1 else b"".join(row[0] for row in found)

    def found(self, scope_id: int, row: int, *, seq: int) -> Found:
        """All that is said of a chunk as of a sequence."""
        said = self._db.one(_QUERIES.found, scope_id=scope_id, row_number=row, seq=seq)
        assert said is not None
        path, headings, text, *rest = said
        return Found(path, _headings(headings), text, *rest)

    def texts(self, scope_id: int, first: int, end: int) -> list[tuple[tuple[str, ...], str]]:
        """Headings and text of some rows."""
        found = self._db.all(_QUERIES.texts, scope_id=scope_id, first=first, end=end)
        return [(_headings(headings), text) for headings, text in found]

    def write(self, batch: Batch) -> None:
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
                (_QUERIES.add_postings, _posting_pages(batch)),
            ):
                self._db.many(query, values)
            for scope_id in batch.rows.keys() | batch.ended.keys():
                self._write_rows(scope_id, batch)
            self._db.run(_QUERIES.set_head, seq=batch.seq)

    def _write_rows(self, scope_id: int, batch: Batch) -> None:
        before = self.rows(scope_id)
        after = np.concatenate([before, np.array(batch.rows.get(scope_id, []), rows.ROW)])
        ended = batch.ended.get(scope_id, {})
        after["end"][list(ended)] = list(ended.values())
        pages = {row // rows.PAGE for row in (*ended, *range(len(before), len(after)))}
        content = [
            (scope_id, page, batch.seq, after[page * rows.PAGE : (page + 1) * rows.PAGE].tobytes())
            for page in sorted(pages)
        ]
        self._db.many(_QUERIES.put_row_page, content)

    def model(self, name: str, dimension: int | None = None) -> Model | None:
        """The newest model of a name, or that of a dimension."""
        known = [Model(*found) for found in self._db.all(_QUERIES.models, name=name)]
        return next((each for each in known if dimension in (None, each.dimension)), None)

    def made_model(self, name: str, dimension: int) -> Model:
        """The model of a name and dimension, new if need be."""
        with self._db.transaction():
            known = self.model(name, dimension)
            if known is None:
                self._db.run(_QUERIES.new_model, name=name, dimension=dimension)
        made = known or self.model(name, dimension)
        assert made is not None
        return made

    def embedded(self, model: Model, scope_id: int) -> int:
        """How many rows of a scope have vectors."""
        found = self._db.one(_QUERIES.embedded, model_id=model.model_id, scope_id=scope_id)
        return int(found[0]) if found else 0

    def waiting(self, model: Model | None) -> int | None:
        """The sequence of the first row that has no vector of a model."""
        found = self._db.one(_QUERIES.waiting, model_id=model.model_id if model else 0)
        return found[0] if found else None

    def add_vectors(self, model: Model, scope_id: int, made: NDArray[np.void], *, first: int, end: int) -> None:
        """Appends the vectors of the rows from `first` to `end`; nothing when somebody else was faster."""
        with self._db.transaction():
            if self.embedded(model, scope_id) != first:
                return
            place = int(self.rows(scope_id)["passages"][:first].sum(dtype=np.int64))
            pages = [
                (model.model_id, scope_id, page, made[max(start - place, 0) : stop - place].tobytes())
                for page, start, stop in _pages(place, place + len(made), vectors.PAGE)
            ]
            self._db.many(_QUERIES.add_vectors, pages)
            self._db.run(_QUERIES.set_embedded, model_id=model.model_id, scope_id=scope_id, row_count=end)

    def vectors(self, model: Model, scope_id: int, *, count: int) -> NDArray[np.void]:
        """The first vectors of a scope; as many as there are, if those are fewer."""
        kind = vectors.dtype(model.dimension)
        known = self._vectors.get((model.model_id, scope_id), np.zeros(0, kind))
        if len(known) < count:
            page = len(known) // vectors.PAGE
            where = {"model_id": model.model_id, "scope_id": scope_id, "page": page}
            new = b"".join(found[0] for found in self._db.all(_QUERIES.vector_pages, **where))
            whole = known[: page * vectors.PAGE]
            known = np.concatenate([whole, np.frombuffer(new, kind)]) if len(whole) else np.frombuffer(new, kind)
            self._vectors[(model.model_id, scope_id)] = known
        return known[:count]

    def forget_others(self, model: Model) -> None:
        """Drops the vectors of all other models."""
        if self._db.one(_QUERIES.another_model, model_id=model.model_id) is None:
            return
        with self._db.transaction():
            for query in ("forget_vectors", "forget_embedded", "forget_questions", "forget_models"):
                self._db.run(getattr(_QUERIES, query), model_id=model.model_id)

    def question(self, model: Model, sha256: str) -> bytes | None:
        """The vector of a question that a server was asked for before."""
        found = self._db.one(_QUERIES.question, model_id=model.model_id, sha256=sha256)
        return found[0] if found else None

    def keep_question(self, model: Model, sha256: str, packed: bytes) -> None:
        """Remembers the vector of a question."""
        self._db.run(_QUERIES.keep_question, model_id=model.model_id, sha256=sha256, packed=packed)

    def counts(self) -> IndexCounts:
        """How much it holds."""
        values: list[Any] = []
        for query in (_QUERIES.documents_standing, _QUERIES.chunks_standing, _QUERIES.size):
            values += self._db.one(query) or ()
        return IndexCounts(*values)

    def close(self) -> None:
        """Ends the connection."""
        self._db.close()


def _headings(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n")) if text else ()


def _posting_pages(batch: Batch) -> list[Row]:
    return [
        (scope_id, term, page, content)
        for scope_id, terms in batch.postings.items()
        for term, numbers in sorted(terms.items())
        for page, content in postings.pages(numbers)
    ]


def _pages(first: int, end: int, size: int) -> Sequence[tuple[int, int, int]]:
    """The pages that numbers from `first` to `end` lie in, each with where it begins and ends."""
    numbers = range(first // size, -(-end // size)) if end > first else range(0)
    return [(page, page * size, (page + 1) * size) for page in numbers]
