"""Bars of any size: rolled up from what the tape has, the newest one, and whether it is finished.

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
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Protocol

import msgspec

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.domain.market import Candle, Mid
from tapebook.tape.view import GRACE_MS, INTERVALS, NO_WATERMARK, View


def roll_up(minutes: Iterable[Candle], *, granularity_sec: int) -> list[Candle]:
    """Bars of `granularity_sec` from one symbol's minutes in order; a bucket appears when any of its minutes does."""
    step = granularity_sec * SECOND
    bars: list[Candle] = []
    group: list[Candle] = []
    bucket_ts = 0
    for minute in minutes:
        begin = minute.bucket_ts - minute.bucket_ts % step
        if begin != bucket_ts and group:
            bars.append(_merge_minutes(group, bucket_ts, granularity_sec))
            group = []
        bucket_ts = begin
        group.append(minute)
    return [*bars, _merge_minutes(group, bucket_ts, granularity_sec)] if group else bars


def _merge_minutes(minutes: list[Candle], bucket_ts: int, granularity_sec: int) -> Candle:
    """One pass in order: every packet does it a hundred times, and `sum` of floats differs between Pythons."""
    traded = [minute for minute in minutes if minute.volume_base > 0] or [_flat_minute(minutes[-1])]
    first = traded[0]
    high, low = first.high_e8, first.low_e8
    base, quote, samples = 0.0, 0.0, 0
    for minute in traded:
        if minute.high_e8 > high:
            high = minute.high_e8
        if minute.low_e8 < low:
            low = minute.low_e8
        base += minute.volume_base
        quote += minute.volume_quote_usd
        samples += minute.sample_count
    prices = (first.open_e8, high, low, traded[-1].close_e8)
    return Candle(first.symbol, granularity_sec, bucket_ts, *prices, base, quote, samples)


def _flat_minute(minute: Candle) -> Candle:
    close = minute.close_e8
    return msgspec.structs.replace(minute, open_e8=close, high_e8=close, low_e8=close)


BAR_LENGTHS = tuple(sorted(INTERVALS.values()))
"""The bars a tape may have, in seconds, finest first."""

# How far back a bar is looked for, nearest first: the farther, the more there is to look through.
_BACK = (HOUR, DAY, 30 * DAY)
_MINUTE_SEC, _HOUR_SEC = 60, 3_600
# What counts as one when bars of whole hours are made.
_HOURS = (_MINUTE_SEC, _HOUR_SEC)


class StoredBars(Protocol):
    """Bars as they are stored."""

    def candles(
        self, symbol: str, *, granularity_sec: int, since: int, view: View, until: int = NO_WATERMARK
    ) -> list[Candle]:
        """A symbol's bars that begin between two moments and had ended by `view.as_of`, oldest first."""
        ...

    def stored_lengths(self) -> Sequence[int]:
        """The lengths there are bars of, of whatever symbol, finest first."""
        ...

    def last_bar(self, symbol: str, *, granularity_sec: int, since: int, view: View) -> Candle | None:
        """The newest bar of a length that begins at or after a moment and had ended by `view.as_of`."""
        ...


def newest_bars(tape: StoredBars, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
    """The newest complete bars of a size, of those smaller ones that had ended."""
    end = floor_to_step(view.as_of, minutes * MINUTE)
    since = end - count * minutes * MINUTE
    for length in stored_lengths_dividing(tape, minutes):
        found = bars_from_length(tape, symbol, length, minutes=minutes, since=since, end=end, view=view)
        if is_finest(found, length, minutes=minutes, end=end):
            return found
    return ()


@cache
def lengths_dividing(minutes: int) -> tuple[int, ...]:
    """The lengths bars of a size can be made of, finest first."""
    # Cached: every read of bars asks for it.
    return tuple(length for length in BAR_LENGTHS if minutes * 60 % length == 0)


def stored_lengths_dividing(tape: StoredBars, minutes: int) -> Iterator[int]:
    """The same as far as there are any, finest first. Most ask for the first alone, so the tape is asked after it."""
    first, *others = lengths_dividing(minutes)
    yield first
    stored = tape.stored_lengths() if others else ()
    yield from (
        each for each in others if any(length in stored for length in lengths_counted_as(each, minutes=minutes))
    )


def bars_from_length(
    tape: StoredBars, symbol: str, length: int, *, minutes: int, since: int, end: int, view: View
) -> tuple[Candle, ...]:
    """Bars of a size made of those of a length between two moments."""
    if minutes % 60 == 0 and length in _HOURS:
        stored = _hours_and_minutes(tape, symbol, since=since, end=end, view=view)
    else:
        last = end - length * SECOND
        stored = tape.candles(symbol, granularity_sec=length, since=since, until=last, view=view)
    return tuple(roll_up(stored, granularity_sec=minutes * 60))


def lengths_counted_as(length: int, *, minutes: int) -> tuple[int, ...]:
    """The lengths that count as one when bars of a size are made: of whole hours, minutes and hours."""
    return _HOURS if minutes % 60 == 0 and length in _HOURS else (length,)


def is_finest(found: Sequence[Candle], length: int, *, minutes: int, end: int) -> bool:
    """Whether these are the bars to take; stored hours that stop short may be a history with a finer one behind it."""
    return bool(found) and (length != _MINUTE_SEC or minutes % 60 != 0 or found[-1].end == end)


def newest_bar(tape: StoredBars, symbol: str, *, view: View, lengths: Sequence[int] | None = None) -> Candle | None:
    """The bar that ended last, of the finest there are: a longer one counts where no shorter one lies in it."""
    # Behind the end of a minute that is as new as this no longer bar fits.
    since = view.as_of - (BAR_LENGTHS[1] + _MINUTE_SEC) * SECOND + 1
    if (fresh := tape.last_bar(symbol, granularity_sec=_MINUTE_SEC, since=since, view=view)) is not None:
        return fresh
    lengths = tape.stored_lengths() if lengths is None else lengths
    for back in _BACK:
        best: Candle | None = None
        for length in lengths:
            last = view.as_of - length * SECOND
            since = last - back if best is None else best.end
            if since <= last:
                best = tape.last_bar(symbol, granularity_sec=length, since=since, view=view) or best
        if best is not None:
            return best
    return None


def _hours_and_minutes(tape: StoredBars, symbol: str, *, since: int, end: int, view: View) -> list[Candle]:
    """Stored hours in order, with the minutes of those that are missing."""

    def minutes(first: int, before: int) -> list[Candle]:
        last = before - MINUTE
        return tape.candles(symbol, granularity_sec=_MINUTE_SEC, since=first, until=last, view=view)

    found, at = list[Candle](), since
    for hour in tape.candles(symbol, granularity_sec=_HOUR_SEC, since=since, until=end - HOUR, view=view):
        if at < hour.bucket_ts:
            found += minutes(at, hour.bucket_ts)
        found.append(hour)
        at = hour.end
    return found + (minutes(at, end) if at < end else [])


class ObservedBars(Protocol):
    """Bars and midpoints as far as they were observed."""

    def bars(self, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
        """The newest bars of a size, oldest first."""
        ...

    def last_bar(self, symbol: str, *, granularity_sec: int, since: int, view: View) -> Candle | None:
        """The newest bar of a length that begins at or after a moment and had ended by `view.as_of`."""
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

    def newest(self, kind: type[Mid], symbol: str, *, view: View) -> Mid | None:
        """The newest midpoint of a symbol."""
        ...


class FinishedBars(msgspec.Struct, frozen=True):
    """Finished bars, oldest first, and the minutes of the newest bar that are not settled."""

    bars: tuple[Candle, ...]
    unfinished: tuple[int, ...] = ()


def finished_bars(tape: ObservedBars, symbol: str, *, minutes: int, count: int, view: View) -> FinishedBars:
    """The newest bars of a size without one that is not finished; of `count` bars it is the newest that may lack."""
    bars, step = tape.bars(symbol, minutes=minutes, count=count, view=view), minutes * MINUTE
    end = view.as_of - view.as_of % step
    if tape.is_stored_until(symbol, end, minutes=minutes, view=view):
        return FinishedBars(bars)
    settled = _heard_until(tape, symbol, view)
    if settled >= end:
        return FinishedBars(bars)
    if bars:
        stored = [
            tape.last_bar(symbol, granularity_sec=length, since=bars[-1].bucket_ts, view=view)
            for length in tape.lengths_within(symbol, minutes)
        ]
        settled = max([settled, *(bar.end for bar in stored if bar is not None)])
    kept = bars[:-1] if bars and bars[-1].end > settled else bars
    return FinishedBars(kept, tuple(range(max(end - step, floor_to_step(settled, MINUTE)), end, MINUTE)))


def is_settled(tape: ObservedBars, symbol: str, moment: int, *, minutes: int, view: View) -> bool:
    """Whether all is known that was traded up to a moment: then every bar of a size that has ended is finished."""
    stored = tape.is_stored_until(symbol, moment, minutes=minutes, view=view)
    return stored or _heard_until(tape, symbol, view) >= moment


def decision_moment(
    tape: ObservedBars, symbol: str, *, minutes: int, slot: int, limit: int, watermark: int = NO_WATERMARK
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


def _heard_until(tape: ObservedBars, symbol: str, view: View) -> int:
    mid = tape.newest(Mid, symbol, view=view)
    return (view.as_of if mid is None else mid.bucket_ts) - GRACE_MS
