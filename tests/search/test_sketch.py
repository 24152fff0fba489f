"""Short forms: their bounds are never too low, whatever the vectors are, and near where vectors are alike."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tapebook.search import query
from tapebook.search.query import LowRankBounds
from tapebook.search.store import cosine_similarities, quantise
from tests.matrix import examples

BLOCK = 64


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query, "BLOCK", BLOCK)
        yield


def made(seed: int, count: int, dimension: int, *, kind: str = "even") -> NDArray[np.void]:
    """Vectors of a kind."""
    chance = np.random.default_rng(seed)
    rows = chance.normal(size=(count, dimension))
    if kind == "few directions":
        rows = chance.normal(size=(count, 3)) @ chance.normal(size=(3, dimension)) + 0.01 * rows
    elif kind == "all alike":
        rows[:] = rows[0]
    elif kind == "one number each":
        rows *= rows == np.abs(rows).max(axis=1, keepdims=True)
    elif kind == "some zeros":
        rows[::3] = 0.0
    return quantise(rows)


KINDS = st.sampled_from(("even", "few directions", "all alike", "one number each", "some zeros"))


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6), st.sampled_from((1, 2, 7, 64, 256, 1_536)), KINDS, KINDS)
def test_no_bound_is_too_low(seed: int, dimension: int, kind: str, other: str) -> None:
    vectors = made(seed, 3 * BLOCK + 5, dimension, kind=kind)
    short = LowRankBounds()
    short.grow(vectors)
    assert len(short) == 3 * BLOCK
    strangers = made(seed + 1, 3, dimension, kind=other)
    for question in (vectors[0], vectors[-1], *strangers):
        assert (short.bounds(question) >= cosine_similarities(vectors, question)[: len(short)]).all()


def test_opposite_and_equal_vectors_are_within_their_bounds() -> None:
    rows = np.random.default_rng(3).normal(size=(BLOCK, 256))
    vectors = quantise(np.concatenate([rows, -rows]))
    short = LowRankBounds()
    short.grow(vectors)
    for question in vectors[::7]:
        found = cosine_similarities(vectors, question)
        assert found.max() == 1.0 and found.min() == -1.0
        assert (short.bounds(question) >= found).all()


def test_bounds_are_near_where_vectors_lie_near_few_directions() -> None:
    vectors = made(4, 4 * BLOCK, 256, kind="few directions")
    short = LowRankBounds()
    short.grow(vectors)
    gaps = short.bounds(vectors[5]) - cosine_similarities(vectors, vectors[5])
    assert gaps.min() >= 0 and gaps.max() < 0.05


@given(st.lists(st.integers(0, 3 * BLOCK), min_size=1, max_size=5))
def test_it_grows_by_whole_blocks_and_keeps_what_it_has(sizes: list[int]) -> None:
    vectors = made(6, sum(sizes), 32)
    short, count = LowRankBounds(), 0
    for size in sizes:
        before = short.bounds(vectors[0]) if count else np.zeros(0)
        count += size
        short.grow(vectors[:count])
        assert len(short) == count // BLOCK * BLOCK
        if count:
            found = short.bounds(vectors[0])
            assert found[: len(before)].tolist() == before.tolist()
            assert (found >= cosine_similarities(vectors[: len(short)], vectors[0])).all()
