"""Answers one query: scores every visible chunk by words and by meaning, and gives the best of them.

1. `_score_words` weighs the terms by how many visible chunks have them, and adds them up (BM25 with constants in
   place of averages, docs/decisions/0012: a document without any of the terms changes no score). A word that no
   chunk has is looked for by its family.
2. `Embeddings.similarity` gives the highest cosine each chunk can have, where there are vectors; `fuse_scores`
   makes one score of both: (words + meaning * similarity) / (all words + meaning). Similarity can lift a chunk but
   never push one out: whatever has a word of the question stays. Words that neither documents nor the model know
   find nothing.
3. `best_rows` makes the scores exact of those rows that may be among the best, until no other row can be. The
   result is that of sorting all rows by exact score and going through them with the caps.
4. They are given with their place and what their score is made of.

`LowRankBounds` gives upper bounds of cosines from a quarter of each vector, so that few vectors are compared
exactly.
`Embeddings` also makes the vectors of rows that have none; until then such a row is found by its words alone.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.canonical import sha256_hex
from tapebook.domain.packet import Citation
from tapebook.search import store
from tapebook.search.index import Embedder, IndexAnswer, IndexTerms, ScorePart
from tapebook.search.store import IndexStore, ScopeRows, VectorModel, VisibleChunks
from tapebook.search.text import (
    MAX_QUERY_CHARACTERS,
    QueryTerms,
    Snippets,
    passage_start,
    query_terms,
    related_terms,
    split_passages,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The usual constants of BM25.
K1 = 1.2
B = 0.75
PIVOT = 100
"""The length in terms that is neither short nor long."""
COMMON = 5_000
"""In so many chunks a term says next to nothing."""

MAX_TERM_SCORE = K1 + 1
"""What a term counts, times its weight, in a chunk that says nothing else."""


def term_weight(chunks: int) -> float:
    """The weight of a term that stands in so many chunks."""
    # Rare terms weigh most: they tell documents apart.
    # Rounded, since the last digits of a logarithm are the library's own.
    return round(math.log1p(COMMON / max(chunks, 1)), 6)


def term_saturation(times: "NDArray[np.float64]", lengths: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """What a term counts that stands so many times in chunks of these lengths."""
    return times * MAX_TERM_SCORE / (times + K1 * (1 - B + B / PIVOT * lengths))


MEANING = 14.0
"""What a likeness of 1 counts beside words, at equal weights; measured (docs/decisions/0012)."""

Scores = NDArray[np.float64]


def fuse_scores(words: Scores, possible: float, likeness: Scores | None, terms: IndexTerms) -> Scores:
    """The score of every chunk, from 0 to 1; `possible` is what its words could give at most."""
    if likeness is None or not terms.semantic_percent:
        return words / possible if possible else words
    by_words, by_meaning = terms.lexical_percent / 50, terms.semantic_percent / 50 * MEANING
    together = by_words * words + by_meaning * np.maximum(likeness, 0.0)
    return together / (by_words * possible + by_meaning)


def add_name_share(score: Scores, share: Scores | None) -> Scores:
    """Scores with the names of the question, if it has any: whatever has one stands above all that have none."""
    return score if share is None else (score + share) / 2


class Caps:
    """How many places of one document and of one kind are given; the next best take the places of the others."""

    def __init__(self, terms: IndexTerms, kinds: dict[str, int]) -> None:
        self._per_path = terms.per_path
        self._per_kind = {kinds[kind]: most for kind, most in terms.per_kind.items() if kind in kinds}
        self._documents: Counter[int] = Counter()
        self._kinds: Counter[int] = Counter()

    def admits(self, document: int, kind: int) -> bool:
        """Whether one more may be given; counts it if so."""
        if self._per_path and self._documents[document] >= self._per_path:
            return False
        if kind in self._per_kind and self._kinds[kind] >= self._per_kind[kind]:
            return False
        self._documents[document] += 1
        self._kinds[kind] += 1
        return True

    def still_admits(self, documents: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of some rows may still be given: neither their document nor their kind has all its places."""
        full = [each for each, given in self._documents.items() if 0 < self._per_path <= given]
        closed = [each for each, most in self._per_kind.items() if self._kinds[each] >= most]
        return ~(np.isin(documents, full) | np.isin(kinds, closed))


NO_ANSWER = -np.inf
"""The score of a row that is no answer."""

Rows = NDArray[np.int64]


class CandidateRows(msgspec.Struct):
    """Rows in rising order, each with its score: at most so high, until `exact` says how high."""

    rows: Rows
    scores: Scores
    exact: Callable[[Rows], Scores]
    sources: Callable[[Rows], tuple[NDArray[np.uint32], NDArray[np.uint8]]]
    """The document and the kind of each row, by their numbers."""

    def make_exact_from(self, score: float) -> Rows:
        """The places of rows that may score so high; how high they do is exact from then on."""
        places = np.flatnonzero(self.scores >= score)
        self.scores[places] = self.exact(self.rows[places])
        return places

    def rest_below(self, score: float, caps: Caps) -> "CandidateRows":
        """What scores less, and may be given."""
        rest = self.scores < score
        rest[rest] = caps.still_admits(*self.sources(self.rows[rest]))
        return CandidateRows(self.rows[rest], self.scores[rest], self.exact, self.sources)


def best_rows(field: CandidateRows, caps: Caps, limit: int) -> dict[int, float]:
    """The best rows with their exact scores, best first, of equal ones the one that was there first."""
    given: list[tuple[int, float]] = []
    while len(field.rows):
        likely = field.make_exact_from(_nth_highest(field.scores, 4 * limit + 32))
        cut = _nth_highest(field.scores[likely], limit - len(given))
        reached = field.make_exact_from(cut)
        # Of all that score so high it is known now how high, so what becomes of them can be said.
        given += _admit(field, reached[field.scores[reached] >= cut], caps)
        if len(given) >= limit:
            break
        field = field.rest_below(cut, caps)
    return dict(given[:limit])


def _admit(field: CandidateRows, places: Rows, caps: Caps) -> list[tuple[int, float]]:
    places = places[field.scores[places] > NO_ANSWER]
    places = places[np.lexsort((places, -field.scores[places]))]
    rows, scores = field.rows[places], field.scores[places]
    found = zip(*(each.tolist() for each in (rows, scores, *field.sources(rows))), strict=True)
    return [(row, score) for row, score, document, kind in found if caps.admits(document, kind)]


def _nth_highest(scores: Scores, place: int) -> float:
    """The n-th highest of some scores; when they are fewer, what all others reach too."""
    if len(scores) < place:
        return NO_ANSWER
    return float(np.partition(scores, len(scores) - place)[len(scores) - place])


BLOCK = 4_096
"""Vectors that get their short forms together; what is behind the last whole block has none."""
_COMPONENTS_PER_DIRECTION = 4
# More vectors hardly move the main directions of a block.
_SAMPLED_VECTORS = 2_048
_POWER_ITERATIONS = 3

Float32Array = NDArray[np.float32]


class LowRankBounds:
    """The short forms of one growing array of vectors, block by block."""

    def __init__(self) -> None:
        self._directions: Float32Array = np.zeros((0, 0), np.float32)
        self._blocks: list[Float32Array] = []

    def __len__(self) -> int:
        """How many vectors have one."""
        return BLOCK * len(self._blocks)

    def grow(self, vectors: NDArray[np.void]) -> None:
        """Makes those that are missing; vectors may only have become more."""
        if len(vectors) >= BLOCK and not self._blocks:
            self._directions = _main_directions(vectors)
        while len(vectors) >= len(self) + BLOCK:
            self._blocks.append(_project(vectors[len(self) : len(self) + BLOCK], self._directions))

    def bounds(self, question: NDArray[np.void]) -> Float32Array:
        """What the cosine of each vector to a question's is at most."""
        found = np.empty(len(self), np.float32)
        if self._blocks:
            asked = _project(question[np.newaxis], self._directions)[:, 0]
            for at, block in enumerate(self._blocks):
                np.matmul(asked, block, out=found[BLOCK * at : BLOCK * (at + 1)])
            found += _rounding_slack(self._directions)
        return found


def _project(vectors: NDArray[np.void], directions: Float32Array) -> Float32Array:
    """A column for each vector: what it has in some directions, and the length of the rest, or a little more."""
    kept = directions.shape[1]
    short = np.empty((kept + 1, len(vectors)), np.float32)
    np.matmul(directions.T, vectors["values"].astype(np.float32).T, out=short[:kept])
    short[:kept] /= _vector_lengths(vectors)
    rest = 1 - np.square(short[:kept]).sum(axis=0)
    short[kept] = np.sqrt(np.maximum(rest, 0) + _rounding_slack(directions))
    return short


def _rounding_slack(directions: Float32Array) -> np.float32:
    """More than 32-bit sums of so many products are wrong by, in whatever order they are added."""
    dimension, kept = directions.shape
    return np.float32((dimension + kept) * np.sqrt(kept) * 2.0**-21)


def _vector_lengths(vectors: NDArray[np.void]) -> Float32Array:
    lengths: Float32Array = np.sqrt(vectors["square"])
    # Zeros are like nothing, whatever they are divided by.
    lengths[lengths == 0] = 1
    return lengths


def _main_directions(vectors: NDArray[np.void]) -> Float32Array:
    """Where vectors reach farthest, by turning towards them a few times; any directions at right angles would do."""
    some = vectors[:: -(-len(vectors) // _SAMPLED_VECTORS)]
    sample = some["values"] / _vector_lengths(some)[:, np.newaxis].astype(np.float64)
    found = np.eye(sample.shape[1], max(1, sample.shape[1] // _COMPONENTS_PER_DIRECTION))
    for _ in range(_POWER_ITERATIONS):
        found, _upper = np.linalg.qr(sample.T @ (sample @ found))
    return found.astype(np.float32)


RowNumbers = NDArray[np.int64]
Cosines = NDArray[np.float64]
_Float = TypeVar("_Float", np.float32, np.float64)

# To compare all vectors in their order is as fast as to fetch and compare so large a share of them.
_COMPARE_ALL_SHARE = 3


class ScopeSimilarity:
    """The rows of one scope: row n has the vectors from `edges[n]` to `edges[n + 1]`; without any it is 0 alike."""

    def __init__(
        self, question: NDArray[np.void], kept: NDArray[np.void], edges: RowNumbers, *, sketch: LowRankBounds, base: int
    ) -> None:
        self.base = base
        self._question = question
        # Fewer than there are rows, when some wait for theirs.
        done = int(np.searchsorted(edges, len(kept), side="right")) - 1
        self._starts, self._ends = edges[:done], edges[1 : done + 1]
        self._kept = kept[: edges[done]]
        self.sketched = first = int(np.searchsorted(self._ends, len(sketch), side="right"))
        self.at_most = np.zeros(len(edges) - 1)
        self.at_most[:first] = _highest_per_row(sketch.bounds(question), edges[: first + 1])
        rest = store.cosine_similarities(self._kept[edges[first] :], question)
        self.at_most[first:done] = _highest_per_row(rest, edges[first : done + 1] - edges[first])

    def exact(self, rows: RowNumbers) -> Cosines:
        """The likeness of rows that have short forms: that of their most alike vector."""
        starts = self._starts[rows]
        counts = self._ends[rows] - starts
        edges = np.concatenate(([0], np.cumsum(counts)))
        places = np.repeat(starts - edges[:-1], counts) + np.arange(edges[-1])
        if len(places) * _COMPARE_ALL_SHARE > len(self._kept):
            cosines = store.cosine_similarities(self._kept, self._question)[places]
        else:
            cosines = store.cosine_similarities(self._kept[places], self._question)
        return _highest_per_row(cosines, edges)

    def closest(self, row: int) -> int:
        """Which vector of a row is the most alike."""
        if row >= len(self._ends):
            return 0
        return int(
            np.argmax(store.cosine_similarities(self._kept[self._starts[row] : self._ends[row]], self._question))
        )


def _highest_per_row(values: NDArray[_Float], edges: RowNumbers) -> NDArray[_Float]:
    """The highest value of each row: of the first ones all at once, then of the second ones of rows that have them."""
    starts, counts = edges[:-1], np.diff(edges)
    found = values[starts]
    rows, place = np.flatnonzero(counts > 1), 1
    while len(rows):
        found[rows] = np.maximum(found[rows], values[starts[rows] + place])
        place += 1
        rows = rows[counts[rows] > place]
    return found


class Similarity:
    """The rows in sight, one scope behind the other."""

    def __init__(self, parts: list[ScopeSimilarity]) -> None:
        self._parts = parts
        self.at_most = np.concatenate([part.at_most for part in parts])

    def exact(self, rows: RowNumbers) -> Cosines:
        """The likeness of some rows, in rising order; it takes the place of what it could be at most."""
        for part in self._parts:
            low, high = np.searchsorted(rows, (part.base, part.base + part.sketched))
            if low < high:
                self.at_most[rows[low:high]] = part.exact(rows[low:high] - part.base)
        return self.at_most[rows]

    def closest(self, at: int) -> int:
        """Which passage of a row is the most alike."""
        part = next(part for part in reversed(self._parts) if part.base <= at)
        return part.closest(at - part.base)


EMBED_BATCH = 256
"""Rows that are embedded and written together."""


class Embeddings:
    """The vectors of one model in one store."""

    def __init__(self, store: IndexStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._sketches: dict[tuple[int, int], LowRankBounds] = {}
        self._edges: dict[int, NDArray[np.int64]] = {}

    def head(self) -> int:
        """The newest sequence all of whose rows have vectors."""
        head, model = self._store.head(), self._store.find_model(self._embedder.name)
        waiting = self._store.first_seq_without_vectors(model)
        return head if waiting is None else min(head, waiting - 1)

    def embed_missing(self) -> int:
        """Embeds every row that has no vector; returns how many."""
        if self._store.first_seq_without_vectors(self._store.find_model(self._embedder.name)) is None:
            return 0
        made = sum(self._embed_scope(scope_id) for scope_id in self._store.scopes().values())
        model = self._store.find_model(self._embedder.name)
        if model is not None:
            self._store.drop_other_models(model)
        return made

    def _embed_scope(self, scope_id: int) -> int:
        made = 0
        while (first := self._embedded_rows(scope_id)) < len(self._store.rows(scope_id)):
            texts = [
                split_passages(text, above) for above, text in self._store.texts(scope_id, first, first + EMBED_BATCH)
            ]
            given = self._embedder.embed_documents([passage for each in texts for passage in each])
            # A model that changed its dimension is another model, and begins with the first row.
            model = self._store.ensure_model(self._embedder.name, given.shape[1])
            end = first + len(texts)
            self._store.add_vectors(model, scope_id, store.quantise(given), first=first, end=end)
            made += len(texts)
        return made

    def knows_any(self, words: Iterable[str]) -> bool:
        """Whether at least one of some words means something to the model."""
        return any(map(self._embedder.knows_word, words))

    def similarity(self, question: str, visible: VisibleChunks) -> Similarity | None:
        """How alike the rows in sight are to a question; None when none has a vector."""
        model = self._store.find_model(self._embedder.name)
        vector = None if model is None else self._question_vector(model, question)
        if model is None or vector is None:
            return None
        return Similarity([self._scope_similarity(model, vector, part) for part in visible.parts])

    def _question_vector(self, model: VectorModel, question: str) -> NDArray[np.void] | None:
        key = sha256_hex(question.encode(errors="replace"))
        packed = None if self._embedder.is_local else self._store.question_vector(model, key)
        if packed is None:
            asked = self._embedder.embed_question(question)
            if len(asked) != model.dimension:
                return None
            packed = store.quantise(asked[np.newaxis])[0].tobytes()
            if not self._embedder.is_local:
                self._store.store_question_vector(model, key, packed)
        made: NDArray[np.void] = np.frombuffer(packed, store.vector_dtype(model.dimension))[0]
        return made

    def _scope_similarity(self, model: VectorModel, vector: NDArray[np.void], part: ScopeRows) -> ScopeSimilarity:
        edges = self._edges_of(part)
        kept = self._store.vectors(model, part.scope_id, count=int(edges[-1]))
        key = (model.model_id, part.scope_id)
        sketch = self._sketches.get(key)
        if sketch is None:
            # Whoever asks but once is answered sooner without short forms than with.
            sketch = self._sketches[key] = LowRankBounds()
        else:
            sketch.grow(kept)
        return ScopeSimilarity(vector, kept, edges, sketch=sketch, base=part.base)

    def _edges_of(self, part: ScopeRows) -> NDArray[np.int64]:
        """Where the vectors of each row begin and end; a row has as many for ever."""
        known = self._edges.get(part.scope_id, np.zeros(1, np.int64))
        if len(known) <= len(part.rows):
            known = np.concatenate((known[:1], np.cumsum(part.rows["passages"], dtype=np.int64)))
            self._edges[part.scope_id] = known
        return known[: len(part.rows) + 1]

    def _embedded_rows(self, scope_id: int) -> int:
        model = self._store.find_model(self._embedder.name)
        return 0 if model is None else self._store.embedded_count(model, scope_id)


_E4 = 10_000
_MAX_TERMS_SHOWN = 8


class _WordScores(msgspec.Struct):
    """What a question's words say of each row: their sum, what it could be at most, and the share of names there."""

    words: Scores
    possible: float
    weights: dict[str, float]
    share: Scores | None


class _QueryScores(msgspec.Struct):
    """What the words and the meaning of a question say of the rows in sight."""

    sight: VisibleChunks
    said: _WordScores
    likeness: Similarity | None
    snippets: Snippets


class Search:
    """Searches one store with the same terms; with embeddings, by meaning too."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embeddings: Embeddings | None = None) -> None:
        self._store = store
        self._terms = terms
        self._embeddings = embeddings if terms.semantic_percent else None
        self._alike = max(terms.minimum_percent, 1) / 100
        self._first_rules = terms.rules == 1

    def answer(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int,
        kinds: Collection[str] | None,
        without: Collection[str] = (),
    ) -> IndexAnswer:
        """What the rows in sight answer, or why they do not; documents at the paths `without` are not given."""
        query = query[:MAX_QUERY_CHARACTERS]
        visible, asked = VisibleChunks(self._store, scopes, seq), query_terms(query)
        allowed = visible.rows_of_kinds(kinds)
        if why := _why_no_search(visible, asked, allowed, limit=limit, kinds=kinds):
            return IndexAnswer(why=why)
        if without:
            allowed = allowed & visible.rows_not_at(without)
        word_scores = _score_words(visible, asked, has_families=not self._first_rules)
        if not word_scores.weights and self._is_unknown_to_model(asked):
            return IndexAnswer(why=f"{_no_word_sentence(asked)}; and the model of meaning knows none of them")
        likeness = self._embeddings.similarity(query, visible) if self._embeddings else None
        scores = _QueryScores(visible, word_scores, likeness, Snippets(word_scores.weights))
        caps = Caps(self._terms, self._store.kinds() if self._terms.per_kind else {})
        given = best_rows(self._candidates(scores, allowed), caps, limit)
        if not given:
            return IndexAnswer(why=self._why_nothing(asked, likeness))
        citations = tuple(self._citation(scores, *each, f"c{at}") for at, each in enumerate(given.items(), start=1))
        return IndexAnswer(citations, explained=tuple(_score_parts(scores, at) for at in given))

    def _is_unknown_to_model(self, asked: QueryTerms) -> bool:
        """Whether the model has no idea of a question's words either."""
        if self._embeddings is None or self._first_rules:
            return False
        return not self._embeddings.knows_any(asked.words)

    def _candidates(self, query: _QueryScores, allowed: NDArray[np.bool_]) -> CandidateRows:
        """The rows that may be an answer, with the scores they have at most."""
        word_scores, likeness = query.said, query.likeness

        def exact(rows: Rows) -> Scores:
            return self._scores(word_scores, rows, None if likeness is None else likeness.exact(rows))

        found = word_scores.words > 0
        if likeness is not None:
            found |= likeness.at_most >= self._alike
        rows = np.flatnonzero(found & allowed)
        scores = self._scores(word_scores, rows, None if likeness is None else likeness.at_most[rows])
        return CandidateRows(rows, scores, exact, query.sight.documents_and_kinds)

    def _scores(self, word_scores: _WordScores, rows: Rows, likeness: Scores | None) -> Scores:
        """The scores of rows that are so much alike; what has a word of the question is never lost to the minimum."""
        words, share = word_scores.words[rows], None if word_scores.share is None else word_scores.share[rows]
        scores = add_name_share(fuse_scores(words, word_scores.possible, likeness, self._terms), share)
        return scores if likeness is None else np.where((words > 0) | (likeness >= self._alike), scores, NO_ANSWER)

    def _citation(self, query: _QueryScores, at: int, score: float, name: str) -> Citation:
        found, likeness, by_words = query.sight.chunk_at(at), query.likeness, query.said.words[at] > 0
        by_meaning = likeness is not None and likeness.at_most[at] >= self._alike
        start = 0 if by_words or likeness is None else passage_start(found.text, likeness.closest(at))
        return Citation(
            path=found.path,
            start_line=found.start_line,
            end_line=found.end_line,
            score_e4=_e4(score),
            snippet=query.snippets.snippet_of(found.text, start=start),
            source="hybrid" if by_words and by_meaning else "fts" if by_words else "vector",
            id=name,
            content_sha256=found.sha256,
        )

    def _why_nothing(self, asked: QueryTerms, likeness: Similarity | None) -> str:
        why = _no_word_sentence(asked)
        return why if likeness is None else f"{why}; and nothing is alike in meaning (minimum {self._alike:.2f})"


def _no_word_sentence(asked: QueryTerms) -> str:
    words = ", ".join(asked.terms[:_MAX_TERMS_SHOWN]) + (" …" if len(asked.terms) > _MAX_TERMS_SHOWN else "")
    return f"none of its words is in a document there: {words}"


def _why_no_search(
    visible: VisibleChunks, asked: QueryTerms, allowed: NDArray[np.bool_], *, limit: int, kinds: Collection[str] | None
) -> str:
    """Why there can be no answer; empty when there can."""
    if limit < 1:
        return f"nothing was asked for: the limit is {limit}"
    if not visible.standing.any():
        return f"there are no documents to search as of {visible.seq}"
    if not allowed.any():
        return f"no document there is of kind {' or '.join(sorted(kinds or ()))}".rstrip()
    return "" if asked.terms else "the question has no words"


def _score_words(visible: VisibleChunks, asked: QueryTerms, *, has_families: bool) -> _WordScores:
    words, share = np.zeros(visible.size), np.zeros(visible.size)
    possible = names = 0.0
    weights: dict[str, float] = {}
    for term in asked.terms:
        places, times, lengths = visible.rows_with_term(term)
        meant: tuple[str, ...] = (term,)
        if has_families and not len(places) and (family := related_terms(term)):
            meant, (places, times, lengths) = family, visible.rows_with_any(family)
        weight = term_weight(len(places))
        if len(places):
            weights |= dict.fromkeys(meant, weight)
            words[places] += weight * term_saturation(times, lengths)
        # A name that nobody wrote says nothing of what its words could give.
        if len(places) or term.isalnum():
            possible += weight * MAX_TERM_SCORE
        if len(places) and term in asked.names:
            share[places] += weight
            names += weight
    return _WordScores(words, possible, weights, share / names if names else None)


def _score_parts(query: _QueryScores, at: int) -> tuple[ScorePart, ...]:
    word_scores = query.said
    parts = [ScorePart("words", _e4(word_scores.words[at] / word_scores.possible))]
    if word_scores.share is not None:
        parts.append(ScorePart("names", _e4(word_scores.share[at])))
    if query.likeness is not None:
        parts.append(ScorePart("meaning", _e4(query.likeness.at_most[at])))
    return tuple(parts)


def _e4(value: float) -> int:
    return round(float(value) * _E4)
