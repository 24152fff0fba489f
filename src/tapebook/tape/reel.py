"""The tape for a sole reader whose time goes forward: a backtest reads it a hundred thousand times.

A reel answers like the tape it is opened on, for every view; no further than the commit it was
opened at, so what is imported meanwhile changes nothing. Rows come from memory (`track.py`) and bars
are made once (`strip.py`). It does not write.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from tapebook.db import Database
from tapebook.domain.instants import HOUR, SECOND
from tapebook.domain.market import Candle, Gap, Mid, MidFrame, Observation
from tapebook.tape.bars import LENGTHS, finer, is_finest, made, made_of, newest_bar
from tapebook.tape.cold import Fetch
from tapebook.tape.derived import HistoryDeriver, HistoryFeatures
from tapebook.tape.families import (
    BOOKS,
    CANDLES,
    CONTEXTS,
    FUNDING,
    OF_TYPE,
    POSITIONING,
    PRESSURE,
    VOLATILITY,
    Family,
)
from tapebook.tape.importer import GRACE_MS
from tapebook.tape.quarantine import Refused
from tapebook.tape.rows import KnownAt
from tapebook.tape.store import _QUERIES, MAKE, Clock, KnownDelisting, Tape
from tapebook.tape.strip import Strip
from tapebook.tape.track import Loaded, Shelf, Track
from tapebook.tape.view import NO_WATERMARK, View

_EVER = NO_WATERMARK
# Newest bars and prices that are remembered: those of a few symbols at the moments one tick asks about.
_MOST_MOMENTS = 256
_BESIDE_PRICES = (BOOKS, CONTEXTS, VOLATILITY, PRESSURE, POSITIONING)

_Place = tuple[Family, str, int]


class _Tracks(dict[_Place, Track | None]):
    """The rows of each family and symbol, looked for when they are asked about first."""

    def __init__(self, make: Callable[[Family, str, int], Track | None]) -> None:
        self._make = make

    def __missing__(self, place: _Place) -> Track | None:
        track = self[place] = self._make(*place)
        return track


class Reel(Tape):
    """A tape that is held in memory where it is read."""

    def __init__(
        self, db: Database, *, clock: Clock, fetch: Fetch = lambda key: None, watermark: int | None = None
    ) -> None:
        super().__init__(db, clock=clock, fetch=fetch)
        seq, known_at = super().head()
        self._head = (seq if watermark is None else min(seq, watermark), known_at)
        self._numbers = self._known_ids()
        self._extents: dict[tuple[Family, int], tuple[int, int] | None] = {}
        self._tracks = _Tracks(self._new_track)
        self._lengths = [length for length in LENGTHS if self._extent(CANDLES, length)]
        self._tracks_of: dict[str, list[tuple[int, Track]]] = {}
        self._newest_bars: dict[tuple[str, int], Candle | None] = {}
        self._prices: dict[tuple[str, int], Mid | None] = {}
        self._prices_alone: dict[str, bool] = {}
        self._delistings: dict[str, list[tuple[int, int, int | None]]] = {}
        for symbol, *told in self._db.all(_QUERIES.delistings, watermark=self._head[0]):
            self._delistings.setdefault(symbol, []).append((told[0], told[1], told[2]))
        self._strips: dict[tuple[str, int, int], list[tuple[int, Strip]]] = {}
        self._derivers: dict[str, HistoryDeriver] = {}
        self._lengths_within: dict[tuple[str, int], tuple[int, ...]] = {}
        self._stored: dict[tuple[str, int], tuple[int, int]] = {}

    def head(self) -> tuple[int, int]:
        """The newest commit it reaches to, and when the newest of the tape was known as it was opened."""
        return self._head

    def symbols(self) -> list[str]:
        """Every symbol the tape had heard of when it was opened, in alphabetical order."""
        return sorted(self._numbers)

    def commit(
        self,
        observations: Iterable[Observation | MidFrame],
        *,
        gaps: Sequence[Gap] = (),
        filled: Sequence[Gap] = (),
        assumed: KnownAt | None = None,
        refused: Sequence[Refused] = (),
    ) -> NoReturn:
        """Is refused: a reel would not see what it wrote."""
        raise RuntimeError("a reel only reads: commit to the tape, and open another reel")

    def bars(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
        """The newest complete bars of a size; those that were there before are the same objects again."""
        if view.watermark < self._head[0]:
            return super().bars(symbol, minutes=minutes, count=count, view=view)
        step = minutes * 60 * SECOND
        end = view.as_of - view.as_of % step
        strips = self._strips.get((symbol, minutes, count))
        if strips is None:
            strips = self._strips[symbol, minutes, count] = self._new_strips(symbol, minutes)
        for length, strip in strips:
            found = strip.window(end - count * step, end, view)
            if is_finest(found, length, minutes=minutes, end=end):
                return found
        return ()

    def newest_bar(self, symbol: str, *, view: View) -> Candle | None:
        """The bar that ended last; a tick asks for the same one several times."""
        if view.watermark < self._head[0]:
            return super().newest_bar(symbol, view=view)
        key = symbol, view.as_of
        if key not in self._newest_bars:
            if len(self._newest_bars) >= _MOST_MOMENTS:
                self._newest_bars.clear()
            self._newest_bars[key] = self._find_newest_bar(symbol, view)
        return self._newest_bars[key]

    def _find_newest_bar(self, symbol: str, view: View) -> Candle | None:
        tracks = self._bar_tracks(symbol)
        if len(tracks) == 1:
            # Of one length the newest is mostly of the last hour.
            length, track = tracks[0]
            last = view.as_of - length * SECOND
            found = track.newest(last - HOUR, last, view)
            if found is not None and found[0] is not None:
                newest: Candle = found[0]
                return newest
        return newest_bar(self, symbol, view=view, lengths=self._lengths)

    def _bar_tracks(self, symbol: str) -> list[tuple[int, Track]]:
        """The lengths a symbol may have bars of, finest first, each with its rows."""
        found = self._tracks_of.get(symbol)
        if found is None:
            tracks = [(each, self._tracks[CANDLES, symbol, each]) for each in self._lengths]
            found = self._tracks_of[symbol] = [(each, track) for each, track in tracks if track is not None]
        return found

    def last_price(self, symbol: str, *, view: View) -> Mid | None:
        """The price last observed; a tick asks for that of now several times, and for that of midnight all day."""
        if view.watermark < self._head[0]:
            return super().last_price(symbol, view=view)
        key = symbol, view.as_of
        if key not in self._prices:
            if len(self._prices) >= _MOST_MOMENTS:
                self._prices.clear()
            self._prices[key] = super().last_price(symbol, view=view)
        return self._prices[key]

    def lengths_within(self, symbol: str, minutes: int) -> tuple[int, ...]:
        """The lengths that bars of a size can be made of and that there are bars of."""
        found = self._lengths_within.get((symbol, minutes))
        if found is None:
            found = tuple(each for each in finer(minutes) if self._tracks[CANDLES, symbol, each] is not None)
            self._lengths_within[symbol, minutes] = found
        return found

    def is_stored_until(self, symbol: str, end: int, *, minutes: int, view: View) -> bool:
        """Whether a bar that ends then or later is stored.

        A cache of the latest end that was, by the moment it was asked as of: it is for whoever looks later, since rows
        do not go away, and is asked again for a later end or an earlier view.
        """
        until, since = self._stored.get((symbol, minutes), (-1, 0))
        if end <= until and view.as_of >= since and view.watermark >= self._head[0]:
            return True
        found = super().is_stored_until(symbol, end, minutes=minutes, view=view)
        if found and end > until and view.watermark >= self._head[0]:
            self._stored[symbol, minutes] = end, view.as_of
        return found

    def first_known(
        self, kind: type[Mid | Candle], symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> int:
        """When the first row of a stretch was known that had ended by then."""
        if view.watermark < self._head[0]:
            rows: Any = {"since": since, "until": until, "granularity_sec": granularity_sec}
            return super().first_known(kind, symbol, view=view, **rows)
        track = self._tracks[OF_TYPE[kind], symbol, granularity_sec]
        return NO_WATERMARK if track is None else track.first_known(since, until, length_ms=granularity_sec * SECOND)

    def has_prices_alone(self, symbol: str) -> bool:
        """Whether of a symbol there are no books, contexts or features at all."""
        found = self._prices_alone.get(symbol)
        if found is None:
            found = not any(self._tracks[family, symbol, 0] for family in _BESIDE_PRICES)
            self._prices_alone[symbol] = found
        return found

    def delisting(self, symbol: str, *, view: View) -> KnownDelisting | None:
        """The settlement of a perp that the exchange does not list any more; None while it does, as far as is known."""
        told = self._delistings.get(symbol, ())
        known = [each for each in told if each[0] <= view.as_of and each[1] <= view.watermark] if told else []
        return KnownDelisting(known[-1][0], known[-1][2]) if known and known[-1][2] is not None else None

    def history_features(self, symbol: str, *, view: View) -> HistoryFeatures:
        """Features derived from bars and settled rates; those of one boundary are derived once."""
        if view.watermark < self._head[0]:
            return super().history_features(symbol, view=view)
        deriver = self._derivers.get(symbol)
        if deriver is None:
            deriver = self._derivers[symbol] = HistoryDeriver(self, symbol, frozen=self)
        return deriver.at(view)

    def known_by(self, symbol: str, since: int, until: int, *, granularity_sec: int) -> int:
        """When all bars of a length, or where that is 0 all rates, were known that begin between two moments."""
        track = self._tracks[CANDLES if granularity_sec else FUNDING, symbol, granularity_sec]
        return 0 if track is None else track.known_by(since, until)

    def prompt_bars(self, symbol: str, since: int, until: int, *, granularity_sec: int) -> list[Candle] | None:
        """The bars of a stretch if each was known when its grace was over; None where there may be other lengths."""
        tracks = self._bar_tracks(symbol)
        if [each for each, _ in tracks] != [granularity_sec]:
            return None
        return tracks[0][1].prompt(since, until, within_ms=granularity_sec * SECOND + GRACE_MS)

    def _newest(
        self,
        family: Family,
        symbol: str,
        *,
        until: int,
        view: View,
        since: int | None = None,
        granularity_sec: int = 0,
    ) -> Any:
        track = self._tracks[family, symbol, granularity_sec]
        if track is None:
            return None
        found = track.newest(-_EVER if since is None else since, until, view)
        if found is not None:
            return found[0]
        far = self._capped(view)
        return super()._newest(family, symbol, until=until, view=far, since=since, granularity_sec=granularity_sec)

    def _between(
        self, family: Family, symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> list[Any]:
        track = self._tracks[family, symbol, granularity_sec]
        if track is None or until < since:
            return []
        found = track.between(since, until, view)
        if found is not None:
            return found
        far = self._capped(view)
        return super()._between(family, symbol, since=since, until=until, view=far, granularity_sec=granularity_sec)

    def _capped(self, view: View) -> View:
        return View(view.as_of, min(view.watermark, self._head[0]))

    def _new_track(self, family: Family, symbol: str, granularity_sec: int) -> Track | None:
        """The rows of a symbol; None when the tape has none of the family, or has not heard of the symbol."""
        extent = self._extent(family, granularity_sec)
        if extent is None or symbol not in self._numbers:
            return None
        where: Any = {"family": family, "symbol": symbol, "granularity_sec": granularity_sec}
        shelf = Shelf(partial(self._rows, **where), partial(self._rows_before, **where))
        step = granularity_sec * SECOND or family.step_ms
        return Track(shelf, step_ms=step, key_width=family.key_width, extent=extent)

    def _extent(self, family: Family, granularity_sec: int) -> tuple[int, int] | None:
        """From when to when a family has rows at all, or None; asked once."""
        key = family, granularity_sec
        if key not in self._extents:
            span, first = _span(family, granularity_sec), self._first_chunk(family, granularity_sec)
            last = self._chunk_before(family, _EVER, granularity_sec) or 0
            self._extents[key] = None if first is None else (first * span, (last + 1) * span - 1)
        return self._extents[key]

    def _first_chunk(self, family: Family, granularity_sec: int) -> int | None:
        where = {"after_chunk": -1, "before_chunk": _EVER, "granularity_sec": granularity_sec}
        here = self._db.one(family.queries.next_chunk, **where)
        found = [here[0] if here else None, self._cold.first_chunk(family, granularity_sec)]
        return min((number for number in found if number is not None), default=None)

    def _rows(self, since: int, before: int, *, family: Family, symbol: str, granularity_sec: int) -> Loaded:
        """Every row from one moment up to, not including, another, as far as the reel reaches."""
        first, last = family.chunk(since, granularity_sec), family.chunk(before - 1, granularity_sec)
        where = {"symbol_id": self._numbers[symbol], "granularity_sec": granularity_sec, "watermark": self._head[0]}
        where |= {"first_chunk": first, "last_chunk": last, "since": since, "until": before - 1}
        rows = self._cold.both(family, family.queries.page, first=first, last=last, **where)
        make = MAKE[family]
        return Loaded([make(symbol, *row[:-2]) for row in rows], [row[-2] for row in rows], [row[-1] for row in rows])

    def _rows_before(self, moment: int, *, family: Family, symbol: str, granularity_sec: int) -> tuple[int, Loaded]:
        """The nearest rows before a moment, found chunk by chunk, and where their chunk begins."""
        span = _span(family, granularity_sec)
        where: Any = {"family": family, "symbol": symbol, "granularity_sec": granularity_sec}
        chunk: int | None = (moment - 1) // span
        while chunk is not None:
            found = self._rows(chunk * span, min(moment, (chunk + 1) * span), **where)
            if found.facts:
                return chunk * span, found
            chunk = self._chunk_before(family, chunk, granularity_sec)
        return -_EVER, Loaded((), (), ())

    def _new_strips(self, symbol: str, minutes: int) -> list[tuple[int, Strip]]:
        """A strip for every length the tape has and bars of a size can be made of, finest first."""
        found = []
        for length in finer(minutes):
            lengths = made_of(length, minutes=minutes)
            tracks = [track for each in lengths if (track := self._tracks[CANDLES, symbol, each])]
            if tracks:
                found.append((length, Strip(partial(made, self, symbol, length, minutes=minutes), tracks)))
        return found


def _span(family: Family, granularity_sec: int) -> int:
    """How long a chunk is."""
    return granularity_sec * family.span_per_granularity or family.span_ms
