"""The past situations of one deployment in memory, and an exact search for those most similar to a given one.

Similarity is the plain distance between whitened feature vectors: every field in its own spread, correlations taken
out. `fit_whitening` looks at past situations only, and its result is stored as a fact. Nothing here depends on a
library for linear algebra or on the order in which it adds:

1. a field becomes (feature − median) × 64 / scale in integers, a scale being 1.4826 × the median deviation;
2. the covariance of those is summed in integers, shrunk towards the identity, and factored by Cholesky in plain
   Python; the inverse of the factor, in 1/256, is the matrix;
3. a vector is matrix × fields / 256, kept within ±1023, or ±960 where it has up to eighteen fields. All products of
   two vectors add up to less than 2²⁴, so float32 holds every one of them and every partial sum exactly.

Situations are kept in the order in which their outcomes became known, so that "as of" is a prefix: a situation is
nobody's neighbour before its own exit. The search looks at all of them, however old, and never at how they ended;
equal distances go by the trade's id.
"""

import math
from collections.abc import Sequence
from operator import mul
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.units import DAY
from tapebook.experience.features import (
    DEFAULT_NEIGHBOURS,
    FEATURE_UNIT,
    FIELDS,
    FIT_WINDOW,
    MISSING,
    FeatureVector,
    Fit,
)
from tapebook.experience.records import LONG, SHORT, Record, records_by_side

FeatureRows = NDArray[np.int16]
Vectors = NDArray[np.float32]
Steps = NDArray[np.int32]
Number = TypeVar("Number", np.int32, np.float32)

# Integers per deviation: fine enough, and the products of two vectors stay below 2²⁴.
DEVIATION = 64
MOST_COORDINATE = 1_023
"""The bound of a coordinate where a vector has at most fifteen."""
# One in a hundred situations counts as novel by this measure.
FAR_SHARE = 0.99
_ONE = 256
_SHIFT = 14
_HALF = 1 << (_SHIFT - 1)
# Few situations make a covariance that can hardly be inverted; a tenth of the identity keeps it away from that.
_SHRINK = 0.1
# A field that hardly moved must not be blown up by its own small spread, nor one with wild outliers vanish.
_LEAST_SCALE, _MOST_SCALE = FEATURE_UNIT // 16, 16 * FEATURE_UNIT
# 15 × 15 × 1,024 products: below that, a library for linear algebra does not call in threads, which would wait for
# one another on a busy machine.
_BLOCK = 1_024
# As many products of rows with all others at once: a library for linear algebra calls in threads above.
_FEW_PRODUCTS = 2**18


def most_coordinate(width: int) -> int:
    """How large a coordinate of vectors of so many fields may be: their products stay below 2²⁴."""
    if width <= 15:
        return MOST_COORDINATE
    if width <= 18:
        return 960
    raise ValueError(f"no bound is known for vectors of {width} fields")


def fit_whitening(readings: FeatureRows, *, last: int, moments: Sequence[int] = ()) -> Fit:
    """The fit of some readings, of which the newest is situation number `last`.

    Where the `moments` of readings are given, what lies within a day of one is not counted as its nearest other.
    """
    fields, width = readings.T.astype(np.int64), readings.shape[1]
    scales = [_median_and_multiplier(field[field != MISSING]) for field in fields]
    medians, multipliers = tuple(each[0] for each in scales), tuple(each[1] for each in scales)
    scaled = _scale(readings, _steps(medians, multipliers, len(readings))).astype(np.int64)
    sums = np.einsum("ij,kj->ik", scaled, scaled)
    covariance = [[int(sums[i, k]) / (len(readings) * DEVIATION**2) for k in range(width)] for i in range(width)]
    matrix = tuple(tuple(round(_ONE * each) for each in row) for row in _whitener(covariance))
    fit = Fit(last - len(readings) + 1, last, medians, multipliers, matrix, 0)
    return msgspec.structs.replace(fit, far=_usual_distance(whitened_vectors(fit, readings), moments))


def whitened_vectors(fit: Fit, readings: FeatureRows, out: Vectors | None = None) -> Vectors:
    """Readings as columns of whole numbers, in a new array or in `out`."""
    matrix, steps = whitening_matrix(fit), _steps(fit.medians, fit.multipliers, min(_BLOCK, len(readings)))
    width = readings.shape[1]
    found = np.empty((width, len(readings)), np.float32) if out is None else out
    for start in range(0, len(readings), _BLOCK):
        scaled = _scale(readings[start : start + _BLOCK], steps)
        found[:, start : start + _BLOCK] = _round_block(np.matmul(matrix, scaled), most_coordinate(width))
    return found


def whitening_matrix(fit: Fit) -> NDArray[np.float32]:
    """The matrix of a fit with its 1/256 in it: a power of two, so nothing is rounded."""
    return np.array(fit.matrix, np.float32) * np.float32(1 / _ONE)


def whitened_vector(fit: Fit, matrix: NDArray[np.float32], reading: Sequence[int | None]) -> list[int]:
    """One reading as a vector; `matrix` is that of the fit."""
    # In Python's own integers: arrays so small cost more than they save. Hardly any are beyond the bounds.
    most = most_coordinate(len(reading))
    fields = [
        0 if value is None else ((value - median) * multiplier + _HALF) >> _SHIFT
        for value, median, multiplier in zip(reading, fit.medians, fit.multipliers, strict=True)
    ]
    if max(map(abs, fields)) > most:
        fields = [max(-most, min(most, each)) for each in fields]
    vector = [round(each) for each in matrix.dot(np.array(fields, np.float32)).tolist()]
    if max(map(abs, vector)) > most:
        vector = [max(-most, min(most, each)) for each in vector]
    return vector


def _round_block(block: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    return _clip_in_place(np.rint(block, out=block), most)


def squared_lengths(columns: Vectors) -> NDArray[np.int32]:
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
    scale = 1.4826 * _median(away) or 1.2533 * int(away.sum()) / len(away) or float(FEATURE_UNIT)
    return middle, round(DEVIATION * 2**_SHIFT / min(max(scale, _LEAST_SCALE), _MOST_SCALE))


def _median(values: NDArray[np.int64]) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2])


def _steps(medians: Sequence[int], multipliers: Sequence[int], width: int) -> tuple[Steps, Steps]:
    """What fields are multiplied with and what is added, as wide as a block."""
    # A third of the time of one column that numpy would spread out each time.
    offsets = [_HALF - median * multiplier for median, multiplier in zip(medians, multipliers, strict=True)]
    wide = [np.repeat(np.array(each, np.int32)[:, None], width, axis=1) for each in (multipliers, offsets)]
    return wide[0], wide[1]


def _scale(readings: FeatureRows, steps: tuple[Steps, Steps]) -> NDArray[np.float32]:
    """Fields as rows in 1/64 of their spread, whole numbers; what is not known is in the middle."""
    # Row by row first: in packed rows they stand at odd places, which is slow to read across.
    fields = np.ascontiguousarray(np.ascontiguousarray(readings).T)
    scaled = fields.astype(np.int32)
    scaled *= steps[0][:, : len(readings)]
    scaled += steps[1][:, : len(readings)]
    scaled >>= _SHIFT
    np.copyto(scaled, 0, where=fields == MISSING)
    return _clip_in_place(scaled, most_coordinate(readings.shape[1])).astype(np.float32)


def _clip_in_place(block: NDArray[Number], most: int) -> NDArray[Number]:
    """Clips a block of coordinates to the bounds."""
    # Looking first is cheaper, since hardly any are beyond.
    if block.max() > most or block.min() < -most:
        np.clip(block, -most, most, out=block)
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


def _usual_distance(columns: Vectors, moments: Sequence[int] = ()) -> int:
    """The squared distance to the nearest other situation that all but one in a hundred keep to."""
    count = columns.shape[1]
    # Which columns a situation is not compared with: with itself, and with what a search is never given either, for
    # that would find the same day once more.
    firsts, lasts = range(count), range(1, count + 1)
    if len(moments):
        times = np.array(moments, np.int64)
        order = times.argsort()
        columns, times = np.ascontiguousarray(columns[:, order]), times[order]
        firsts = times.searchsorted(times - DAY, "right").tolist()
        lasts = times.searchsorted(times + DAY, "left").tolist()
    lengths, nearest = squared_lengths(columns).astype(np.float64), np.empty(count)
    # Few rows of distances at once: they stay in the processor's cache, and threads are not called in.
    step = max(1, _FEW_PRODUCTS // max(1, columns.size))
    for start in range(0, count, step):
        block = slice(start, start + step)
        away = lengths - np.matmul(2 * columns[:, block].T, columns)
        for row, first, last in zip(away, firsts[block], lasts[block], strict=True):
            row[first:last] = np.inf
        nearest[block] = away.min(axis=1)
    # Whoever has no other at all is as far as can be.
    nearest = np.sort(np.minimum(nearest + lengths, np.iinfo(np.int32).max))
    return int(nearest[math.ceil(FAR_SHARE * count) - 1])


Places = NDArray[np.intp]

_GROUPS_EACH = 4
# A replay of the past uses the fit before the newest; older ones are seldom asked for.
_FITS_KEPT = 2
# 15 × 512 products: so few a library for linear algebra does not share among threads, and it is three times as fast.
_FEW = 512

SITUATION_DTYPE = np.dtype([("reading", "<i2", (len(FIELDS),)), ("result", "<i4"), ("id", "<u8"), ("side", "<i1")])


class Neighbour(msgspec.Struct, frozen=True):
    """A past situation: its number, how far it is in squared 1/64 of a deviation, and how it ended."""

    number: int
    distance: int
    side: str
    result_ppm: int


class Neighbours(msgspec.Struct, frozen=True):
    """How the nearest of `searched` situations ended, in columns and in no order; a side is 1 for long, -1 for short.

    `least` is the squared distance of the nearest of all, `usual` the one that 99 of 100 have to their nearest.
    """

    sides: tuple[int, ...]
    results_ppm: tuple[int, ...]
    least: int | None
    searched: int
    usual: int

    @property
    def is_novel(self) -> bool:
        """Whether nothing like this was seen before."""
        return self.least is None or self.least > self.usual

    @property
    def times_usual(self) -> float:
        """How far the nearest one is, in usual distances."""
        return math.inf if self.least is None else math.sqrt(self.least / max(self.usual, 1))

    @property
    def records(self) -> tuple[Record, Record, Record]:
        """How they ended: all, those long, those short."""
        return records_by_side(self.sides, self.results_ppm)


class NearestNeighbours(Neighbours, frozen=True):
    """Neighbours with their numbers and distances, nearest first."""

    numbers: tuple[int, ...]
    distances: tuple[int, ...]

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """The neighbours one by one, nearest first."""
        sides = (LONG if side > 0 else SHORT for side in self.sides)
        return tuple(map(Neighbour, self.numbers, self.distances, sides, self.results_ppm))


class _FittedVectors:
    """All situations as vectors under one fit, filled as far as somebody asked."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self.matrix = whitening_matrix(fit)
        self.count = 0
        self.columns: Vectors = np.empty((len(fit.medians), 0), np.float32)
        self.lengths: NDArray[np.float32] = np.empty(0, np.float32)

    def fill(self, readings: FeatureRows) -> None:
        """Adds the vectors of the readings behind those it has."""
        until = self.count + len(readings)
        if until > len(self.lengths):
            # Doubling keeps the cost of growing in proportion; the first time nobody knows whether more will come.
            room = 2 * until if self.count else until
            columns = np.empty((len(self.columns), room), np.float32)
            columns[:, : self.count] = self.columns[:, : self.count]
            self.columns = columns
            self.lengths = with_room(self.lengths[: self.count], room)
        if len(readings) == 1:
            # A moment joins every hour: one vector by itself costs a fifth of a block.
            known = [None if each == MISSING else each for each in readings[0].tolist()]
            vector = whitened_vector(self.fit, self.matrix, known)
            self.columns[:, self.count] = vector
            self.lengths[self.count] = sum(map(mul, vector, vector))
        else:
            new = self.columns[:, self.count : until]
            self.lengths[self.count : until] = squared_lengths(whitened_vectors(self.fit, readings, new))
        self.count = until


class VectorIndex:
    """Growing rows of features as vectors, and the search among them. Whoever adds rows gives them by number."""

    def __init__(self) -> None:
        self._views: dict[int, _FittedVectors] = {}
        self._newest: _FittedVectors | None = None
        self._query: tuple[Fit, FeatureVector, list[int]] | None = None

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The features of rows behind number `first` up to `until`."""
        raise NotImplementedError

    def whitened_query(self, fit: Fit, reading: FeatureVector) -> list[int]:
        """A reading as a vector under a fit; one that is asked for again is the one of before."""
        kept = self._query
        if kept is None or kept[0] is not fit or kept[1] != reading:
            matrix = self._filled_vectors(fit, 0).matrix
            kept = self._query = fit, reading, whitened_vector(fit, matrix, reading)
        return kept[2]

    def nearest_places(
        self, fit: Fit, query: Sequence[int], *, count: int, most: int, first: int = 0
    ) -> tuple[Places, NDArray[np.int64]]:
        """The places, in order, of the nearest rows from `first` to `count` and of those as far; their distances."""
        # A squared distance is (length of the other − 2 × product) + own length. The part in brackets is found for
        # all in single precision. It may be rounded there, which never changes an order, so the nearest are among
        # those that are not farther than enough others; theirs is computed once more in double precision.
        view = self._filled_vectors(fit, count)
        own = sum(map(mul, query, query))
        twice = _products(np.array([2 * each for each in query], np.float32), view.columns[:, first:count])
        lengths = view.lengths[first:count]
        if count - first <= most:
            # All of so few: nothing is to be picked.
            return np.arange(first, count), np.subtract(lengths, twice, dtype=np.float64).astype(np.int64) + own
        close = _candidates(lengths - twice, most)
        away = np.subtract(lengths.take(close), twice.take(close), dtype=np.float64).astype(np.int64)
        return close + first if first else close, away + own

    def drop_vectors(self) -> None:
        """Forgets the vectors, where rows got other numbers; the next search makes those it needs."""
        self._views.clear()
        self._newest = None

    def distances(self, fit: Fit, query: Sequence[int], *, first: int, count: int) -> list[int]:
        """The squared distances of the rows from `first` to `count`, which are few."""
        view = self._filled_vectors(fit, count)
        rows = view.columns[:, first:count].T.astype(np.int64).tolist()
        return [sum([(own - other) ** 2 for own, other in zip(query, row, strict=True)]) for row in rows]

    def _filled_vectors(self, fit: Fit, count: int) -> _FittedVectors:
        """The vectors under a fit, of so many rows at least."""
        view = self._newest
        # The same object most of the time, and two fits are long to compare.
        if view is None or view.fit is not fit:
            view = self._views.pop(fit.last, None)
            if view is None or view.fit != fit:
                view = _FittedVectors(fit)
            self._newest = self._views[fit.last] = view
            while len(self._views) > _FITS_KEPT:
                del self._views[next(iter(self._views))]
        if view.count < count:
            view.fill(self.feature_rows(view.count, count))
        return view


class Situations(VectorIndex):
    """A growing array of situations; numbers begin with 1."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._set_rows(np.empty(0, SITUATION_DTYPE))

    def extend(self, rows: bytes | bytearray) -> None:
        """Adds packed situations behind those that are here."""
        new = np.frombuffer(rows, SITUATION_DTYPE)
        until = self.count + len(new)
        if not self.count:
            # The bytes themselves, until there is something to add.
            self._set_rows(new)
        else:
            if until > len(self._rows):
                self._set_rows(with_room(self._rows[: self.count], 2 * until))
            self._rows[self.count : until] = new
        self.count = until

    def fit_newest(self, count: int) -> Fit:
        """The fit of the newest of the first `count` situations."""
        return fit_whitening(self.feature_rows(max(0, count - FIT_WINDOW), count), last=count)

    def neighbours(self, fit: Fit, reading: FeatureVector, *, count: int, most: int = DEFAULT_NEIGHBOURS) -> Neighbours:
        """How the nearest of the first `count` situations ended, for whoever does not ask which of them is nearer."""
        close, distances = self.nearest_places(fit, self.whitened_query(fit, reading), count=count, most=most)
        away = distances.tolist()
        if len(away) > most:
            # Equals, of which not all are among the nearest.
            close, away = self._sort_nearest(close, away, most)
        sides, results = self._sides[close].tolist(), self._results[close].tolist()
        return Neighbours(tuple(sides), tuple(results), min(away, default=None), count, fit.far)

    def nearest(
        self, fit: Fit, reading: FeatureVector, *, count: int, most: int = DEFAULT_NEIGHBOURS
    ) -> NearestNeighbours:
        """The nearest of the first `count` situations, one by one."""
        close, away = self.nearest_places(fit, self.whitened_query(fit, reading), count=count, most=most)
        chosen, distances = self._sort_nearest(close, away.tolist(), most)
        return NearestNeighbours(
            sides=tuple(self._sides[chosen].tolist()),
            results_ppm=tuple(self._results[chosen].tolist()),
            least=distances[0] if distances else None,
            searched=count,
            usual=fit.far,
            numbers=tuple((chosen + 1).tolist()),
            distances=tuple(distances),
        )

    def _sort_nearest(self, close: Places, away: list[int], most: int) -> tuple[Places, list[int]]:
        """The nearest first; equals by the trade's id, and where trades have one id too, the first stays first."""
        keys = list(zip(away, self._ids[close].tolist(), strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)[:most]
        return close[order], [away[place] for place in order]

    def _set_rows(self, rows: NDArray[np.void]) -> None:
        """Stores rows, and their columns as views."""
        # To pick a few numbers is much cheaper than to pick rows.
        self._rows = rows
        self._ids, self._sides, self._results = rows["id"], rows["side"], rows["result"]

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The features of situations behind number `first` up to `until`."""
        return self._rows["reading"][first:until]


def _products(twice_query: NDArray[np.float32], columns: Vectors) -> NDArray[np.float32]:
    """Twice the product of a vector with every column: even numbers below 2²⁵, so exact in whatever order."""
    few = columns.shape[1] <= _FEW
    found: NDArray[np.float32] = twice_query.dot(columns) if few else np.einsum("i,ij->j", twice_query, columns)
    return found


def _candidates(away: NDArray[np.float32], most: int) -> Places:
    """All places that can be among the nearest: as near as the nearest of the `most`-th best group, or nearer."""
    # Taking the least of each group first is ten times as fast as partitioning all; of few, each is its own group.
    groups = _GROUPS_EACH * most
    few = len(away) < max(_FEW, 2 * groups)
    least = away.copy() if few else away[: len(away) // groups * groups].reshape(-1, groups).min(axis=0)
    least.partition(most - 1)
    found: Places = (away <= least[most - 1]).nonzero()[0]
    return found


def with_room(array: NDArray[Any], room: int) -> NDArray[Any]:
    """A longer array that begins with these rows."""
    longer = np.empty((room, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
