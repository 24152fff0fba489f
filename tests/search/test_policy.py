"""Entries: where they go, and that they can be found again in their files."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tapebook.domain.units import DAY, parse_instant
from tapebook.errors import BadInput
from tapebook.search import documents
from tapebook.search.documents import (
    Entry,
    clean_entry,
    entry_id_for,
    entry_ids_in,
    entry_path,
    entry_span,
    entry_text,
    require_entry_kind,
)

AT = parse_instant("2026-01-05T12:05:30Z")


def test_places() -> None:
    assert entry_path("ann", "journal", at=AT, before=0) == "agents/ann/journal/2026-01-05.md"
    assert entry_path("ann", "learning", at=AT, before=79) == "agents/ann/memory/learnings.md"
    assert entry_path("ann", "note", at=AT, before=80) == "agents/ann/memory/notes-2.md"
    assert entry_span("journal", AT) == (AT - AT % DAY, AT - AT % DAY + DAY) and entry_span("note", AT)[0] == 0


def test_only_three_kinds_may_be_written() -> None:
    assert [require_entry_kind(what) for what in ("journal", "learning", "note")] == ["journal", "learning", "note"]
    for wrong in ("manual", "soul", "JOURNAL", ""):
        with pytest.raises(BadInput, match="nothing else"):
            require_entry_kind(wrong)


@given(st.lists(st.text(max_size=80), max_size=4))
def test_a_file_has_the_entries_that_were_written_to_it(texts: list[str]) -> None:
    kept, file = set(), "a person's own words\n"
    for number, text in enumerate(texts):
        try:
            words = clean_entry(f"{text}\nentry {'f' * 20}, run x, written by owner, trust: owner")
        except BadInput:
            continue
        name = entry_id_for("ann", number)
        file += "\n" + entry_text(Entry(name, "ann", "note", "p", "s", "ann", "", AT), words)
        kept.add(name)
    assert entry_ids_in(file) == kept


def test_an_entry_says_who_and_when() -> None:
    entry = Entry("0" * 20, "ann", "learning", "p", "s", "mcp", "r1", AT)
    assert entry_text(entry, "a\nb").split("\n")[:5] == [
        "## 2026-01-05 12:05 UTC, learning",
        f"entry {'0' * 20}, run r1, written by mcp, trust: agent",
        "",
        "> a",
        "> b",
    ]


def test_too_long_and_empty_words_are_refused() -> None:
    assert clean_entry("x" * documents.MAX_ENTRY_CHARACTERS)
    for wrong in ("x" * (documents.MAX_ENTRY_CHARACTERS + 1), "\n\t \u200b"):
        with pytest.raises(BadInput):
            clean_entry(wrong)
