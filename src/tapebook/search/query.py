"""Answers one query: scores every visible chunk by words and by meaning, and gives the best of them.

1. `_score_words` weighs the terms by how many visible chunks have them, and adds them up (BM25 with constants in
   place of averages, docs/decisions/0012: a document without any of the terms changes no score). A word that no
   chunk has is looked for by its family.
2. `Embeddings.similarity` gives the cosine of each chunk to the question, where there are vectors; `fuse_scores`
   makes one score of both: (words + meaning * similarity) / (all words + meaning). Similarity can lift a chunk but
   never push one out: whatever has a word of the question stays. Words that neither documents nor the model know
   find nothing. Where `filler_percent` is set, as for people, what scores less is no answer unless it has a name or
   a rare word of the question, or is alike in meaning: a decision's question is a list of words, a person's is about
   something.
3. `best_rows` goes through the rows by score, within the caps of documents and kinds.
4. They are given with their place and what their score is made of.

`Bm25Index` and `HybridIndex` are the indexes that `indexes/` offers by name: one file each, filled in batches.
`Embeddings` also makes the vectors of rows that have none; until then such a row is found by its words alone.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.canonical import sha256_hex
from tapebook.domain.packet import Citation
from tapebook.errors import StaleWriter
from tapebook.search import store
from tapebook.search.index import (
    DocumentVersion,
    Embedder,
    IndexAnswer,
    IndexCounts,
    IndexReport,
    IndexTerms,
    Progress,
    ScorePart,
    ignore_progress,
)
from tapebook.search.indexing import IndexBatchBuilder
from tapebook.search.store import IndexStore, VectorModel, VisibleChunks
from tapebook.search.text import (
    MAX_QUERY_CHARACTERS,
    QueryTerms,
    Snippets,
    passage_start,
    query_terms,
    related_terms,
    split_passages,
)

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


def term_saturation(times: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a term counts that stands so many times in chunks of these lengths."""
    return times * MAX_TERM_SCORE / (times + K1 * (1 - B + B / PIVOT * lengths))


MAX_RARE_ROWS, ROWS_PER_RARE_ROW = 3, 10
"""A word is rare that stands in so few rows, and in no more than one of so many: what has it is never a filler."""

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


Rows = NDArray[np.int64]


def best_rows(
    rows: Rows,
    scores: Scores,
    caps: Caps,
    *,
    limit: int,
    sources: Callable[[Rows], tuple[NDArray[np.uint32], NDArray[np.uint8]]],
) -> dict[int, float]:
    """The best rows with their scores, best first, of equal ones the one that was there first.

    `sources` gives the document and the kind of each row, by their numbers.
    """
    given: dict[int, float] = {}
    # Few are sorted at a time: the best are a handful of a hundred thousand.
    some = 4 * limit + 32
    while len(rows) and len(given) < limit:
        cut = np.partition(scores, len(scores) - some)[len(scores) - some] if len(scores) > some else -np.inf
        places = np.flatnonzero(scores >= cut)
        places = places[np.argsort(-scores[places], kind="stable")]
        best = (rows[places], scores[places], *sources(rows[places]))
        for row, score, document, kind in zip(*(each.tolist() for each in best), strict=True):
            if len(given) < limit and caps.admits(document, kind):
                given[row] = score
        rest = scores < cut
        rest[rest] = caps.still_admits(*sources(rows[rest]))
        rows, scores = rows[rest], scores[rest]
    return given


class Similarity:
    """How alike rows are to a question: as their most alike vector; a row without vectors is not at all."""

    def __init__(self, scopes: Sequence[tuple[Scores, Rows]]) -> None:
        """`scopes` have the cosines of their vectors, and of which of them row n has: `edges[n]` to `edges[n + 1]`."""
        self._vectors = np.concatenate([cosines for cosines, _ in scopes])
        starts, ends, base = [], [], 0
        for cosines, edges in scopes:
            # Some rows still wait for theirs.
            starts.append(np.minimum(edges[:-1], len(cosines)) + base)
            ends.append(np.where(edges[1:] <= len(cosines), edges[1:] + base, starts[-1]))
            base += len(cosines)
        self._starts, self._ends = np.concatenate(starts), np.concatenate(ends)
        self.cosines = self._highest_per_row()

    def _highest_per_row(self) -> Scores:
        """The highest cosine of each row: of the first ones all at once, then of the second ones of rows with more."""
        counts = self._ends - self._starts
        found, rows, place = np.zeros(len(counts)), np.flatnonzero(counts), 0
        found[rows] = -np.inf
        while len(rows):
            found[rows] = np.maximum(found[rows], self._vectors[self._starts[rows] + place])
            place += 1
            rows = rows[counts[rows] > place]
        return found

    def closest(self, row: int) -> int:
        """Which passage of a row is the most alike."""
        own = self._vectors[self._starts[row] : self._ends[row]]
        return int(np.argmax(own)) if len(own) else 0


EMBED_BATCH = 256
"""Rows that are embedded and written together."""


class Embeddings:
    """The vectors of one model in one store."""

    def __init__(self, store: IndexStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

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

    def similarity(self, question: str, sight: VisibleChunks) -> Similarity | None:
        """How alike the rows in sight are to a question; None when none has a vector."""
        model = self._store.find_model(self._embedder.name)
        vector = None if model is None else self._question_vector(model, question)
        if model is None or vector is None:
            return None
        found = []
        for part in sight.parts:
            edges = np.concatenate(([0], np.cumsum(part.rows["passages"], dtype=np.int64)))
            kept = self._store.vectors(model, part.scope_id, count=int(edges[-1]))
            found.append((store.cosine_similarities(kept, vector), edges))
        return Similarity(found)

    def _question_vector(self, model: VectorModel, question: str) -> NDArray[np.void] | None:
        """The vector of a question; a server is asked once for each, a local model anew."""
        if self._embedder.is_local:
            return self._embed_question(model, question)
        key = sha256_hex(question.encode(errors="replace"))
        packed = self._store.question_vector(model, key)
        if packed is not None:
            known: NDArray[np.void] = np.frombuffer(packed, store.vector_dtype(model.dimension))[0]
            return known
        made = self._embed_question(model, question)
        if made is not None:
            self._store.store_question_vector(model, key, made.tobytes())
        return made

    def _embed_question(self, model: VectorModel, question: str) -> NDArray[np.void] | None:
        asked = self._embedder.embed_question(question)
        made: NDArray[np.void] = store.quantise(asked[np.newaxis])[0]
        return made if len(asked) == model.dimension else None

    def _embedded_rows(self, scope_id: int) -> int:
        model = self._store.find_model(self._embedder.name)
        return 0 if model is None else self._store.embedded_count(model, scope_id)


_E4 = 10_000
_MAX_TERMS_SHOWN = 8


class _WordScores(msgspec.Struct):
    """What a question's words say of each row: their sum, what it could be at most, and the share of names there.

    `rare` are the rows with a word that next to no others have.
    """

    words: Scores
    possible: float
    weights: dict[str, float]
    share: Scores | None
    rare: NDArray[np.bool_]


class _QueryScores(msgspec.Struct):
    """What the words and the meaning of a question say of the rows in sight."""

    sight: VisibleChunks
    said: _WordScores
    likeness: Similarity | None
    snippets: Snippets


CHUNKS_PER_COMMIT = 1_000
"""New chunks that are committed together."""


class Bm25Index:
    """The index in one file, searched by words; with embeddings, by meaning too."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embeddings: Embeddings | None = None) -> None:
        self._store = store
        self._terms = terms
        self._embeddings = embeddings if terms.semantic_percent else None
        self._alike = max(terms.minimum_percent, 1) / 100
        self._first_rules = terms.rules == 1
        self._third_rules = terms.rules > 2

    def head(self) -> int:
        """The newest sequence that is wholly indexed."""
        return self._store.head()

    def index(
        self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = ignore_progress
    ) -> IndexReport:
        """Takes in versions behind the head, a batch at a time; another process that does the same is no harm."""
        taken = written = kept = 0
        while waiting := [pair for pair in versions if pair[0].seq > self._store.head()]:
            intake = IndexBatchBuilder(self._store, rules=self._terms.rules)
            for version, body in waiting:
                intake.add_version(version, body)
                if intake.new_chunk_count >= CHUNKS_PER_COMMIT:
                    break
            try:
                self._store.write(intake.batch)
            except StaleWriter:
                continue
            taken, written, kept = taken + intake.version_count, written + intake.new_chunk_count, kept + intake.kept
            progress(len(versions) - len(waiting) + intake.version_count, len(versions))
        return IndexReport(taken, written, kept, self._store.head())

    def counts(self) -> IndexCounts:
        """How much it holds."""
        return self._store.counts()

    def close(self) -> None:
        """Ends the connection."""
        self._store.close()

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
        """What the documents of these scopes said as of a sequence, or why nothing; none at the paths `without`."""
        sight = VisibleChunks(self._store, scopes, seq)
        return self._search(query, sight, self._embeddings, limit=limit, kinds=kinds, without=without)

    def _search(
        self,
        query: str,
        sight: VisibleChunks,
        embeddings: Embeddings | None,
        *,
        limit: int,
        kinds: Collection[str] | None,
        without: Collection[str] = (),
    ) -> IndexAnswer:
        query = query[:MAX_QUERY_CHARACTERS]
        asked = query_terms(query, unspaced=self._third_rules)
        allowed = sight.rows_of_kinds(kinds)
        if why := _why_no_search(sight, asked, allowed, limit=limit, kinds=kinds):
            return IndexAnswer(why=why)
        if without:
            allowed = allowed & sight.rows_not_at(without)
        said = _score_words(sight, asked, has_families=not self._first_rules)
        if not said.weights and embeddings and not self._first_rules and not embeddings.knows_any(asked.words):
            return IndexAnswer(why=f"{_no_word_sentence(asked)}; and the model of meaning knows none of them")
        likeness = embeddings.similarity(query, sight) if embeddings else None
        heard = _QueryScores(sight, said, likeness, Snippets(said.weights))
        caps = Caps(self._terms, self._store.kinds() if self._terms.per_kind else {})
        given = best_rows(*self._scored_rows(heard, allowed), caps, limit=limit, sources=sight.documents_and_kinds)
        if not given:
            return IndexAnswer(why=self._why_nothing(asked, likeness, is_filled=bool(said.weights)))
        citations = tuple(self._citation(heard, *each, f"c{at}") for at, each in enumerate(given.items(), start=1))
        return IndexAnswer(citations, explained=tuple(_score_parts(heard, at) for at in given))

    def _scored_rows(self, heard: _QueryScores, allowed: NDArray[np.bool_]) -> tuple[Rows, Scores]:
        """The rows that are an answer, and their scores."""
        said, likeness = heard.said, heard.likeness
        found = said.words > 0
        if likeness is not None:
            # What has a word of the question is never lost to the minimum.
            found |= likeness.cosines >= self._alike
        rows = np.flatnonzero(found & allowed)
        meaning = None if likeness is None else likeness.cosines[rows]
        scores = fuse_scores(said.words[rows], said.possible, meaning, self._terms)
        scores = add_name_share(scores, None if said.share is None else said.share[rows])
        if not self._terms.filler_percent:
            return rows, scores
        # A filler has words that many have, and nothing else: no name, no rare word, no meaning.
        kept = (scores >= self._terms.filler_percent / 100) | said.rare[rows]
        if meaning is not None:
            kept |= meaning >= self._alike
        return rows[kept], scores[kept]

    def _citation(self, heard: _QueryScores, at: int, score: float, name: str) -> Citation:
        found, likeness, by_words = heard.sight.chunk_at(at), heard.likeness, heard.said.words[at] > 0
        by_meaning = likeness is not None and likeness.cosines[at] >= self._alike
        start = 0 if by_words or likeness is None else passage_start(found.text, likeness.closest(at))
        return Citation(
            path=found.path,
            start_line=found.start_line,
            end_line=found.end_line,
            score_e4=_e4(score),
            snippet=heard.snippets.snippet_of(found.text, start=start),
            source="hybrid" if by_words and by_meaning else "fts" if by_words else "vector",
            id=name,
            content_sha256=found.sha256,
        )

    def _why_nothing(self, asked: QueryTerms, likeness: Similarity | None, *, is_filled: bool) -> str:
        why = _no_word_sentence(asked)
        if is_filled and self._terms.filler_percent:
            why = f"some of its words stand in documents there, but none scores {self._terms.filler_percent / 100:.2f}"
        return why if likeness is None else f"{why}; and nothing is alike in meaning (minimum {self._alike:.2f})"


class HybridIndex(Bm25Index):
    """The index with vectors of passages beside the words; wholly indexed is what has both."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embedder: Embedder) -> None:
        self._vectors = Embeddings(store, embedder)
        self.is_local = embedder.is_local
        super().__init__(store, terms, self._vectors)

    def words_head(self) -> int:
        """The newest sequence whose words are indexed."""
        return super().head()

    def index_words(self, versions: Sequence[tuple[DocumentVersion, bytes]]) -> IndexReport:
        """Takes in versions behind the head of words; their vectors are made by the next `index`."""
        return super().index(versions)

    def search_words(
        self,
        query: str,
        *,
        scopes: Collection[str],
        seq: int,
        limit: int = 10,
        kinds: Collection[str] | None = None,
    ) -> IndexAnswer:
        """What words alone find: for people, while the server of meanings is away."""
        return self._search(query, VisibleChunks(self._store, scopes, seq), None, limit=limit, kinds=kinds)

    def head(self) -> int:
        """The newest sequence whose words and vectors are there."""
        return self._vectors.head()

    def index(
        self, versions: Sequence[tuple[DocumentVersion, bytes]], *, progress: Progress = ignore_progress
    ) -> IndexReport:
        """Takes in versions, then makes the vectors that are missing: of new chunks, or of all for another model."""
        report = super().index(versions, progress=progress)
        self._vectors.embed_missing()
        return msgspec.structs.replace(report, head=self.head())


def _no_word_sentence(asked: QueryTerms) -> str:
    words = ", ".join(asked.terms[:_MAX_TERMS_SHOWN]) + (" …" if len(asked.terms) > _MAX_TERMS_SHOWN else "")
    return f"none of its words is in a document there: {words}"


def _why_no_search(
    sight: VisibleChunks, asked: QueryTerms, allowed: NDArray[np.bool_], *, limit: int, kinds: Collection[str] | None
) -> str:
    """Why there can be no answer; empty when there can."""
    if limit < 1:
        return f"nothing was asked for: the limit is {limit}"
    if not sight.standing.any():
        return f"there are no documents to search as of {sight.seq}"
    if not allowed.any():
        return f"no document there is of kind {' or '.join(sorted(kinds or ()))}".rstrip()
    return "" if asked.terms else "the question has no words"


def _score_words(sight: VisibleChunks, asked: QueryTerms, *, has_families: bool) -> _WordScores:
    words, share, rare = np.zeros(sight.size), np.zeros(sight.size), np.zeros(sight.size, bool)
    possible = names = 0.0
    weights: dict[str, float] = {}
    for term in asked.terms:
        places, times, lengths = sight.rows_with_term(term)
        meant: tuple[str, ...] = (term,)
        if has_families and not len(places) and (family := related_terms(term)):
            meant, (places, times, lengths) = family, sight.rows_with_any(family)
        weight = term_weight(len(places))
        if len(places):
            weights |= dict.fromkeys(meant, weight)
            words[places] += weight * term_saturation(times, lengths)
            rare[places] |= len(places) <= min(MAX_RARE_ROWS, sight.size // ROWS_PER_RARE_ROW)
        # A name that nobody wrote says nothing of what its words could give.
        if len(places) or term.isalnum():
            possible += weight * MAX_TERM_SCORE
        if len(places) and term in asked.names:
            share[places] += weight
            names += weight
    return _WordScores(words, possible, weights, share / names if names else None, rare)


def _score_parts(heard: _QueryScores, at: int) -> tuple[ScorePart, ...]:
    said = heard.said
    parts = [ScorePart("words", _e4(said.words[at] / said.possible))]
    if said.share is not None:
        parts.append(ScorePart("names", _e4(said.share[at])))
    if heard.likeness is not None:
        parts.append(ScorePart("meaning", _e4(heard.likeness.cosines[at])))
    return tuple(parts)


def _e4(value: float) -> int:
    return round(float(value) * _E4)
