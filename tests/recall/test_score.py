"""The score of words grows with how often, and with how rare; not with anything else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapebook.recall.score import COMMON, MOST, PIVOT, saturated, weight


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_rarer_term_says_more(chunks: int, more: int) -> None:
    assert weight(chunks) >= weight(chunks + more) >= 0
    assert weight(0) == weight(1) > weight(COMMON) > 0


@given(st.integers(1, 62), st.integers(1, 60_000))
def test_more_often_in_less_text_counts_more(times: int, length: int) -> None:
    def one(often: float, long: float) -> float:
        return float(saturated(np.array([often]), np.array([long]))[0])

    assert 0 < one(times, length) < one(times + 1, length) < MOST
    assert one(times, length + 1) < one(times, length)
    assert one(1.0, PIVOT) == 1.0
