"""The situations of one deployment in memory, and the exact nearest of them.

They are kept in the order in which their outcomes became known, so that "as of" is a prefix: a
situation is nobody's neighbour before its own exit. Distances are integers. The search looks at
all of them, however old, and never at how they ended; equal distances go by the trade's id.
"""

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.experience.fits import WINDOW, Fit
from tapebook.experience.pages import MISSING
from tapebook.experience.records import Credit, Record, with_credit
from tapebook.experience.sights import FIELDS, Reading
from tapebook.experience.whitening import Readings, Vectors, fitted, squares, vectors

NEAREST = 25
_BLOCK = 128
_FITS_KEPT = 2

ROW = np.dtype([("reading", "<i2", (len(FIELDS),)), ("result", "<i4"), ("id", "<u8"), ("side", "<i1")])


class Neighbour(msgspec.Struct, frozen=True):
    """A past situation: its number, how far it is in squared 1/64 of a deviation, and how it ended."""

    number: int
    distance: int
    side: str
    result_ppm: int


class Nearest(msgspec.Struct, frozen=True):
    """The nearest of `searched` situations, nearest first; `usual` is what 99 of 100 have as their nearest."""

    neighbours: tuple[Neighbour, ...]
    searched: int
    usual: int

    @property
    def unlike(self) -> bool:
        """Whether nothing like this was seen before."""
        return not self.neighbours or self.neighbours[0].distance > self.usual

    @property
    def times_usual(self) -> float:
        """How far the nearest one is, in usual distances."""
        return math.sqrt(self.neighbours[0].distance / max(self.usual, 1)) if self.neighbours else math.inf

    def record(self, side: str = "") -> Record:
        """How they ended, all or those of one side."""
        found = Record("similar", side)
        for each in self.neighbours:
            if side in ("", each.side):
                found = with_credit(found, Credit("similar", side, each.result_ppm, each.result_ppm))
        return found


class _View:
    """All situations as vectors under one fit, filled as far as somebody asked."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self.count = 0
        self.columns: Vectors = np.empty((len(FIELDS), 0), np.float32)
        self.lengths: NDArray[np.int32] = np.empty(0, np.int32)

    def fill(self, readings: Readings) -> None:
        """Adds the vectors of the readings it does not have yet."""
        if len(readings) <= self.count:
            return
        if len(readings) > len(self.lengths):
            room = 2 * len(readings) if self.count else len(readings)
            columns = np.empty((len(FIELDS), room), np.float32)
            columns[:, : self.count] = self.columns[:, : self.count]
            self.columns = columns
            self.lengths = _roomier(self.lengths[: self.count], room)
        new = self.columns[:, self.count : len(readings)]
        self.lengths[self.count : len(readings)] = squares(vectors(self.fit, readings[self.count :], new))
        self.count = len(readings)


class Situations:
    """A growing array of situations; numbers begin with 1."""

    def __init__(self) -> None:
        self.count = 0
        self._rows = np.empty(0, ROW)
        self._views: dict[int, _View] = {}

    def extend(self, rows: bytes) -> None:
        """Adds packed situations behind those that are here."""
        new = np.frombuffer(rows, ROW)
        until = self.count + len(new)
        if not self.count:
            # The bytes themselves, until there is something to add.
            self._rows = new
        else:
            if until > len(self._rows):
                self._rows = _roomier(self._rows[: self.count], 2 * until)
            self._rows[self.count : until] = new
        self.count = until

    def fit(self, count: int) -> Fit:
        """The fit of the newest of the first `count` situations."""
        return fitted(self._readings(count)[max(0, count - WINDOW) :], last=count)

    def nearest(self, fit: Fit, reading: Reading, *, count: int, most: int = NEAREST) -> Nearest:
        """The nearest of the first `count` situations."""
        view = self._view(fit)
        view.fill(self._readings(count))
        query = vectors(fit, np.array([[MISSING if each is None else each for each in reading]], np.int16))[:, 0]
        dots = np.einsum("i,ij->j", query, view.columns[:, :count]).astype(np.int32)
        # The query's own length is the same for all: it does not change the order.
        away = view.lengths[:count] - 2 * dots
        close = _candidates(away, most)
        rows = self._rows[close]
        order = np.lexsort((close, rows["id"], away[close]))[:most]
        own = int(squares(query[:, None])[0])
        found = [
            Neighbour(int(close[at]) + 1, int(away[close[at]]) + own, _side(rows[at]["side"]), int(rows[at]["result"]))
            for at in order
        ]
        return Nearest(tuple(found), count, fit.far)

    def _readings(self, count: int) -> Readings:
        return self._rows["reading"][:count]

    def _view(self, fit: Fit) -> _View:
        view = self._views.pop(fit.last, None)
        if view is None or view.fit != fit:
            view = _View(fit)
        self._views[fit.last] = view
        while len(self._views) > _FITS_KEPT:
            del self._views[next(iter(self._views))]
        return view


def _candidates(away: NDArray[np.int32], most: int) -> NDArray[np.int64]:
    """All places that can be among the nearest: as near as the `most`-th best block has one, or nearer.

    Taking the least of each block first is ten times as fast as partitioning all.
    """
    whole = len(away) // _BLOCK * _BLOCK
    least = away[:whole].reshape(-1, _BLOCK).min(axis=1)
    if len(least) <= most:
        return np.arange(len(away))
    bound = np.partition(least, most - 1)[most - 1]
    return np.flatnonzero(away <= bound)


def _roomier(array: NDArray[Any], room: int) -> NDArray[Any]:
    """The same rows at the head of a longer array."""
    longer = np.empty((room, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _side(sign: np.int8) -> str:
    return "long" if sign > 0 else "short"
