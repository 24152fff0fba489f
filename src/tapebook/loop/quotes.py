"""The market as a broker may see it, and what positions are valued at: the tape, cut off at what is known now."""

from collections.abc import Iterable, Mapping, Sequence

from tapebook.broker import Book
from tapebook.domain.instants import DAY, HOUR, MINUTE
from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.money import E6
from tapebook.domain.position import Position
from tapebook.tape.store import Tape, View

RECENT_MS = 2 * MINUTE
"""A midpoint of the last two minutes is the mark; without one, the newest price of any kind is looked for."""

# How far back a bar is looked for, nearest first: reading bars costs what their number is.
_BACK = (HOUR, DAY, 30 * DAY)


class TapeQuotes:
    """Answers a broker's questions from the tape."""

    def __init__(self, tape: Tape, view: View) -> None:
        self._tape = tape
        self._view = view

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """What was observed between two moments: midpoints, and the open of every bar whose minute has none."""
        mids = self._tape.mids(symbol, since=since, until=until, view=self._view)
        told = {mid.bucket_ts // MINUTE for mid in mids}
        minutes = range(-(-since // MINUTE), (until - MINUTE) // MINUTE + 1)
        silent = [minute * MINUTE for minute in minutes if minute not in told]
        if not silent:
            return mids
        bars = self.bars(symbol, since=silent[0], until=silent[-1] + MINUTE)
        opens = [Mid(symbol, bar.bucket_ts, bar.open_e8) for bar in bars if bar.bucket_ts // MINUTE not in told]
        return sorted([*mids, *opens], key=lambda mid: mid.bucket_ts)

    def bars(self, symbol: str, *, since: int, until: int) -> Sequence[Candle]:
        """One-minute bars that begin at or after one moment and end by another, oldest first."""
        return self._tape.candles(symbol, granularity_sec=60, since=since, until=until - MINUTE, view=self._view)

    def book(self, symbol: str, *, at: int) -> Book | None:
        """The book last recorded at a moment, if that was within the hour.

        Its depth counts both sides; the imbalance within 1 % says how it is shared, nearer the mid too.
        """
        row = self._tape.newest(Liquidity, symbol, view=self._known(at))
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
        view = self._known(at)
        recent = self._tape.mids(symbol, since=at - RECENT_MS, until=at, view=view)
        if recent:
            return recent[-1].price_e8
        bar = self._newest_bar(symbol, view)
        if bar is not None and bar.end >= at - RECENT_MS:
            return bar.close_e8
        mid = self._tape.newest(Mid, symbol, view=view)
        if mid is None:
            return None if bar is None else bar.close_e8
        return mid.price_e8 if bar is None or mid.bucket_ts >= bar.end else bar.close_e8

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate settled at an hour; until it is published, the rate the exchange showed before the hour."""
        settled = self._tape.funding_at(symbol, hour=hour, view=self._view)
        if settled is not None:
            return settled.rate_e12
        shown = self._tape.newest(AssetContext, symbol, view=self._known(hour))
        return None if shown is None else shown.funding_e12

    def _newest_bar(self, symbol: str, view: View) -> Candle | None:
        for back in _BACK:
            bars = self._tape.candles(symbol, granularity_sec=60, since=view.as_of - back, view=view)
            if bars:
                return bars[-1]
        return None

    def _known(self, at: int) -> View:
        """What was known at a moment, and never more than is known now."""
        return View(min(at, self._view.as_of), self._view.watermark)


def marks_of(
    quotes: TapeQuotes, held: Iterable[Position], *, at: int, before: Mapping[str, int] | None = None
) -> dict[str, int]:
    """What positions are valued at: the price last observed, else the mark they had before, else what they cost."""
    earlier = before or {}
    return {
        each.symbol: quotes.mark_e8(each.symbol, at=at) or earlier.get(each.symbol) or each.entry_price_e8
        for each in held
    }
