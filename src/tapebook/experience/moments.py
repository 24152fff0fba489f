"""Moments in memory: what the market looked like when an agent decided, what it did next, and which were most alike.

A moment is noted at the first decision of every hour on a symbol (`MomentMemory.is_due`): nearer ones in time are
nearly the same and would crowd out others. Notes carry what the market has done since earlier ones: 1, 4 and 24
hours after each, from close to close. A moment joins the memory when its 24 hours have passed, so that nothing later
than T is known at T, and the day that is running is no neighbour of itself. Joined moments stand in the order in which
they did, so "as of" is a prefix of them; of it the newest `max_memory_size` are searched.

Of moments fewer than four hours of the clock apart only the one that is most alike is a neighbour (`neighbours`).
Own trades lie beside them with the vector of the decision that entered each (`TradeMemory`), under the same fit.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tapebook.domain.instants import HOUR
from tapebook.domain.money import divide_half_even
from tapebook.experience.events import MomentNoted
from tapebook.experience.features import FIT_WINDOW, MISSING, MOMENT_FIELDS, FeatureVector, Fit, LookbackFeatures
from tapebook.experience.records import MOST_PPM, PPM
from tapebook.experience.similar import MOVE_SPANS, MomentNeighbours, PastTrade, SimilarMoment
from tapebook.experience.situations import FeatureRows, Places, VectorIndex, fit_whitening

UNKNOWN_MOVE = -(2**31)
_LONGEST = len(MOVE_SPANS) - 1
_HOURS_APART = 4
# Neighbours in time are left out, so more are looked at than are wanted.
_LOOKED_AT = 4


class _OpenMoment(msgspec.Struct):
    """A moment whose day has not passed."""

    noted: MomentNoted
    moves_ppm: list[int | None]


_MOMENT_DTYPE = np.dtype(
    [("vector", "<i2", (len(MOMENT_FIELDS),)), ("at", "<i8"), ("moves", "<i4", (len(MOVE_SPANS),)), ("symbol", "<i4")]
)


class MomentMemory(VectorIndex):
    """All moments of one deployment up to the note read last."""

    def __init__(self) -> None:
        super().__init__()
        self.seq = 0
        self.noted = 0
        self._newest_at: dict[str, int] = {}
        self._open: dict[int, _OpenMoment] = {}
        self._rows: NDArray[np.void] = np.empty(0, _MOMENT_DTYPE)
        # The notes with which moments joined, in order.
        self._joined_at: list[int] = []
        self._symbols: list[str] = []

    def add(self, seq: int, noted: MomentNoted) -> None:
        """Takes in the next note."""
        for number, place, move in noted.moves:
            opened = self._open.get(number)
            if opened is None:
                continue
            # A move that the tape had no price for stays unknown for ever: replay must not find one later.
            opened.moves_ppm[place] = None if move == UNKNOWN_MOVE else move
            if place == _LONGEST:
                del self._open[number]
                # Without its last move a moment tells too little to be worth its place.
                if move != UNKNOWN_MOVE:
                    self._join(seq, opened)
        self.seq, self.noted = seq, noted.number
        self._newest_at[noted.symbol] = noted.at
        self._open[noted.number] = _OpenMoment(noted, [None] * len(MOVE_SPANS))

    def is_due(self, symbol: str, at: int) -> bool:
        """Whether a moment is to be noted: at most one of each hour and symbol."""
        newest = self._newest_at.get(symbol)
        return newest is None or at // HOUR > newest // HOUR

    def moves_known_at(self, symbol: str, features: LookbackFeatures) -> tuple[tuple[int, int, int], ...]:
        """What the market did after earlier moments of a symbol, as far as it was not known before."""
        found = []
        for number, opened in self._open.items():
            noted = opened.noted
            if noted.symbol != symbol:
                continue
            for place, span in enumerate(MOVE_SPANS):
                if opened.moves_ppm[place] is None and noted.at + span <= features.at:
                    found.append((number, place, _move_ppm(noted.price_e8, features.price_at(noted.at + span))))
        return tuple(found)

    def joined_count(self, seq: int) -> int:
        """How many moments had joined as of a sequence number."""
        return bisect_right(self._joined_at, seq)

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The vectors of moments behind number `first` up to `until`, in the order in which they joined."""
        return self._rows["vector"][first:until]

    def fit_newest(self, count: int) -> Fit:
        """The fit of the newest of the first `count` moments that joined."""
        first = max(0, count - FIT_WINDOW)
        moments = self._rows["at"][first:count].tolist()
        return fit_whitening(self.feature_rows(first, count), last=count, moments=moments)

    def neighbours(
        self,
        fit: Fit,
        vector: FeatureVector,
        *,
        count: int,
        most: int,
        size: int,
        before: MomentNeighbours | None = None,
    ) -> MomentNeighbours:
        """The most similar of the newest `size` of the first `count` moments.

        `before` is what this gave for the same vector, fit, `most` and `size` when fewer had joined.
        """
        first = max(0, count - size)
        if before is not None and len(before.moments) == most and before.oldest >= first and before.until <= count:
            # Whoever joined since and is not nearer than the last of them changes nothing, nor who left unchosen.
            newer = self.distances(fit, vector, first=before.until, count=count)
            if min(newer, default=before.moments[-1].distance) >= before.moments[-1].distance:
                return MomentNeighbours(before.moments, count - first, fit.far, count, before.oldest)
        places, distances = self.nearest_places(fit, vector, first=first, count=count, most=_LOOKED_AT * most)
        # Of equals the one that joined first, since places come in order.
        order = distances.argsort(kind="stable")
        times = self._rows["at"][places[order]]
        chosen, near = list[int](), set[int]()
        for rank, hour in enumerate((times // HOUR).tolist()):
            if hour not in near:
                chosen.append(rank)
                near.update(range(hour - _HOURS_APART + 1, hour + _HOURS_APART))
                if len(chosen) == most:
                    break
        picked = order[chosen]
        nearest = places[picked]
        found = self._similar_moments(nearest, distances[picked].tolist())
        return MomentNeighbours(found, count - first, fit.far, count, min(nearest.tolist(), default=0))

    def _similar_moments(self, places: Places, distances: list[int]) -> tuple[SimilarMoment, ...]:
        # Columns first: a row of the array costs ten times as much to read as a number of a list.
        rows, symbols = self._rows, self._symbols
        moves = list(map(tuple, rows["moves"][places].tolist()))
        if any([UNKNOWN_MOVE in known for known in moves]):
            moves = [tuple([None if each == UNKNOWN_MOVE else each for each in known]) for known in moves]
        columns = zip(rows["symbol"][places].tolist(), rows["at"][places].tolist(), distances, moves, strict=True)
        return tuple([SimilarMoment(symbols[symbol], at, away, known) for symbol, at, away, known in columns])

    def _join(self, seq: int, opened: _OpenMoment) -> None:
        count, noted = len(self._joined_at), opened.noted
        if count == len(self._rows):
            self._rows = _with_capacity(self._rows, 2 * count or 256)
        if noted.symbol not in self._symbols:
            self._symbols.append(noted.symbol)
        vector = [MISSING if each is None else each for each in noted.vector]
        moves = [UNKNOWN_MOVE if move is None else move for move in opened.moves_ppm]
        self._rows[count] = (vector, noted.at, moves, self._symbols.index(noted.symbol))
        self._joined_at.append(seq)


class TradeMemory(VectorIndex):
    """Own trades with their vectors, in the order in which they were learned from."""

    def __init__(self) -> None:
        super().__init__()
        self.seq = 0
        self._trades: list[PastTrade] = []

    def extend(self, trades: Iterable[PastTrade], *, seq: int) -> None:
        """Adds trades behind those that are here, all up to a sequence number."""
        self._trades += trades
        self.seq = seq

    def count_as_of(self, seq: int) -> int:
        """How many trades had been learned from as of a sequence number."""
        return bisect_right(self._trades, seq, key=lambda trade: trade.seq)

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The vectors of trades behind number `first` up to `until`."""
        rows = [[MISSING if each is None else each for each in trade.vector] for trade in self._trades[first:until]]
        return np.array(rows, np.int16).reshape(-1, len(MOMENT_FIELDS))

    def nearest_trades(
        self, fit: Fit, vector: FeatureVector, *, count: int, most: int, size: int
    ) -> tuple[tuple[int, PastTrade], ...]:
        """The most similar of the newest `size` of the first `count` trades, each with its squared distance."""
        first = max(0, count - size)
        if first == count:
            return ()
        places, distances = self.nearest_places(fit, vector, first=first, count=count, most=most)
        order = distances.argsort(kind="stable")[:most]
        columns = zip(distances[order].tolist(), places[order].tolist(), strict=True)
        return tuple([(distance, self._trades[place]) for distance, place in columns])


def _move_ppm(before_e8: int, after_e8: int | None) -> int:
    if after_e8 is None or before_e8 <= 0:
        return UNKNOWN_MOVE
    return max(-MOST_PPM, min(MOST_PPM, divide_half_even((after_e8 - before_e8) * PPM, before_e8)))


def _with_capacity(rows: NDArray[Any], capacity: int) -> NDArray[Any]:
    longer = np.empty(capacity, rows.dtype)
    longer[: len(rows)] = rows
    return longer
