"""A search: what the words and the meaning of a question say of each chunk in sight, and the best of them.

1. `_said` weighs the question's terms by how many chunks in sight have them, and adds them up (`score`).
2. `Embeddings` says how alike each chunk is, where there are vectors; `fuse` makes one score of both.
3. The best that the caps admit are given, with where they stand and what their score is made of.
"""

from collections.abc import Collection
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.citation import Citation
from tapebook.recall import score
from tapebook.recall.embeddings import Embeddings, Meant
from tapebook.recall.fuse import Caps, Scores, fused, named, ranked
from tapebook.recall.index_store import IndexStore
from tapebook.recall.passages import begins
from tapebook.recall.plan import MOST_SIGNS, Plan, plan
from tapebook.recall.port import Answer, IndexTerms, Part
from tapebook.recall.sight import Sight
from tapebook.recall.snippet import Snippets

_E4 = 10_000
_MOST_SHOWN = 8


class _Said(msgspec.Struct):
    """What a question's words say of each row: their sum, what it could be at most, and the share of names there."""

    words: Scores
    possible: float
    weights: dict[str, float]
    share: Scores | None


class _Scored(msgspec.Struct):
    """Every row with its score, and what that is made of."""

    sight: Sight
    said: _Said
    meant: Meant | None
    total: Scores
    snippets: Snippets


class Search:
    """Searches one store with the same terms; with embeddings, by meaning too."""

    def __init__(self, store: IndexStore, terms: IndexTerms, embeddings: Embeddings | None = None) -> None:
        self._store = store
        self._terms = terms
        self._embeddings = embeddings if terms.semantic_percent else None
        self._alike = max(terms.minimum_percent, 1) / 100

    def answer(
        self, query: str, *, scopes: Collection[str], seq: int, limit: int, kinds: Collection[str] | None
    ) -> Answer:
        """What the rows in sight answer, or why they do not."""
        query = query[:MOST_SIGNS]
        sight, asked = Sight(self._store, scopes, seq), plan(query)
        allowed = sight.of_kinds(kinds)
        if why := _objection(sight, asked, allowed, limit=limit, kinds=kinds):
            return Answer(why=why)
        said = _said(sight, asked)
        meant = self._embeddings.meant(query, sight) if self._embeddings else None
        found = said.words > 0
        if meant is not None:
            # What has a word of the question is never lost to the minimum.
            found |= meant.likeness >= self._alike
        candidates = np.flatnonzero(found & allowed)
        if not len(candidates):
            return Answer(why=self._nothing(asked, meant))
        likeness = None if meant is None else meant.likeness
        total = named(fused(said.words, said.possible, likeness, self._terms), said.share)
        scored = _Scored(sight, said, meant, total, Snippets(said.weights))
        order = self._order(scored, candidates, limit)
        citations = tuple(self._citation(scored, at, number) for number, at in enumerate(order, start=1))
        return Answer(citations, explained=tuple(_parts(scored, at) for at in order))

    def _order(self, scored: _Scored, candidates: NDArray[np.int64], limit: int) -> list[int]:
        """The best candidates that the caps admit; more of them are sorted only when the first were not enough."""
        most = 4 * limit + 32
        while True:
            caps = Caps(self._terms, self._store.kinds() if self._terms.per_kind else {})
            best = ranked(scored.total, candidates, most=most).tolist()
            given = list(islice((at for at in best if caps.admits(*scored.sight.source(at))), limit))
            if len(given) == limit or most >= len(candidates):
                return given
            most *= 8

    def _citation(self, scored: _Scored, at: int, number: int) -> Citation:
        found, meant, by_words = scored.sight.found(at), scored.meant, scored.said.words[at] > 0
        by_meaning = meant is not None and meant.likeness[at] >= self._alike
        start = 0
        if not by_words and meant is not None and self._embeddings is not None:
            start = begins(found.text, self._embeddings.closest(meant, scored.sight, at))
        return Citation(
            path=found.path,
            start_line=found.start_line,
            end_line=found.end_line,
            score_e4=_e4(scored.total[at]),
            snippet=scored.snippets.of(found.text, start=start),
            source="hybrid" if by_words and by_meaning else "fts" if by_words else "vector",
            id=f"c{number}",
            content_sha256=found.sha256,
        )

    def _nothing(self, asked: Plan, meant: Meant | None) -> str:
        words = ", ".join(asked.terms[:_MOST_SHOWN]) + (" …" if len(asked.terms) > _MOST_SHOWN else "")
        why = f"none of its words is in a document there: {words}"
        return why if meant is None else f"{why}; and nothing is alike in meaning (minimum {self._alike:.2f})"


def _objection(
    sight: Sight, asked: Plan, allowed: NDArray[np.bool_], *, limit: int, kinds: Collection[str] | None
) -> str:
    """Why there can be no answer; empty when there can."""
    if limit < 1:
        return f"nothing was asked for: the limit is {limit}"
    if not sight.standing.any():
        return f"there are no documents to search as of {sight.seq}"
    if not allowed.any():
        return f"no document there is of kind {' or '.join(sorted(kinds or ()))}".rstrip()
    return "" if asked.terms else "the question has no words"


def _said(sight: Sight, asked: Plan) -> _Said:
    words, share = np.zeros(sight.size), np.zeros(sight.size)
    possible = names = 0.0
    weights: dict[str, float] = {}
    for term in asked.terms:
        places, times, lengths = sight.with_term(term)
        weight = score.weight(len(places))
        if len(places):
            weights[term] = weight
            words[places] += weight * score.saturated(times, lengths)
        # A name that nobody wrote says nothing of what its words could give.
        if len(places) or term.isalnum():
            possible += weight * score.MOST
        if len(places) and term in asked.names:
            share[places] += weight
            names += weight
    return _Said(words, possible, weights, share / names if names else None)


def _parts(scored: _Scored, at: int) -> tuple[Part, ...]:
    said = scored.said
    parts = [Part("words", _e4(said.words[at] / said.possible))]
    if said.share is not None:
        parts.append(Part("names", _e4(said.share[at])))
    if scored.meant is not None:
        parts.append(Part("meaning", _e4(scored.meant.likeness[at])))
    return tuple(parts)


def _e4(value: float) -> int:
    return round(float(value) * _E4)
