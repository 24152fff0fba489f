"""Scores against a slow one that knows the texts and nothing of pages, rows or postings."""

import math

import pytest
from hypothesis import given, settings

from tapebook.search import GLOBAL_SCOPE
from tapebook.search.indexing import DocumentChunk, split_chunks
from tapebook.search.text import count_terms, path_terms, query_terms, related_terms
from tests.matrix import examples
from tests.search.sample_docs import QUESTIONS, Paper, asked, histories, indexed, paper, paths

Scored = dict[tuple[str, int], float]


def slow(papers: list[Paper], question: str, scopes: tuple[str, ...]) -> Scored:
    """The score of every chunk that has a word of the question, by its path and line."""
    newest = {(version.scope, version.path): (version, body) for version, body in papers}
    found: list[tuple[str, DocumentChunk, dict[str, int], int]] = []
    for (scope, path), (version, body) in newest.items():
        for chunk in split_chunks(body.decode(), front_matter=True) if version.sha256 and scope in scopes else ():
            said = count_terms("\n".join((*chunk.headings, chunk.text)), unspaced=True)
            length = sum(said.values())
            found.append((f"{scope}:{path}", chunk, {**dict.fromkeys(path_terms(path), 1), **said}, length))
    asked_for = query_terms(question, unspaced=True)
    # A word that stands nowhere counts as any of its family does.
    groups: dict[str, tuple[str, ...]] = {term: (term,) for term in asked_for.terms}
    for term in asked_for.terms:
        if not any(term in said for _, _, said, _ in found):
            groups[term] = related_terms(term)
    times = {
        term: [sum(said.get(each, 0) for each in group) for _, _, said, _ in found] for term, group in groups.items()
    }
    weights = {term: math.log(1 + 5_000 / max(1, sum(map(bool, times[term])))) for term in asked_for.terms}
    known = {term for term in weights if any(times[term])}
    most = sum(2.2 * weight for term, weight in weights.items() if term in known or term.isalnum())
    names = [name for name in asked_for.names if name in known]
    scored: Scored = {}
    for at, (place, chunk, said, length) in enumerate(found):
        score = 0.0
        for term in known:
            often = times[term][at]
            score += weights[term] * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length / 100))
        if score:
            share = sum(weights[name] for name in names if name in said) / (sum(map(weights.__getitem__, names)) or 1)
            scored[place, chunk.start_line] = (score / most + share) / 2 if names else score / most
    return scored


@settings(max_examples=examples(60))
@given(histories(scopes=(GLOBAL_SCOPE, "one", "two")), QUESTIONS)
def test_scores_are_those_of_the_slow_way(papers: list[Paper], question: str) -> None:
    expected = slow(papers, question, (GLOBAL_SCOPE, "one"))
    with indexed("sqlite_fts", papers) as index:
        answer = asked(index, question, scopes=(GLOBAL_SCOPE, "one"))
    found = sorted(citation.score_e4 for citation in answer.citations)
    assert len(found) == len(expected)
    assert all(abs(one - 10_000 * other) <= 0.51 for one, other in zip(found, sorted(expected.values()), strict=True))


def test_meaning_finds_what_words_do_not() -> None:
    papers = [
        paper(1, "a.md", "# Calm\n\nWhenever the exchange goes offline, close every trade and wait for the server."),
        paper(2, "b.md", "# Fees\n\nMakers pay less than takers on this venue."),
    ]
    question = "internet connection lost"
    with indexed("sqlite_fts", papers) as index:
        assert asked(index, question).citations == ()
    with indexed("hybrid_embeddings", papers, minimum_percent=10) as index:
        answer = asked(index, question)
        assert paths(answer)[0] == "a.md" and answer.citations[0].source == "vector"
        assert {part.name for part in answer.explained[0]} == {"words", "meaning"}
        assert asked(index, "offline").citations[0].source in ("fts", "hybrid")
    with indexed("hybrid_embeddings", papers, minimum_percent=99) as index:
        assert "minimum 0.99" in asked(index, question).why


PLUMBING = "Offices, pipes and python files; a copy of fdf, as is, or pyro options. " * 4


@pytest.mark.parametrize("question", ["asdf", "zzzz qwxv", "pyop", "what is a vgjjspqm", "xjdxkxwqn-ffiq"])
def test_words_that_nobody_knows_find_nothing(question: str) -> None:
    texts = (PLUMBING, "zz top and z z z, is as z", "vg sp qm jj")
    papers = [paper(at, f"{at}.md", text) for at, text in enumerate(texts, start=1)]
    with indexed("hybrid_embeddings", papers, minimum_percent=1) as index:
        answer = asked(index, question)
        assert answer.citations == () and "knows none of them" in answer.why
        # A word that is known, to a document or to the model, is answered beside them.
        assert asked(index, f"{question} python").citations
        assert asked(index, f"{question} program").citations
    with indexed("hybrid_embeddings", papers, minimum_percent=1, rules=1) as index:
        assert asked(index, question).citations


def test_an_unknown_word_is_looked_for_by_its_family() -> None:
    papers = [
        paper(1, "a.md", "Reconnection: the transport reconnects when its connection drops."),
        paper(2, "b.md", "All figures are from the live feed."),
        paper(3, "c.md", "Cover your stops, and report them."),
    ]
    with indexed("sqlite_fts", papers) as index:
        answer = asked(index, "what do I do when the feed disconnects")
        assert paths(answer) == ["a.md", "b.md"] and "reconnects" in answer.citations[0].snippet
        # Short words share letters with others by chance.
        assert asked(index, "discover").citations == () == asked(index, "port").citations
        index.index([paper(4, "d.md", "What to do when it disconnects: wait.")])
        # A word that is known stands for itself.
        assert paths(asked(index, "disconnect")) == ["d.md"]
    with indexed("sqlite_fts", papers, rules=1) as index:
        assert paths(asked(index, "what do I do when the feed disconnects")) == ["b.md"]


def test_documents_can_be_left_out() -> None:
    papers = [paper(1, "a.md", "stops"), paper(2, "b.md", "stops"), paper(3, "a.md", "stops", scope="one")]
    for slot in ("sqlite_fts", "hybrid_embeddings"):
        with indexed(slot, papers, per_path=1) as index:
            found = index.search("stops", scopes=(GLOBAL_SCOPE, "one"), seq=3, without=["a.md", "none.md"])
            assert paths(found) == ["b.md"]
            nothing = index.search("stops", scopes=("one",), seq=3, without=["a.md"])
            assert nothing.citations == () and nothing.why


def test_a_vector_shows_its_passage() -> None:
    text = "nothing to see here at all today. " * 40 + "Whenever the exchange goes offline, wait for the server. " * 6
    with indexed("hybrid_embeddings", [paper(1, "a.md", text)], minimum_percent=1) as index:
        (found,) = asked(index, "internet connection lost").citations
        assert found.source == "vector" and "offline" in found.snippet


def test_a_question_is_answered_by_the_path_too() -> None:
    papers = [
        paper(1, "agents/x/TRADING_MANUAL.md", "Never add to a loser."),
        paper(2, "b.md", "the manual of trading"),
    ]
    with indexed("sqlite_fts", papers) as index:
        assert paths(asked(index, "agents/x/TRADING_MANUAL.md"))[0] == "agents/x/TRADING_MANUAL.md"
        assert set(paths(asked(index, "trading manual"))) == {"agents/x/TRADING_MANUAL.md", "b.md"}
