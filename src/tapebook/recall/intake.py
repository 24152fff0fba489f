"""Versions of documents become a batch: only chunks that are new are written, and only those that are gone end.

A chunk is known by what it says, under which headings, and how often the same stood before it in its document. One that
merely moved up or down keeps its row and gets another place. Nothing is written here; what several versions of one
document do to each other is worked out in memory.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256

from tapebook.errors import BadInput
from tapebook.recall.chunk import Chunk, chunks
from tapebook.recall.index_store import Batch, IndexStore, Standing
from tapebook.recall.passages import count
from tapebook.recall.postings import posting
from tapebook.recall.rows import LONGEST, NEVER
from tapebook.recall.terms import RULES
from tapebook.recall.version import Version
from tapebook.recall.words import path_terms, terms

_MARKDOWN = (".md", ".markdown", ".mdx")
_MOST_KINDS = 255


class Intake:
    """Takes in versions behind the head of a store, one after the other."""

    def __init__(self, store: IndexStore, *, rules: int = RULES) -> None:
        self._store = store
        self._rules = rules
        self.batch = Batch(store.head())
        self.kept = 0
        self._scopes = store.scopes()
        self._kinds = store.kinds()
        self._next_document = store.newest_document() + 1
        self._documents: dict[tuple[int, str], int] = {}
        self._standing: dict[int, dict[bytes, Standing]] = {}
        self._rows: dict[int, int] = {}

    @property
    def written(self) -> int:
        """How many chunks are new."""
        return len(self.batch.chunks)

    @property
    def taken(self) -> int:
        """How many versions were taken in."""
        return len(self.batch.bodies)

    def take(self, version: Version, body: bytes) -> None:
        """One version with its body; the body of a document that was removed is empty."""
        if version.seq <= self.batch.seq:
            raise BadInput(f"document version {version.seq} of {version.path} comes after {self.batch.seq}: sort them")
        scope_id = self._scope(version.scope)
        document = self._document(scope_id, version.path)
        before = self._chunks_of(document)
        text = body.decode("utf-8", errors="replace") if version.sha256 else ""
        has_head = self._rules > 1 and version.path.lower().endswith(_MARKDOWN)
        after = dict(_identified(version.kind, chunks(text, front_matter=has_head)))
        for identity in [each for each in before if each not in after]:
            self.batch.ended.setdefault(scope_id, {})[before.pop(identity).row] = version.seq
        for identity, chunk in after.items():
            known = before.get(identity)
            if known is None:
                row = self._add(version, chunk, identity, scope_id=scope_id, document=document)
            else:
                row = known.row
            if known is None or known.start_line != chunk.start_line:
                self.batch.places.append((scope_id, row, version.seq, chunk.start_line, chunk.end_line))
            self.kept += known is not None
            before[identity] = Standing(row, identity, chunk.start_line, chunk.end_line)
        self.batch.bodies.append((document, version.seq, version.sha256))
        self.batch.seq = version.seq

    def _add(self, version: Version, chunk: Chunk, identity: bytes, *, scope_id: int, document: int) -> int:
        row = self._rows.get(scope_id)
        if row is None:
            row = len(self._store.rows(scope_id))
        self._rows[scope_id] = row + 1
        headings = "\n".join(chunk.headings)
        self.batch.chunks.append((scope_id, row, document, identity, 1, headings, chunk.text))
        said = terms(f"{headings}\n{chunk.text}")
        length = min(sum(said.values()), LONGEST)
        for term in path_terms(version.path):
            said.setdefault(term, 1)
        postings = self.batch.postings[scope_id]
        for term, times in said.items():
            postings[term].append(posting(row, times))
        numbers = (version.seq, NEVER, document, length, self._kind(version.kind), count(chunk.text))
        self.batch.rows.setdefault(scope_id, []).append(numbers)
        return row

    def _scope(self, scope: str) -> int:
        if scope not in self._scopes:
            self._scopes[scope] = len(self._scopes) + 1
            self.batch.scopes.append((self._scopes[scope], scope))
        return self._scopes[scope]

    def _kind(self, kind: str) -> int:
        if kind not in self._kinds:
            if len(self._kinds) >= _MOST_KINDS:
                raise BadInput(f"documents have over {_MOST_KINDS} kinds: {kind!r} is one too many")
            self._kinds[kind] = len(self._kinds) + 1
            self.batch.kinds.append((self._kinds[kind], kind))
        return self._kinds[kind]

    def _document(self, scope_id: int, path: str) -> int:
        key = (scope_id, path)
        if key not in self._documents:
            known = self._store.document(*key)
            if known is None:
                known, self._next_document = self._next_document, self._next_document + 1
                self.batch.documents.append((known, scope_id, path))
            self._documents[key] = known
        return self._documents[key]

    def _chunks_of(self, document: int) -> dict[bytes, Standing]:
        if document not in self._standing:
            self._standing[document] = {each.identity: each for each in self._store.standing(document)}
        return self._standing[document]


def _identified(kind: str, found: list[Chunk]) -> Iterator[tuple[bytes, Chunk]]:
    times: Counter[bytes] = Counter()
    for chunk in found:
        content = "\x00".join((kind, *chunk.headings, chunk.text))
        digest = sha256(content.encode(errors="replace")).digest()[:16]
        yield digest + times[digest].to_bytes(4, "big"), chunk
        times[digest] += 1
