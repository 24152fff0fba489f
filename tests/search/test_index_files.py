"""Indexes in files that are thrown away, built anew and replaced while others have them open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.search import DocumentVersion, Index
from tapebook.search.index import IndexFiles, IndexTerms, SearchTerms
from tapebook.search.indexes.sqlite_fts import create

USUAL = SearchTerms()
OTHER = SearchTerms(slot="hybrid_embeddings", embedder="openai", model="text/3 small")
Home = tuple[IndexFiles, IndexFiles]


def made(_terms: SearchTerms, place: Path) -> Index:
    """A real index, whatever the slot."""
    return create(IndexTerms(str(place)))


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Home]:
    """Two processes' worth of indexes on one home."""
    both = IndexFiles(tmp_path, made, chosen=USUAL), IndexFiles(tmp_path, made, chosen=USUAL)
    yield both
    for each in both:
        each.close()


def version(seq: int, text: str) -> tuple[DocumentVersion, bytes]:
    """A document of everybody."""
    return DocumentVersion(seq, "", f"global/{seq}.md", "global", f"{seq:064x}", seq), text.encode()


def found(index: Index, words: str) -> list[str]:
    """Paths that answer."""
    return [each.path for each in index.search(words, scopes=[""], seq=index.head()).citations]


def test_nothing_is_there_before_somebody_asks(two: Home, tmp_path: Path) -> None:
    assert not two[0].has_index() and list(tmp_path.iterdir()) == []
    two[0].open_index(USUAL)
    assert two[1].has_index() and (tmp_path / "recall.db").exists()


def test_who_is_alone_looks_once(two: Home, tmp_path: Path) -> None:
    alone = IndexFiles(tmp_path, made, chosen=USUAL, alone=True)
    assert not alone.has_index()
    two[0].open_index(USUAL)
    assert (
        two[1].has_index()
        and not alone.has_index()
        and IndexFiles(tmp_path, made, chosen=USUAL, alone=True).has_index()
    )


def test_an_index_is_opened_once(two: Home) -> None:
    assert two[0].open_index(USUAL) is two[0].open_index(USUAL)
    assert two[0].open_index(USUAL) is not two[0].open_index(SearchTerms(per_path=9))


def test_what_is_stored_differently_has_a_file_of_its_own(two: Home, tmp_path: Path) -> None:
    assert two[0].path_for(SearchTerms(per_path=9, lexical_percent=1)) == tmp_path / "recall.db"
    assert two[0].path_for(OTHER) == tmp_path / "recall-hybrid_embeddings-openai-text_3_small.db"


def test_a_file_that_was_removed_is_made_anew(two: Home, tmp_path: Path) -> None:
    index = two[0].open_index(USUAL)
    index.index([version(1, "feed")])
    (tmp_path / "recall.db").unlink()
    assert two[0].open_index(USUAL).head() == 0 and two[1].open_index(USUAL).head() == 0
    two[1].open_index(USUAL).index([version(1, "feed")])
    assert found(two[0].open_index(USUAL), "feed") == ["global/1.md"]


def test_a_fresh_index_takes_the_place_of_one_that_others_have_open(two: Home) -> None:
    one, other = two
    old = other.open_index(USUAL)
    old.index([version(1, "old feed")])
    fresh = one.new_index(USUAL)
    fresh.index([version(1, "new feed"), version(2, "more feed")])
    assert found(old, "feed") == ["global/1.md"]
    fresh.close()
    one.install_new_index(USUAL)
    # Who reads the old one reads it to the end, and what it still writes there meets nobody.
    assert found(old, "old") == ["global/1.md"]
    old.index([version(2, "lost feed")])
    assert other.open_index(USUAL) is not old
    assert found(other.open_index(USUAL), "old") == []
    assert sorted(found(other.open_index(USUAL), "feed")) == ["global/1.md", "global/2.md"]
    other.open_index(USUAL).index([version(3, "third feed")])
    assert len(found(one.open_index(USUAL), "feed")) == 3


def test_a_fresh_index_that_was_not_finished_is_gone_on_with(two: Home) -> None:
    fresh = two[0].new_index(USUAL)
    fresh.index([version(1, "feed")])
    fresh.close()
    again = two[1].new_index(USUAL)
    assert again.head() == 1
    again.close()
    assert not two[0].has_index()
