"""Equity over time: falls, Sharpe ratios and lines against what numpy and scipy say, and against brute force."""

import math
import random
from itertools import accumulate

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.backtest.equity import EquityPoint, deepest_drawdown, midnights, sharpe_ratio, step_returns, thin_points
from tapebook.domain.units import DAY, HOUR
from tests.matrix import examples

T0 = 1_767_571_200_000
equities = st.lists(st.integers(1, 10**12), min_size=1, max_size=60)
returned = st.lists(st.floats(-0.2, 0.2), min_size=5, max_size=80)


@given(equities)
def test_the_deepest_fall_is_that_of_any_two_moments(values: list[int]) -> None:
    pairs = [(values[i], values[j]) for i in range(len(values)) for j in range(i, len(values))]
    found = deepest_drawdown(values)
    assert found.usd_e6 == max(before - after for before, after in pairs)
    assert found.ppm == max(round((before - after) / before * 1e6) for before, after in pairs)


def test_a_series_that_only_rises_has_no_fall() -> None:
    assert deepest_drawdown([1, 2, 2, 5]) == deepest_drawdown([]) == (0, 0)
    assert deepest_drawdown([100, 40, 120, 60]) == (60, 600_000)


@given(returned)
@settings(max_examples=examples(60))
def test_sharpe_is_what_numpy_and_scipy_say(daily: list[float]) -> None:
    found = sharpe_ratio(daily)
    spread = float(np.std(daily, ddof=1))
    if spread < 1e-9:
        return
    assert found is not None
    n, ratio = len(daily), float(np.mean(daily)) / spread
    skew, kurtosis = scipy.stats.skew(daily), scipy.stats.kurtosis(daily, fisher=False)
    error = math.sqrt(max(0.0, (1 - skew * ratio + (kurtosis - 1) / 4 * ratio**2) / n))
    year = math.sqrt(365)
    assert found.n == n
    assert found.value == pytest.approx(ratio * year, rel=1e-9, abs=1e-9)
    assert found.low == pytest.approx((ratio - scipy.stats.norm.ppf(0.975) * error) * year, rel=1e-9, abs=1e-8)
    assert found.high == pytest.approx((ratio + scipy.stats.norm.ppf(0.975) * error) * year, rel=1e-9, abs=1e-8)


def test_the_interval_of_a_sharpe_ratio_holds_the_truth_as_often_as_it_says() -> None:
    rng, truth, held = random.Random(5), 0.1 * math.sqrt(365), 0
    for _ in range(400):
        found = sharpe_ratio([rng.gauss(0.001, 0.01) for _ in range(120)])
        assert found is not None
        held += found.low <= truth <= found.high
    assert 0.91 <= held / 400 <= 0.985


@pytest.mark.parametrize("daily", [[], [0.01], [0.01] * 4, [0.0] * 50, [0.01] * 50])
def test_few_days_or_none_that_differ_have_no_sharpe(daily: list[float]) -> None:
    assert sharpe_ratio(daily) is None


def test_returns_stop_where_nothing_is_left() -> None:
    assert step_returns([100, 110, 99]) == pytest.approx([0.1, -0.1])
    assert step_returns([100, 0, 50]) == [-1.0] and step_returns([100]) == step_returns([]) == []


def test_midnights_include_both_ends() -> None:
    assert list(midnights(T0, T0 + 2 * DAY)) == [T0, T0 + DAY, T0 + 2 * DAY]
    assert list(midnights(T0 + 1, T0 + 2 * DAY - 1)) == [T0 + DAY]
    assert list(midnights(T0 + HOUR, T0 + 2 * HOUR)) == []


@given(st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=400), st.integers(8, 60))
def test_a_thinned_line_keeps_its_ends_its_extremes_and_its_order(steps: list[int], most: int) -> None:
    points = [EquityPoint(T0 + place, value) for place, value in enumerate(accumulate(steps))]
    kept = thin_points(points, most)
    assert len(kept) <= max(most, 4) and kept == sorted(set(kept)) and set(kept) <= set(points)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    values = [point.usd_e6 for point in points]
    assert {min(values), max(values)} <= {point.usd_e6 for point in kept}
