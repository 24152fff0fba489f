"""Likeness: a row is as like a question as its most alike vector, at most and exactly, in every scope."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.search import query
from tapebook.search.query import LowRankBounds, ScopeSimilarity, Similarity
from tapebook.search.store import cosine_similarities, quantise

COUNTS = st.lists(st.sampled_from((1, 1, 2, 3, 9)), max_size=40)


@given(st.lists(st.tuples(COUNTS, st.integers(0, 30)), min_size=1, max_size=3), st.booleans(), st.data())
def test_it_is_that_of_the_most_alike_vector(
    scopes: list[tuple[list[int], int]], short: bool, data: st.DataObject
) -> None:
    question = quantise(np.random.default_rng(9).normal(size=(1, 16)))[0]
    parts: list[ScopeSimilarity] = []
    expected: list[float] = []
    nearest: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query, "BLOCK", 8)
        for counts, missing in scopes:
            edges = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)
            made = quantise(np.random.default_rng(len(expected)).normal(size=(int(edges[-1]), 16)))
            kept = made[: max(0, len(made) - missing)]
            sketched = LowRankBounds()
            if short:
                sketched.grow(kept)
            parts.append(ScopeSimilarity(question, kept, edges, sketch=sketched, base=len(expected)))
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                # A row some of whose vectors are missing has none.
                found = cosine_similarities(kept[low:high], question) if high <= len(kept) else np.zeros(1)
                expected.append(float(found.max()))
                nearest.append(int(found.argmax()))
        likeness = Similarity(parts)
        assert len(likeness.at_most) == len(expected)
        assert (likeness.at_most >= np.array(expected)).all()
        if not short:
            assert likeness.at_most.tolist() == expected
        chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected))))
        assert likeness.exact(chosen).tolist() == [expected[at] for at in chosen]
        assert likeness.at_most[chosen].tolist() == [expected[at] for at in chosen]
        assert [likeness.closest(at) for at in range(len(expected))] == nearest
