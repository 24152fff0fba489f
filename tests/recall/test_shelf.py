"""Indexes in files that are thrown away, built anew and replaced while others have them open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.recall import Index, Version
from tapebook.recall.indexes.sqlite_fts import create
from tapebook.recall.port import IndexTerms
from tapebook.recall.shelf import Indexes
from tapebook.recall.terms import SearchTerms

USUAL = SearchTerms()
OTHER = SearchTerms(slot="hybrid_embeddings", embedder="openai", model="text/3 small")
Home = tuple[Indexes, Indexes]


def made(_terms: SearchTerms, place: Path) -> Index:
    """A real index, whatever the slot."""
    return create(IndexTerms(str(place)))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Home]:
    """Two processes' worth of indexes on one home."""
    both = Indexes(tmp_path, made, chosen=USUAL), Indexes(tmp_path, made, chosen=USUAL)
    yield both
    for each in both:
        each.close()


def version(seq: int, text: str) -> tuple[Version, bytes]:
    """A document of everybody."""
    return Version(seq, "", f"global/{seq}.md", "global", f"{seq:064x}", seq), text.encode()


def found(index: Index, words: str) -> list[str]:
    """Paths that answer."""
    return [each.path for each in index.search(words, scopes=[""], seq=index.head()).citations]


def test_nothing_is_there_before_somebody_asks(two: Home, tmp_path: Path) -> None:
    assert not two[0].any() and list(tmp_path.iterdir()) == []
    two[0].of(USUAL)
    assert two[1].any() and (tmp_path / "recall.db").exists()


def test_who_is_alone_looks_once(two: Home, tmp_path: Path) -> None:
    alone = Indexes(tmp_path, made, chosen=USUAL, alone=True)
    assert not alone.any()
    two[0].of(USUAL)
    assert two[1].any() and not alone.any() and Indexes(tmp_path, made, chosen=USUAL, alone=True).any()


def test_an_index_is_opened_once(two: Home) -> None:
    assert two[0].of(USUAL) is two[0].of(USUAL)
    assert two[0].of(USUAL) is not two[0].of(SearchTerms(per_path=9))


def test_what_is_stored_differently_has_a_file_of_its_own(two: Home, tmp_path: Path) -> None:
    assert two[0].place(SearchTerms(per_path=9, lexical_percent=1)) == tmp_path / "recall.db"
    assert two[0].place(OTHER) == tmp_path / "recall-hybrid_embeddings-openai-text_3_small.db"


def test_a_file_that_was_removed_is_made_anew(two: Home, tmp_path: Path) -> None:
    index = two[0].of(USUAL)
    index.index([version(1, "feed")])
    (tmp_path / "recall.db").unlink()
    assert two[0].of(USUAL).head() == 0 and two[1].of(USUAL).head() == 0
    two[1].of(USUAL).index([version(1, "feed")])
    assert found(two[0].of(USUAL), "feed") == ["global/1.md"]


def test_a_fresh_index_takes_the_place_of_one_that_others_have_open(two: Home) -> None:
    one, other = two
    old = other.of(USUAL)
    old.index([version(1, "old feed")])
    fresh = one.fresh(USUAL)
    fresh.index([version(1, "new feed"), version(2, "more feed")])
    assert found(old, "feed") == ["global/1.md"]
    fresh.close()
    one.replace(USUAL)
    # Who reads the old one reads it to the end, and what it still writes there meets nobody.
    assert found(old, "old") == ["global/1.md"]
    old.index([version(2, "lost feed")])
    assert other.of(USUAL) is not old
    assert found(other.of(USUAL), "old") == []
    assert sorted(found(other.of(USUAL), "feed")) == ["global/1.md", "global/2.md"]
    other.of(USUAL).index([version(3, "third feed")])
    assert len(found(one.of(USUAL), "feed")) == 3


def test_a_fresh_index_that_was_not_finished_is_gone_on_with(two: Home) -> None:
    fresh = two[0].fresh(USUAL)
    fresh.index([version(1, "feed")])
    fresh.close()
    again = two[1].fresh(USUAL)
    assert again.head() == 1
    again.close()
    assert not two[0].any()
