"""Vectors follow their model: another one makes them anew, one that failed leaves them for the next time."""

from collections.abc import Sequence
from contextlib import closing

import numpy as np
import pytest
from numpy.typing import NDArray

from tapebook.errors import Retry
from tapebook.search.index import IndexTerms
from tapebook.search.query import EMBED_BATCH, Bm25Index, HybridIndex
from tapebook.search.store import IndexStore
from tests.search.embedding_server import vector
from tests.search.sample_docs import Paper, as_bytes, asked, paper

TERMS = IndexTerms("", minimum_percent=1)


class Letters:
    """A model that looks at letters, counts what it is asked for, and can fail."""

    def __init__(self, name: str = "letters", *, dimension: int = 16, is_local: bool = True) -> None:
        self.name = name
        self.is_local = is_local
        self.dimension = dimension
        self.made = self.asked = 0
        self.fails_after = 10**9

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """A row each."""
        self.made += len(texts)
        if self.made > self.fails_after:
            raise Retry("no answer")
        return np.array([vector(text, dimension=self.dimension) for text in texts])

    def embed_question(self, text: str) -> NDArray[np.float64]:
        """A row."""
        self.asked += 1
        return np.array(vector(text, dimension=self.dimension))

    def knows_word(self, _word: str) -> bool:
        """It has seen every letter."""
        return True


def papers(count: int) -> list[Paper]:
    """Short documents."""
    return [paper(at, f"{at}.md", f"document w{at}w of {'abcdefgh'[at % 8] * 5}") for at in range(1, count + 1)]


def test_only_new_rows_are_embedded() -> None:
    with closing(IndexStore(":memory:")) as store:
        model = Letters()
        index = HybridIndex(store, TERMS, model)
        index.index(papers(10))
        assert model.made == 10 and index.head() == 10
        index.index(papers(12))
        index.index(papers(12))
        assert model.made == 12 and index.head() == 12


def test_another_model_embeds_all_of_them_and_the_old_vectors_go() -> None:
    with closing(IndexStore(":memory:")) as store:
        old, new = Letters("old"), Letters("new", dimension=24)
        HybridIndex(store, TERMS, old).index(papers(10))
        index = HybridIndex(store, TERMS, new)
        # Nothing is wholly indexed until its vectors are there.
        assert index.head() == 0
        index.index([])
        assert index.head() == 10 and new.made == 10
        assert store.find_model("old") is None
        with closing(IndexStore(":memory:")) as fresh:
            alone = HybridIndex(fresh, TERMS, Letters("new", dimension=24))
            alone.index(papers(10))
            assert as_bytes(asked(index, "aaaaaz")) == as_bytes(asked(alone, "aaaaaz"))


def test_a_model_that_changed_its_dimension_is_another() -> None:
    with closing(IndexStore(":memory:")) as store:
        model = Letters()
        index = HybridIndex(store, TERMS, model)
        index.index(papers(10))
        model.dimension = 32
        # Vectors of the two lengths are never compared.
        assert asked(index, "aaaaaz").citations == ()
        index.index(papers(11))
        found = store.find_model("letters")
        assert found is not None and found.dimension == 32 and store.embedded_count(found, 1) == 11
        assert asked(index, "aaaaaz").citations


def test_words_are_found_while_vectors_are_missing() -> None:
    with closing(IndexStore(":memory:")) as store:
        model, count = Letters(), EMBED_BATCH + 40
        model.fails_after = EMBED_BATCH
        index = HybridIndex(store, TERMS, model)
        with pytest.raises(Retry):
            index.index(papers(count))
        assert index.head() == EMBED_BATCH and store.head() == count
        assert asked(index, f"w{count}w", seq=count).citations[0].path == f"{count}.md"
        model.fails_after = 10**9
        index.index(papers(count)[EMBED_BATCH:])
        assert index.head() == count and model.made == EMBED_BATCH + 40 + 40


def test_an_index_of_words_leaves_vectors_to_be_made_later() -> None:
    with closing(IndexStore(":memory:")) as store:
        Bm25Index(store, TERMS).index(papers(5))
        index = HybridIndex(store, TERMS, Letters())
        assert index.head() == 0
        index.index(papers(5))
        assert index.head() == 5


@pytest.mark.parametrize(("is_local", "times"), [(True, 3), (False, 1)])
def test_a_server_is_asked_once_for_a_question(is_local: bool, times: int) -> None:
    with closing(IndexStore(":memory:")) as store:
        model = Letters(is_local=is_local)
        index = HybridIndex(store, TERMS, model)
        index.index(papers(3))
        answers = {as_bytes(asked(index, "what of aaaaa")) for _ in range(3)}
        assert len(answers) == 1 and model.asked == times


def test_without_weight_meaning_is_not_asked_for() -> None:
    with closing(IndexStore(":memory:")) as store:
        model = Letters()
        index = HybridIndex(store, IndexTerms("", semantic_percent=0), model)
        index.index(papers(3))
        assert [each.source for each in asked(index, "document").citations] == ["fts"] * 3 and model.asked == 0
