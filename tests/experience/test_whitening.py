"""Whitening: exact integers whatever adds them up, spreads of one, correlations gone, and fits with a window."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.units import DAY, HOUR
from tapebook.experience.features import FEWEST_TO_FIT, FIELDS, MISSING, Fit, feature_vector_of, refit_due
from tapebook.experience.situations import (
    DEVIATION,
    MOST_COORDINATE,
    FeatureRows,
    fit_whitening,
    squared_lengths,
    whitened_vector,
    whitened_vectors,
    whitening_matrix,
)
from tests.experience.makers import sight
from tests.matrix import examples


def readings(seed: int, count: int) -> FeatureRows:
    rng = random.Random(seed)
    rows = [[MISSING if each is None else each for each in feature_vector_of(sight(rng))] for _ in range(count)]
    return np.array(rows, np.int16)


def exact(fit: Fit, reading: list[int]) -> list[int]:
    """The vector of a reading in Python's integers."""
    fields = []
    for value, median, multiplier in zip(reading, fit.medians, fit.multipliers, strict=True):
        scaled = 0 if value == MISSING else ((value - median) * multiplier + 2**13) >> 14
        fields.append(max(-MOST_COORDINATE, min(MOST_COORDINATE, scaled)))
    found = []
    for row in fit.matrix:
        total = sum(weight * field for weight, field in zip(row, fields, strict=True))
        low, rest = divmod(total, 256)
        # Half to even, as rint does.
        found.append(max(-MOST_COORDINATE, min(MOST_COORDINATE, low + (rest > 128 or (rest == 128 and low % 2)))))
    return found


EXTREMES = st.sampled_from([MISSING, -32_000, 32_000, 0]) | st.integers(-32_000, 32_000)


@given(st.lists(st.lists(EXTREMES, min_size=len(FIELDS), max_size=len(FIELDS)), min_size=1, max_size=20))
@settings(max_examples=examples(60))
def test_vectors_and_products_are_exact_integers(rows: list[list[int]]) -> None:
    fit = fit_whitening(readings(1, 200), last=200)
    columns = whitened_vectors(fit, np.array(rows, np.int16))
    whole = [exact(fit, row) for row in rows]
    assert columns.T.astype(np.int64).tolist() == whole
    products = [[sum(a * b for a, b in zip(one, two, strict=True)) for two in whole] for one in whole]
    # By BLAS, by numpy's own loops, in single precision and in any order: the same integers.
    assert (columns.T @ columns).astype(np.int64).tolist() == products
    assert np.einsum("ij,ik->jk", columns[::-1], columns[::-1]).astype(np.int64).tolist() == products
    assert squared_lengths(columns).tolist() == [products[i][i] for i in range(len(rows))]


@given(st.lists(st.none() | EXTREMES.filter(lambda each: each != MISSING), min_size=len(FIELDS), max_size=len(FIELDS)))
@settings(max_examples=examples(60))
def test_one_reading_is_the_same_vector_as_among_many(reading: list[int | None]) -> None:
    fit = fit_whitening(readings(1, 200), last=200)
    row = [MISSING if each is None else each for each in reading]
    alone = whitened_vector(fit, whitening_matrix(fit), tuple(reading))
    assert alone == exact(fit, row)
    assert alone == whitened_vectors(fit, np.array([row], np.int16))[:, 0].tolist()


def test_worst_case_fits_into_single_precision() -> None:
    assert len(FIELDS) * MOST_COORDINATE * MOST_COORDINATE < 2**24
    fit = fit_whitening(readings(1, 500), last=500)
    assert max(sum(abs(each) for each in row) for row in fit.matrix) * MOST_COORDINATE < 2**24


def test_whitened_past_has_unit_spread_and_no_correlation() -> None:
    rows = readings(3, 2_000)
    fit = fit_whitening(rows, last=2_000)
    columns = whitened_vectors(fit, rows).astype(np.float64) / DEVIATION
    covariance = columns @ columns.T / columns.shape[1]
    off = covariance - np.diag(np.diag(covariance))
    assert np.abs(off).max() < 0.15
    # Shrinking towards the identity leaves spreads near one, and next to nothing of what another field says already.
    spread = sorted(np.diag(covariance).tolist())
    assert spread[-1] < 1.15
    assert sum(each > 0.85 for each in spread) >= 10


def test_field_nobody_saw_is_ignored_and_a_constant_one_is_not() -> None:
    rows = readings(4, 300)
    rows[:, 0], rows[:, 1] = MISSING, 500
    fit = fit_whitening(rows, last=300)
    assert (fit.medians[0], fit.multipliers[0]) == (0, 0)
    plain = rows[:1].copy()
    other, moved = plain.copy(), plain.copy()
    other[0, 0], moved[0, 1] = 9_000, 9_000
    assert (whitened_vectors(fit, other) == whitened_vectors(fit, plain)).all()
    assert (whitened_vectors(fit, moved) != whitened_vectors(fit, plain)).any()


def test_far_is_the_99th_of_a_hundred_nearest_distances() -> None:
    rows = readings(5, 300)
    fit = fit_whitening(rows, last=300)
    whole = [exact(fit, row) for row in rows.tolist()]
    nearest = []
    for i, one in enumerate(whole):
        others = (two for k, two in enumerate(whole) if k != i)
        nearest.append(min(sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for two in others))
    assert fit.far == sorted(nearest)[296]


@given(st.integers(0, 2**31), st.integers(1, 70), st.sampled_from((1, 12, 72)))
@settings(max_examples=examples(20))
def test_the_nearest_other_of_a_moment_is_a_day_away_at_least(seed: int, count: int, hours: int) -> None:
    rng, rows = random.Random(seed), readings(seed, count)
    # In no order: with several symbols, moments need not join in that of time.
    moments = [rng.randrange(hours) * HOUR for _ in range(count)]
    fit = fit_whitening(rows, last=count, moments=moments)
    whole = list(zip([exact(fit, row) for row in rows.tolist()], moments, strict=True))
    nearest = []
    for one, at in whole:
        away = [sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for two, t in whole if abs(t - at) >= DAY]
        nearest.append(min(away, default=2**31 - 1))
    assert fit.far == sorted(nearest)[math.ceil(0.99 * count) - 1]


def test_fit_is_the_same_each_time_and_names_its_window() -> None:
    one, two = fit_whitening(readings(6, 150), last=400), fit_whitening(readings(6, 150), last=400)
    assert one == two
    assert (one.first, one.last) == (251, 400)
    assert len(one.medians) == len(FIELDS)


@pytest.mark.parametrize(
    ("count", "last", "due"), [(99, 0, False), (100, 0, True), (124, 100, False), (125, 100, True)]
)
def test_refit_is_due_after_a_quarter_more(count: int, last: int, due: bool) -> None:
    fit = fit_whitening(readings(1, FEWEST_TO_FIT), last=last) if last else None
    assert refit_due(count, fit) is due
