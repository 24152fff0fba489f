"""Terms are kept as they were, in bytes that do not change."""

import msgspec
import pytest

from tapebook.errors import Damaged
from tapebook.search.index import RULES, SearchTerms, decode_search_terms
from tapebook.settings.config import Config
from tapebook.wiring import search_terms, with_slot


def test_terms_come_back_as_they_were_kept() -> None:
    terms = SearchTerms(slot="hybrid_embeddings", embedder="x", lexical_percent=70, per_kind=(("trade", 1),))
    assert decode_search_terms(terms.text) == terms and decode_search_terms(None) == SearchTerms()
    assert " " not in terms.text


def test_terms_without_rules_are_those_of_the_first() -> None:
    kept = msgspec.json.decode(SearchTerms(rules=RULES).text)
    del kept["rules"]
    assert decode_search_terms(msgspec.json.encode(kept).decode()).rules == 1 == decode_search_terms(None).rules
    with pytest.raises(Damaged, match="rules 99"):
        decode_search_terms(SearchTerms(rules=99).text)


def test_the_usual_settings_are_the_usual_terms() -> None:
    assert search_terms(Config()) == SearchTerms(rules=RULES)


def test_only_a_search_by_meaning_has_an_embedder() -> None:
    words = search_terms(with_slot(Config(), "sqlite_fts"))
    assert (words.slot, words.embedder) == ("sqlite_fts", "")
    assert (SearchTerms().slot, SearchTerms().embedder) == ("hybrid_embeddings", "wordllama")
    assert with_slot(Config(), None) == Config()
