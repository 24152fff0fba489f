"""The laws of every index: what it finds, what never changes it, and what it says when there is nothing."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tapebook import plug
from tapebook.errors import BadInput
from tapebook.search import GLOBAL_SCOPE, IndexAnswer
from tapebook.search.index import IndexTerms
from tapebook.search.text import tokens
from tests.matrix import covering, examples
from tests.search.appender import letters
from tests.search.sample_docs import (
    IDENTIFIERS,
    INDEXES,
    QUESTIONS,
    VOCABULARY,
    Paper,
    as_bytes,
    asked,
    histories,
    indexed,
    paper,
    paths,
    texts,
)

SLOTS = plug.names(INDEXES)
SCOPES = (GLOBAL_SCOPE, "one")
ROOT = Path(__file__).parents[2]
every_slot = pytest.mark.parametrize("slot", SLOTS)
IRRELEVANT = st.sampled_from(("lamp", "pears", "Sunday_roast", "soup", "42nd", "violin"))
some = settings(max_examples=examples(25))


def test_the_slots_of_the_design_are_there() -> None:
    assert SLOTS == ["hybrid_embeddings", "sqlite_fts"]


@every_slot
@settings(max_examples=examples(40))
@given(name=IDENTIFIERS, others=st.lists(texts(), max_size=4), case=st.sampled_from((str, str.upper, str.lower)))
@example(name="run_1a2b", others=["run 1a2b run 1a2b run 1a2b"], case=str.upper)
@example(name="a-b-c-d", others=["a b c d a b c d a b c d"], case=str)
@example(name="xyz:TSLA", others=["xyz TSLA xyz TSLA"], case=str.lower)
def test_an_exact_identifier_is_always_found_and_first(slot: str, name: str, others: list[str], case: type) -> None:
    assume(all(name.lower() not in text.lower() for text in others))
    long = " ".join(["filler"] * 300)
    papers = [paper(at, f"{at}.md", text) for at, text in enumerate(others, start=1)]
    papers.append(paper(90, "it.md", f"{long} (see `{name}`), or not. {long}"))
    with indexed(slot, papers) as index:
        answer = asked(index, case(name), limit=1)
        assert paths(answer) == ["it.md"]
        assert name in answer.citations[0].snippet
        assert "it.md" in paths(asked(index, f"what did we say of {case(name)} then?"))


@every_slot
@some
@given(papers=histories(), question=QUESTIONS)
def test_more_asked_for_only_adds_behind(slot: str, papers: list[Paper], question: str) -> None:
    with indexed(slot, papers, per_path=2) as index:
        whole = asked(index, question, scopes=SCOPES)
        for limit in range(1, len(whole.citations) + 2):
            answer = asked(index, question, scopes=SCOPES, limit=limit)
            assert answer.citations == whole.citations[:limit] and answer.explained == whole.explained[:limit]


@every_slot
@some
@given(papers=histories(), question=QUESTIONS, more=texts(IRRELEVANT), limit=st.integers(1, 8))
def test_an_irrelevant_document_changes_nothing(
    slot: str, papers: list[Paper], question: str, more: str, limit: int
) -> None:
    """It has none of the question's words: whatever was found is found, in the same order, with the same score."""
    with indexed(slot, papers) as index:
        before = asked(index, question, limit=limit)
        index.index([paper(index.head() + 1, "irrelevant.md", more)])
        after = asked(index, question, limit=limit + 100)
        kept = [each for each in after.citations if each.path != "irrelevant.md"]
        assert [(each.path, each.start_line, each.score_e4) for each in kept[:limit]] == [
            (each.path, each.start_line, each.score_e4) for each in before.citations
        ]
        if slot == "sqlite_fts":
            assert asked(index, question, limit=limit).citations == before.citations


@every_slot
@some
@given(papers=histories(), question=QUESTIONS, data=st.data())
def test_as_of_a_commit_is_what_an_index_of_that_time_answered(
    slot: str, papers: list[Paper], question: str, data: st.DataObject
) -> None:
    seq = data.draw(st.sampled_from([version.seq for version, _ in papers]))
    with indexed(slot, papers) as index, indexed(slot, [pair for pair in papers if pair[0].seq <= seq]) as then:
        assert as_bytes(asked(index, question, scopes=SCOPES, seq=seq)) == as_bytes(
            asked(then, question, scopes=SCOPES)
        )


@every_slot
@some
@given(papers=histories(), question=QUESTIONS)
def test_documents_of_others_have_no_influence(slot: str, papers: list[Paper], question: str) -> None:
    own = [pair for pair in papers if pair[0].scope in SCOPES]
    seq = papers[-1][0].seq
    with indexed(slot, papers) as index, indexed(slot, own) as alone:
        mine = asked(index, question, scopes=SCOPES, seq=seq)
        assert as_bytes(mine) == as_bytes(asked(alone, question, scopes=SCOPES, seq=seq))


@every_slot
@some
@given(papers=histories(), question=QUESTIONS, data=st.data())
def test_bit_by_bit_is_as_from_scratch(slot: str, papers: list[Paper], question: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(papers)), max_size=4).map(sorted))
    with indexed(slot, papers) as whole, indexed(slot) as index:
        for low, high in zip([0, *cuts], [*cuts, len(papers)], strict=True):
            # What it knows already may be given again.
            index.index(papers[max(low - 1, 0) : high])
        assert index.head() == whole.head() == papers[-1][0].seq
        for seq in (version.seq for version, _ in papers):
            answers = [as_bytes(asked(each, question, scopes=SCOPES, seq=seq)) for each in (index, whole)]
            assert answers[0] == answers[1]
        assert index.counts().chunks == whole.counts().chunks
        assert index.counts().documents == whole.counts().documents


@every_slot
@some
@given(papers=histories(), question=QUESTIONS)
def test_a_citation_says_what_stands_there(slot: str, papers: list[Paper], question: str) -> None:
    with indexed(slot, papers) as index:
        for seq in (version.seq for version, _ in papers):
            there = {(version.scope, version.path): pair for pair in papers if (version := pair[0]).seq <= seq}
            answer = asked(index, question, scopes=SCOPES, seq=seq)
            assert len(answer.explained) == len(answer.citations)
            assert [each.id for each in answer.citations] == [f"c{at + 1}" for at in range(len(answer.citations))]
            scores = [each.score_e4 for each in answer.citations]
            assert scores == sorted(scores, reverse=True) and all(0 <= score <= 10_000 for score in scores)
            for each in answer.citations:
                bodies = [
                    body
                    for (scope, path), (version, body) in there.items()
                    if path == each.path and scope in SCOPES and version.sha256 == each.content_sha256 != ""
                ]
                lines = bodies[0].decode().split("\n")
                assert each.snippet and each.snippet in "\n".join(lines[each.start_line - 1 : each.end_line])


LONG = {
    **{"a word": "x" * 100_000, "words": "feed " * 20_000, "a path": "a/" * 50_000, "marks": "-" * 100_000},
    **{"lines": "\n" * 100_000, "a number": "1,000," * 20_000, "letters": "ﷺ" * 100_000},
}
ANY_TEXT = st.one_of(
    st.text(max_size=80),
    st.text(st.characters(), max_size=40),
    st.sampled_from(
        [
            *(
                '"',
                '"feed',
                "feed*",
                "feed AND",
                "NOT",
                "a NEAR/3 b",
                "col:feed",
                "^feed",
                "feed -stop",
                "(((",
                "{a b}",
            ),
            *("' OR 1=1 --", "%", "_", "\x00", "feed\x00stop", "\ud800", "🚀🚀", "ﬁ", "ﷺ" * 50, "İI", "e\u0301" * 9),
        ]
    ),
)


@every_slot
@settings(max_examples=examples(60))
@given(question=ANY_TEXT)
def test_any_question_has_an_answer_or_a_reason(slot: str, question: str) -> None:
    with indexed(slot, [paper(1, "a.md", "the feed stops\n\n# x\n\nleverage ﷺ"), paper(2, "b.md", "流动性")]) as index:
        answer = asked(index, question)
        assert bool(answer.citations) != bool(answer.why) and "\n" not in answer.why


@pytest.mark.parametrize(("name", "slot"), covering(LONG, SLOTS))
def test_a_very_long_question_too(slot: str, name: str) -> None:
    with indexed(slot, [paper(1, "a.md", "the feed stops"), paper(2, "b.md", LONG[name])]) as index:
        answer = asked(index, LONG[name])
        assert bool(answer.citations) != bool(answer.why) and len(answer.why) < 2_000


@every_slot
@settings(max_examples=examples(40))
@given(body=st.binary(max_size=200) | st.text(max_size=300).map(lambda text: text.encode(errors="replace")))
def test_any_body_can_be_indexed(slot: str, body: bytes) -> None:
    version, _ = paper(1, "a.md", "x")
    with indexed(slot, [(version, body)]) as index:
        said = tokens(body.decode(errors="replace"))
        answer = asked(index, " ".join(said[:20]))
        assert bool(said) == bool(answer.citations)


@every_slot
def test_an_empty_answer_says_why(slot: str) -> None:
    def why(answer: IndexAnswer) -> str:
        assert answer.citations == () and answer.explained == ()
        return answer.why

    with indexed(slot) as index:
        assert why(asked(index, "feed")) == "there are no documents to search as of 0"
    papers = [
        paper(3, "a.md", "the feed stops"),
        paper(5, "b.md", "x", scope="one"),
        paper(7, "b.md", None, scope="one"),
    ]
    with indexed(slot, papers) as index:
        assert why(asked(index, "feed", seq=2)) == "there are no documents to search as of 2"
        assert why(asked(index, "x", scopes=["one"])) == "there are no documents to search as of 7"
        assert why(asked(index, "x", scopes=["nobody"])) == "there are no documents to search as of 7"
        assert why(asked(index, "x", scopes=[])) == "there are no documents to search as of 7"
        assert why(asked(index, "?!")) == "the question has no words"
        assert why(asked(index, "feed", limit=0)) == "nothing was asked for: the limit is 0"
        none = why(asked(index, "xylophone quarks"))
        assert none.startswith("none of its words is in a document there: xylophon, quark")
        of_kind = index.search("feed", scopes=[GLOBAL_SCOPE], seq=7, kinds=["journal"])
        assert why(of_kind) == "no document there is of kind journal"
        assert paths(index.search("feed", scopes=[GLOBAL_SCOPE], seq=7, kinds=["journal", "note"])) == ["a.md"]


@every_slot
def test_what_has_a_word_is_never_lost_to_the_minimum(slot: str) -> None:
    telling = [word for word in VOCABULARY if word not in ("the", "of", "what", "is", "because")]
    papers = [paper(at, f"{at}.md", f"{word} {' and '.join(['prose'] * 99)}") for at, word in enumerate(telling, 1)]
    for minimum, weight in ((0, 50), (100, 50), (100, 0), (100, 100)):
        terms: dict[str, Any] = {
            "minimum_percent": minimum,
            "lexical_percent": weight,
            "semantic_percent": 100 - weight,
        }
        with indexed(slot, papers, **terms) as index:
            for at, word in enumerate(telling, 1):
                assert f"{at}.md" in paths(asked(index, f"where is {word} written down"))


@every_slot
def test_caps_give_way_to_the_next_best(slot: str) -> None:
    sections = "\n\n".join(f"## part {at}\n\nthe feed and the feed of {at}" for at in range(6))
    papers = [paper(1, "long.md", sections, kind="journal"), paper(2, "short.md", f"the feed {'and prose ' * 60}")]
    with indexed(slot, papers) as index:
        assert len(asked(index, "feed").citations) == 7
    with indexed(slot, papers, per_path=2) as index:
        assert paths(asked(index, "feed")) == ["long.md", "long.md", "short.md"]
        assert paths(asked(index, "feed", limit=3)) == ["long.md", "long.md", "short.md"]
    with indexed(slot, papers, per_kind={"journal": 1, "unheard": 3}) as index:
        assert paths(asked(index, "feed", limit=2)) == ["long.md", "short.md"]


@every_slot
def test_only_changed_chunks_are_written(slot: str) -> None:
    sections = [f"## part {at}\n\n{word} stands here" for at, word in enumerate(VOCABULARY)]
    with indexed(slot, [paper(1, "a.md", "\n\n".join(sections))]) as index:
        sections[3] = "## part 3\n\nquicksilver stands here\n\nand a line more"
        report = index.index([paper(2, "a.md", "\n\n".join(sections))])
        assert (report.versions, report.written, report.kept, report.head) == (1, 1, len(sections) - 1, 2)
        # The chunks below moved down, and are cited where they stand.
        for seq, line in ((1, 17), (2, 19)):
            found = asked(index, "R6_MAX_LEVERAGE margin", seq=seq).citations
            assert [each.start_line for each in found if "margin" in each.snippet] == [8 * 4 + line - 16]
        assert index.index([paper(3, "a.md", "\n\n".join(sections))]).written == 0
        assert index.index([paper(4, "a.md", None)]).written == 0
        assert asked(index, "quicksilver").citations == () and asked(index, "quicksilver", seq=3).citations
        assert index.index([paper(4, "a.md", None)]).versions == 0
        counts = index.counts()
        assert (counts.documents, counts.chunks, counts.kept_chunks) == (0, 0, len(sections) + 1)


@every_slot
def test_versions_out_of_order_are_refused(slot: str) -> None:
    with indexed(slot) as index, pytest.raises(BadInput, match="sort them"):
        index.index([paper(2, "a.md", "x"), paper(1, "b.md", "y")])


@every_slot
def test_two_processes_may_index_the_same(slot: str, tmp_path: Path) -> None:
    path, papers = str(tmp_path / "recall.db"), letters(40)
    with indexed(slot, path=path) as one, indexed(slot, path=path) as other:
        one.index(papers[:10])
        other.index(papers[:25])
        one.index(papers)
        assert as_bytes(asked(one, "entry 7")) == as_bytes(asked(other, "entry 7"))
        assert one.head() == other.head() == papers[-1][0].seq


@every_slot
def test_a_killed_index_goes_on_and_ends_the_same(slot: str, tmp_path: Path) -> None:
    path, moments, papers = str(tmp_path / "recall.db"), random.Random(5), letters(400)
    for _ in range(3):
        command = [sys.executable, "-m", "tests.search.appender", slot, path]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={"PYTHONPATH": "src:."}) as scribe:
            assert scribe.stdout
            scribe.stdout.readline()
            time.sleep(moments.uniform(0, 0.1))
            scribe.send_signal(signal.SIGKILL)
    index = plug.load(INDEXES, slot).create(IndexTerms(path))
    head = index.head()
    assert head < papers[-1][0].seq
    index.index([pair for pair in papers if pair[0].seq > head])
    with indexed(slot, papers) as clean:
        assert index.head() == clean.head()
        for question in ("entry 7", "what of the feed in entry 300", "leverage"):
            for seq in (100, 399, 400):
                one, other = asked(index, question, seq=seq), asked(clean, question, seq=seq)
                assert as_bytes(one) == as_bytes(other) and one.citations
    index.close()
