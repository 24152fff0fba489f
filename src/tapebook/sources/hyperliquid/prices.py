"""Mids and candles of the socket: which mids count, which bars are final, what is requested again. Pure.

Mids: the first frame of each five-second bucket and no other, so a mid is known at once and never revised.

Bars: a frame is the whole bar so far and carries no closed flag. A bar is final when a frame of a later bar arrives,
or when the clock passes its end by a grace. Only final bars leave; a later picture of a bar that left leaves again
when it differs, and the tape makes that a revision. Trades only add up, so of two pictures of one bar the one with
more trades is the later one, in whatever order they arrive. A minute without trades leaves nothing: the flat rows by
which REST may show it later are proof that nothing was missed, and no bars.

Repairs: a range is owed from the moment a connection was last heard. It is requested when the subscription stands
again, so that no minute falls between the two, and it is a gap until it has come. A minute the answer does not show
may have been quiet and appear late, so it is requested once more before it becomes, or stays, a gap. While the
connection stood, a minute without a bar here and there was quiet, and is no gap. A frame that cannot be read has its
minute requested when it is over, and once an hour every symbol's last hour is compared with what the exchange says
(`_audit`).
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import compress

import msgspec

from tapebook.domain.market import Candle, Gap, MidFrame, dex_of
from tapebook.domain.units import HOUR, MINUTE, SECOND, floor_to_step
from tapebook.sources.hyperliquid.gaps import NO_BAR, NOT_RUNNING, Outbox, first_kept_minute, missing_ranges
from tapebook.sources.hyperliquid.rest import Poll, RestQueue, RestRequest, SourceTime
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import full_name
from tapebook.sources.hyperliquid.wire import Malformed, MidsFrame, read_candles

MIDS_BUCKET_MS = 5 * SECOND


class MidStream:
    """The mids of one dex."""

    def __init__(self, dex: str, *, wanted: Callable[[str], bool], newest: int | None = None) -> None:
        self._dex = dex
        self._wanted = wanted
        self._newest = -1 if newest is None else newest
        self._given: list[str] = []
        self._mask: list[bool] = []
        self._names: tuple[str, ...] = ()

    def mids_of_frame(self, frame: MidsFrame, *, at: int) -> MidFrame:
        """The mids of a frame received at a moment; none when its bucket has already had one."""
        bucket = floor_to_step(at, MIDS_BUCKET_MS)
        if bucket <= self._newest or not frame.prices_e8:
            return MidFrame(bucket, (), ())
        self._newest = bucket
        if self._given != frame.symbols:
            self._choose(frame.symbols)
        return MidFrame(bucket, self._names, tuple(compress(frame.prices_e8, self._mask)))

    def forget_names(self) -> None:
        """Decides anew which names are watched, at the next frame."""
        self._given = []

    def _choose(self, given: list[str]) -> None:
        full = [full_name(self._dex, name) for name in given]
        self._given = given
        self._mask = [self._wanted(name) for name in full]
        self._names = tuple(compress(full, self._mask))


# How many final bars of a symbol are remembered to tell a new picture from an old one. The tape compares too.
REMEMBERED = 120
_NEVER = 2**62


class _WaitingBar(msgspec.Struct, gc=False):
    """The latest picture of a bar; a doubted one may lack trades that a lost connection did not bring."""

    candle: Candle
    doubted: bool = False


class _SymbolBars(msgspec.Struct):
    """The bars of one symbol: not yet final, and already given out."""

    waiting: dict[int, _WaitingBar] = {}
    given: dict[int, Candle] = {}
    newest: int = -1


class BarFinalizer:
    """The bars of all symbols."""

    def __init__(self, *, grace_ms: int) -> None:
        self._grace = grace_ms
        self._series: dict[str, _SymbolBars] = {}
        # No waiting bar can become final by the clock before this.
        self._next_due = _NEVER

    def add_frame(self, candle: Candle) -> list[Candle]:
        """A picture from the socket; gives what it makes final."""
        series, begins = self._series.get(candle.symbol), candle.bucket_ts
        if series is None:
            series = self._series[candle.symbol] = _SymbolBars()
        before = series.newest
        if begins < before - REMEMBERED * MINUTE:
            # Whether it is older than what was given out, nobody here remembers.
            return []
        self._remember(series, candle)
        if begins >= before and len(series.waiting) == 1:
            return []
        if begins > before and len(series.waiting) == 2 and before in series.waiting:
            # Nearly every bar becomes final like this: it waits alone, and a picture of a later one comes.
            return self._pop_bar(series, before)
        return self._pop_final(series, now=-1)

    def finish_by_clock(self, now: int) -> list[Candle]:
        """What the clock makes final."""
        if now < self._next_due:
            return []
        final = [bar for series in self._series.values() if series.waiting for bar in self._pop_final(series, now=now)]
        due = (begins + MINUTE + self._grace for series in self._series.values() for begins in series.waiting)
        self._next_due = min(due, default=_NEVER)
        return final

    def add_backfill(self, symbol: str, rows: Iterable[Candle], *, now: int) -> list[Candle]:
        """Pictures from REST; gives what they make final."""
        series = self._series.setdefault(symbol, _SymbolBars())
        for candle in rows:
            self._remember(series, candle)
        return self._pop_final(series, now=now)

    def mark_doubtful(self, symbols: Iterable[str]) -> None:
        """The connection is lost: the waiting bars stay back until a new picture or a backfill arrives."""
        for symbol in symbols:
            for bar in self._series.get(symbol, _SymbolBars()).waiting.values():
                bar.doubted = True

    def clear_doubt(self, symbol: str) -> None:
        """The range was asked for while the subscription stood: the doubted bars of a symbol count as they are."""
        for bar in self._series.get(symbol, _SymbolBars()).waiting.values():
            bar.doubted = False

    def known_minutes(self, symbol: str, *, since: int, until: int) -> list[int]:
        """The minutes between two moments of which there is a picture."""
        series = self._series.get(symbol, _SymbolBars())
        return [begins for begins in (*series.given, *series.waiting) if since <= begins <= until]

    def _remember(self, series: _SymbolBars, candle: Candle) -> None:
        begins = candle.bucket_ts
        if begins > series.newest:
            series.newest = begins
        else:
            known = series.waiting.get(begins)
            given = series.given.get(begins) if known is None else None
            best = known.candle if known is not None else given
            if best is not None and (candle.sample_count < best.sample_count or candle == given):
                return
        series.waiting[begins] = _WaitingBar(candle)
        due = begins + MINUTE + self._grace
        if due < self._next_due:
            self._next_due = due

    def _pop_final(self, series: _SymbolBars, *, now: int) -> list[Candle]:
        final: list[Candle] = []
        for begins in sorted(series.waiting):
            if begins >= series.newest and now < begins + MINUTE + self._grace:
                # It has not ended, so no later one has.
                break
            final += self._pop_bar(series, begins)
        return final

    def _pop_bar(self, series: _SymbolBars, begins: int) -> list[Candle]:
        """A bar that has ended; none while it is in doubt, or when nothing was traded in it."""
        bar, given = series.waiting[begins], series.given
        if bar.doubted:
            return []
        del series.waiting[begins]
        if not bar.candle.sample_count:
            return []
        given[begins] = bar.candle
        if len(given) > REMEMBERED:
            del given[min(given)]
        return [bar.candle]


# A repair that was under way when the process was killed is not known after it; asking for 60 bars costs the
# same as for one, so a restart looks this far behind the newest bar it has.
_LOOK_BEHIND = 55 * MINUTE
_LOOK_AGAIN_S = 300.0
# After so many refusals of a range, bars in doubt leave as they are; the answer may still revise them.
_MOST_REFUSALS = 3
# A bar that begins later than this from now has a damaged time, and would make all others look final.
_MOST_AHEAD = MINUTE


class CandleRepairs:
    """The candles of all symbols."""

    def __init__(self, settings: HyperliquidSourceSettings, outbox: Outbox, errands: RestQueue) -> None:
        self._settings = settings
        self._outbox = outbox
        self._errands = errands
        self._bars = BarFinalizer(grace_ms=settings.grace_ms)
        self._owed: dict[str, int] = {}
        self._followed: set[str] = set()
        self._damaged: dict[str, int] = {}
        # Since when a symbol has been cut off, and why; and the ranges in which a missing bar may be a lost one.
        self._cut_off: dict[str, tuple[int, str]] = {}
        self._doubtful: dict[str, list[tuple[int, int]]] = {}
        # Gaps named of late: symbol, beginning and end.
        self._named: set[tuple[str, int, int]] = set()
        self._minutes = Poll(MINUTE)
        # Where the bars of each dex begin, and what was lost before that.
        self._start: dict[str, int] = {}
        self._start_gaps: dict[str, Gap] = {}
        # From which minute on the bars of each dex are missing, because nothing was running.
        self._not_running: dict[str, int] = {}

    def resume(self, newest: Mapping[str, int | None], *, alive: Mapping[str, int | None], at: int) -> None:
        """Begins where the tape ends, dex by dex; `alive` is when the mids of each were last heard."""
        for dex, minute in newest.items():
            if minute is None:
                self._start[dex] = floor_to_step(at - self._settings.history_ms, MINUTE)
                continue
            missing, gap = first_kept_minute(minute + MINUTE, at, dex=dex)
            self._start[dex] = missing if gap else first_kept_minute(minute - _LOOK_BEHIND, at)[0]
            if gap:
                self._start_gaps[dex] = gap
            # A bar is final after the grace. One minute may have been quiet everywhere, so the mids are heard too.
            last_minute = floor_to_step((alive.get(dex) or 0) - self._settings.grace_ms, MINUTE)
            self._not_running[dex] = max(minute + MINUTE, last_minute, self._start[dex])

    def follow_symbols(self, symbols: Iterable[str], *, at: int) -> None:
        """The symbols watched from now on; what is new is owed from the start."""
        now = set(symbols)
        for symbol in now - self._followed:
            self._owed[symbol] = self._start[dex_of(symbol)]
            if dex_of(symbol) in self._not_running:
                self._cut_off[symbol] = self._not_running[dex_of(symbol)], NOT_RUNNING
        for symbol in self._followed - now:
            self._damaged.pop(symbol, None)
            self._cut_off.pop(symbol, None)
            self._doubtful.pop(symbol, None)
            self.on_subscribed(symbol, at=at)
            unrepaired = self._errands.remove(symbol, "candles")
            if unrepaired is not None:
                bounds = unrepaired.since, floor_to_step(at, MINUTE)
                self._outbox.add_gap("candles", symbol, bounds, "delisted before it was repaired")
        self._followed = now

    def add_frame(self, candles: Iterable[Candle], *, at: int) -> None:
        """Bars from the socket."""
        latest = at + _MOST_AHEAD
        for candle in candles:
            if candle.bucket_ts > latest:
                self._report_ahead(candle, at=at)
            elif final := self._bars.add_frame(candle):
                self._emit(final)

    def on_damaged_frame(self, symbols: Iterable[str], *, at: int) -> None:
        """A frame of one of these symbols could not be read."""
        hurt = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.mark_doubtful(hurt)
        for symbol in hurt:
            self._damaged.setdefault(symbol, self._final_until(at))

    def tick(self, at: int) -> None:
        """Bars made final by the clock, and ranges that have to be asked for because their time has come."""
        over = self._final_until(at)
        for symbol in [symbol for symbol, since in self._damaged.items() if since < over]:
            since = self._damaged.pop(symbol)
            self._doubtful.setdefault(symbol, []).append((since, over))
            self._errands.add(RestRequest("candles", symbol, since))
        if self._settings.audit and self._minutes.due_bucket(at) is not None:
            self._audit(at)
        self._emit(self._bars.finish_by_clock(at))

    def _audit(self, at: int) -> None:
        """Asks for the last hour, and a little more, of those symbols whose minute of the hour it is."""
        # The little more is for bars that ended just before the last audit and were corrected after it.
        self._named = {gap for gap in self._named if gap[2] > at - 2 * HOUR}
        for symbol, ranges in self._doubtful.items():
            self._doubtful[symbol] = [each for each in ranges if each[1] > at - 2 * HOUR]
        minute, count = at // MINUTE % 60, len(self._followed)
        for place, symbol in enumerate(sorted(self._followed)):
            if place * 60 // count == minute and symbol not in self._owed:
                self._errands.add(RestRequest("candles", symbol, floor_to_step(at, MINUTE) - HOUR - 10 * MINUTE))

    def on_disconnected(self, symbols: Iterable[str], *, since: int, reason: str) -> None:
        """The connection of these symbols was last heard at `since`."""
        lost = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.mark_doubtful(lost)
        # A bar is not final before the grace is over, so the one before the loss may be part of it.
        since = self._final_until(since)
        for symbol in lost:
            self._owed[symbol] = min(since, self._owed.get(symbol, since))
            self._cut_off.setdefault(symbol, (since, reason))

    def on_subscribed(self, symbol: str, *, at: int) -> None:
        """The subscription of a symbol stands: now what is owed can be asked for without leaving a hole.

        The minutes that ended meanwhile are a gap until the answer fills it.
        """
        since, ended = self._owed.pop(symbol, None), self._final_until(at)
        first, reason = self._cut_off.pop(symbol, (since, ""))
        if since is not None:
            self._errands.add(RestRequest("candles", symbol, since))
        if first is not None and first < ended:
            self._doubtful.setdefault(symbol, []).append((first, ended))
            if reason:
                self._outbox.add_gap("candles", symbol, (first, ended), reason)

    def _final_until(self, at: int) -> int:
        """The end of the last minute whose bar is final by the clock."""
        return floor_to_step(at - self._settings.grace_ms, MINUTE)

    def handle_answer(self, errand: RestRequest, body: bytes, now: SourceTime) -> bool:
        """The range from REST; False when it cannot be read."""
        rows = read_candles(body)
        if isinstance(rows, Malformed):
            self._outbox.add_malformed([rows])
            return False
        self._outbox.add_malformed(rows.problems)
        candles = self._usable(errand.subject, rows.good_rows(), at=now.at)
        known = self._bars.known_minutes(errand.subject, since=errand.since, until=errand.until or now.at)
        is_cut_off = errand.subject in self._owed
        if not is_cut_off:
            self._bars.clear_doubt(errand.subject)
        self._emit(self._bars.add_backfill(errand.subject, candles, now=now.at))
        there = {*known, *(candle.bucket_ts for candle in candles)}
        if is_cut_off:
            # Its bars are in doubt again, so none of the range has come for good.
            self._owed[errand.subject] = min(errand.since, self._owed[errand.subject])
        else:
            self._fill_gaps(errand, there, now)
        self._handle_missing(errand, missing_ranges(there, step=MINUTE), now)
        return True

    def _usable(self, symbol: str, candles: Iterable[Candle], *, at: int) -> list[Candle]:
        """The bars of an answer that are of the symbol asked for and not from the future; of others it is told."""
        usable = []
        for candle in candles:
            if candle.symbol != symbol:
                problem = f"asked for bars of {symbol}, answered with {candle.symbol}"
                self._outbox.add_problem("malformed", problem, subject=symbol)
            elif candle.bucket_ts > at + _MOST_AHEAD:
                self._report_ahead(candle, at=at)
            else:
                usable.append(candle)
        return usable

    def _report_ahead(self, candle: Candle, *, at: int) -> None:
        problem = f"a bar of {candle.symbol} begins at {candle.bucket_ts}, after {at}"
        self._outbox.add_problem("malformed", problem, subject=candle.symbol)

    def _fill_gaps(self, errand: RestRequest, there: set[int], now: SourceTime) -> None:
        """The stretches of an answer that show every minute, as far as bars are final."""
        shown = sorted(minute for minute in there if errand.since <= minute < self._final_until(now.at))
        if shown:
            edges = [
                shown[0],
                *(each for hole in missing_ranges(shown, step=MINUTE) for each in hole),
                shown[-1] + MINUTE,
            ]
            for bounds in zip(edges[::2], edges[1::2], strict=True):
                self._outbox.add_filled_range("candles", errand.subject, bounds)

    def on_refused(self, errand: RestRequest) -> None:
        """No answer again: the range stays owed, but bars in doubt do not wait any longer for it."""
        if errand.tries >= _MOST_REFUSALS:
            self._bars.clear_doubt(errand.subject)

    def _handle_missing(self, errand: RestRequest, missing: list[tuple[int, int]], now: SourceTime) -> None:
        doubtful = self._doubtful.get(errand.subject, [])
        if missing and not errand.until:
            # From the bar before the first hole to the one after the last, so that the answer shows their edges.
            first, last = missing[0][0] - MINUTE, missing[-1][1]
            later = now.elapsed + _LOOK_AGAIN_S
            self._errands.add(RestRequest("candles", errand.subject, first, until=last, not_before=later))
            return
        for bounds in missing:
            if any(first < bounds[1] and bounds[0] < end for first, end in doubtful):
                self._name_gap(errand.subject, bounds)
        if not errand.until:
            self._doubtful[errand.subject] = [each for each in doubtful if each[1] > now.at]

    def _name_gap(self, symbol: str, bounds: tuple[int, int]) -> None:
        """Names a gap, once: a later audit may come across it again."""
        if (symbol, *bounds) not in self._named:
            self._named.add((symbol, *bounds))
            self._outbox.add_gap("candles", symbol, bounds, NO_BAR)

    def _emit(self, bars: list[Candle]) -> None:
        self._outbox.add_facts(bars)
        # With the first bar after the outage, so that both are committed or neither.
        for dex in self._start_gaps.keys() & {dex_of(bar.symbol) for bar in bars} if self._start_gaps else ():
            self._outbox.add_facts([], self._start_gaps.pop(dex))
