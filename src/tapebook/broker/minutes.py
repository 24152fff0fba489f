"""What a minute was like for a position, as far as it is known.

A one-minute bar says it. Two minutes after its end a bar that is still missing is made of the
midpoints of its minute, if there are any. Which of its prices count depends on when the position
last moved:

- before the minute or at its very start: from the open to the adverse extreme;
- within the minute: the close, for nobody knows whether the extreme came before or after;
- since: what it was worth when it moved, for it was not there before.

A symbol nothing was observed of keeps its last mark.
"""

from collections.abc import Iterable

import msgspec

from tapebook.broker.liquidation import Way
from tapebook.broker.port import Quotes
from tapebook.domain.instants import MINUTE
from tapebook.domain.position import Position

GRACE_MS = 2 * MINUTE


class _Prices(msgspec.Struct, frozen=True):
    open_e8: int
    high_e8: int
    low_e8: int
    close_e8: int


class Minutes:
    """The minutes up to a moment, read once per symbol."""

    def __init__(self, quotes: Quotes, *, until: int) -> None:
        self._quotes = quotes
        self._until = until
        self._bars: dict[str, dict[int, _Prices]] = {}

    def ready_at(self, held: Iterable[Position], start: int) -> int | None:
        """When a minute can be judged: at its end if all its bars are known, else a grace later; None if not yet."""
        end = start + MINUTE
        if end > self._until:
            return None
        complete = all(each.moved_at >= end or start in self._known(each.symbol, start) for each in held)
        ready = end if complete else end + GRACE_MS
        return ready if ready <= self._until else None

    def ways(self, held: Iterable[Position], start: int) -> dict[str, Way] | None:
        """How each position's price went through a minute; None when nothing was observed of any."""
        seen = {each.symbol: self._prices(each.symbol, start) for each in held if each.moved_at < start + MINUTE}
        if not any(seen.values()):
            return None
        return {each.symbol: self._way(each, seen.get(each.symbol), start) for each in held}

    def _way(self, held: Position, prices: _Prices | None, start: int) -> Way:
        if prices is None:
            mark = self._quotes.mark_e8(held.symbol, at=max(held.moved_at, start + MINUTE))
            known = mark or held.entry_price_e8
            return Way(known, known)
        if held.moved_at > start:
            return Way(prices.close_e8, prices.close_e8)
        return Way(prices.open_e8, prices.low_e8 if held.size_e8 > 0 else prices.high_e8)

    def _prices(self, symbol: str, start: int) -> _Prices | None:
        bar = self._known(symbol, start).get(start)
        if bar is not None:
            return bar
        mids = [mid.price_e8 for mid in self._quotes.mids(symbol, since=start, until=start + MINUTE - 1)]
        return _Prices(mids[0], max(mids), min(mids), mids[-1]) if mids else None

    def _known(self, symbol: str, start: int) -> dict[int, _Prices]:
        """A symbol's bars from the minute that is asked for first; minutes are asked for in order."""
        if symbol not in self._bars:
            bars = self._quotes.bars(symbol, since=start, until=self._until)
            self._bars[symbol] = {
                bar.bucket_ts: _Prices(bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8) for bar in bars
            }
        return self._bars[symbol]
