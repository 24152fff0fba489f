"""Vectors of whole numbers: products are exact, and cosines stay near those of the floats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tapebook.search.store import cosine_similarities, quantise


def rows(seed: int, count: int, dimension: int) -> NDArray[np.float64]:
    """Rows of numbers."""
    return np.random.default_rng(seed).normal(size=(count, dimension))


@given(st.integers(0, 10**6), st.sampled_from((1, 2, 64, 256, 1_536, 4_096)))
def test_products_are_exact_whoever_adds(seed: int, dimension: int) -> None:
    made = quantise(rows(seed, 5, dimension))
    whole = made["values"].astype(np.int64)
    squares = (whole**2).sum(axis=1)
    assert squares.tolist() == made["square"].tolist() and squares.max() < 2**24
    exact = (whole @ whole[0]) / np.sqrt((squares * squares[0]).astype(np.float64))
    assert cosine_similarities(made, made[0]).tolist() == exact.tolist()


def test_even_numbers_of_many_dimensions_are_exact_too() -> None:
    made = quantise(np.ones((2, 4_096)))
    assert made["square"].max() < 2**24 and cosine_similarities(made, made[0]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dimension", [64, 256, 3_072])
def test_cosines_stay_near(dimension: int) -> None:
    plain = rows(3, 200, dimension)
    unit = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    made = quantise(plain)
    assert np.abs(cosine_similarities(made, made[7]) - unit @ unit[7]).max() < 0.02


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0])
def test_what_is_no_vector_is_like_nothing(bad: float) -> None:
    plain = rows(4, 3, 8)
    plain[1] = bad
    found = cosine_similarities(quantise(plain), quantise(plain)[0])
    assert found[1] == 0.0 and found[0] == 1.0 and np.isfinite(found).all()


def test_none_are_none() -> None:
    assert len(quantise(np.zeros((0, 4)))) == 0


def test_many_blocks_are_as_one() -> None:
    made = quantise(rows(5, 3_000, 16))
    apart = [float(cosine_similarities(made[at : at + 1], made[9])[0]) for at in range(0, 3_000, 97)]
    assert cosine_similarities(made, made[9])[::97].tolist() == apart
