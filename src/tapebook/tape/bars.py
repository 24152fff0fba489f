"""Bars of any size: rolled up from what the tape has, the newest one, whether it is finished, and their regime.

Live there are minutes, and hours that were made of them; imported history has bars of one length. A range is rolled
up from the finest bars it has and mixes no two lengths, except that a stored hour stands for its minutes, and
minutes for an hour that is not stored yet. Bars that are smaller than what is stored cannot be had. A minute without
trades repeats the last price: it must not move open, high or low, and only counts towards the bucket being there.

A bar is finished when all that was traded in its time is known. A minute without trades leaves no row, so a missing
row means that nothing was traded or that the row is still on its way. A symbol's time is settled up to the latest
of:

- the end of its newest stored bar: final bars leave a source in their order;
- its newest midpoint, less the grace of the source: a source that was heard so long after the end of a minute and
  did not deliver it had nothing to deliver;
- where it has no midpoints at all (imported history), the moment itself, less the grace.

`finished_bars` leaves out a bar whose end is not settled and names the minutes that are not.

Regime tag of a window of closes:

    trend_up / trend_down   last / first − 1 beyond ±0.5 % × sqrt(minutes of the window / 500)
    chop                    otherwise
    hivol / lowvol          standard deviation of log returns at or above / below 0.4 % × sqrt(a bar's minutes / 5)

`classify_regime` is the function of seed 002 without the square roots: its defaults suit 100 five-minute bars and
nothing else. Fewer than 12 closes are `unknown`. A price that is not positive is `unknown` to `classify_regime`; to
`regime_of` the window cannot be classified: it is None, the null of a trade's tag.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import truediv
from typing import Any, Protocol, overload

import msgspec

from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import HOUR, MINUTE, SECOND, floor_to_step
from tapebook.tape.view import GRACE_MS, INTERVALS, NO_WATERMARK, View


def roll_up(minutes: Iterable[Candle], *, granularity_sec: int) -> list[Candle]:
    """Bars of `granularity_sec` from one symbol's minutes in order; a bucket appears when any of its minutes does."""
    # One pass in one function, since every packet rolls up hundreds of minutes. Volumes are added one by one, since
    # `sum` of floats differs between Pythons.
    step, symbol = granularity_sec * SECOND, ""
    bars: list[Candle] = []
    bucket_ts, is_traded = -1, False
    opened = high = low = close = samples = 0
    base = quote = 0.0
    for minute in chain(minutes, (None,)):
        begin = -1 if minute is None else minute.bucket_ts - minute.bucket_ts % step
        if begin != bucket_ts and bucket_ts >= 0:
            bars.append(Candle(symbol, granularity_sec, bucket_ts, opened, high, low, close, base, quote, samples))
        if minute is None:
            break
        if begin != bucket_ts:
            bucket_ts, symbol, is_traded = begin, minute.symbol, False
        if minute.volume_base <= 0:
            if not is_traded:
                opened = high = low = close = minute.close_e8
                base, quote, samples = 0.0 + minute.volume_base, 0.0 + minute.volume_quote_usd, minute.sample_count
            continue
        if not is_traded:
            opened, high, low = minute.open_e8, minute.high_e8, minute.low_e8
            base, quote, samples, is_traded = 0.0, 0.0, 0, True
        if minute.high_e8 > high:
            high = minute.high_e8
        if minute.low_e8 < low:
            low = minute.low_e8
        close = minute.close_e8
        base += minute.volume_base
        quote += minute.volume_quote_usd
        samples += minute.sample_count
    return bars


BAR_LENGTHS = tuple(sorted(INTERVALS.values()))
"""The bars a tape may have, in seconds, finest first."""

_MINUTE_SEC, _HOUR_SEC = 60, 3_600
# What counts as one when bars of whole hours are made.
_HOURS = (_MINUTE_SEC, _HOUR_SEC)


class StoredBars(Protocol):
    """Bars and midpoints as they are stored."""

    @overload
    def newest(self, kind: type[Mid], symbol: str, *, view: View) -> Mid | None: ...
    @overload
    def newest(
        self, kind: type[Candle], symbol: str, *, view: View, since: int, granularity_sec: int
    ) -> Candle | None: ...
    def newest(self, kind: type[Any], symbol: str, *, view: View, since: int = 0, granularity_sec: int = 0) -> Any:
        """The newest midpoint; or the newest bar of a length that begins at or after a moment and had ended."""
        ...

    def candles(
        self, symbol: str, *, granularity_sec: int, since: int, view: View, until: int = NO_WATERMARK
    ) -> list[Candle]:
        """A symbol's bars that begin between two moments and had ended by `view.as_of`, oldest first."""
        ...

    def bars_and_end(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[tuple[Candle, ...], int]:
        """The newest bars of a size, oldest first, and when the last stored bar they are made of ended."""
        ...

    def stored_lengths(self) -> Sequence[int]:
        """The lengths there are bars of, of whatever symbol, finest first."""
        ...

    def lengths_within(self, symbol: str, minutes: int) -> Iterable[int]:
        """The lengths, finest first, that bars of a size can be made of and that there may be bars of."""
        ...

    def is_stored_until(self, symbol: str, end: int, *, minutes: int, view: View) -> bool:
        """Whether a bar that ends then or later is stored, of any length a bar of this size is made of."""
        ...

    def first_known(
        self, kind: type[Mid | Candle], symbol: str, *, since: int, until: int, view: View, granularity_sec: int = 0
    ) -> int:
        """When the first row of a stretch was known that had ended by then, up to a watermark; never, without a row."""
        ...


@lru_cache(maxsize=64)
def lengths_dividing(minutes: int) -> tuple[int, ...]:
    """The lengths bars of a size can be made of, finest first."""
    return tuple([length for length in BAR_LENGTHS if minutes * 60 % length == 0])


def stored_lengths_dividing(tape: StoredBars, minutes: int) -> Iterator[int]:
    """The lengths bars of a size can be made of, finest first; after the first, only those there are bars of."""
    first, *others = lengths_dividing(minutes)
    yield first
    # Most callers ask for the first alone, so the tape is asked after it.
    stored = tape.stored_lengths() if others else ()
    yield from (
        each for each in others if any(length in stored for length in lengths_counted_as(each, minutes=minutes))
    )


def bars_of_length(
    tape: StoredBars, symbol: str, length: int, *, minutes: int, since: int, end: int, view: View
) -> list[Candle]:
    """The stored bars of a length between two moments, of which those of a size are made.

    Bars of whole hours are made of stored hours, and of the minutes of those that are missing.
    """
    if minutes % 60 or length not in _HOURS:
        return tape.candles(symbol, granularity_sec=length, since=since, until=end - length * SECOND, view=view)
    at = since
    found: list[Candle] = []
    hours = tape.candles(symbol, granularity_sec=_HOUR_SEC, since=since, until=end - HOUR, view=view)
    for hour in (*hours, None):
        before = end if hour is None else hour.bucket_ts
        if at < before:
            last = before - MINUTE
            found += tape.candles(symbol, granularity_sec=_MINUTE_SEC, since=at, until=last, view=view)
        if hour is not None:
            found.append(hour)
            at = hour.bucket_ts + HOUR
    return found


def bars_from_length(
    tape: StoredBars, symbol: str, length: int, *, minutes: int, since: int, end: int, view: View
) -> tuple[Candle, ...]:
    """Bars of a size made of those of a length between two moments."""
    stored = bars_of_length(tape, symbol, length, minutes=minutes, since=since, end=end, view=view)
    return tuple(roll_up(stored, granularity_sec=minutes * 60))


def lengths_counted_as(length: int, *, minutes: int) -> tuple[int, ...]:
    """The lengths that count as one when bars of a size are made: of whole hours, minutes and hours."""
    return _HOURS if minutes % 60 == 0 and length in _HOURS else (length,)


def is_finest(found: Sequence[Candle], length: int, *, minutes: int, end: int) -> bool:
    """Whether these are the bars to take; stored hours that stop short may be a history with a finer one behind it."""
    return bool(found) and (length != _MINUTE_SEC or minutes % 60 != 0 or found[-1].bucket_ts + minutes * MINUTE == end)


class FinishedBars(msgspec.Struct, frozen=True):
    """Finished bars, oldest first, and the minutes of the newest bar that are not settled."""

    bars: tuple[Candle, ...]
    unfinished: tuple[int, ...] = ()


def finished_bars(tape: StoredBars, symbol: str, *, minutes: int, count: int, view: View) -> FinishedBars:
    """The newest bars of a size without one that is not finished; of `count` bars it is the newest that may lack."""
    (bars, stored_until), step = tape.bars_and_end(symbol, minutes=minutes, count=count, view=view), minutes * MINUTE
    end = view.as_of - view.as_of % step
    if stored_until >= end or tape.is_stored_until(symbol, end, minutes=minutes, view=view):
        return FinishedBars(bars)
    settled = _heard_until(tape, symbol, view)
    if settled >= end:
        return FinishedBars(bars)
    if bars:
        stored = [
            tape.newest(Candle, symbol, granularity_sec=length, since=bars[-1].bucket_ts, view=view)
            for length in tape.lengths_within(symbol, minutes)
        ]
        settled = max([settled, *(bar.end for bar in stored if bar is not None)])
    kept = bars[:-1] if bars and bars[-1].end > settled else bars
    return FinishedBars(kept, tuple(range(max(end - step, floor_to_step(settled, MINUTE)), end, MINUTE)))


def is_settled(tape: StoredBars, symbol: str, moment: int, *, minutes: int, view: View) -> bool:
    """Whether all is known that was traded up to a moment: then every bar of a size that has ended is finished."""
    stored = tape.is_stored_until(symbol, moment, minutes=minutes, view=view)
    return stored or _heard_until(tape, symbol, view) >= moment


def decision_moment(
    tape: StoredBars, symbol: str, *, minutes: int, slot: int, limit: int, watermark: int = NO_WATERMARK
) -> int:
    """The first moment at which all is known that was traded up to a slot; `limit` after the slot at most.

    The answer of `is_settled` at one moment after the other, taken from when each row was known.
    """
    found = last = slot + limit
    view = View(last, watermark)
    for length in tape.lengths_within(symbol, minutes):
        ended = length * SECOND
        known = tape.first_known(
            Candle, symbol, since=slot - ended, until=last - ended, view=view, granularity_sec=length
        )
        if known < found:
            found = known
    source_alive_at = slot + GRACE_MS
    # No midpoint settles a slot before its grace is over.
    if found <= source_alive_at:
        return max(found, slot)
    if tape.newest(Mid, symbol, view=View(source_alive_at, watermark)) is not None:
        source_alive_at = tape.first_known(Mid, symbol, since=source_alive_at, until=last, view=view)
    return min(found, source_alive_at)


def _heard_until(tape: StoredBars, symbol: str, view: View) -> int:
    mid = tape.newest(Mid, symbol, view=view)
    return (view.as_of if mid is None else mid.bucket_ts) - GRACE_MS


# An hour of five-minute bars; fewer make no trend.
MIN_BARS = 12
_TREND, _VOLATILE = 0.005, 0.004
# What these thresholds belong to: a hundred bars of five minutes.
_BAR_SEC, _WINDOW_MS = 300, 500 * MINUTE


def classify_regime(
    closes: Sequence[float],
    *,
    returns: Sequence[float] | None = None,
    trend_threshold: float = _TREND,
    vol_threshold: float = _VOLATILE,
) -> str:
    """One of trend_up_lowvol, trend_up_hivol, trend_down_lowvol, trend_down_hivol, chop_lowvol, chop_hivol, unknown.

    `returns` are the log returns of the closes, from whoever has them.
    """
    if len(closes) < MIN_BARS or not all(map(math.isfinite, closes)) or min(closes) <= 0:
        return "unknown"
    if returns is None:
        returns = tuple(map(math.log, map(truediv, closes[1:], closes)))
    # Not last / first - 1: there 199 / 200 rounds to just beyond -0.5 %, and a half percent down would be a trend.
    change = (closes[-1] - closes[0]) / closes[0]
    way = "trend_up" if change > trend_threshold else "trend_down" if change < -trend_threshold else "chop"
    mean, squares = math.fsum(returns) / len(returns), []
    for each in returns:
        squares.append((each - mean) ** 2)
    # The sample standard deviation (n − 1).
    deviation = math.sqrt(math.fsum(squares) / (len(returns) - 1))
    return f"{way}_{'hivol' if deviation >= vol_threshold else 'lowvol'}"


def regime_of(bars: Sequence[Candle]) -> str | None:
    """The tag of a window of bars of one size, by thresholds of that size; None when it cannot be classified."""
    return RegimeClassifier()(tuple(bars))


class RegimeClassifier(msgspec.Struct, eq=False):
    """The tags of windows of bars that move on: the returns of all but the newest bar are known from before.

    A cache of the last window with its closes, its returns and its tag: another one is compared with it bar by bar.
    `scaled` is False for packets of renderer 2, whose thresholds are those of five minutes whatever the bars are, and
    to whom a bad price is unknown.
    """

    scaled: bool = True
    _kept: tuple[tuple[Candle, ...], tuple[float, ...], tuple[float, ...], str | None] = ((), (), (), "unknown")

    def __call__(self, bars: tuple[Candle, ...]) -> str | None:
        """The tag of a window."""
        before, closes, returns, tag = self._kept
        if bars is before or bars == before:
            return tag
        if returns and bars and bars[-1].close_e8 > 0 and before[1:] == bars[:-1]:
            close = bars[-1].close_e8 / 1e8
            returns = (*returns[1:], math.log(close / closes[-1]))
            closes = (*closes[1:], close)
        else:
            prices = []
            for bar in bars:
                prices.append(bar.close_e8 / 1e8)
            closes, returns = tuple(prices), ()
            if min(closes, default=0) > 0:
                returns = tuple(map(math.log, map(truediv, closes[1:], closes)))
        tag, trend, volatile = "unknown", _TREND, _VOLATILE
        if len(closes) >= MIN_BARS and returns:
            if self.scaled:
                length = bars[-1].granularity_sec
                window_ms = bars[-1].bucket_ts + length * SECOND - bars[0].bucket_ts
                trend, volatile = _TREND * math.sqrt(window_ms / _WINDOW_MS), _VOLATILE * math.sqrt(length / _BAR_SEC)
            tag = classify_regime(closes, returns=returns, trend_threshold=trend, vol_threshold=volatile)
        elif len(closes) >= MIN_BARS and self.scaled:
            # A bad price.
            tag = None
        self._kept = bars, closes, returns, tag
        return tag
