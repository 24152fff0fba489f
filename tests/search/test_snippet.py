"""A snippet is a piece of the text, with the words that were asked for."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.text import MAX_SNIPPET_CHARACTERS, ShownTexts, Snippets, token_terms
from tests.search.sample_docs import VOCABULARY, WORDS

FILLER = "nothing of interest stands in this sentence at all. "


@given(st.lists(WORDS | st.text(max_size=9), max_size=200).map(" ".join), st.dictionaries(WORDS, st.floats(0, 9)))
def test_it_stands_in_the_text(text: str, weights: dict[str, float]) -> None:
    found = Snippets({word.lower(): weight for word, weight in weights.items()}).snippet_of(text)
    assert found in text and len(found) <= max(
        MAX_SNIPPET_CHARACTERS, len(text) if len(text) <= MAX_SNIPPET_CHARACTERS else 0
    )
    assert bool(found.strip()) == bool(text.strip())


def test_it_shows_where_the_most_of_the_question_stands() -> None:
    text = FILLER * 9 + "the feed. " + FILLER * 9 + "when the feed had disconnected, margin was called. " + FILLER * 9
    found = Snippets({"feed": 3.0, "disconnect": 5.0, "margin": 4.0}).snippet_of(text)
    assert "the feed had disconnected, margin was called" in found


def test_it_begins_with_a_sentence_if_one_begins_near() -> None:
    text = FILLER * 9 + "Then run_1a2b was held. " + FILLER * 9
    assert Snippets({"run_1a2b": 1.0}).snippet_of(text).startswith("Then run_1a2b was held.")


def test_without_a_word_it_begins_where_it_is_told() -> None:
    text = "".join(f"sentence {at} stands here. " for at in range(100))
    start = text.index("sentence 50")
    assert Snippets({}).snippet_of(text, start=start).startswith("sentence 50")
    assert Snippets({"absent": 1.0}).snippet_of(text).startswith("sentence 0")


def test_a_word_without_blanks_is_cut() -> None:
    assert Snippets({}).snippet_of("x" * 9_000) == "x" * MAX_SNIPPET_CHARACTERS


def test_every_word_of_the_vocabulary_is_seen() -> None:
    for word in VOCABULARY:
        if word.isascii():
            text = FILLER * 8 + f"here: {word}. " + FILLER * 8
            assert word in Snippets({token_terms(word)[0]: 1.0}).snippet_of(text)


def test_a_snippet_is_shown_when_every_sentence_of_it_is() -> None:
    shown = ShownTexts(["Never add to a loser.\nOpen after a breakout, with a stop.", "BTC fails on Mondays"])
    for snippet in (
        "Never add to a LOSER.",
        "# Manual\n\n> never add to a loser!\n- open after a breakout, with a stop",
        f"## 2026-01-05 06:00 UTC, note\nentry {'0a' * 10}, no run, trust: agent\n\n> btc fails on mondays",
        "BTC fails on Mondays; never add",
    ):
        assert shown.covers(snippet), snippet
    for snippet in (
        "Never add to a loser. Weekends differ.",
        "add to a los",
        "with a stop BTC fails",
        "# Manual",
        "",
    ):
        assert not shown.covers(snippet), snippet
    assert not ShownTexts([]).covers("anything") and not ShownTexts([""]).covers("")
