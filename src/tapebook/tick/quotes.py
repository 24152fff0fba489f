"""Prices from the tape, cut off at what is known: quotes for a broker, marks, and the paths of prices.

- `TapeQuotes` is the market as a broker may see it. Where there are no midpoints, bars say what was observed: each
  its open, and one longer than a minute its close as well; otherwise an order would wait through a whole bar for a
  price that is known at its beginning.
- `PricePath` gives the prices observed of what is held, from which a trade's best and worst result (MFE, MAE) are
  taken. It is a function of fills and tape, not of when somebody reconciled. A position is there from the fill that
  moved it last up to, not including, the next one. Of that time every midpoint counts; of a bar with a minute
  without midpoints high and low count if it began with the position there and ended by the next fill, and the close
  alone if the position moved in it, for nobody knows whether its extremes came before or after; a bar in which the
  position was liquidated does not count. A late price counts if it was known when the path's end was: for a fill
  that is the first moment at which any price at or after it was known (`_price_known_from`), so a process that
  books it later counts no more. Each valuation reads a little again (`REREAD_MS`), each fill an hour (`LATE_MS`); a
  price that counts twice changes no extreme.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tapebook.book.materializer import Account
from tapebook.broker import MarketListing, OrderBook, Settlement
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.order import Fill
from tapebook.domain.position import Position, PriceRange
from tapebook.domain.units import E6, HOUR, MINUTE, SECOND
from tapebook.tape.registry import ASSETS
from tapebook.tape.store import Tape
from tapebook.tape.view import View


class TapeQuotes(msgspec.Struct, eq=False):
    """Answers a broker's questions from the tape; `lengths` is a cache of how long bars are in this view."""

    tape: Tape
    view: View
    lengths: dict[str, int] = {}

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """What was observed between two moments: midpoints, and of bars without any their ends.

        A bar counts when it has ended; its close comes before whatever else was observed at that moment.
        """
        mids = self.tape.facts(Mid, symbol, since=since, until=until, view=self.view)
        minutes_with_mids, length = {mid.bucket_ts // MINUTE for mid in mids}, self.bar_ms(symbol)
        if length == MINUTE and minutes_with_mids.issuperset(range(-(-since // MINUTE), until // MINUTE)):
            return mids
        bars = self.bars(symbol, since=since - length, until=until)
        begun = [bar for bar in bars if bar.bucket_ts >= since and bar.bucket_ts // MINUTE not in minutes_with_mids]
        # Of a minute the close is left out: the next one opens at the same moment.
        ended = [bar for bar in bars if length > MINUTE and (bar.end - 1) // MINUTE not in minutes_with_mids]
        opens = [Mid(symbol, bar.bucket_ts, bar.open_e8) for bar in begun]
        closes = [Mid(symbol, bar.end, bar.close_e8) for bar in ended]
        return sorted([*closes, *mids, *opens], key=lambda mid: mid.bucket_ts)

    def bars(self, symbol: str, *, since: int, until: int) -> Sequence[Candle]:
        """Bars that begin at or after one moment and end by another, oldest first, all as long as `bar_ms` says."""
        length = self.lengths.get(symbol) or self.bar_ms(symbol)
        return self.tape.candles(
            symbol, granularity_sec=length // SECOND, since=since, until=until - length, view=self.view
        )

    def bar_alone(self, symbol: str, *, begins: int, until: int) -> Candle | None:
        """The bar that begins at a moment, if it ended by another and no midpoint was observed in its time."""
        end = begins + self.bar_ms(symbol)
        found = self.bars(symbol, since=begins, until=end) if end <= until else ()
        if not found or self.tape.facts(Mid, symbol, since=begins, until=end - 1, view=self.view):
            return None
        return found[0]

    def bar_ms(self, symbol: str) -> int:
        """How long a symbol's bars are by now: a minute, or longer where the history that is known was imported so."""
        found = self.lengths.get(symbol)
        if found is None:
            bar = self.tape.newest_bar(symbol, view=self.view)
            found = self.lengths[symbol] = MINUTE if bar is None else bar.granularity_sec * SECOND
        return found

    def book(self, symbol: str, *, at: int) -> OrderBook | None:
        """The book last recorded at a moment, if that was within the hour.

        Its depth counts both sides; the imbalance within 1 % says how it is shared, nearer the mid too.
        """
        row = self.tape.newest(Liquidity, symbol, view=self.view_at(at))
        if row is None or at - row.bucket_ts > HOUR:
            return None
        near, middle, far = (
            round(depth * E6) for depth in (row.depth_usd_10bps, row.depth_usd_50bps, row.depth_usd_100bps)
        )
        lean_ppm = max(-1_000_000, min(1_000_000, round(row.imbalance * 1_000_000)))

        def side(share_ppm: int) -> tuple[int, int, int]:
            return (near * share_ppm // 2_000_000, middle * share_ppm // 2_000_000, far * share_ppm // 2_000_000)

        return OrderBook(round(row.spread_bps * 100), side(1_000_000 + lean_ppm), side(1_000_000 - lean_ppm))

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The price last observed at a moment: a midpoint however old, or the close of a newer bar."""
        found = self.tape.last_price(symbol, view=self.view_at(at))
        return None if found is None else found.price_e8

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate the exchange showed last in the hour that ends; where none was recorded, the one settled then.

        Not the settled one first: it is published later, and what is paid must not depend on who looks when.
        """
        shown = self.tape.newest(AssetContext, symbol, view=self.view_at(hour))
        if shown is not None and hour - shown.bucket_ts <= HOUR:
            return shown.funding_e12
        settled = self.tape.funding_at(symbol, hour=hour, view=self.view)
        return None if settled is None else settled.rate_e12

    def settlement(self, symbol: str) -> Settlement | None:
        """How a delisted symbol ended: from the moment that was known, for nobody could act on it before."""
        found = self.tape.delistings.newest(symbol, view=self.view)
        return None if found is None else Settlement(found.known_at, found.settlement_e8)

    def listing(self, symbol: str, *, at: int) -> MarketListing:
        """What the registry says of a market that is listed; of others the tables of a broker count."""
        record = self.tape.registry.record(ASSETS, symbol, view=self.view_at(at))
        if record is None or not record.values.get("live", True):
            return MarketListing()
        return MarketListing(record.values.get("size_decimals"), record.values.get("max_leverage"))

    def view_at(self, at: int) -> View:
        """What was known at a moment, and never more than is known now."""
        return self.view if at >= self.view.as_of else View(at, self.view.watermark)


def position_marks(
    tape: Tape,
    held: Iterable[Position],
    *,
    view: View,
    before: Mapping[str, int] | None = None,
    prices: dict[str, Mid | None] | None = None,
) -> dict[str, int]:
    """What positions are valued at: the price last observed, else the mark they had before, else what they cost.

    `prices` has those that were read at this moment already, and gets the others.
    """
    earlier, known = before or {}, {} if prices is None else prices
    marks: dict[str, int] = {}
    for each in held:
        if each.symbol not in known:
            known[each.symbol] = tape.last_price(each.symbol, view=view)
        found = known[each.symbol]
        marks[each.symbol] = (found and found.price_e8) or earlier.get(each.symbol) or each.entry_price_e8
    return marks


REREAD_MS = 10 * MINUTE
"""What is told so late after it was observed counts at the next valuation; what comes later, at the next fill."""

LATE_MS = HOUR
"""What is known later than that after it was observed may not count at all."""


class PricePath(msgspec.Struct, eq=False):
    """The paths of an account's positions since it was last valued, at `valued_at`, up to now.

    Fills are to be asked about one after another; from each, the path of its symbol begins anew: it is in `filled`.
    """

    quotes: TapeQuotes
    now: int
    valued_at: int
    filled: set[str] = set()

    def observed_range(self, account: Account, symbol: str, *, before: Fill | None = None) -> PriceRange | None:
        """The lowest and highest price that counts for what is held, from its last move until now or before a fill.

        None where there are no prices, or nothing is held.
        """
        quotes, ended_by, until = self.quotes, self.now, self.now
        since = 0 if symbol in self.filled else self.valued_at - REREAD_MS
        if before is not None:
            self.filled.add(symbol)
        held, trade = account.portfolio.positions.get(symbol), account.open_trades.get(symbol)
        # Mostly a fill opens something, and which prices were known by then need not be found out.
        if held is None or trade is None:
            return None
        if before is not None:
            filled_at = before.happened_at
            # From the last valuation on, and what that may lack; an hour of it, for fills are told late.
            since, until = min(since, filled_at - LATE_MS), filled_at - 1
            quotes = TapeQuotes(quotes.tape, View(_price_known_from(quotes.tape, symbol, at=filled_at, now=self.now)))
            # A liquidation is told at the end of the bar it happened in.
            ended_by = until if before.liquidation else filled_at
        # Positions from before a move was noted have moved at their entry, as far as anybody knows.
        moved_at = held.moved_at or trade.entry_tick_at
        since = max(moved_at, since)
        # Midpoints are read from `since` to `until`, bars that ended after `since` and no later than `ended_by`.
        bars = quotes.bars(symbol, since=since + 1 - quotes.bar_ms(symbol), until=ended_by)
        # Of the bars' time all midpoints are needed, to know which of its minutes have any.
        begins = min(since, bars[0].bucket_ts) if bars else since
        return extremes(bars, quotes.tape.facts(Mid, symbol, since=begins, until=until, view=quotes.view), moved_at)


def _price_known_from(tape: Tape, symbol: str, *, at: int, now: int) -> int:
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


def extremes(bars: Sequence[Candle], mids: Sequence[Mid], moved_at: int) -> PriceRange | None:
    """The lowest and highest price of some bars and midpoints that counts for a position which moved last at a moment.

    The bars have ended by the next move; of their time all midpoints are to be there.
    """
    prices: list[int] = []
    if not mids:
        for bar in bars:
            prices += (bar.low_e8, bar.high_e8) if bar.bucket_ts >= moved_at else (bar.close_e8,)
        return PriceRange(min(prices), max(prices)) if prices else None
    minutes_with_mids: set[int] = set()
    for mid in mids:
        minutes_with_mids.add(mid.bucket_ts // MINUTE)
        if mid.bucket_ts >= moved_at:
            prices.append(mid.price_e8)
    for bar in bars:
        last = (bar.bucket_ts + bar.granularity_sec * SECOND - 1) // MINUTE
        if bar.bucket_ts < moved_at:
            if last not in minutes_with_mids:
                prices.append(bar.close_e8)
        elif not minutes_with_mids.issuperset(range(bar.bucket_ts // MINUTE, last + 1)):
            prices += (bar.low_e8, bar.high_e8)
    return PriceRange(min(prices), max(prices)) if prices else None
