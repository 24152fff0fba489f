"""The situations of one deployment in memory, and the exact nearest of them.

They are kept in the order in which their outcomes became known, so that "as of" is a prefix: a
situation is nobody's neighbour before its own exit. Distances are integers. The search looks at
all of them, however old, and never at how they ended; equal distances go by the trade's id.
"""

import math
from operator import mul
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.experience.fits import NEAREST, WINDOW, Fit
from tapebook.experience.records import LONG, SHORT, Record, by_side
from tapebook.experience.sights import FIELDS, Reading
from tapebook.experience.whitening import Readings, Vectors, fitted, matrix_of, squares, vector_of, vectors

Places = NDArray[np.intp]

_GROUPS_EACH = 4
_FITS_KEPT = 2
# 15 × 512 products: so few a library for linear algebra does not share among threads, and it is three times as fast.
_FEW = 512

ROW = np.dtype([("reading", "<i2", (len(FIELDS),)), ("result", "<i4"), ("id", "<u8"), ("side", "<i1")])


class Neighbour(msgspec.Struct, frozen=True):
    """A past situation: its number, how far it is in squared 1/64 of a deviation, and how it ended."""

    number: int
    distance: int
    side: str
    result_ppm: int


class Company(msgspec.Struct, frozen=True):
    """How the nearest of `searched` situations ended, in columns and in no order; a side is 1 for long, -1 for short.

    `least` is the squared distance of the nearest of all, `usual` the one that 99 of 100 have to their nearest.
    """

    sides: tuple[int, ...]
    results_ppm: tuple[int, ...]
    least: int | None
    searched: int
    usual: int

    @property
    def unlike(self) -> bool:
        """Whether nothing like this was seen before."""
        return self.least is None or self.least > self.usual

    @property
    def times_usual(self) -> float:
        """How far the nearest one is, in usual distances."""
        return math.inf if self.least is None else math.sqrt(self.least / max(self.usual, 1))

    @property
    def records(self) -> tuple[Record, Record, Record]:
        """How they ended: all, those long, those short."""
        return by_side(self.sides, self.results_ppm)


class Nearest(Company, frozen=True):
    """The same with who they are, nearest first."""

    numbers: tuple[int, ...]
    distances: tuple[int, ...]

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """The same, one by one."""
        sides = (LONG if side > 0 else SHORT for side in self.sides)
        return tuple(map(Neighbour, self.numbers, self.distances, sides, self.results_ppm))


class _View:
    """All situations as vectors under one fit, filled as far as somebody asked."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self.matrix = matrix_of(fit)
        self.count = 0
        self.columns: Vectors = np.empty((len(FIELDS), 0), np.float32)
        self.lengths: NDArray[np.float32] = np.empty(0, np.float32)

    def fill(self, readings: Readings) -> None:
        """Adds the vectors of the readings behind those it has."""
        until = self.count + len(readings)
        if until > len(self.lengths):
            room = 2 * until if self.count else until
            columns = np.empty((len(FIELDS), room), np.float32)
            columns[:, : self.count] = self.columns[:, : self.count]
            self.columns = columns
            self.lengths = _roomier(self.lengths[: self.count], room)
        new = self.columns[:, self.count : until]
        self.lengths[self.count : until] = squares(vectors(self.fit, readings, new))
        self.count = until


class Situations:
    """A growing array of situations; numbers begin with 1."""

    def __init__(self) -> None:
        self.count = 0
        self._hold(np.empty(0, ROW))
        self._views: dict[int, _View] = {}

    def extend(self, rows: bytes | bytearray) -> None:
        """Adds packed situations behind those that are here."""
        new = np.frombuffer(rows, ROW)
        until = self.count + len(new)
        if not self.count:
            # The bytes themselves, until there is something to add.
            self._hold(new)
        else:
            if until > len(self._rows):
                self._hold(_roomier(self._rows[: self.count], 2 * until))
            self._rows[self.count : until] = new
        self.count = until

    def fit(self, count: int) -> Fit:
        """The fit of the newest of the first `count` situations."""
        return fitted(self._readings(max(0, count - WINDOW), count), last=count)

    def company(self, fit: Fit, reading: Reading, *, count: int, most: int = NEAREST) -> Company:
        """How the nearest of the first `count` situations ended, for whoever does not ask which of them is nearer."""
        close, away = self._close(fit, reading, count=count, most=most)
        if len(away) > most:
            # Equals, of which not all are among the nearest.
            close, away = self._sorted(close, away, most)
        sides, results = self._sides[close].tolist(), self._results[close].tolist()
        return Company(tuple(sides), tuple(results), min(away, default=None), count, fit.far)

    def nearest(self, fit: Fit, reading: Reading, *, count: int, most: int = NEAREST) -> Nearest:
        """The nearest of the first `count` situations, one by one."""
        chosen, distances = self._sorted(*self._close(fit, reading, count=count, most=most), most)
        return Nearest(
            sides=tuple(self._sides[chosen].tolist()),
            results_ppm=tuple(self._results[chosen].tolist()),
            least=distances[0] if distances else None,
            searched=count,
            usual=fit.far,
            numbers=tuple((chosen + 1).tolist()),
            distances=tuple(distances),
        )

    def _sorted(self, close: Places, away: list[int], most: int) -> tuple[Places, list[int]]:
        """The nearest first; equals by the trade's id, and where trades have one id too, the first stays first."""
        keys = list(zip(away, self._ids[close].tolist(), strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)[:most]
        return close[order], [away[place] for place in order]

    def _close(self, fit: Fit, reading: Reading, *, count: int, most: int) -> tuple[Places, list[int]]:
        """The places of the nearest, and of those that are not farther; and their distances.

        A squared distance is (length of the other − 2 × product) + own length. The part in brackets is found for all
        in single precision. It may be rounded there, which never changes an order, so the nearest are among those
        that are not farther than enough others; theirs is computed once more in Python's numbers.
        """
        view = self._view(fit)
        if view.count < count:
            view.fill(self._readings(view.count, count))
        query = vector_of(fit, view.matrix, reading)
        own = sum(map(mul, query, query))
        twice = _products(np.array([2 * each for each in query], np.float32), view.columns[:, :count])
        close = _candidates(view.lengths[:count] - twice, most)
        pairs = zip(view.lengths[close].tolist(), twice[close].tolist(), strict=True)
        return close, [int(length - product) + own for length, product in pairs]

    def _hold(self, rows: NDArray[np.void]) -> None:
        """Keeps rows, and their columns as views: to pick a few numbers is much cheaper than to pick rows."""
        self._rows = rows
        self._ids, self._sides, self._results = rows["id"], rows["side"], rows["result"]

    def _readings(self, first: int, until: int) -> Readings:
        return self._rows["reading"][first:until]

    def _view(self, fit: Fit) -> _View:
        view = self._views.pop(fit.last, None)
        # The same object most of the time, and two fits are long to compare.
        if view is None or (view.fit is not fit and view.fit != fit):
            view = _View(fit)
        self._views[fit.last] = view
        while len(self._views) > _FITS_KEPT:
            del self._views[next(iter(self._views))]
        return view


def _products(twice_query: NDArray[np.float32], columns: Vectors) -> NDArray[np.float32]:
    """Twice the product of a vector with every column: even numbers below 2²⁵, so exact in whatever order."""
    few = columns.shape[1] <= _FEW
    found: NDArray[np.float32] = twice_query.dot(columns) if few else np.einsum("i,ij->j", twice_query, columns)
    return found


def _candidates(away: NDArray[np.float32], most: int) -> Places:
    """All places that can be among the nearest: as near as the nearest of the `most`-th best group, or nearer.

    Taking the least of each group first is ten times as fast as partitioning all; of few, each is its own group.
    """
    if len(away) <= most:
        return np.arange(len(away))
    groups = _GROUPS_EACH * most
    few = len(away) < max(_FEW, 2 * groups)
    least = away.copy() if few else away[: len(away) // groups * groups].reshape(-1, groups).min(axis=0)
    least.partition(most - 1)
    found: Places = (away <= least[most - 1]).nonzero()[0]
    return found


def _roomier(array: NDArray[Any], room: int) -> NDArray[Any]:
    """The same rows at the head of a longer array."""
    longer = np.empty((room, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
