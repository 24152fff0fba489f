"""When a bar is finished: all that was traded in its time is known.

A stored minute is final, and so are those before it; but a minute without trades leaves no row, so a row that is
missing means either that nothing was traded or that the row is still on its way. A symbol's time is settled up to
the latest of:

- the end of its newest stored bar: final bars leave a source in their order;
- its newest midpoint, less the grace of the source: whoever was heard so long after the end of a minute and did not
  deliver it, had nothing to deliver;
- where it has no midpoints at all (imported history), the moment itself, less the grace: that is when imported rows
  count as known.

A bar whose end is not settled is not finished; it is left out, and the minutes that are not settled are named.
"""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from tapebook.domain.instants import MINUTE, SECOND, floor
from tapebook.domain.market import Candle, Mid
from tapebook.tape.importer import GRACE_MS
from tapebook.tape.view import NO_WATERMARK, View


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


class BarsSeen(msgspec.Struct, frozen=True):
    """Finished bars, oldest first, and the minutes of the newest bar that are not settled."""

    bars: tuple[Candle, ...]
    unfinished: tuple[int, ...] = ()


def finished_bars(tape: ObservedBars, symbol: str, *, minutes: int, count: int, view: View) -> BarsSeen:
    """The newest bars of a size without one that is not finished; of `count` bars it is the newest that may lack."""
    bars, step = tape.bars(symbol, minutes=minutes, count=count, view=view), minutes * MINUTE
    end = view.as_of - view.as_of % step
    if tape.is_stored_until(symbol, end, minutes=minutes, view=view):
        return BarsSeen(bars)
    settled = _heard_until(tape, symbol, view)
    if settled >= end:
        return BarsSeen(bars)
    if bars:
        stored = [
            tape.last_bar(symbol, granularity_sec=length, since=bars[-1].bucket_ts, view=view)
            for length in tape.lengths_within(symbol, minutes)
        ]
        settled = max([settled, *(bar.end for bar in stored if bar is not None)])
    kept = bars[:-1] if bars and bars[-1].end > settled else bars
    return BarsSeen(kept, tuple(range(max(end - step, floor(settled, MINUTE)), end, MINUTE)))


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
    heard = slot + GRACE_MS
    # No midpoint settles a slot before its grace is over.
    if found <= heard:
        return max(found, slot)
    if tape.newest(Mid, symbol, view=View(heard, watermark)) is not None:
        heard = tape.first_known(Mid, symbol, since=heard, until=last, view=view)
    return min(found, heard)


def _heard_until(tape: ObservedBars, symbol: str, view: View) -> int:
    mid = tape.newest(Mid, symbol, view=view)
    return (view.as_of if mid is None else mid.bucket_ts) - GRACE_MS
