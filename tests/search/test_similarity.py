"""Similarity: a row is as like a question as its most alike vector, in every scope."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.query import Similarity

COUNTS = st.lists(st.sampled_from((1, 1, 2, 3, 9)), max_size=40)


@given(st.lists(st.tuples(COUNTS, st.integers(0, 30)), min_size=1, max_size=3))
def test_it_is_that_of_the_most_alike_vector(scopes: list[tuple[list[int], int]]) -> None:
    parts = []
    expected: list[float] = []
    nearest: list[int] = []
    for counts, missing in scopes:
        edges = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)
        made = np.random.default_rng(len(expected)).normal(size=int(edges[-1]))
        cosines = made[: max(0, len(made) - missing)]
        parts.append((cosines, edges))
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            # A row some of whose vectors are missing has none.
            found = cosines[low:high] if high <= len(cosines) else np.zeros(1)
            expected.append(float(found.max()))
            nearest.append(int(found.argmax()))
    similarity = Similarity(parts)
    assert similarity.cosines.tolist() == expected
    assert [similarity.closest(at) for at in range(len(expected))] == nearest
