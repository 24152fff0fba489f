"""Bars of any size, made of what the tape has, and the newest bar there is.

Live there are minutes, and hours that were made of them; imported history has bars of one length. A
range is rolled up from the finest bars it has and mixes no two lengths, except that a stored hour
stands for its minutes, and minutes for an hour that is not stored yet. Bars that are smaller than
what is stored cannot be had.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Protocol

from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND, floor
from tapebook.domain.market import Candle
from tapebook.tape.importer import INTERVALS
from tapebook.tape.rollup import roll_up
from tapebook.tape.view import NO_WATERMARK, View

LENGTHS = tuple(sorted(INTERVALS.values()))
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


def rolled(tape: StoredBars, symbol: str, *, minutes: int, count: int, view: View) -> tuple[Candle, ...]:
    """The newest complete bars of a size, of those smaller ones that had ended."""
    end = floor(view.as_of, minutes * MINUTE)
    since = end - count * minutes * MINUTE
    for length in stored_finer(tape, minutes):
        found = made(tape, symbol, length, minutes=minutes, since=since, end=end, view=view)
        if is_finest(found, length, minutes=minutes, end=end):
            return found
    return ()


@cache
def finer(minutes: int) -> tuple[int, ...]:
    """The lengths bars of a size can be made of, finest first."""
    return tuple(length for length in LENGTHS if minutes * 60 % length == 0)


def stored_finer(tape: StoredBars, minutes: int) -> Iterator[int]:
    """The same as far as there are any, finest first. Most ask for the first alone, so the tape is asked after it."""
    first, *others = finer(minutes)
    yield first
    stored = tape.stored_lengths() if others else ()
    yield from (each for each in others if any(length in stored for length in made_of(each, minutes=minutes)))


def made(
    tape: StoredBars, symbol: str, length: int, *, minutes: int, since: int, end: int, view: View
) -> tuple[Candle, ...]:
    """Bars of a size made of those of a length between two moments."""
    if minutes % 60 == 0 and length in _HOURS:
        stored = _hours(tape, symbol, since=since, end=end, view=view)
    else:
        last = end - length * SECOND
        stored = tape.candles(symbol, granularity_sec=length, since=since, until=last, view=view)
    return tuple(roll_up(stored, granularity_sec=minutes * 60))


def made_of(length: int, *, minutes: int) -> tuple[int, ...]:
    """The lengths that count as one when bars of a size are made: of whole hours, minutes and hours."""
    return _HOURS if minutes % 60 == 0 and length in _HOURS else (length,)


def is_finest(found: Sequence[Candle], length: int, *, minutes: int, end: int) -> bool:
    """Whether these are the bars to take; stored hours that stop short may be a history with a finer one behind it."""
    return bool(found) and (length != _MINUTE_SEC or minutes % 60 != 0 or found[-1].end == end)


def newest_bar(
    tape: StoredBars, symbol: str, *, view: View, lengths: Sequence[int] | None = None
) -> Candle | None:
    """The bar that ended last, of the finest there are: a longer one counts where no shorter one lies in it."""
    # Behind the end of a minute that is as new as this no longer bar fits.
    since = view.as_of - (LENGTHS[1] + _MINUTE_SEC) * SECOND + 1
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


def _hours(tape: StoredBars, symbol: str, *, since: int, end: int, view: View) -> list[Candle]:
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
