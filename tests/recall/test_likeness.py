"""Likeness: a row is as like a question as its most alike vector, at most and exactly, in every scope."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.recall import sketch
from tapebook.recall.likeness import Likeness, PartLikeness
from tapebook.recall.sketch import Sketch
from tapebook.recall.vectors import cosines, quantised

COUNTS = st.lists(st.sampled_from((1, 1, 2, 3, 9)), max_size=40)


@given(st.lists(st.tuples(COUNTS, st.integers(0, 30)), min_size=1, max_size=3), st.booleans(), st.data())
def test_it_is_that_of_the_most_alike_vector(
    scopes: list[tuple[list[int], int]], short: bool, data: st.DataObject
) -> None:
    question = quantised(np.random.default_rng(9).normal(size=(1, 16)))[0]
    parts: list[PartLikeness] = []
    expected: list[float] = []
    nearest: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch, "BLOCK", 8)
        for counts, missing in scopes:
            edges = np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64)
            made = quantised(np.random.default_rng(len(expected)).normal(size=(int(edges[-1]), 16)))
            kept = made[: max(0, len(made) - missing)]
            sketched = Sketch()
            if short:
                sketched.grow(kept)
            parts.append(PartLikeness(question, kept, edges, sketch=sketched, base=len(expected)))
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                # A row some of whose vectors are missing has none.
                found = cosines(kept[low:high], question) if high <= len(kept) else np.zeros(1)
                expected.append(float(found.max()))
                nearest.append(int(found.argmax()))
        likeness = Likeness(parts)
        assert len(likeness.at_most) == len(expected)
        assert (likeness.at_most >= np.array(expected)).all()
        if not short:
            assert likeness.at_most.tolist() == expected
        chosen = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected))))
        assert likeness.exact(chosen).tolist() == [expected[at] for at in chosen]
        assert likeness.at_most[chosen].tolist() == [expected[at] for at in chosen]
        assert [likeness.closest(at) for at in range(len(expected))] == nearest
