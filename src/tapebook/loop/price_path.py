"""The prices that were observed of what is held: what a trade's best and worst result (MFE, MAE) are taken from.

The path of a position is a function of its fills and the tape, not of when somebody reconciled. A position is there
from the fill that moved it last up to, not including, the next one. Of that time count (`_range`):

- every midpoint;
- of a bar that has a minute without midpoints: high and low if it began with the position there and ended by the next
  fill; of the bar in which the position moved the close alone, for nobody knows whether its extremes came before or
  after; of one in which it was liquidated nothing.

What is told late counts as long as it was known when the path's end was. For a fill that is the first moment at which
anything at or after it was known (`_known_from`): no process could book the fill earlier, and one that books it later
must not count more. A bar that becomes known after that changes nothing.

How far the path was taken is when the account was last valued: its newest snapshot. Each valuation reads a little of
what was before again, each fill an hour (`REREAD_MS`, `LATE_MS`), for what had not been told then; a price that counts
twice changes no extreme.
"""

from collections.abc import Sequence

from tapebook.book.settle import Account
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import Fill
from tapebook.domain.trade import PriceRange
from tapebook.loop.quotes import TapeQuotes
from tapebook.tape.store import Tape, View

REREAD_MS = 10 * MINUTE
"""What is told so late after it was observed counts at the next valuation; what comes later, at the next fill."""

LATE_MS = HOUR
"""What is known later than that after it was observed may not count at all."""


class PricePath:
    """The paths of an account's positions since it was last valued, at `valued_at`, up to now.

    Fills are to be asked about one after another; from each, the path of its symbol begins anew.
    """

    def __init__(self, quotes: TapeQuotes, *, now: int, valued_at: int) -> None:
        self._quotes = quotes
        self._now = now
        self._valued_at = valued_at
        self._filled: set[str] = set()

    def before(self, fill: Fill, account: Account) -> PriceRange | None:
        """The prices observed of what a fill changes, until it did; None when there are none."""
        symbol, until = fill.symbol, fill.happened_at
        moved_at = _moved_at(account, symbol)
        again = symbol in self._filled
        self._filled.add(symbol)
        if moved_at is None:
            return None
        since = moved_at if again else self._since(moved_at, until - LATE_MS)
        tape = self._quotes.tape
        view = View(_known_from(tape, symbol, at=until, now=self._now))
        quotes = TapeQuotes(tape, view)
        # A liquidation is told at the end of the bar it happened in.
        ended_by = until - 1 if fill.liquidation else until
        return _range(quotes, symbol, moved_at, since=since, until=until - 1, ended_by=ended_by, view=view)

    def until_now(self, account: Account) -> dict[str, PriceRange]:
        """The prices observed of everything that is held, by symbol; without any, a symbol is left out."""
        now, view, found = self._now, View(self._now), {}
        for symbol in account.portfolio.positions:
            moved_at = _moved_at(account, symbol)
            if moved_at is not None:
                since = moved_at if symbol in self._filled else self._since(moved_at, self._valued_at)
                seen = _range(self._quotes, symbol, moved_at, since=since, until=now, ended_by=now, view=view)
                if seen is not None:
                    found[symbol] = seen
        return found

    def _since(self, moved_at: int, latest: int) -> int:
        """From where a path is to be read: no later than some moment, nor than what the last valuation may lack."""
        return max(moved_at, min(self._valued_at - REREAD_MS, latest))


def _moved_at(account: Account, symbol: str) -> int | None:
    """When a position last moved; None of one that is not held, or has no trade yet."""
    held = account.portfolio.positions.get(symbol)
    trade = account.open_trades.get(symbol)
    if held is None or trade is None:
        return None
    # Positions from before a move was noted have moved at their entry, as far as anybody knows.
    return held.moved_at or trade.entry_tick_at


def _known_from(tape: Tape, symbol: str, *, at: int, now: int) -> int:
    """The first moment at which a price observed at or after another was known; now, if none is."""
    early, late = at - 1, now
    while late - early > 1:
        middle = (early + late) // 2
        view = View(middle)
        mid = tape.newest(Mid, symbol, view=view)
        bar = None if mid is not None and mid.bucket_ts >= at else tape.newest_bar(symbol, view=view)
        if (mid is not None and mid.bucket_ts >= at) or (bar is not None and bar.end >= at):
            late = middle
        else:
            early = middle
    return late


def _range(
    quotes: TapeQuotes, symbol: str, moved_at: int, *, since: int, until: int, ended_by: int, view: View
) -> PriceRange | None:
    """The lowest and highest price that counts for a position which moved last at a moment.

    Midpoints are read from `since` to `until`, bars that ended after `since` and no later than `ended_by`.
    """
    bars = quotes.bars(symbol, since=since + 1 - quotes.bar_ms(symbol), until=ended_by)
    # Of the bars' time all midpoints are needed, to know which of its minutes have any.
    begins = min(since, bars[0].bucket_ts) if bars else since
    return extremes(bars, quotes.tape.mids(symbol, since=begins, until=until, view=view), moved_at)


def extremes(bars: Sequence[Candle], mids: Sequence[Mid], moved_at: int) -> PriceRange | None:
    """The lowest and highest price of some bars and midpoints that counts for a position which moved last at a moment.

    The bars have ended by the next move; of their time all midpoints are to be there.
    """
    prices: list[int] = []
    if not mids:
        for bar in bars:
            prices += (bar.low_e8, bar.high_e8) if bar.bucket_ts >= moved_at else (bar.close_e8,)
        return PriceRange(min(prices), max(prices)) if prices else None
    told = {mid.bucket_ts // MINUTE for mid in mids}
    prices += [mid.price_e8 for mid in mids if mid.bucket_ts >= moved_at]
    for bar in bars:
        last = (bar.end - 1) // MINUTE
        if bar.bucket_ts < moved_at:
            if last not in told:
                prices.append(bar.close_e8)
        elif not told.issuperset(range(bar.bucket_ts // MINUTE, last + 1)):
            prices += (bar.low_e8, bar.high_e8)
    return PriceRange(min(prices), max(prices)) if prices else None
