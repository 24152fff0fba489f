"""Candles: bars from the socket, and the ranges that have to be asked for because it was down.

A range is owed from the moment a connection was last heard. It is asked for when the subscription
stands again, so that no minute falls between the two, and it is a gap until it has come: what the
answer shows of it is filled, minute by minute. A minute the answer does not show may have been
quiet: such minutes can appear late, so they are asked for once more before they become, or stay, a
gap. While the connection stood, a minute without a bar here and there was quiet, and is no gap.

What gets lost while the connection stands leaves no such trace. A frame that cannot be read has
its minute asked for when it is over, and once an hour every symbol's last hour is compared with
what the exchange says of it (`_audit`).
"""

from collections.abc import Iterable, Mapping

from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.market import Candle, Gap
from tapebook.tape.sources.hyperliquid.answers import read_candles
from tapebook.tape.sources.hyperliquid.bars import Bars
from tapebook.tape.sources.hyperliquid.errands import Errand, Errands
from tapebook.tape.sources.hyperliquid.gaps import NO_BAR, NOT_RUNNING, beyond_keeping, holes
from tapebook.tape.sources.hyperliquid.outbox import Outbox
from tapebook.tape.sources.hyperliquid.polls import Moment, Poll
from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.universe import dex_of
from tapebook.tape.sources.hyperliquid.wire import Malformed

# A repair that was under way when the process was killed is not known after it; asking for 60 bars costs the
# same as for one, so a restart looks this far behind the newest bar it has.
_LOOK_BEHIND = 55 * MINUTE
_LOOK_AGAIN_S = 300.0
# After so many refusals of a range, bars in doubt leave as they are; the answer may still revise them.
_PATIENCE = 3
# A bar that begins later than this from now has a damaged time, and would make all others look final.
_MOST_AHEAD = MINUTE


class Repairs:
    """The candles of all symbols."""

    def __init__(self, settings: HyperliquidSettings, outbox: Outbox, errands: Errands) -> None:
        self._settings = settings
        self._outbox = outbox
        self._errands = errands
        self._bars = Bars(grace_ms=settings.grace_ms)
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
                self._start[dex] = floor(at - self._settings.history_ms, MINUTE)
                continue
            missing, gap = beyond_keeping(minute + MINUTE, at, dex=dex)
            self._start[dex] = missing if gap else beyond_keeping(minute - _LOOK_BEHIND, at)[0]
            if gap:
                self._start_gaps[dex] = gap
            # A bar is final after the grace. One minute may have been quiet everywhere, so the mids are heard too.
            heard = floor((alive.get(dex) or 0) - self._settings.grace_ms, MINUTE)
            self._not_running[dex] = max(minute + MINUTE, heard, self._start[dex])

    def follow(self, symbols: Iterable[str], *, at: int) -> None:
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
            self.stands(symbol, at=at)
            unrepaired = self._errands.drop(symbol, "candles")
            if unrepaired is not None:
                bounds = unrepaired.since, floor(at, MINUTE)
                self._outbox.gap("candles", symbol, bounds, "delisted before it was repaired")
        self._followed = now

    def frame(self, candles: Iterable[Candle], *, at: int) -> None:
        """Bars from the socket."""
        for candle in candles:
            if not self._is_ahead(candle, at=at):
                self._give(self._bars.frame(candle))

    def damaged(self, symbols: Iterable[str], *, at: int) -> None:
        """A frame of one of these symbols could not be read."""
        hurt = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.doubt(hurt)
        for symbol in hurt:
            self._damaged.setdefault(symbol, self._ended(at))

    def tick(self, at: int) -> None:
        """Bars made final by the clock, and ranges that have to be asked for because their time has come."""
        over = self._ended(at)
        for symbol in [symbol for symbol, since in self._damaged.items() if since < over]:
            since = self._damaged.pop(symbol)
            self._doubtful.setdefault(symbol, []).append((since, over))
            self._errands.add(Errand("candles", symbol, since))
        if self._settings.audit and self._minutes.due(at) is not None:
            self._audit(at)
        self._give(self._bars.tick(at))

    def _audit(self, at: int) -> None:
        """Asks for the last hour, and a little more, of those symbols whose minute of the hour it is.

        The little more is for bars that ended just before the last audit and were corrected after it.
        """
        self._named = {gap for gap in self._named if gap[2] > at - 2 * HOUR}
        for symbol, ranges in self._doubtful.items():
            self._doubtful[symbol] = [each for each in ranges if each[1] > at - 2 * HOUR]
        minute, count = at // MINUTE % 60, len(self._followed)
        for place, symbol in enumerate(sorted(self._followed)):
            if place * 60 // count == minute and symbol not in self._owed:
                self._errands.add(Errand("candles", symbol, floor(at, MINUTE) - HOUR - 10 * MINUTE))

    def lost(self, symbols: Iterable[str], *, since: int, reason: str) -> None:
        """The connection of these symbols was last heard at `since`."""
        lost = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.doubt(lost)
        # A bar is not final before the grace is over, so the one before the loss may be part of it.
        since = self._ended(since)
        for symbol in lost:
            self._owed[symbol] = min(since, self._owed.get(symbol, since))
            self._cut_off.setdefault(symbol, (since, reason))

    def stands(self, symbol: str, *, at: int) -> None:
        """The subscription of a symbol stands: now what is owed can be asked for without leaving a hole.

        The minutes that ended meanwhile are a gap until the answer fills it.
        """
        since, ended = self._owed.pop(symbol, None), self._ended(at)
        first, reason = self._cut_off.pop(symbol, (since, ""))
        if since is not None:
            self._errands.add(Errand("candles", symbol, since))
        if first is not None and first < ended:
            self._doubtful.setdefault(symbol, []).append((first, ended))
            if reason:
                self._outbox.gap("candles", symbol, (first, ended), reason)

    def _ended(self, at: int) -> int:
        """The end of the last minute whose bar is final by the clock."""
        return floor(at - self._settings.grace_ms, MINUTE)

    def answered(self, errand: Errand, body: bytes, now: Moment) -> bool:
        """The range from REST; False when it cannot be read."""
        rows = read_candles(body)
        if isinstance(rows, Malformed):
            self._outbox.malformed([rows])
            return False
        self._outbox.malformed(rows.problems)
        candles = self._usable(errand.subject, rows.good(), at=now.at)
        known = self._bars.known(errand.subject, since=errand.since, until=errand.until or now.at)
        is_cut_off = errand.subject in self._owed
        if not is_cut_off:
            self._bars.trust(errand.subject)
        self._give(self._bars.backfill(errand.subject, candles, now=now.at))
        there = {*known, *(candle.bucket_ts for candle in candles)}
        if is_cut_off:
            # Its bars are in doubt again, so none of the range has come for good.
            self._owed[errand.subject] = min(errand.since, self._owed[errand.subject])
        else:
            self._fill(errand, there, now)
        self._missing(errand, holes(there, step=MINUTE), now)
        return True

    def _usable(self, symbol: str, candles: Iterable[Candle], *, at: int) -> list[Candle]:
        """The bars of an answer that are of the symbol asked for and not from the future; of others it is told."""
        usable = []
        for candle in candles:
            if candle.symbol != symbol:
                said = f"asked for bars of {symbol}, answered with {candle.symbol}"
                self._outbox.problem("malformed", said, subject=symbol)
            elif self._is_ahead(candle, at=at):
                continue
            else:
                usable.append(candle)
        return usable

    def _is_ahead(self, candle: Candle, *, at: int) -> bool:
        if candle.bucket_ts <= at + _MOST_AHEAD:
            return False
        said = f"a bar of {candle.symbol} begins at {candle.bucket_ts}, after {at}"
        self._outbox.problem("malformed", said, subject=candle.symbol)
        return True

    def _fill(self, errand: Errand, there: set[int], now: Moment) -> None:
        """The stretches of an answer that show every minute, as far as bars are final."""
        shown = sorted(minute for minute in there if errand.since <= minute < self._ended(now.at))
        if shown:
            edges = [shown[0], *(each for hole in holes(shown, step=MINUTE) for each in hole), shown[-1] + MINUTE]
            for bounds in zip(edges[::2], edges[1::2], strict=True):
                self._outbox.filled("candles", errand.subject, bounds)

    def refused(self, errand: Errand) -> None:
        """No answer again: the range stays owed, but bars in doubt do not wait any longer for it."""
        if errand.tries >= _PATIENCE:
            self._bars.trust(errand.subject)

    def _missing(self, errand: Errand, missing: list[tuple[int, int]], now: Moment) -> None:
        doubtful = self._doubtful.get(errand.subject, [])
        if missing and not errand.until:
            # From the bar before the first hole to the one after the last, so that the answer shows their edges.
            first, last = missing[0][0] - MINUTE, missing[-1][1]
            later = now.elapsed + _LOOK_AGAIN_S
            self._errands.add(Errand("candles", errand.subject, first, until=last, not_before=later))
            return
        for bounds in missing:
            if any(first < bounds[1] and bounds[0] < end for first, end in doubtful):
                self._name(errand.subject, bounds)
        if not errand.until:
            self._doubtful[errand.subject] = [each for each in doubtful if each[1] > now.at]

    def _name(self, symbol: str, bounds: tuple[int, int]) -> None:
        """Names a gap, once: a later audit may come across it again."""
        if (symbol, *bounds) not in self._named:
            self._named.add((symbol, *bounds))
            self._outbox.gap("candles", symbol, bounds, NO_BAR)

    def _give(self, bars: list[Candle]) -> None:
        if bars:
            self._outbox.put(bars)
            # With the first bar after the outage, so that both are committed or neither.
            for dex in self._start_gaps.keys() & {dex_of(bar.symbol) for bar in bars} if self._start_gaps else ():
                self._outbox.put([], self._start_gaps.pop(dex))
