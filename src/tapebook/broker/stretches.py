"""What a stretch of time was like for a position, as far as it is known.

Margin is judged stretch by stretch: as long as the bars of what is held, a minute as a rule; with bars
of several lengths, as long as the longest. Two minutes after a stretch has ended, a bar that is still
missing is made of the midpoints of its time, if there are any. Which of a bar's prices count depends
on when the position last moved:

- before the bar or at its very start: from the open to the adverse extreme;
- within the bar: the close, for nobody knows whether the extreme came before or after; but what was
  filled at a price of the bar itself, by a fill rule (`matching`), goes from its open to the extreme;
- since: what it was worth when it moved, for it was not there before.

A symbol nothing was observed of keeps its last mark.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from tapebook.broker.liquidation import Way
from tapebook.broker.port import Quotes
from tapebook.domain.instants import MINUTE, SECOND
from tapebook.domain.market import Candle
from tapebook.domain.order import FillRule
from tapebook.domain.position import Position

GRACE_MS = 2 * MINUTE
NEVER = 2**62
"""Later than any moment."""


class Stretch(msgspec.Struct, frozen=True):
    """From when to when, and when it can be judged: `NEVER` while that is not known.

    One that has ended has the bars of each symbol since its position moved, oldest first; `missing` are those that
    are not known, by symbol and when they began.
    """

    start: int
    end: int
    ready_at: int
    bars: Mapping[str, Sequence[Candle]] = {}
    missing: Sequence[tuple[str, int]] = ()


class Stretches:
    """The stretches up to a moment; bars are read once per symbol."""

    def __init__(self, quotes: Quotes, *, until: int, fill: FillRule) -> None:
        self._quotes = quotes
        self._until = until
        self._fill = fill
        self._lengths: dict[str, int] = {}
        self._known: dict[str, dict[int, Candle]] = {}

    def next(self, held: Collection[Position], walked: int) -> Stretch:
        """The first stretch that is not walked and any of the positions was there in; lengths divide one another.

        It can be judged at its end if all its bars are known, else a grace later.
        """
        lengths, first, longest = self._lengths, NEVER, 0
        for each in held:
            if each.symbol not in lengths:
                lengths[each.symbol] = self._quotes.bar_ms(each.symbol)
            length, moved = lengths[each.symbol], each.moved_at
            begun = moved - moved % length
            first = begun if begun < first else first
            longest = length if length > longest else longest
        start = walked if walked > first else first
        end = start - start % longest + longest
        return Stretch(start, end, NEVER) if end > self._until else self._ended(held, start, end)

    def ways(self, held: Collection[Position], stretch: Stretch) -> dict[str, Way] | None:
        """How each position's price went through a stretch; None when nothing was observed of any."""
        bars = self._completed(stretch) if stretch.missing else stretch.bars
        if not any(bars.values()):
            return None
        return {each.symbol: self._way(each, bars[each.symbol], stretch.end) for each in held}

    def _ended(self, held: Collection[Position], start: int, end: int) -> Stretch:
        """A stretch with its bars, as far as they are known."""
        bars: dict[str, list[Candle]] = {}
        missing: list[tuple[str, int]] = []
        for each in held:
            symbol, length, since = each.symbol, self._lengths[each.symbol], max(start, each.moved_at)
            known, found = self._known.get(symbol) or self._read(symbol, start), []
            for begins in range(since - since % length, end, length):
                if begins in known:
                    found.append(known[begins])
                else:
                    missing.append((symbol, begins))
            bars[symbol] = found
        ready = end + GRACE_MS if missing else end
        return Stretch(start, end, ready if ready <= self._until else NEVER, bars, missing)

    def _read(self, symbol: str, start: int) -> dict[int, Candle]:
        """A symbol's bars by their start, from the stretch that is asked for first: they come in order."""
        if symbol not in self._known:
            bars = self._quotes.bars(symbol, since=start + 1 - self._lengths[symbol], until=self._until)
            self._known[symbol] = {bar.bucket_ts: bar for bar in bars}
        return self._known[symbol]

    def _completed(self, stretch: Stretch) -> dict[str, list[Candle]]:
        """The bars of a stretch, and what stands in for those that are missing."""
        bars = {symbol: [*known] for symbol, known in stretch.bars.items()}
        for symbol, begins in stretch.missing:
            seen = self._observed(symbol, begins)
            if seen is not None:
                bars[symbol].append(seen)
        return {symbol: sorted(found, key=lambda bar: bar.bucket_ts) for symbol, found in bars.items()}

    def _observed(self, symbol: str, begins: int) -> Candle | None:
        """A bar made of the midpoints of its time."""
        length = self._lengths[symbol]
        mids = [mid.price_e8 for mid in self._quotes.mids(symbol, since=begins, until=begins + length - 1)]
        if not mids:
            return None
        prices = (mids[0], max(mids), min(mids), mids[-1])
        return Candle(symbol, length // SECOND, begins, *prices, 0.0, 0.0, len(mids))

    def _way(self, held: Position, bars: Sequence[Candle], end: int) -> Way:
        if not bars:
            mark = self._quotes.mark_e8(held.symbol, at=max(held.moved_at, end))
            known = mark or held.entry_price_e8
            return Way(known, known)
        first, is_long = bars[0], held.size_e8 > 0
        began, worst = first.open_e8, first.low_e8 if is_long else first.high_e8
        if held.moved_at > first.bucket_ts and not self._filled_within(held, first):
            began = worst = first.close_e8
        for bar in bars[1:]:
            worst = min(worst, bar.low_e8) if is_long else max(worst, bar.high_e8)
        return Way(began, worst)

    def _filled_within(self, held: Position, bar: Candle) -> bool:
        """Whether a position that moved within a bar was filled at one of its prices, as if at its beginning."""
        if self._fill == "bar_close" or held.moved_at >= bar.end:
            return False
        return self._quotes.bar_alone(held.symbol, begins=bar.bucket_ts, until=self._until) is not None
