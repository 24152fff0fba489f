"""Numbers from a seed: the same everywhere, evenly spread, within their bounds."""

import hashlib

import numpy as np
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tapebook.backtest.baselines import uniform_below, uniform_u64


def test_the_bytes_are_those_of_shake() -> None:
    assert uniform_u64("seed", 2).tobytes() == hashlib.shake_256(b"seed").digest(16)
    assert uniform_u64("seed", 5)[:3].tolist() == uniform_u64("seed", 3).tolist() != uniform_u64("seed 2", 3).tolist()
    assert len(uniform_u64("seed", 0)) == 0


@given(st.text(max_size=20), st.lists(st.integers(1, 2**31), min_size=1, max_size=50))
def test_draws_stay_below_their_bounds(seed: str, bounds: list[int]) -> None:
    most = np.array(bounds, dtype=np.int64)
    drawn = uniform_below(uniform_u64(seed, len(bounds)), most)
    assert (drawn >= 0).all() and (drawn < most).all()


def test_draws_are_even() -> None:
    drawn = uniform_below(uniform_u64("even", 60_000), np.full(60_000, 12))
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=12)).pvalue > 1e-3
