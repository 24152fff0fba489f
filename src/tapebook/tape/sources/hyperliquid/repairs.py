"""Candles: bars from the socket, and the ranges that have to be asked for because it was down.

A range is owed from the moment a connection was last heard. It is asked for when the subscription
stands again, so that no minute falls between the two. A minute the answer does not show may have
been quiet: such minutes can appear late, so they are asked for once more before they become a gap.

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
from tapebook.tape.sources.hyperliquid.gaps import beyond_keeping, holes
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
        # Gaps named of late: symbol, beginning and end.
        self._named: set[tuple[str, int, int]] = set()
        self._minutes = Poll(MINUTE)
        # Where the bars of each dex begin, and what was lost before that.
        self._start: dict[str, int] = {}
        self._start_gaps: dict[str, Gap] = {}

    def resume(self, newest: Mapping[str, int | None], *, at: int) -> None:
        """Begins where the tape ends, dex by dex."""
        for dex, minute in newest.items():
            if minute is None:
                self._start[dex] = floor(at - self._settings.history_ms, MINUTE)
                continue
            missing, gap = beyond_keeping(minute + MINUTE, at, dex=dex)
            self._start[dex] = missing if gap else beyond_keeping(minute - _LOOK_BEHIND, at)[0]
            if gap:
                self._start_gaps[dex] = gap

    def follow(self, symbols: Iterable[str], *, at: int) -> None:
        """The symbols watched from now on; what is new is owed from the start."""
        now = set(symbols)
        for symbol in now - self._followed:
            self._owed[symbol] = self._start[dex_of(symbol)]
        for symbol in self._followed - now:
            self._damaged.pop(symbol, None)
            self.stands(symbol)
            unrepaired = self._errands.drop(symbol, "candles")
            if unrepaired is not None:
                bounds = unrepaired.since, floor(at, MINUTE)
                self._outbox.gap("candles", symbol, bounds, "delisted before it was repaired")
        self._followed = now

    def frame(self, candles: Iterable[Candle], *, at: int) -> None:
        """Bars from the socket."""
        for candle in candles:
            if candle.bucket_ts > at + _MOST_AHEAD:
                self._outbox.problem("malformed", f"a bar of {candle.symbol} begins at {candle.bucket_ts}, after {at}")
            else:
                self._give(self._bars.frame(candle))

    def damaged(self, symbols: Iterable[str], *, at: int) -> None:
        """A frame of one of these symbols could not be read."""
        hurt = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.doubt(hurt)
        for symbol in hurt:
            self._damaged.setdefault(symbol, floor(at - self._settings.grace_ms, MINUTE))

    def tick(self, at: int) -> None:
        """Bars made final by the clock, and ranges that have to be asked for because their time has come."""
        over = floor(at - self._settings.grace_ms, MINUTE)
        for symbol in [symbol for symbol, since in self._damaged.items() if since < over]:
            self._errands.add(Errand("candles", symbol, self._damaged.pop(symbol)))
        if self._settings.audit and self._minutes.due(at) is not None:
            self._audit(at)
        self._give(self._bars.tick(at))

    def _audit(self, at: int) -> None:
        """Asks for the last hour, and a little more, of those symbols whose minute of the hour it is.

        The little more is for bars that ended just before the last audit and were corrected after it.
        """
        self._named = {gap for gap in self._named if gap[2] > at - 2 * HOUR}
        minute, count = at // MINUTE % 60, len(self._followed)
        for place, symbol in enumerate(sorted(self._followed)):
            if place * 60 // count == minute and symbol not in self._owed:
                self._errands.add(Errand("candles", symbol, floor(at, MINUTE) - HOUR - 10 * MINUTE))

    def lost(self, symbols: Iterable[str], *, since: int) -> None:
        """The connection of these symbols was last heard at `since`."""
        lost = [symbol for symbol in symbols if symbol in self._followed]
        self._bars.doubt(lost)
        # A bar is not final before the grace is over, so the one before the loss may be part of it.
        since = floor(since - self._settings.grace_ms, MINUTE)
        for symbol in lost:
            self._owed[symbol] = min(since, self._owed.get(symbol, since))

    def stands(self, symbol: str) -> None:
        """The subscription of a symbol stands: now what is owed can be asked for without leaving a hole."""
        since = self._owed.pop(symbol, None)
        if since is not None:
            self._errands.add(Errand("candles", symbol, since))

    def answered(self, errand: Errand, body: bytes, now: Moment) -> bool:
        """The range from REST; False when it cannot be read."""
        rows = read_candles(body)
        if isinstance(rows, Malformed):
            self._outbox.malformed([rows])
            return False
        self._outbox.malformed(rows.problems)
        candles = [candle for candle in rows.good() if candle.symbol == errand.subject]
        known = self._bars.known(errand.subject, since=errand.since, until=errand.until or now.at)
        if errand.subject not in self._owed:
            self._bars.trust(errand.subject)
        self._give(self._bars.backfill(errand.subject, candles, now=now.at))
        self._missing(errand, holes([*known, *(candle.bucket_ts for candle in candles)], step=MINUTE), now)
        return True

    def refused(self, errand: Errand) -> None:
        """No answer again: the range stays owed, but bars in doubt do not wait any longer for it."""
        if errand.tries >= _PATIENCE:
            self._bars.trust(errand.subject)

    def _missing(self, errand: Errand, missing: list[tuple[int, int]], now: Moment) -> None:
        if not missing:
            return
        if errand.until:
            for bounds in missing:
                self._name(errand.subject, bounds)
        else:
            # From the bar before the first hole to the one after the last, so that the answer shows their edges.
            first, last = missing[0][0] - MINUTE, missing[-1][1]
            later = now.elapsed + _LOOK_AGAIN_S
            self._errands.add(Errand("candles", errand.subject, first, until=last, not_before=later))

    def _name(self, symbol: str, bounds: tuple[int, int]) -> None:
        """Names a gap, once: a later audit may come across it again."""
        if (symbol, *bounds) not in self._named:
            self._named.add((symbol, *bounds))
            self._outbox.gap("candles", symbol, bounds, "the exchange has no bar")

    def _give(self, bars: list[Candle]) -> None:
        if bars:
            self._outbox.put(bars)
            # With the first bar after the outage, so that both are committed or neither.
            for dex in self._start_gaps.keys() & {dex_of(bar.symbol) for bar in bars} if self._start_gaps else ():
                self._outbox.put([], self._start_gaps.pop(dex))
