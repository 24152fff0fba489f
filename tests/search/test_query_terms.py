"""What a question looks for."""

import pytest

from tapebook.search.text import MAX_QUERY_TERMS, query_terms


@pytest.mark.parametrize(
    ("question", "terms", "names"),
    [
        ("What did the feed do when it disconnected?", ("feed", "disconnect"), ()),
        ("what is the", ("what", "is", "the"), ()),
        ("is the US in", ("us",), ()),
        ("why was run_1a2b held", ("run", "1a2b", "run_1a2b", "held"), ("run_1a2b",)),
        ("year-over-year growth", ("year", "over", "year-over-year", "growth"), ()),
        ("btc-perp", ("btc", "perp", "btc-perp"), ("btc-perp",)),
        ("what of BTC-PERP", ("btc", "perp", "btc-perp"), ("btc-perp",)),
        ("feed feed feeds", ("feed",), ()),
        ("", (), ()),
        ("?!…", (), ()),
    ],
)
def test_terms_and_names(question: str, terms: tuple[str, ...], names: tuple[str, ...]) -> None:
    found = query_terms(question)
    assert (found.terms, found.names) == (terms, names)


def test_a_very_long_question_is_cut() -> None:
    assert len(query_terms(" ".join(f"word{at}x" for at in range(9_000))).terms) == MAX_QUERY_TERMS
