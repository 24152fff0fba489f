"""Intervals and tests against scipy and printed tables."""

import math

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.estimate import (
    benjamini_hochberg,
    mean_difference,
    mean_estimate,
    rate_estimate,
    student_cdf,
    student_quantile,
)

# Two-sided 95 % points of Student's t, from printed tables.
TABLE = {1: 12.7062, 2: 4.30265, 5: 2.57058, 10: 2.22814, 30: 2.04227, 120: 1.97993}


@pytest.mark.parametrize(("freedom", "t"), TABLE.items())
def test_quantiles_are_those_of_the_tables(freedom: int, t: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(t, rel=1e-5)


@given(st.floats(-50, 50), st.floats(0.5, 500))
def test_the_cdf_is_the_integral_of_the_density(t: float, freedom: float) -> None:
    assert student_cdf(t, freedom) + student_cdf(-t, freedom) == pytest.approx(1, abs=1e-12)
    assert student_cdf(t, freedom) == pytest.approx(scipy.stats.t.cdf(t, freedom), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=40), st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=40))
def test_the_test_of_two_means_is_welchs(one: list[float], other: list[float]) -> None:
    found = mean_difference(one, other)[1]
    assert 0 <= found <= 1
    assert found == pytest.approx(mean_difference(other, one)[1], abs=1e-12)
    # Where a sample hardly spreads, scipy itself warns of cancellation.
    if min(max(one) - min(one), max(other) - min(other)) > 1e-3:
        expected = float(scipy.stats.ttest_ind(one, other, equal_var=False).pvalue)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_a_mean_lies_in_the_middle_of_its_interval(values: list[float]) -> None:
    found = mean_estimate(values)
    assert found.n == len(values)
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(math.fsum(values) / len(values), rel=1e-12, abs=1e-9)


def test_one_observation_says_nothing_of_its_spread() -> None:
    assert (mean_estimate([3.0]).low, mean_estimate([3.0]).high) == (-math.inf, math.inf)
    assert mean_estimate([]).n == 0


@given(st.integers(0, 200), st.integers(1, 200))
def test_a_rate_lies_in_its_interval_and_the_interval_in_the_possible(hits: int, n: int) -> None:
    hits = min(hits, n)
    found = rate_estimate(hits, n)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert rate_estimate(0, 0).n == 0


def test_wilsons_interval_of_a_worked_example() -> None:
    found = rate_estimate(8, 10)
    assert found.low == pytest.approx(0.4902, abs=1e-4)
    assert found.high == pytest.approx(0.9433, abs=1e-4)


def test_of_many_tests_only_those_are_believed_that_stand_out() -> None:
    assert benjamini_hochberg([0.001, 0.2, 0.03, 0.9], false_share=0.05) == [True, False, False, False]
    assert benjamini_hochberg([0.001, 0.2, 0.02, 0.9], false_share=0.05) == [True, False, True, False]
    assert benjamini_hochberg([], false_share=0.05) == []
