"""A name is found whole and by its parts, however it is written."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tapebook.search.text import MAX_TERM_CHARACTERS, count_terms, fold_case, path_terms, token_terms, tokens
from tests.search.sample_docs import IDENTIFIERS


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("run_1a2b", {"run", "1a2b", "run_1a2b"}),
        ("BTC-PERP", {"btc", "perp", "btc-perp"}),
        ("R6_MAX_LEVERAGE", {"r6", "max", "leverag", "r6_max_leverage"}),
        ("xyz:TSLA", {"xyz", "tsla", "xyz:tsla"}),
        ("MaxLeverage", {"maxleverag", "max", "leverag"}),
        ("65,432.10", {"65", "432", "10", "65,432.10"}),
        ("a:+b-/c", {"a", "b", "c", "a:+b-/c", "a:+b"}),
        ("a/b-c/d.md", {"a", "b", "c", "d", "md", "a/b-c/d.md", "b-c", "d.md"}),
        ("Zürich", {"zurich"}),
        ("ＢＴＣ", {"btc"}),
        ("stops", {"stop"}),
    ],
)
def test_terms_of_a_token(token: str, expected: set[str]) -> None:
    assert set(count_terms(token)) == expected


def test_marks_around_a_name_are_not_of_it() -> None:
    for text in ("`run_1a2b`", "(run_1a2b).", "run_1a2b:", "**run_1a2b**", "run_1a2b's", "x=run_1a2b,", "_run_1a2b_"):
        assert "run_1a2b" in count_terms(text)


@given(IDENTIFIERS, st.sampled_from((str, str.upper, str.lower, str.title)))
def test_a_name_is_a_term_in_any_case(name: str, case: type) -> None:
    assert name.lower() in count_terms(f"see {case(name)}, please")
    assert set(count_terms(name.lower())) <= set(count_terms(f"x {case(name)}"))


@given(st.text(max_size=200) | st.text("a0B-_:./@#&+, ", max_size=40))
@example("0:+0")
def test_any_text_has_terms_that_fit(text: str) -> None:
    found = count_terms(text)
    assert all(term and len(term) <= MAX_TERM_CHARACTERS and times > 0 for term, times in found.items())
    assert bool(found) == bool(tokens(text))
    assert count_terms(f"{text} {text}") == {term: 2 * times for term, times in found.items()}


@given(st.text(max_size=60))
def test_case_and_accents_do_not_matter(text: str) -> None:
    assert fold_case(fold_case(text)) == fold_case(text)


def test_a_very_long_name_is_cut_alike_everywhere() -> None:
    name = "a-" * 5_000 + "b"
    assert any(len(term) == MAX_TERM_CHARACTERS for term in token_terms(name)) and set(token_terms(name)) == set(
        token_terms(name.upper())
    )


def test_a_document_is_found_by_its_name_and_its_path() -> None:
    found = path_terms("agents/btc-5m/TRADING_MANUAL.md")
    assert {"agents/btc-5m/trading_manual.md", "trading_manual.md", "trading_manual", "trade", "manual"} <= set(found)
    # Each document of an agent would have these.
    assert not {"btc", "5m", "btc-5m", "agents", "md"} & set(found)
    assert "2026" in path_terms("journal/2026-01-02.md") and path_terms("README") == ("readme", "readm")
