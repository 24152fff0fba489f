"""The market as a broker may see it, and what positions are valued at: the tape, cut off at what is known now.

Where there are no midpoints, bars say what was observed: each its open, and one that is longer than a
minute its close as well, for otherwise an order would wait through a whole bar for a price that is
known at its beginning.
"""

from collections.abc import Iterable, Mapping, Sequence

from tapebook.broker import Book, Settlement
from tapebook.domain.instants import HOUR, MINUTE, SECOND
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.money import E6
from tapebook.domain.position import Position
from tapebook.tape.store import Tape, View


class TapeQuotes:
    """Answers a broker's questions from the tape."""

    def __init__(self, tape: Tape, view: View) -> None:
        self.tape = tape
        self._view = view
        self._lengths: dict[str, int] = {}

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """What was observed between two moments: midpoints, and of bars without any their ends.

        A bar counts when it has ended; its close comes before whatever else was observed at that moment.
        """
        mids = self.tape.mids(symbol, since=since, until=until, view=self._view)
        told, length = {mid.bucket_ts // MINUTE for mid in mids}, self.bar_ms(symbol)
        if length == MINUTE and told.issuperset(range(-(-since // MINUTE), until // MINUTE)):
            return mids
        bars = self.bars(symbol, since=since - length, until=until)
        begun = [bar for bar in bars if bar.bucket_ts >= since and bar.bucket_ts // MINUTE not in told]
        # Of a minute the close is left out: the next one opens at the same moment.
        ended = [bar for bar in bars if length > MINUTE and (bar.end - 1) // MINUTE not in told]
        opens = [Mid(symbol, bar.bucket_ts, bar.open_e8) for bar in begun]
        closes = [Mid(symbol, bar.end, bar.close_e8) for bar in ended]
        return sorted([*closes, *mids, *opens], key=lambda mid: mid.bucket_ts)

    def bars(self, symbol: str, *, since: int, until: int) -> Sequence[Candle]:
        """Bars that begin at or after one moment and end by another, oldest first, all as long as `bar_ms` says."""
        length = self._lengths.get(symbol) or self.bar_ms(symbol)
        return self.tape.candles(
            symbol, granularity_sec=length // SECOND, since=since, until=until - length, view=self._view
        )

    def bar_alone(self, symbol: str, *, begins: int, until: int) -> Candle | None:
        """The bar that begins at a moment, if it ended by another and no midpoint was observed in its time."""
        end = begins + self.bar_ms(symbol)
        found = self.bars(symbol, since=begins, until=end) if end <= until else ()
        if not found or self.tape.mids(symbol, since=begins, until=end - 1, view=self._view):
            return None
        return found[0]

    def bar_ms(self, symbol: str) -> int:
        """How long a symbol's bars are by now: a minute, or longer where the history that is known was imported so."""
        found = self._lengths.get(symbol)
        if found is None:
            bar = self.tape.newest_bar(symbol, view=self._view)
            found = self._lengths[symbol] = MINUTE if bar is None else bar.granularity_sec * SECOND
        return found

    def book(self, symbol: str, *, at: int) -> Book | None:
        """The book last recorded at a moment, if that was within the hour.

        Its depth counts both sides; the imbalance within 1 % says how it is shared, nearer the mid too.
        """
        row = self.tape.newest(Liquidity, symbol, view=self.known(at))
        if row is None or at - row.bucket_ts > HOUR:
            return None
        near, middle, far = (
            round(depth * E6) for depth in (row.depth_usd_10bps, row.depth_usd_50bps, row.depth_usd_100bps)
        )
        lean_ppm = max(-1_000_000, min(1_000_000, round(row.imbalance * 1_000_000)))

        def side(share_ppm: int) -> tuple[int, int, int]:
            return (near * share_ppm // 2_000_000, middle * share_ppm // 2_000_000, far * share_ppm // 2_000_000)

        return Book(round(row.spread_bps * 100), side(1_000_000 + lean_ppm), side(1_000_000 - lean_ppm))

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The price last observed at a moment: a midpoint however old, or the close of a newer bar."""
        found = self.tape.last_price(symbol, view=self.known(at))
        return None if found is None else found.price_e8

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate the exchange showed last in the hour that ends; where none was recorded, the one settled then.

        Not the settled one first: it is published later, and what is paid must not depend on who looks when.
        """
        shown = self.tape.newest(AssetContext, symbol, view=self.known(hour))
        if shown is not None and hour - shown.bucket_ts <= HOUR:
            return shown.funding_e12
        settled = self.tape.funding_at(symbol, hour=hour, view=self._view)
        return None if settled is None else settled.rate_e12

    def settlement(self, symbol: str) -> Settlement | None:
        """How a delisted symbol ended: from the moment that was known, for nobody could act on it before."""
        found = self.tape.delisting(symbol, view=self._view)
        return None if found is None else Settlement(found.known_at, found.settlement_e8)

    def known(self, at: int) -> View:
        """What was known at a moment, and never more than is known now."""
        return self._view if at >= self._view.as_of else View(at, self._view.watermark)


def marks_of(
    quotes: TapeQuotes, held: Iterable[Position], *, at: int, before: Mapping[str, int] | None = None
) -> dict[str, int]:
    """What positions are valued at: the price last observed, else the mark they had before, else what they cost."""
    tape, view, earlier = quotes.tape, quotes.known(at), before or {}
    marks: dict[str, int] = {}
    for each in held:
        found = tape.last_price(each.symbol, view=view)
        marks[each.symbol] = (found and found.price_e8) or earlier.get(each.symbol) or each.entry_price_e8
    return marks
