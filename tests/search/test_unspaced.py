"""Scripts without blanks between words are found by any part of a sentence; what was indexed before is as it was."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.search.text import count_terms, query_terms, split_unspaced
from tests.matrix import examples
from tests.search.sample_docs import asked, indexed, paper

SENTENCES = {
    "zh.md": "当资金费率为负时不要做空比特币，先等待流动性恢复。",
    "ja.md": "取引所との接続が切れたら、まず全ての注文を取り消す。",
    "th.md": "เมื่อตลาดผันผวนสูงให้ลดขนาดสถานะลงครึ่งหนึ่ง",
    "en.md": "When funding is negative do not short; wait for liquidity.",
}
PAPERS = [paper(at, path, text) for at, (path, text) in enumerate(SENTENCES.items(), start=1)]


@pytest.mark.parametrize("slot", ["sqlite_fts", "hybrid_embeddings"])
@pytest.mark.parametrize(
    ("question", "path"),
    [
        *(("资金费率", "zh.md"), ("流动性", "zh.md"), ("比特币 做空", "zh.md"), ("币", "zh.md")),
        *(("注文を取り消す", "ja.md"), ("接続", "ja.md"), ("取引所のAPI接続", "ja.md")),
        *(("ตลาดผันผวน", "th.md"), ("ลดขนาดสถานะ", "th.md"), ("funding", "en.md")),
    ],
)
def test_a_part_of_a_sentence_finds_it(slot: str, question: str, path: str) -> None:
    with indexed(slot, PAPERS) as index:
        answer = asked(index, question, limit=1)
    assert [each.path for each in answer.citations] == [path]


def test_what_is_not_written_is_not_found() -> None:
    with indexed("sqlite_fts", PAPERS) as index:
        assert asked(index, "天气预报").citations == () and asked(index, "天").citations == ()
    with indexed("sqlite_fts", PAPERS, rules=2) as index:
        # As it was: a sentence is one word.
        assert asked(index, "资金费率").citations == ()


def test_the_snippet_is_where_the_letters_stand() -> None:
    long = "无关的内容。" * 80 + "当资金费率为负时不要做空。" + "别的事情。" * 80
    with indexed("sqlite_fts", [paper(1, "a.md", long)]) as index:
        (found,) = asked(index, "资金费率 做空").citations
    assert "资金费率" in found.snippet and found.snippet in long


def test_letters_of_other_scripts_keep_their_words() -> None:
    assert split_unspaced("BTC多头 und Öl") == ("BTC  und Öl", ["多头"])
    mixed = count_terms("BTC多头 long", unspaced=True)
    assert mixed == {"btc": 1, "long": 1, "多": 1, "头": 1, "多头": 1}
    assert query_terms("BTC多头", unspaced=True).terms == ("btc", "多头")
    # Under the rules of before nothing of it differs.
    assert count_terms("BTC多头") == {"btc多头": 1} and query_terms("BTC多头").terms == ("btc多头",)


@settings(max_examples=examples(60))
@given(st.text("的一是在不了有和人这中大为上个国", min_size=2, max_size=30), st.data())
def test_any_two_letters_side_by_side_are_a_term(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 2))
    part = text[at : data.draw(st.integers(at + 2, len(text)))]
    found = count_terms(text, unspaced=True)
    assert set(query_terms(part, unspaced=True).terms) <= set(found)
    assert query_terms(part).words == (part,)
