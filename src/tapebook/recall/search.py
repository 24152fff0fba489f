"""A search: what the words and the meaning of a question say of each chunk in sight, and the best of them.

1. `_said` weighs the question's terms by how many chunks in sight have them, and adds them up (`score`). A word that
   none of them has is looked for by its family.
2. `Embeddings` says how alike each chunk is at most, where there are vectors; `fuse` makes one score of both. For a
   question of words that neither the documents nor the model know there is no answer.
3. `ranking` finds the best that the caps admit, and makes their scores exact on the way.
4. They are given with where they stand and what their score is made of.
"""

from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.citation import Citation
from tapebook.recall import score
from tapebook.recall.embeddings import Embeddings
from tapebook.recall.fuse import Caps, Scores, fused, named
from tapebook.recall.index_store import IndexStore
from tapebook.recall.likeness import Likeness
from tapebook.recall.passages import begins
from tapebook.recall.plan import MOST_SIGNS, Plan, plan
from tapebook.recall.port import Answer, IndexTerms, Part
from tapebook.recall.ranking import NOWHERE, Field, Rows, best
from tapebook.recall.sight import Sight
from tapebook.recall.snippet import Snippets
from tapebook.recall.words import relatives

_E4 = 10_000
_MOST_SHOWN = 8


class _Said(msgspec.Struct):
    """What a question's words say of each row: their sum, what it could be at most, and the share of names there."""

    words: Scores
    possible: float
    weights: dict[str, float]
    share: Scores | None


class _Heard(msgspec.Struct):
    """What the words and the meaning of a question say of the rows in sight."""

    sight: Sight
    said: _Said
    likeness: Likeness | None
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
    ) -> Answer:
        """What the rows in sight answer, or why they do not; documents at the paths `without` are not given."""
        query = query[:MOST_SIGNS]
        sight, asked = Sight(self._store, scopes, seq), plan(query)
        allowed = sight.of_kinds(kinds)
        if why := _objection(sight, asked, allowed, limit=limit, kinds=kinds):
            return Answer(why=why)
        if without:
            allowed = allowed & sight.not_at(without)
        said = _said(sight, asked, has_families=not self._first_rules)
        if not said.weights and self._means_nothing(asked):
            return Answer(why=f"{_no_word(asked)}; and the model of meaning knows none of them")
        likeness = self._embeddings.likeness(query, sight) if self._embeddings else None
        heard = _Heard(sight, said, likeness, Snippets(said.weights))
        caps = Caps(self._terms, self._store.kinds() if self._terms.per_kind else {})
        given = best(self._field(heard, allowed), caps, limit)
        if not given:
            return Answer(why=self._nothing(asked, likeness))
        citations = tuple(self._citation(heard, *each, f"c{at}") for at, each in enumerate(given.items(), start=1))
        return Answer(citations, explained=tuple(_parts(heard, at) for at in given))

    def _means_nothing(self, asked: Plan) -> bool:
        """Whether the model has no idea of a question's words either."""
        if self._embeddings is None or self._first_rules:
            return False
        return not self._embeddings.knows_any(asked.words)

    def _field(self, heard: _Heard, allowed: NDArray[np.bool_]) -> Field:
        """The rows that may be an answer, with the scores they have at most."""
        said, likeness = heard.said, heard.likeness

        def exact(rows: Rows) -> Scores:
            return self._scores(said, rows, None if likeness is None else likeness.exact(rows))

        found = said.words > 0
        if likeness is not None:
            found |= likeness.at_most >= self._alike
        rows = np.flatnonzero(found & allowed)
        scores = self._scores(said, rows, None if likeness is None else likeness.at_most[rows])
        return Field(rows, scores, exact, heard.sight.sources)

    def _scores(self, said: _Said, rows: Rows, likeness: Scores | None) -> Scores:
        """The scores of rows that are so much alike; what has a word of the question is never lost to the minimum."""
        words, share = said.words[rows], None if said.share is None else said.share[rows]
        scores = named(fused(words, said.possible, likeness, self._terms), share)
        return scores if likeness is None else np.where((words > 0) | (likeness >= self._alike), scores, NOWHERE)

    def _citation(self, heard: _Heard, at: int, score: float, name: str) -> Citation:
        found, likeness, by_words = heard.sight.found(at), heard.likeness, heard.said.words[at] > 0
        by_meaning = likeness is not None and likeness.at_most[at] >= self._alike
        start = 0 if by_words or likeness is None else begins(found.text, likeness.closest(at))
        return Citation(
            path=found.path,
            start_line=found.start_line,
            end_line=found.end_line,
            score_e4=_e4(score),
            snippet=heard.snippets.of(found.text, start=start),
            source="hybrid" if by_words and by_meaning else "fts" if by_words else "vector",
            id=name,
            content_sha256=found.sha256,
        )

    def _nothing(self, asked: Plan, likeness: Likeness | None) -> str:
        why = _no_word(asked)
        return why if likeness is None else f"{why}; and nothing is alike in meaning (minimum {self._alike:.2f})"


def _no_word(asked: Plan) -> str:
    words = ", ".join(asked.terms[:_MOST_SHOWN]) + (" …" if len(asked.terms) > _MOST_SHOWN else "")
    return f"none of its words is in a document there: {words}"


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


def _said(sight: Sight, asked: Plan, *, has_families: bool) -> _Said:
    words, share = np.zeros(sight.size), np.zeros(sight.size)
    possible = names = 0.0
    weights: dict[str, float] = {}
    for term in asked.terms:
        places, times, lengths = sight.with_term(term)
        meant: tuple[str, ...] = (term,)
        if has_families and not len(places) and (family := relatives(term)):
            meant, (places, times, lengths) = family, sight.with_any(family)
        weight = score.weight(len(places))
        if len(places):
            weights |= dict.fromkeys(meant, weight)
            words[places] += weight * score.saturated(times, lengths)
        # A name that nobody wrote says nothing of what its words could give.
        if len(places) or term.isalnum():
            possible += weight * score.MOST
        if len(places) and term in asked.names:
            share[places] += weight
            names += weight
    return _Said(words, possible, weights, share / names if names else None)


def _parts(heard: _Heard, at: int) -> tuple[Part, ...]:
    said = heard.said
    parts = [Part("words", _e4(said.words[at] / said.possible))]
    if said.share is not None:
        parts.append(Part("names", _e4(said.share[at])))
    if heard.likeness is not None:
        parts.append(Part("meaning", _e4(heard.likeness.at_most[at])))
    return tuple(parts)


def _e4(value: float) -> int:
    return round(float(value) * _E4)
