"""What versions change: rows that are new, rows that end, and rows that only moved."""

from contextlib import closing

import pytest

from tapebook.errors import BadInput, StaleWriter
from tapebook.search.indexing import IndexBatchBuilder
from tapebook.search.store import NEVER, IndexStore
from tests.search.sample_docs import Paper, paper


def taken(store: IndexStore, *papers: Paper) -> IndexBatchBuilder:
    """An intake with some versions."""
    intake = IndexBatchBuilder(store)
    for version, body in papers:
        intake.add_version(version, body)
    return intake


def rows(store: IndexStore) -> list[tuple[int, int]]:
    """From when to when each row of the global scope stands."""
    (scope_id,) = store.scope_ids([""])
    return [(int(row["first"]), int(row["end"])) for row in store.rows(scope_id)]


def test_versions_of_one_document_in_one_batch_are_as_in_several() -> None:
    versions = [
        paper(1, "a.md", "# One\n\nfirst\n\n# Two\n\nsecond"),
        paper(2, "a.md", "# Zero\n\nnew\n\n# One\n\nfirst\n\n# Two\n\nsecond"),
        paper(3, "a.md", "# One\n\nfirst\n\n# Two\n\nchanged"),
        paper(4, "a.md", None),
        paper(5, "a.md", "# One\n\nfirst"),
    ]
    expected = [(1, 4), (1, 3), (2, 3), (3, 4), (5, NEVER)]
    with closing(IndexStore(":memory:")) as together, closing(IndexStore(":memory:")) as apart:
        together.write(taken(together, *versions).batch)
        for version in versions:
            apart.write(taken(apart, version).batch)
        assert rows(together) == rows(apart) == expected
        for store in (together, apart):
            places = [
                (seq, found.start_line, found.end_line)
                for seq in (1, 2, 3)
                if (found := store.chunk_as_of(1, 0, seq=seq))
            ]
            assert places == [(1, 1, 3), (2, 5, 7), (3, 1, 3)]


def test_the_same_words_twice_are_two_chunks() -> None:
    with closing(IndexStore(":memory:")) as store:
        intake = taken(store, paper(1, "a.md", "# One\n\nsame\n\n# One\n\nsame"))
        store.write(intake.batch)
        assert intake.new_chunk_count == 2 and [store.chunk_as_of(1, row, seq=1).start_line for row in (0, 1)] == [1, 5]
        again = taken(store, paper(2, "a.md", "# One\n\nsame"))
        assert (again.new_chunk_count, again.kept) == (0, 1)


def test_another_kind_is_another_chunk() -> None:
    with closing(IndexStore(":memory:")) as store:
        store.write(taken(store, paper(1, "a.md", "same")).batch)
        assert taken(store, paper(2, "a.md", "same", kind="journal")).new_chunk_count == 1


def test_scopes_count_their_rows_each_for_itself() -> None:
    with closing(IndexStore(":memory:")) as store:
        store.write(
            taken(store, paper(1, "a.md", "x"), paper(2, "a.md", "y", scope="one"), paper(3, "b.md", "z")).batch
        )
        assert store.scope_ids(["one", "", "nobody"]) == [1, 2]
        assert [len(store.rows(scope_id)) for scope_id in (1, 2)] == [2, 1]


def test_a_batch_behind_somebody_elses_is_not_written() -> None:
    with closing(IndexStore(":memory:")) as store:
        slow = taken(store, paper(1, "a.md", "x"))
        store.write(taken(store, paper(1, "a.md", "x"), paper(2, "b.md", "y")).batch)
        with pytest.raises(StaleWriter):
            store.write(slow.batch)
        assert store.head() == 2 and len(rows(store)) == 2


def test_no_more_kinds_than_fit_a_row() -> None:
    many = [paper(at, f"{at}.md", "x", kind=f"kind {at}") for at in range(1, 300)]
    with closing(IndexStore(":memory:")) as store, pytest.raises(BadInput, match="255 kinds"):
        taken(store, *many)
