"""The score of words grows with how often, and with how rare; not with anything else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapebook.search.query import COMMON, MAX_TERM_SCORE, PIVOT, term_saturation, term_weight


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_rarer_term_says_more(chunks: int, more: int) -> None:
    assert term_weight(chunks) >= term_weight(chunks + more) >= 0
    assert term_weight(0) == term_weight(1) > term_weight(COMMON) > 0


@given(st.integers(1, 62), st.integers(1, 60_000))
def test_more_often_in_less_text_counts_more(times: int, length: int) -> None:
    def one(often: float, long: float) -> float:
        return float(term_saturation(np.array([often]), np.array([long]))[0])

    assert 0 < one(times, length) < one(times + 1, length) < MAX_TERM_SCORE
    assert one(times, length + 1) < one(times, length)
    assert one(1.0, PIVOT) == 1.0
