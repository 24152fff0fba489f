"""The rows of one symbol in one family, held in memory around the moments that are asked about.

A track reaches from one moment to another (`_lo` to `_hi`) and holds every revision of every row in
between, with when and in which commit each was known. So it answers for any view, at once and like
the database. It is made for a reader whose time goes forward: rows ahead are loaded a page at a time,
rows far behind are dropped; what lies somewhere else entirely is left to the database.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import sub
from typing import Any

import msgspec

from tapebook.domain.instants import DAY
from tapebook.tape.view import NO_WATERMARK, View

PAGE_ROWS = 8_000
"""Rows that are loaded ahead at once, if there is one in every bucket; some 3 MB of bars."""

KEPT_ROWS = 12_000
"""Rows that are kept behind: 40 days of bars of five minutes."""

_PAGE_MS, _KEPT_MS = 32 * DAY, 40 * DAY
# How many times the rows that are kept may be loaded to reach back to what is asked for.
_REACH = 4


class Loaded(msgspec.Struct, frozen=True):
    """Rows in order of their bucket and commit: facts, when each was known, and in which commit."""

    facts: Sequence[Any]
    known: Sequence[int]
    seqs: Sequence[int]


class Shelf(msgspec.Struct, frozen=True):
    """Where the rows of a track come from.

    `between` gives every row from one moment up to, not including, another; `before` the nearest rows before a moment,
    and since when these are all there are.
    """

    between: Callable[[int, int], Loaded]
    before: Callable[[int], tuple[int, Loaded]]


class Track:
    """A stretch of rows; `extent` is from when to when there are any of the family at all."""

    def __init__(self, shelf: Shelf, *, step_ms: int, key_width: int, extent: tuple[int, int]) -> None:
        self._shelf = shelf
        self._key_width = key_width
        self._page, self._kept = min(_PAGE_MS, PAGE_ROWS * step_ms), min(_KEPT_MS, KEPT_ROWS * step_ms)
        self._first, self._last = extent
        self._lo = self._hi = self._last + 1
        self._facts: list[Any] = []
        self._buckets: list[int] = []
        self._known: list[int] = []
        self._seqs: list[int] = []
        # Whether no bucket has two rows, and the newest commit of all rows.
        self._is_single, self._newest_seq = True, 0

    def between(self, since: int, until: int, view: View) -> list[Any] | None:
        """The facts of a stretch, each in its newest revision that is seen; None when they are too far away."""
        if not (self._lo <= since and until < self._hi) and not self._hold(since, until):
            return None
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        if first == end:
            return []
        known = self._known[first:end]
        if self._is_single and view.watermark >= self._newest_seq and max(known) <= view.as_of:
            return self._facts[first:end]
        rows = zip(self._facts[first:end], known, self._seqs[first:end], strict=True)
        seen = [fact for fact, at, seq in rows if at <= view.as_of and seq <= view.watermark]
        return seen if self._is_single else list({self._key(fact): fact for fact in seen}.values())

    def newest(self, since: int, until: int, view: View) -> tuple[Any] | None:
        """The newest fact of a stretch that is seen, or None, as a tuple; None when it is too far away."""
        if until < self._first:
            return (None,)
        until = min(until, self._last)
        if not self._lo <= until < self._hi and not self._hold(until, until):
            return None
        at = bisect_right(self._buckets, until)
        while True:
            while at:
                at -= 1
                if self._buckets[at] < since:
                    return (None,)
                if self._known[at] <= view.as_of and self._seqs[at] <= view.watermark:
                    return (self._facts[at],)
            if self._lo <= max(since, self._first):
                return (None,)
            at = self._load_before()

    def known_by(self, since: int, until: int) -> int:
        """When all rows of a stretch were known; never, when they are too far away to say."""
        if not (self._lo <= since and until < self._hi) and not self._hold(since, until):
            return NO_WATERMARK
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        return max(self._known[first:end], default=0)

    def prompt(self, since: int, until: int, *, within_ms: int) -> list[Any] | None:
        """The facts of a stretch if none was revised and each was known so soon after it began; None otherwise."""
        if not (self._lo <= since and until < self._hi) and not self._hold(since, until):
            return None
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        waited = map(sub, self._known[first:end], self._buckets[first:end])
        return self._facts[first:end] if self._is_single and max(waited, default=0) <= within_ms else None

    def first_known(self, since: int, until: int, *, length_ms: int = 0) -> int:
        """When the first row of a stretch was known that had ended by then; never, without a row or too far away."""
        if not (self._lo <= since and until < self._hi) and not self._hold(since, until):
            return NO_WATERMARK
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        if end - first == 1:
            return max(self._known[first], self._buckets[first] + length_ms)
        rows = zip(self._buckets[first:end], self._known[first:end], strict=True)
        return min([max(known, bucket + length_ms) for bucket, known in rows], default=NO_WATERMARK)

    def _hold(self, since: int, until: int) -> bool:
        """Loads what is missing of a stretch, if that is near what is there; whether all of it is there now."""
        since, until = max(since, self._first), min(until, self._last)
        if until < since:
            return True
        if until - self._hi > self._kept or self._lo > self._last:
            # Nothing yet, or a leap ahead: it begins anew.
            self._drop_before(self._last + 1)
            self._lo = self._hi = max(self._first, until - self._kept)
        if since < self._lo - _REACH * self._kept:
            return False
        if since < self._lo:
            self._prepend(min(since, max(self._first, self._lo - self._page)))
        if until >= self._hi:
            self._append(min(until + self._page, self._last) + 1)
            self._drop_before(min(since, until - self._kept))
        return True

    def _append(self, before: int) -> None:
        self._join(self._shelf.between(self._hi, before), ahead=True)
        self._hi = before

    def _prepend(self, since: int) -> None:
        self._join(self._shelf.between(since, self._lo), ahead=False)
        self._lo = since

    def _load_before(self) -> int:
        """Loads the nearest rows before those that are there; returns how many."""
        self._lo, found = self._shelf.before(self._lo)
        self._join(found, ahead=False)
        return len(found.facts)

    def _join(self, found: Loaded, *, ahead: bool) -> None:
        place = len(self._facts) if ahead else 0
        buckets = [fact.bucket_ts for fact in found.facts]
        self._facts[place:place] = found.facts
        self._buckets[place:place] = buckets
        self._known[place:place] = found.known
        self._seqs[place:place] = found.seqs
        self._is_single = self._is_single and len(set(buckets)) == len(buckets)
        self._newest_seq = max(self._newest_seq, max(found.seqs, default=0))

    def _drop_before(self, moment: int) -> None:
        count = bisect_left(self._buckets, moment)
        if count:
            for column in (self._facts, self._buckets, self._known, self._seqs):
                del column[:count]
            self._lo = moment

    def _key(self, fact: Any) -> tuple[Any, ...]:
        return msgspec.structs.astuple(fact)[1 : 1 + self._key_width]
