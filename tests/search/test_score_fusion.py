"""One score of words and meaning, and how many of one source are given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.index import IndexTerms
from tapebook.search.query import MEANING, Caps, add_name_share, fuse_scores


def terms(**more: object) -> IndexTerms:
    """Terms of an index that is not made."""
    return IndexTerms("", **more)  # type: ignore[arg-type]


def test_at_equal_weights_a_likeness_counts_like_a_word() -> None:
    words, likeness = np.array([10.0, 0.0, 10.0, 0.0]), np.array([0.0, 1.0, 1.0, -1.0])
    assert fuse_scores(words, 10.0, likeness, terms()).tolist() == [
        *(10 / (10 + MEANING), MEANING / (10 + MEANING), 1.0, 0.0),
    ]


@pytest.mark.parametrize(("lexical", "semantic", "first"), [(100, 0, 0), (0, 100, 1), (90, 10, 0), (10, 90, 1)])
def test_weights_decide(lexical: int, semantic: int, first: int) -> None:
    chosen = terms(lexical_percent=lexical, semantic_percent=semantic)
    found = fuse_scores(np.array([10.0, 4.0]), 20.0, np.array([0.2, 0.6]), chosen)
    assert found.argmax() == first and (found >= 0).all() and (found <= 1).all()


def test_without_vectors_it_is_the_share_of_words() -> None:
    assert fuse_scores(np.array([5.0]), 20.0, None, terms()).tolist() == [0.25]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=2, max_size=9))
def test_whatever_has_a_name_stands_above(pairs: list[tuple[float, float]]) -> None:
    score, share = np.array([pair[0] for pair in pairs]) * 0.999, np.array([pair[1] for pair in pairs])
    share[0] = 0.0
    one = np.where(share > 0, 1.0, 0.0)
    found = add_name_share(score, one)
    assert found[0] < found[1:].min() and add_name_share(score, None) is score


def test_caps_count_documents_and_kinds() -> None:
    caps = Caps(terms(per_path=2, per_kind={"note": 3, "unheard": 1}), {"note": 1, "journal": 2})
    given_ = [caps.admits(document, kind) for document, kind in ((7, 1), (7, 1), (7, 1), (8, 1), (9, 1), (9, 2))]
    assert given_ == [True, True, False, True, False, True]
    free = Caps(terms(), {})
    assert all(free.admits(1, 1) for _ in range(9))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=30), st.integers(0, 2), st.integers(0, 3))
def test_what_the_caps_leave_is_what_they_would_admit(pairs: list[tuple[int, int]], path: int, kind: int) -> None:
    caps = Caps(terms(per_path=path, per_kind={"note": kind}), {"note": 1, "journal": 2})
    for pair in pairs:
        left = bool(caps.still_admits(np.array([pair[0]], np.uint32), np.array([pair[1]], np.uint8))[0])
        assert caps.admits(*pair) == left
