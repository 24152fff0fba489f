"""Pages: what is kept in them comes back, however it was cut, and only what changed is read again."""

from contextlib import closing
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.search.indexing import IndexBatchBuilder
from tapebook.search.store import MAX_TERM_COUNT, POSTINGS_PAGE, ROW_PAGE, IndexStore, quantise, unpack_postings
from tests.matrix import examples
from tests.search.sample_docs import paper


def filled(store: IndexStore, first: int, last: int) -> None:
    """One chunk per version, each with the word `each` and one of its own."""
    intake = IndexBatchBuilder(store)
    for seq in range(first, last + 1):
        version, body = paper(seq, f"{seq}.md", f"each w{seq}w {'often ' * (seq % 90)}")
        intake.add_version(version, body)
    store.write(intake.batch)


def test_postings_and_rows_go_over_pages(tmp_path: Path) -> None:
    count = POSTINGS_PAGE + 600
    path = str(tmp_path / "recall.db")
    with closing(IndexStore(path)) as store, closing(IndexStore(path)) as reader:
        for first, last in ((1, 1), (2, 500), (501, ROW_PAGE + 3), (ROW_PAGE + 4, count)):
            filled(store, first, last)
            assert reader.rows(1)["first"].tolist() == list(range(1, last + 1))
        where, often = unpack_postings(store.postings(1, "each", count=count))
        assert where.tolist() == list(range(count)) and set(often.tolist()) == {1.0}
        where, often = unpack_postings(store.postings(1, "often", count=count))
        assert often.tolist() == [min(seq % 90, MAX_TERM_COUNT) for seq in range(1, count + 1) if seq % 90]
        # No page behind the rows that are asked for is read.
        assert len(store.postings(1, "each", count=500)) == 4 * POSTINGS_PAGE
        assert store.postings(1, "absent", count=count) == store.postings(9, "each", count=count) == b""


@settings(max_examples=examples(15))
@given(st.lists(st.integers(1, 200), min_size=1, max_size=5))
def test_vectors_come_back_however_they_were_added(sizes: list[int]) -> None:
    total = sum(sizes)
    with closing(IndexStore(":memory:")) as store:
        filled(store, 1, total)
        # Texts here have one passage, or two.
        counts = store.rows(1)["passages"].astype(int)
        made = quantise(np.random.default_rng(1).normal(size=(int(counts.sum()), 8)))
        model, first = store.ensure_model("m", 8), 0
        for size in sizes:
            end = first + size
            low, high = int(counts[:first].sum()), int(counts[:end].sum())
            store.add_vectors(model, 1, made[low:high], first=first, end=end)
            assert store.vectors(model, 1, count=high).tobytes() == made[:high].tobytes()
            # Somebody who comes too late changes nothing.
            store.add_vectors(model, 1, made[low:high], first=first, end=end)
            first = end
        assert store.embedded_count(model, 1) == total and store.first_seq_without_vectors(model) is None
        assert store.vectors(model, 1, count=5).tobytes() == made[:5].tobytes()


def test_models_are_told_apart_by_name_and_dimension() -> None:
    with closing(IndexStore(":memory:")) as store:
        assert store.find_model("m") is None
        first, second = store.ensure_model("m", 8), store.ensure_model("m", 16)
        assert first == store.ensure_model("m", 8) and store.find_model("m") == second and store.find_model("n") is None
        store.store_question_vector(second, "q", b"x")
        store.drop_other_models(second)
        assert store.find_model("m", 8) is None and store.question_vector(second, "q") == b"x"


def test_counts() -> None:
    with closing(IndexStore(":memory:")) as store:
        filled(store, 1, 3)
        intake = IndexBatchBuilder(store)
        for version, body in (paper(4, "1.md", None), paper(5, "2.md", "other")):
            intake.add_version(version, body)
        store.write(intake.batch)
        counts = store.counts()
        assert (counts.documents, counts.chunks, counts.kept_chunks) == (2, 2, 4) and counts.bytes > 4096
