"""Readings as vectors whose plain distance means something: every field in its own spread, correlations taken out.

`fitted` looks at past situations only, and what it finds is stored as a fact. Nothing here depends
on a library for linear algebra or on the order in which it adds:

1. a field becomes (reading − median) × 64 / scale in integers, a scale being 1.4826 × the median deviation;
2. the covariance of those is summed in integers, shrunk towards the identity, and factored by Cholesky in
   plain Python; the inverse of the factor, in 1/256, is the matrix;
3. a vector is matrix × fields / 256, kept within ±1023. All products of two vectors add up to less than
   2²⁴, so float32 holds every one of them and every partial sum exactly.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.experience.fits import Fit
from tapebook.experience.pages import MISSING
from tapebook.experience.sights import FIELDS, UNIT, Reading

Readings = NDArray[np.int16]
Vectors = NDArray[np.float32]
Steps = NDArray[np.int32]
Number = TypeVar("Number", np.int32, np.float32)

WIDTH = len(FIELDS)
DEVIATION = 64
MOST = 1_023
FAR_SHARE = 0.99
_ONE = 256
_SHIFT = 14
_HALF = 1 << (_SHIFT - 1)
_SHRINK = 0.1
_LEAST_SCALE, _MOST_SCALE = UNIT // 16, 16 * UNIT
# 15 × 15 × 1,024 products: below that, a library for linear algebra does not call in threads, which would wait for
# one another on a busy machine.
_BLOCK = 1_024
_LOO_BLOCK = 256


def fitted(readings: Readings, *, last: int) -> Fit:
    """The fit of some readings, of which the newest is situation number `last`."""
    fields = readings.T.astype(np.int64)
    scales = [_median_and_multiplier(field[field != MISSING]) for field in fields]
    medians, multipliers = tuple(each[0] for each in scales), tuple(each[1] for each in scales)
    scaled = _scaled(readings, _steps(medians, multipliers, len(readings))).astype(np.int64)
    sums = np.einsum("ij,kj->ik", scaled, scaled)
    covariance = [[int(sums[i, k]) / (len(readings) * DEVIATION**2) for k in range(WIDTH)] for i in range(WIDTH)]
    matrix = tuple(tuple(round(_ONE * each) for each in row) for row in _whitener(covariance))
    fit = Fit(last - len(readings) + 1, last, medians, multipliers, matrix, 0)
    return msgspec.structs.replace(fit, far=_far(vectors(fit, readings)))


def vectors(fit: Fit, readings: Readings, out: Vectors | None = None) -> Vectors:
    """Readings as columns of whole numbers, in a new array or in `out`."""
    matrix, steps = matrix_of(fit), _steps(fit.medians, fit.multipliers, min(_BLOCK, len(readings)))
    found = np.empty((WIDTH, len(readings)), np.float32) if out is None else out
    for start in range(0, len(readings), _BLOCK):
        scaled = _scaled(readings[start : start + _BLOCK], steps)
        found[:, start : start + _BLOCK] = _whole(np.matmul(matrix, scaled))
    return found


def matrix_of(fit: Fit) -> NDArray[np.float32]:
    """The matrix of a fit with its 1/256 in it: a power of two, so nothing is rounded."""
    return np.array(fit.matrix, np.float32) * np.float32(1 / _ONE)


def vector_of(fit: Fit, matrix: NDArray[np.float32], reading: Reading) -> list[int]:
    """One reading as a vector; `matrix` is that of the fit. Small arrays cost more than Python's own integers."""
    fields = [
        0 if value is None else ((value - median) * multiplier + _HALF) >> _SHIFT
        for value, median, multiplier in zip(reading, fit.medians, fit.multipliers, strict=True)
    ]
    return _within(list(map(round, matrix.dot(np.array(_within(fields), np.float32)).tolist())))


def _within(numbers: list[int]) -> list[int]:
    """Keeps all within bounds; looking first is cheaper, since hardly any are beyond."""
    if min(numbers) >= -MOST and max(numbers) <= MOST:
        return numbers
    return [-MOST if each < -MOST else MOST if each > MOST else each for each in numbers]


def _whole(block: NDArray[np.float32]) -> NDArray[np.float32]:
    return _cut(np.rint(block, out=block))


def squares(columns: Vectors) -> NDArray[np.int32]:
    """The squared length of every column."""
    lengths: NDArray[np.int32] = np.einsum("ij,ij->j", columns, columns).astype(np.int32)
    return lengths


def _median_and_multiplier(known: NDArray[np.int64]) -> tuple[int, int]:
    """The middle of a field and what its distance from there is multiplied with; 0 ignores a field nobody saw."""
    if not len(known):
        return 0, 0
    middle = _median(known)
    away = np.abs(known - middle)
    # Where more than half are equal the median deviation is zero, and the mean one still says something.
    scale = 1.4826 * _median(away) or 1.2533 * int(away.sum()) / len(away) or float(UNIT)
    return middle, round(DEVIATION * 2**_SHIFT / min(max(scale, _LEAST_SCALE), _MOST_SCALE))


def _median(values: NDArray[np.int64]) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2])


def _steps(medians: Sequence[int], multipliers: Sequence[int], width: int) -> tuple[Steps, Steps]:
    """What fields are multiplied with and what is added, as wide as a block: a third of the time of one column."""
    offsets = [_HALF - median * multiplier for median, multiplier in zip(medians, multipliers, strict=True)]
    wide = [np.repeat(np.array(each, np.int32)[:, None], width, axis=1) for each in (multipliers, offsets)]
    return wide[0], wide[1]


def _scaled(readings: Readings, steps: tuple[Steps, Steps]) -> NDArray[np.float32]:
    """Fields as rows in 1/64 of their spread, whole numbers; what is not known is in the middle."""
    # Row by row first: in packed rows they stand at odd places, which is slow to read across.
    fields = np.ascontiguousarray(np.ascontiguousarray(readings).T)
    scaled = fields.astype(np.int32)
    scaled *= steps[0][:, : len(readings)]
    scaled += steps[1][:, : len(readings)]
    scaled >>= _SHIFT
    np.copyto(scaled, 0, where=fields == MISSING)
    return _cut(scaled).astype(np.float32)


def _cut(block: NDArray[Number]) -> NDArray[Number]:
    """Keeps all within bounds; looking first is cheaper, since hardly any are beyond."""
    if block.max() > MOST or block.min() < -MOST:
        np.clip(block, -MOST, MOST, out=block)
    return block


def _whitener(covariance: list[list[float]]) -> list[list[float]]:
    """The inverse of the Cholesky factor of a covariance drawn towards the identity."""
    shrunk = [
        [(1 - _SHRINK) * value + (_SHRINK if i == k else 0.0) for k, value in enumerate(row)]
        for i, row in enumerate(covariance)
    ]
    factor = _cholesky(shrunk)
    size = len(factor)
    inverse = [[0.0] * size for _ in range(size)]
    for k in range(size):
        for i in range(k, size):
            rest = math.fsum(factor[i][j] * inverse[j][k] for j in range(k, i))
            inverse[i][k] = ((1.0 if i == k else 0.0) - rest) / factor[i][i]
    return inverse


def _cholesky(matrix: list[list[float]]) -> list[list[float]]:
    size = len(matrix)
    factor = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for k in range(i + 1):
            rest = matrix[i][k] - math.fsum(factor[i][j] * factor[k][j] for j in range(k))
            factor[i][k] = math.sqrt(rest) if i == k else rest / factor[k][k]
    return factor


def _far(columns: Vectors) -> int:
    """The squared distance to the nearest other situation that all but one in a hundred keep to."""
    lengths, count = squares(columns), columns.shape[1]
    nearest: list[Any] = []
    for start in range(0, count, _LOO_BLOCK):
        part = columns[:, start : start + _LOO_BLOCK]
        dots = np.einsum("ij,ik->jk", part, columns).astype(np.int32)
        away = lengths[start : start + _LOO_BLOCK, None] + lengths[None, :] - 2 * dots
        away[np.arange(len(away)), np.arange(start, start + len(away))] = np.iinfo(np.int32).max
        nearest += away.min(axis=1).tolist()
    return int(sorted(nearest)[math.ceil(FAR_SHARE * count) - 1])
