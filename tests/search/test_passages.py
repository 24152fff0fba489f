"""Passages are all the words of a chunk, in order, none of them much longer than the others."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.text import MAX_PASSAGES, PASSAGE_WORDS, passage_count, passage_start, split_passages

TEXTS = st.lists(st.text(max_size=6), max_size=400).map(" ".join) | st.text(st.characters(), max_size=100)


@given(TEXTS)
def test_all_words_in_order(text: str) -> None:
    found = split_passages(text)
    assert " ".join(found).split() == text.split() and len(found) == passage_count(text) >= 1
    sizes = [len(passage.split()) for passage in found]
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= 1.5 * PASSAGE_WORDS
    for number, passage in enumerate(found):
        assert text[passage_start(text, number) :].startswith(passage.split(" ")[0] if passage else "")


def test_headings_stand_above_each() -> None:
    found = split_passages("word " * 3 * PASSAGE_WORDS, ("Rules", "Stops"))
    assert len(found) == 3 and all(passage.startswith("Rules Stops word") for passage in found)


def test_there_is_a_limit() -> None:
    assert passage_count("w " * PASSAGE_WORDS * 1_000) == MAX_PASSAGES
