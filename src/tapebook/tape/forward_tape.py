"""A tape held in memory for a single reader whose time goes forward: a backtest reads it a hundred thousand times.

`ForwardTape` answers like the tape it is opened on, for every view; no further than the commit it was opened at, so
what is imported meanwhile changes nothing. It does not write. It reads through two caches:

- `RowBuffer` holds every revision of every row of one symbol in one family between two moments (`_lo` to `_hi`),
  with when and in which commit each was known, so it answers for any view like the database. Rows ahead are loaded a
  page at a time, rows far behind are dropped; a range that lies somewhere else entirely is read from the database.
- `BarWindow` holds the newest bars of one size. A window is kept once every row it is made of was known; then it
  looks the same to every later view. Bars from further back are made anew, and the window stays.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import sub
from typing import Any, NoReturn, Protocol

import msgspec

from tapebook.db import Database
from tapebook.domain.market import Candle, Gap, Mid, MidFrame, Observation, SubjectKind
from tapebook.domain.units import DAY, HOUR, SECOND
from tapebook.log.store import LogClock
from tapebook.tape.bars import (
    BAR_LENGTHS,
    bars_from_length,
    is_finest,
    lengths_counted_as,
    lengths_dividing,
)
from tapebook.tape.families import (
    BOOKS,
    CANDLES,
    CONTEXTS,
    FAMILY_OF_TYPE,
    FUNDING,
    POSITIONING,
    PRESSURE,
    VOLATILITY,
    Family,
    KnownAt,
)
from tapebook.tape.history_features import HistoryDeriver, HistoryFeatures
from tapebook.tape.quarantine import RefusedObservation
from tapebook.tape.registry import DelistingTable, Registry
from tapebook.tape.retention import FetchObject
from tapebook.tape.source import SourceAdapter
from tapebook.tape.store import _NO_KINDS, FactKind, Tape
from tapebook.tape.view import GRACE_MS, NO_WATERMARK, View

PAGE_ROWS = 8_000
"""Rows that are loaded ahead at once, if there is one in every bucket; some 3 MB of bars."""

KEPT_ROWS = 12_000
"""Rows that are kept behind: 40 days of bars of five minutes."""

_PAGE_MS, _KEPT_MS = 32 * DAY, 40 * DAY
# Moments of which the newest bar and price are kept, of all symbols together.
_MOST_MOMENTS = 4_096
# How many times the rows that are kept may be loaded to reach back to what is asked for.
_REACH = 4


class LoadedRows(msgspec.Struct, frozen=True):
    """Rows in order of their bucket and commit: facts, when each was known, and in which commit."""

    facts: Sequence[Any]
    known: Sequence[int]
    seqs: Sequence[int]


class RowSource(msgspec.Struct, frozen=True):
    """Where the rows of a track come from.

    `between` gives every row from one moment up to, not including, another; `before` the nearest rows before a moment,
    and since when these are all there are.
    """

    between: Callable[[int, int], LoadedRows]
    before: Callable[[int], tuple[int, LoadedRows]]


class RowBuffer:
    """A stretch of rows; `extent` is from when to when there are any of the family at all."""

    def __init__(self, shelf: RowSource, *, step_ms: int, key_width: int, extent: tuple[int, int]) -> None:
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

    def facts_between(self, since: int, until: int, view: View) -> list[Any] | None:
        """The facts of a stretch, each in its newest revision that is seen; None when they are too far away."""
        if not (self._lo <= since and until < self._hi) and not self._load_range(since, until):
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

    def newest_fact(self, since: int, until: int, view: View) -> tuple[Any] | None:
        """The newest fact of a stretch that is seen, or None, as a tuple; None when it is too far away."""
        if until < self._first:
            return (None,)
        until = min(until, self._last)
        if not self._lo <= until < self._hi and not self._load_range(until, until):
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
        if not (self._lo <= since and until < self._hi) and not self._load_range(since, until):
            return NO_WATERMARK
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        return max(self._known[first:end], default=0)

    def timely_facts(self, since: int, until: int, *, within_ms: int) -> list[Any] | None:
        """The facts of a stretch if none was revised and each was known so soon after it began; None otherwise."""
        if not (self._lo <= since and until < self._hi) and not self._load_range(since, until):
            return None
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        waited = map(sub, self._known[first:end], self._buckets[first:end])
        return self._facts[first:end] if self._is_single and max(waited, default=0) <= within_ms else None

    def first_known(self, since: int, until: int, *, length_ms: int = 0) -> int:
        """When the first row of a stretch was known that had ended by then; never, without a row or too far away."""
        if not (self._lo <= since and until < self._hi) and not self._load_range(since, until):
            return NO_WATERMARK
        first, end = bisect_left(self._buckets, since), bisect_right(self._buckets, until)
        if end - first == 1:
            return max(self._known[first], self._buckets[first] + length_ms)
        rows = zip(self._buckets[first:end], self._known[first:end], strict=True)
        return min([max(known, bucket + length_ms) for bucket, known in rows], default=NO_WATERMARK)

    def _load_range(self, since: int, until: int) -> bool:
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
        self._insert(self._shelf.between(self._hi, before), ahead=True)
        self._hi = before

    def _prepend(self, since: int) -> None:
        self._insert(self._shelf.between(since, self._lo), ahead=False)
        self._lo = since

    def _load_before(self) -> int:
        """Loads the nearest rows before those that are there; returns how many."""
        self._lo, found = self._shelf.before(self._lo)
        self._insert(found, ahead=False)
        return len(found.facts)

    def _insert(self, found: LoadedRows, *, ahead: bool) -> None:
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


class MakeBars(Protocol):
    """Makes the bars from one moment up to another, as they are seen."""

    def __call__(self, *, since: int, end: int, view: View) -> tuple[Candle, ...]:
        """Bars of the strip's size, oldest first."""
        ...


class BarWindow:
    """The newest window of bars; `tracks` hold the rows they are made of."""

    def __init__(self, make: MakeBars, tracks: Sequence[RowBuffer]) -> None:
        self._make = make
        self._tracks = tracks
        self._since = self._end = self._known = 0
        self._bars: tuple[Candle, ...] = ()

    def bars_between(self, since: int, end: int, view: View) -> tuple[Candle, ...]:
        """The bars from one moment up to another."""
        is_seen = view.as_of >= self._known
        if is_seen and end == self._end and since == self._since:
            return self._bars
        follows = is_seen and self._since <= since <= self._end <= end
        start = self._end if follows else since
        bars = self._make(since=start, end=end, view=view)
        if follows:
            bars = self._bars[self._count_before(since) :] + bars
        if end >= self._end:
            known = max([track.known_by(start, end - 1) for track in self._tracks])
            if known <= view.as_of:
                self._since, self._end, self._bars = since, end, bars
                self._known = max(self._known, known) if follows else known
        return bars

    def holds(self, bars: tuple[Candle, ...]) -> bool:
        """Whether these very bars are the window that is kept: every later view sees them as well."""
        return bool(bars) and bars is self._bars

    def _count_before(self, moment: int) -> int:
        """How many bars fall out at the old end: one, as a rule."""
        for at, bar in enumerate(self._bars):
            if bar.bucket_ts >= moment:
                return at
        return len(self._bars)


_EVER = NO_WATERMARK
_FAMILIES_BESIDE_PRICES = (BOOKS, CONTEXTS, VOLATILITY, PRESSURE, POSITIONING)

_BufferKey = tuple[Family, str, int]


class _RowBuffers(dict[_BufferKey, RowBuffer | None]):
    """The rows of each family and symbol, looked for when they are asked about first."""

    def __init__(self, make: Callable[[Family, str, int], RowBuffer | None]) -> None:
        self._make = make

    def __missing__(self, place: _BufferKey) -> RowBuffer | None:
        track = self[place] = self._make(*place)
        return track


class ForwardTape(Tape):
    """A tape that is held in memory where it is read."""

    def __init__(
        self,
        db: Database,
        *,
        clock: LogClock,
        fetch: FetchObject = lambda key: None,
        watermark: int | None = None,
        sources: Sequence[SourceAdapter] = (),
    ) -> None:
        super().__init__(db, clock=clock, fetch=fetch, sources=sources)
        seq, known_at = super().head()
        self._head = (seq if watermark is None else min(seq, watermark), known_at)
        self._numbers = self._known_ids()
        self.registry = Registry(db, watermark=self._head[0])
        self.delistings = DelistingTable(db, watermark=self._head[0])
        # Caches that nothing invalidates: what lies up to the commit this was opened at never changes.
        self._extents: dict[tuple[Family, int], tuple[int, int] | None] = {}
        self._tracks = _RowBuffers(self._new_buffer)
        self._lengths = [length for length in BAR_LENGTHS if self._extent(CANDLES, length)]
        # None comes in while this tape is read.
        self.has_prices_alone = not any(self._extent(family, 0) for family in _FAMILIES_BESIDE_PRICES)
        self.feature_channels = frozenset(name for name, family in self._features.items() if self._extent(family, 0))
        self._tracks_of: dict[str, list[tuple[int, RowBuffer]]] = {}
        self._strips: dict[tuple[str, int, int], list[tuple[int, BarWindow]]] = {}
        self._derivers: dict[str, HistoryDeriver] = {}
        self._lengths_within: dict[tuple[str, int], tuple[int, ...]] = {}
        # Caches by the moment of a view that reaches to the head: a tick asks for the price of now several times, and
        # for that of midnight all day. `_MOST_MOMENTS` bounds them.
        self._newest_bars: dict[tuple[str, int], Candle | None] = {}
        self._last_prices: dict[tuple[str, int], Mid | None] = {}
        # By symbol, size and count of bars: the newest window that no later view sees otherwise: its end, since when.
        self._whole_windows: dict[tuple[str, int, int], tuple[int, int, tuple[Candle, ...]]] = {}
        # By symbol and size of bars: the latest end up to which bars are known to be stored, and as of when.
        self._stored_until: dict[tuple[str, int], tuple[int, int]] = {}

    def head(self) -> tuple[int, int]:
        """The newest commit it reaches to, and when the newest of the tape was known as it was opened."""
        return self._head

    def symbols(self, *kinds: SubjectKind) -> list[str]:
        """Every symbol of some kinds, or of all, the tape had heard of when it was opened, in alphabetical order."""
        return sorted(symbol for symbol in self._numbers if not kinds or self._kinds[symbol] in kinds)

    def commit(
        self,
        observations: Iterable[Observation | MidFrame],
        *,
        gaps: Sequence[Gap] = (),
        filled: Sequence[Gap] = (),
        assumed: KnownAt | None = None,
        refused: Sequence[RefusedObservation] = (),
        kinds: Mapping[str, SubjectKind] = _NO_KINDS,
    ) -> NoReturn:
        """Is refused: a forward tape would not see what it wrote."""
        raise RuntimeError("a forward tape only reads: commit to the tape, and open another")

    def bars(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
        """The newest complete bars of a size; those that were there before are the same objects again."""
        if view.watermark < self._head[0]:
            return super().bars_and_end(symbol, minutes=minutes, count=count, view=view)[0]
        step = minutes * 60 * SECOND
        end = view.as_of - view.as_of % step
        strips = self._strips.get((symbol, minutes, count))
        if strips is None:
            strips = self._strips[symbol, minutes, count] = self._new_windows(symbol, minutes)
        for length, strip in strips:
            found = strip.bars_between(end - count * step, end, view)
            if is_finest(found, length, minutes=minutes, end=end):
                return found
        return ()

    def bars_and_end(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[tuple[Candle, ...], int]:
        """The newest bars of a size, and their end if they are made of all that is stored up to it."""
        end = view.as_of - view.as_of % (minutes * 60 * SECOND)
        kept = self._whole_windows.get((symbol, minutes, count))
        if kept is not None and kept[0] == end and view.as_of >= kept[1] and view.watermark >= self._head[0]:
            return kept[2], end
        is_stored = self.is_stored_until(symbol, end, minutes=minutes, view=view)
        found = self.bars(symbol, minutes=minutes, count=count, view=view)
        # Not one of a coarser strip: a later view may see finer bars.
        finest = self._strips.get((symbol, minutes, count), ())[:1]
        if is_stored and finest and finest[0][1].holds(found):
            self._whole_windows[symbol, minutes, count] = end, view.as_of, found
        return found, end if is_stored else 0

    def stored_lengths(self) -> list[int]:
        """The lengths there are bars of, finest first."""
        return self._lengths

    def candles(
        self, symbol: str, *, granularity_sec: int, since: int, view: View, until: int = NO_WATERMARK
    ) -> list[Candle]:
        """A symbol's bars that begin between two moments and had ended by `view.as_of`, oldest first."""
        # What a tape keeps of a read saves another; here that is a look at what is in memory.
        last = min(until, view.as_of - granularity_sec * SECOND)
        return self.facts(Candle, symbol, since=since, until=last, view=view, granularity_sec=granularity_sec)

    def newest_bar(self, symbol: str, *, view: View, lengths: Sequence[int] = ()) -> Candle | None:
        """The bar that ended last, of the finest there are."""
        if lengths or view.watermark < self._head[0]:
            return super().newest_bar(symbol, view=view, lengths=lengths)
        found, key = self._newest_bars, (symbol, view.as_of)
        if key not in found:
            if len(found) >= _MOST_MOMENTS:
                found.clear()
            found[key] = self._find_newest_bar(symbol, view)
        return found[key]

    def last_price(self, symbol: str, *, view: View) -> Mid | None:
        """The price last observed: a midpoint, or the close of a bar that ended after it, at the moment it ended."""
        if view.watermark < self._head[0]:
            return super().last_price(symbol, view=view)
        found, key = self._last_prices, (symbol, view.as_of)
        if key not in found:
            if len(found) >= _MOST_MOMENTS:
                found.clear()
            found[key] = super().last_price(symbol, view=view)
        return found[key]

    def is_stored_until(self, symbol: str, end: int, *, minutes: int, view: View) -> bool:
        """Whether a bar that ends then or later is stored, of any length a bar of this size is made of."""
        if view.watermark < self._head[0]:
            return super().is_stored_until(symbol, end, minutes=minutes, view=view)
        # Rows do not go away, so what was stored is so for every later view.
        until, since = self._stored_until.get((symbol, minutes), (-1, 0))
        if end <= until and view.as_of >= since:
            return True
        found = super().is_stored_until(symbol, end, minutes=minutes, view=view)
        if found and end > until:
            self._stored_until[symbol, minutes] = end, view.as_of
        return found

    def _find_newest_bar(self, symbol: str, view: View) -> Candle | None:
        tracks = self._bar_buffers(symbol)
        if len(tracks) == 1:
            # Of one length the newest is mostly of the last hour.
            length, track = tracks[0]
            last = view.as_of - length * SECOND
            found = track.newest_fact(last - HOUR, last, view)
            if found is not None and found[0] is not None:
                newest: Candle = found[0]
                return newest
        return super().newest_bar(symbol, view=view)

    def _bar_buffers(self, symbol: str) -> list[tuple[int, RowBuffer]]:
        """The lengths a symbol may have bars of, finest first, each with its rows."""
        found = self._tracks_of.get(symbol)
        if found is None:
            tracks = [(each, self._tracks[CANDLES, symbol, each]) for each in self._lengths]
            found = self._tracks_of[symbol] = [(each, track) for each, track in tracks if track is not None]
        return found

    def lengths_within(self, symbol: str, minutes: int) -> tuple[int, ...]:
        """The lengths that bars of a size can be made of and that there are bars of."""
        found = self._lengths_within.get((symbol, minutes))
        if found is None:
            found = tuple(each for each in lengths_dividing(minutes) if self._tracks[CANDLES, symbol, each] is not None)
            self._lengths_within[symbol, minutes] = found
        return found

    def first_known(
        self, kind: type[Mid | Candle], symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> int:
        """When the first row of a stretch was known that had ended by then."""
        if view.watermark < self._head[0]:
            rows: Any = {"since": since, "until": until, "granularity_sec": granularity_sec}
            return super().first_known(kind, symbol, view=view, **rows)
        track = self._tracks[FAMILY_OF_TYPE[kind], symbol, granularity_sec]
        return NO_WATERMARK if track is None else track.first_known(since, until, length_ms=granularity_sec * SECOND)

    def history_features(self, symbol: str, *, view: View) -> HistoryFeatures:
        """Features derived from bars and settled rates; those of one boundary are derived once."""
        if view.watermark < self._head[0]:
            return super().history_features(symbol, view=view)
        deriver = self._derivers.get(symbol)
        if deriver is None:
            deriver = self._derivers[symbol] = HistoryDeriver(self, symbol, frozen=self)
        return deriver.features_at(view)

    def known_by(self, symbol: str, since: int, until: int, *, granularity_sec: int) -> int:
        """When all bars of a length, or where that is 0 all rates, were known that begin between two moments."""
        track = self._tracks[CANDLES if granularity_sec else FUNDING, symbol, granularity_sec]
        return 0 if track is None else track.known_by(since, until)

    def timely_bars(self, symbol: str, since: int, until: int, *, granularity_sec: int) -> list[Candle] | None:
        """The bars of a stretch if each was known when its grace was over; None where there may be other lengths."""
        tracks = self._bar_buffers(symbol)
        if [each for each, _ in tracks] != [granularity_sec]:
            return None
        return tracks[0][1].timely_facts(since, until, within_ms=granularity_sec * SECOND + GRACE_MS)

    def newest(
        self, kind: FactKind, symbol: str, *, view: View, since: int | None = None, granularity_sec: int = 0
    ) -> Any:
        """A symbol's newest fact of a kind, or row of a channel of features; of bars, of a length, one that ended."""
        family = self._features[kind] if isinstance(kind, str) else FAMILY_OF_TYPE[kind]
        track = self._tracks[family, symbol, granularity_sec]
        if track is None:
            return None
        found = track.newest_fact(-_EVER if since is None else since, view.as_of - granularity_sec * SECOND, view)
        if found is not None:
            return found[0]
        limits: Any = {"since": since, "granularity_sec": granularity_sec}
        return super().newest(kind, symbol, view=self._capped_view(view), **limits)

    def facts(
        self, kind: FactKind, symbol: str, *, since: int, view: View, until: int | None = None, granularity_sec: int = 0
    ) -> list[Any]:
        """A symbol's facts of a kind, or rows of a channel of features, between two moments or since one."""
        family = self._features[kind] if isinstance(kind, str) else FAMILY_OF_TYPE[kind]
        track, until = self._tracks[family, symbol, granularity_sec], view.as_of if until is None else until
        if track is None or until < since:
            return []
        found = track.facts_between(since, until, view)
        if found is not None:
            return found
        limits: Any = {"since": since, "until": until, "granularity_sec": granularity_sec}
        return super().facts(kind, symbol, view=self._capped_view(view), **limits)

    def _capped_view(self, view: View) -> View:
        return View(view.as_of, min(view.watermark, self._head[0]))

    def _new_buffer(self, family: Family, symbol: str, granularity_sec: int) -> RowBuffer | None:
        """The rows of a symbol; None when the tape has none of the family, or has not heard of the symbol."""
        extent = self._extent(family, granularity_sec)
        if extent is None or symbol not in self._numbers:
            return None
        where: Any = {"family": family, "symbol": symbol, "granularity_sec": granularity_sec}
        shelf = RowSource(partial(self._rows, **where), partial(self._rows_before, **where))
        step = granularity_sec * SECOND or family.step_ms
        return RowBuffer(shelf, step_ms=step, key_width=family.key_width, extent=extent)

    def _extent(self, family: Family, granularity_sec: int) -> tuple[int, int] | None:
        """From when to when a family has rows at all, or None; asked once."""
        key = family, granularity_sec
        if key not in self._extents:
            span, first = _span(family, granularity_sec), self._first_chunk(family, granularity_sec)
            last = max(0, *self._chunks_before(family, _EVER, granularity_sec, away_chunk=_EVER))
            self._extents[key] = None if first is None else (first * span, (last + 1) * span - 1)
        return self._extents[key]

    def _first_chunk(self, family: Family, granularity_sec: int) -> int | None:
        where = {"after_chunk": -1, "before_chunk": _EVER, "granularity_sec": granularity_sec}
        here = self._db.one(family.queries.next_chunk, **where)
        found = [here[0] if here else None, self._cold.first_chunk(family, granularity_sec)]
        return min((number for number in found if number is not None), default=None)

    def _rows(self, since: int, before: int, *, family: Family, symbol: str, granularity_sec: int) -> LoadedRows:
        """Every row from one moment up to, not including, another, as far as the reel reaches."""
        first, last = family.chunk(since, granularity_sec), family.chunk(before - 1, granularity_sec)
        where = {"symbol_id": self._numbers[symbol], "granularity_sec": granularity_sec, "watermark": self._head[0]}
        where |= {"first_chunk": first, "last_chunk": last, "since": since, "until": before - 1}
        rows = self._cold.rows_with_archived(family, family.queries.page, first=first, last=last, **where)
        make = family.make
        return LoadedRows(
            [make(symbol, *row[:-2]) for row in rows], [row[-2] for row in rows], [row[-1] for row in rows]
        )

    def _rows_before(self, moment: int, *, family: Family, symbol: str, granularity_sec: int) -> tuple[int, LoadedRows]:
        """The nearest rows before a moment, found chunk by chunk, and where their chunk begins."""
        span = _span(family, granularity_sec)
        where: Any = {"family": family, "symbol": symbol, "granularity_sec": granularity_sec}
        chunk = (moment - 1) // span
        while chunk >= 0:
            found = self._rows(chunk * span, min(moment, (chunk + 1) * span), **where)
            if found.facts:
                return chunk * span, found
            chunk = max(self._chunks_before(family, chunk, granularity_sec, away_chunk=chunk))
        return -_EVER, LoadedRows((), (), ())

    def _new_windows(self, symbol: str, minutes: int) -> list[tuple[int, BarWindow]]:
        """A strip for every length the tape has and bars of a size can be made of, finest first."""
        found = []
        for length in lengths_dividing(minutes):
            lengths = lengths_counted_as(length, minutes=minutes)
            tracks = [track for each in lengths if (track := self._tracks[CANDLES, symbol, each])]
            if tracks:
                found.append(
                    (length, BarWindow(partial(bars_from_length, self, symbol, length, minutes=minutes), tracks))
                )
        return found


def _span(family: Family, granularity_sec: int) -> int:
    """How long a chunk is."""
    return granularity_sec * family.span_per_granularity or family.span_ms
