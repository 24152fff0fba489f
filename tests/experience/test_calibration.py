"""Calibration: buckets of confidence, hit rates with intervals, and a curve that never falls."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.estimate import rate_estimate
from tapebook.experience.records import (
    CONFIDENCE,
    Record,
    believed_rates_e4,
    calibration_curve,
    confidence_bucket,
    isotonic_regression,
)


@pytest.mark.parametrize(
    ("confidence", "bucket"),
    [(0, "0.0-0.1"), (999, "0.0-0.1"), (1_000, "0.1-0.2"), (6_400, "0.6-0.7"), (9_999, "0.9-1.0"), (10_000, "0.9-1.0")],
)
def test_buckets(confidence: int, bucket: str) -> None:
    assert confidence_bucket(confidence) == bucket


def test_point_has_n_and_wilson_interval() -> None:
    (point,) = calibration_curve([("0.6-0.7", 40, 22), ("0.1-0.2", 0, 0)], prior=10)
    assert (point.bucket, point.observed) == ("0.6-0.7", rate_estimate(22, 40))
    assert point.believed == pytest.approx(22 / 40)


def test_small_buckets_are_drawn_to_the_overall_rate() -> None:
    points = calibration_curve([("0.2-0.3", 200, 80), ("0.8-0.9", 2, 2)], prior=10)
    overall = 82 / 202
    assert overall < points[1].believed < 0.6
    assert points[0].believed == pytest.approx(0.4, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50), st.integers(0, 50)), max_size=10))
def test_curve_never_falls_and_stays_a_rate(found: list[tuple[int, int, int]]) -> None:
    counts = {place: (n, min(n, wins)) for place, n, wins in found}
    points = calibration_curve(
        [(confidence_bucket(place * 1_000), n, wins) for place, (n, wins) in counts.items()], prior=10
    )
    levels = [point.believed for point in points]
    assert levels == sorted(levels)
    assert all(0 <= level <= 1 for level in levels)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=5))
def test_isotonic_is_the_nearest_of_all_on_a_grid(pairs: list[tuple[int, int]]) -> None:
    values, weights = [float(value) for value, _ in pairs], [float(weight) for _, weight in pairs]

    def away(levels: tuple[float, ...] | list[float]) -> float:
        return sum(w * (v - level) ** 2 for v, w, level in zip(values, weights, levels, strict=True))

    grid = (step / 2 for step in range(13))
    best = min(away(levels) for levels in itertools.combinations_with_replacement(list(grid), len(values)))
    found = isotonic_regression(values, weights)
    assert found == sorted(found)
    assert away(found) <= best + 1e-9


def test_believed_rates_cap_only_tenths_with_enough_trades() -> None:
    records = {
        (CONFIDENCE, name): Record(CONFIDENCE, name, n, wins)
        for name, n, wins in (("0.2-0.3", 19, 0), ("0.5-0.6", 40, 10), ("0.9-1.0", 60, 30))
    }
    found = believed_rates_e4(records, prior=10.0, fewest=20)
    assert [found[place] for place in (0, 2, 3, 8)] == [10_000] * 4
    curve = {
        each.bucket: each.believed
        for each in calibration_curve([(r.name, r.n, r.wins) for r in records.values()], prior=10.0)
    }
    assert (found[5], found[9]) == (round(10_000 * curve["0.5-0.6"]), round(10_000 * curve["0.9-1.0"]))
    assert found[5] <= found[9] < 5_000
    assert believed_rates_e4({}, prior=10.0, fewest=20) == (10_000,) * 10
