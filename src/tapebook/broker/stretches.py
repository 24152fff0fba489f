"""What a stretch of time was like for a position, as far as it is known.

Margin is judged stretch by stretch: as long as the bars of what is held, a minute as a rule; with bars
of several lengths, as long as the longest. Two minutes after a stretch has ended, a bar that is still
missing is made of the midpoints of its time, if there are any. Which of a bar's prices count depends
on when the position last moved:

- before the bar or at its very start: from the open to the adverse extreme;
- within the bar: the close, for nobody knows whether the extreme came before or after;
- since: what it was worth when it moved, for it was not there before.

A symbol nothing was observed of keeps its last mark.
"""

from collections.abc import Collection

import msgspec

from tapebook.broker.liquidation import Way
from tapebook.broker.port import Quotes
from tapebook.domain.instants import MINUTE, SECOND, floor
from tapebook.domain.market import Candle
from tapebook.domain.position import Position

GRACE_MS = 2 * MINUTE


class Stretch(msgspec.Struct, frozen=True):
    """From when to when, and when it can be judged: None while that is not known."""

    start: int
    end: int
    ready_at: int | None


class Stretches:
    """The stretches up to a moment; bars are read once per symbol."""

    def __init__(self, quotes: Quotes, *, until: int) -> None:
        self._quotes = quotes
        self._until = until
        self._bars: dict[str, dict[int, Candle]] = {}

    def next(self, held: Collection[Position], walked: int) -> Stretch:
        """The first stretch that is not walked and any of the positions was there in; lengths divide one another.

        It can be judged at its end if all its bars are known, else a grace later.
        """
        lengths = [self._quotes.bar_ms(each.symbol) for each in held]
        first = min([floor(each.moved_at, length) for each, length in zip(held, lengths, strict=True)])
        start, longest = max(walked, first), max(lengths)
        end = floor(start, longest) + longest
        if end > self._until:
            return Stretch(start, end, None)
        complete = all([at in self._known(each.symbol, start) for each in held for at in self._ends(each, start, end)])
        ready = end if complete else end + GRACE_MS
        return Stretch(start, end, ready if ready <= self._until else None)

    def ways(self, held: Collection[Position], stretch: Stretch) -> dict[str, Way] | None:
        """How each position's price went through a stretch; None when nothing was observed of any."""
        seen = {each.symbol: self._seen(each, stretch) for each in held}
        if not any(seen.values()):
            return None
        return {each.symbol: self._way(each, seen[each.symbol], stretch.end) for each in held}

    def _way(self, held: Position, bars: list[Candle], end: int) -> Way:
        if not bars:
            mark = self._quotes.mark_e8(held.symbol, at=max(held.moved_at, end))
            known = mark or held.entry_price_e8
            return Way(known, known)
        reached = [bar.low_e8 if held.size_e8 > 0 else bar.high_e8 for bar in bars]
        began = bars[0].open_e8
        if held.moved_at > bars[0].bucket_ts:
            began = reached[0] = bars[0].close_e8
        return Way(began, min(reached) if held.size_e8 > 0 else max(reached))

    def _seen(self, held: Position, stretch: Stretch) -> list[Candle]:
        """The bars of a stretch since the position moved, or what stands in for them."""
        known, ends = self._known(held.symbol, stretch.start), self._ends(held, stretch.start, stretch.end)
        found = [known.get(at) or self._observed(held.symbol, at) for at in ends]
        return [bar for bar in found if bar is not None]

    def _ends(self, held: Position, start: int, end: int) -> range:
        """When the bars of a stretch end that the position was there in."""
        length = self._quotes.bar_ms(held.symbol)
        return range(floor(max(start, held.moved_at), length) + length, end + 1, length)

    def _observed(self, symbol: str, end: int) -> Candle | None:
        """A bar made of the midpoints of its time."""
        length = self._quotes.bar_ms(symbol)
        mids = [mid.price_e8 for mid in self._quotes.mids(symbol, since=end - length, until=end - 1)]
        if not mids:
            return None
        prices = (mids[0], max(mids), min(mids), mids[-1])
        return Candle(symbol, length // SECOND, end - length, *prices, 0.0, 0.0, len(mids))

    def _known(self, symbol: str, start: int) -> dict[int, Candle]:
        """A symbol's bars by their end, from the stretch that is asked for first; stretches are asked for in order."""
        if symbol not in self._bars:
            since = start + 1 - self._quotes.bar_ms(symbol)
            bars = self._quotes.bars(symbol, since=since, until=self._until)
            self._bars[symbol] = {bar.end: bar for bar in bars}
        return self._bars[symbol]
