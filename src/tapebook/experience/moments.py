"""Moments in memory: what the market looked like when an agent decided, what it did next, and which were most alike.

A moment is noted at the first decision of every hour on a symbol (`MomentNotes.noted_hours`): nearer ones in time are
nearly the same and would crowd out others. Notes carry what the market has done since earlier ones: 1, 4 and 24
hours after each, from close to close. A moment joins the memory when its 24 hours have passed, so that nothing later
than T is known at T, and the day that is running is no neighbour of itself. Joined moments stand in the order in which
they did, so "as of" is a prefix of them; of it the newest `max_memory_size` are searched. No more than twice as many
as that and a fit need are in memory: for a prefix that ends before them, notes are read anew (`holds`).

Of moments fewer than four hours of the clock apart only the one that is most alike is a neighbour (`neighbours`).
Own trades lie beside them with the vector of the decision that entered each (`TradeMemory`), under the same fit.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from tapebook.domain.units import HOUR, divide_half_even
from tapebook.experience.events import MomentNoted
from tapebook.experience.features import FIT_WINDOW, MISSING, MOMENT_FIELDS, FeatureVector, Fit, LookbackFeatures
from tapebook.experience.records import MOST_PPM, PPM
from tapebook.experience.similar import MOVE_SPANS, MomentNeighbours, PastTrade, SimilarMoment
from tapebook.experience.situations import FeatureRows, VectorIndex, fit_whitening, with_room

UNKNOWN_MOVE = -(2**31)
_LONGEST = len(MOVE_SPANS) - 1
_HOURS_APART = 4
# Neighbours in time are left out, so more are looked at than are wanted.
_LOOKED_AT = 4
# A distance and a row in one number, which sorts by both: a memory has fewer rows than this has bits.
_ROW_BITS = 24
_ROW_MASK = 2**_ROW_BITS - 1


class _OpenMoment(msgspec.Struct):
    """A moment whose day has not passed, its moves, and from when on the first of those that lack is known."""

    noted: MomentNoted
    moves_ppm: list[int | None]
    due_at: int


class MomentMemory(VectorIndex):
    """The moments of one deployment up to the note read last: of those that joined, the newest `keep` or more.

    Counts and places of moments are those among all that ever joined; rows are those in memory, which begin at
    `_dropped`.
    """

    def __init__(self, *, keep: int = 0) -> None:
        super().__init__()
        self.seq = 0
        self.noted = 0
        self.keep = max(keep, FIT_WINDOW)
        self._open: dict[int, _OpenMoment] = {}
        self._dropped = 0
        # The notes with which moments joined, in order; the symbol, time and moves of each; its vector, and its hour.
        self._joined_at: list[int] = []
        self._joined: list[tuple[str, int, tuple[int | None, ...]]] = []
        self._vectors: FeatureRows = np.empty((0, len(MOMENT_FIELDS)), np.int16)
        self._hours: list[int] = []

    def add(self, seq: int, noted: MomentNoted) -> None:
        """Takes in the next note."""
        for number, place, move in noted.moves:
            opened = self._open.get(number)
            if opened is None:
                continue
            # A move that the tape had no price for stays unknown for ever: replay must not find one later.
            opened.moves_ppm[place] = None if move == UNKNOWN_MOVE else move
            if None in opened.moves_ppm:
                opened.due_at = opened.noted.at + MOVE_SPANS[opened.moves_ppm.index(None)]
            if place == _LONGEST:
                del self._open[number]
                # Without its last move a moment tells too little to be worth its place.
                if move != UNKNOWN_MOVE:
                    self._join(seq, opened)
        self.seq, self.noted = seq, noted.number
        self._open[noted.number] = _OpenMoment(noted, [None] * len(MOVE_SPANS), noted.at + MOVE_SPANS[0])

    def moves_known_at(self, symbol: str, features: LookbackFeatures) -> tuple[tuple[int, int, int], ...]:
        """What the market did after earlier moments of a symbol, as far as it was not known before."""
        found, now = [], features.at
        for number, opened in self._open.items():
            if opened.due_at > now or opened.noted.symbol != symbol:
                continue
            noted = opened.noted
            for place, span in enumerate(MOVE_SPANS):
                if opened.moves_ppm[place] is None and noted.at + span <= now:
                    found.append((number, place, _move_ppm(noted.price_e8, features.price_at(noted.at + span))))
        return tuple(found)

    def joined_count(self, seq: int) -> int:
        """How many moments had joined as of a sequence number that the memory reaches back to."""
        return self._dropped + bisect_right(self._joined_at, seq)

    def holds(self, seq: int, *, size: int) -> bool:
        """Whether all is in memory that a fit or a search among the newest `size` sees as of a sequence number."""
        return not self._dropped or self.joined_count(seq) - max(size, FIT_WINDOW) >= self._dropped

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The vectors of the rows behind number `first` up to `until`, in the order in which they joined."""
        return self._vectors[first:until]

    def fit_newest(self, count: int) -> Fit:
        """The fit of the newest of the first `count` moments that joined."""
        until = count - self._dropped
        first = max(0, until - FIT_WINDOW)
        times = [at for _, at, _ in self._joined[first:until]]
        return fit_whitening(self.feature_rows(first, until), last=count, moments=times)

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
        first, dropped, query = max(0, count - size), self._dropped, self.whitened_query(fit, vector)
        if before is not None and len(before.moments) == most and before.oldest >= first and before.until <= count:
            # Whoever joined since and is not nearer than the last of them changes nothing, nor who left unchosen.
            newer = self.distances(fit, query, first=before.until - dropped, count=count - dropped)
            if min(newer, default=before.moments[-1].distance) >= before.moments[-1].distance:
                return MomentNeighbours(before.moments, count - first, fit.far, count, before.oldest)
        rows, distances = self.nearest_places(
            fit, query, first=first - dropped, count=count - dropped, most=_LOOKED_AT * most
        )
        # Nearest first, and of equals the one that joined first.
        keys = (distances << _ROW_BITS) + rows
        keys.sort()
        hours = self._hours
        found: list[SimilarMoment] = []
        places: list[int] = []
        near: set[int] = set()
        for key in keys.tolist():
            place = key & _ROW_MASK
            hour = hours[place]
            if hour not in near:
                symbol, at, moves = self._joined[place]
                found.append(SimilarMoment(symbol, at, key >> _ROW_BITS, moves))
                places.append(place)
                if len(found) == most:
                    break
                # The hours that are too near this one.
                near.update(range(hour - _HOURS_APART + 1, hour + _HOURS_APART))
        oldest = dropped + min(places, default=0)
        return MomentNeighbours(tuple(found), count - first, fit.far, count, oldest)

    def _join(self, seq: int, opened: _OpenMoment) -> None:
        if len(self._joined_at) >= 2 * self.keep:
            self._drop_oldest(self.keep // 2)
        row, noted = len(self._joined_at), opened.noted
        if row == len(self._vectors):
            room = min(max(256, 2 * row), 2 * self.keep)
            self._vectors = with_room(self._vectors, room)
        self._vectors[row] = [MISSING if each is None else each for each in noted.vector]
        self._hours.append(noted.at // HOUR)
        self._joined.append((noted.symbol, noted.at, tuple(opened.moves_ppm)))
        self._joined_at.append(seq)

    def _drop_oldest(self, count: int) -> None:
        """Drops the rows that joined first, and the vectors of all, which are numbered like rows."""
        self._vectors = self._vectors[count:].copy()
        del self._joined_at[:count], self._joined[:count], self._hours[:count]
        self._dropped += count
        self.drop_vectors()


class TradeMemory(VectorIndex):
    """Own trades with their vectors, in the order in which they were learned from: the newest `keep` or more.

    Counts of trades are those of all that were ever added; rows are those in memory, which begin at `_dropped`.
    """

    def __init__(self, *, keep: int) -> None:
        super().__init__()
        self.seq = 0
        self.keep = keep
        self._dropped = 0
        self._trades: list[PastTrade] = []

    def extend(self, trades: Iterable[PastTrade], *, seq: int) -> None:
        """Adds trades behind those that are here, all up to a sequence number."""
        for trade in trades:
            if len(self._trades) >= 2 * self.keep:
                del self._trades[: self.keep]
                self._dropped += self.keep
                self.drop_vectors()
            self._trades.append(trade)
        self.seq = seq

    def count_as_of(self, seq: int) -> int:
        """How many trades had been learned from as of a sequence number that the memory reaches back to."""
        if seq >= self.seq:
            return self._dropped + len(self._trades)
        return self._dropped + bisect_right(self._trades, seq, key=lambda trade: trade.seq)

    def holds(self, seq: int, *, size: int) -> bool:
        """Whether all is in memory that a search among the newest `size` sees as of a sequence number."""
        return not self._dropped or self.count_as_of(seq) - size >= self._dropped

    def feature_rows(self, first: int, until: int) -> FeatureRows:
        """The vectors of the rows behind number `first` up to `until`."""
        rows = [[MISSING if each is None else each for each in trade.vector] for trade in self._trades[first:until]]
        return np.array(rows, np.int16).reshape(-1, len(MOMENT_FIELDS))

    def nearest_trades(
        self, fit: Fit, query: Sequence[int], *, count: int, most: int, size: int
    ) -> tuple[tuple[int, PastTrade], ...]:
        """The most similar of the newest `size` of the first `count` trades, each with its squared distance."""
        first = max(0, count - size) - self._dropped
        until = count - self._dropped
        if first == until:
            return ()
        # Few are sorted as they are: to find the nearest of them first would cost more.
        wanted = until - first if until - first <= _LOOKED_AT * most else most
        rows, distances = self.nearest_places(fit, query, first=first, count=until, most=wanted)
        keys = (distances << _ROW_BITS) + rows
        keys.sort()
        return tuple([(key >> _ROW_BITS, self._trades[key & _ROW_MASK]) for key in keys[:most].tolist()])


def _move_ppm(before_e8: int, after_e8: int | None) -> int:
    if after_e8 is None or before_e8 <= 0:
        return UNKNOWN_MOVE
    return max(-MOST_PPM, min(MOST_PPM, divide_half_even((after_e8 - before_e8) * PPM, before_e8)))
