"""What the tape has of a symbol's bars: how fine, from when to when, and where they are missing."""

from collections.abc import Iterator

import msgspec

from tapebook.domain.instants import DAY, SECOND
from tapebook.domain.market import Candle
from tapebook.tape.importer import INTERVALS
from tapebook.tape.store import Tape, View

_LAST = 253_402_300_799_999
_PAGE = 30 * DAY


class Coverage(msgspec.Struct, frozen=True):
    """The finest bars of a symbol within a range; `holes` are stretches without any, half open."""

    symbol: str
    granularity_sec: int
    first: int
    last: int
    bars: int
    holes: tuple[tuple[int, int], ...]

    @property
    def first_end(self) -> int:
        """When the first bar had ended."""
        return self.first + self.granularity_sec * SECOND


def coverage(tape: Tape, symbol: str, *, start: int | None = None, end: int | None = None) -> Coverage | None:
    """The finest bars that lie in a range, or in all time; None when there are none."""
    for granularity in sorted(set(INTERVALS.values())):
        since, until = start, end
        if since is None or until is None:
            span = tape.candle_span(symbol, granularity_sec=granularity)
            if span is None:
                continue
            since = span[0] if since is None else since
            until = span[1] + granularity * SECOND if until is None else until
        found = _covered(tape, symbol, granularity, since=since, until=until)
        if found is not None:
            return found
    return None


def bars_between(tape: Tape, symbol: str, *, granularity_sec: int, since: int, until: int) -> Iterator[Candle]:
    """A symbol's bars within a range as they are known now, read page by page."""
    step = granularity_sec * SECOND
    for at in range(since, until, _PAGE):
        last = min(at + _PAGE, until) - step
        yield from tape.candles(symbol, granularity_sec=granularity_sec, since=at, until=last, view=View(_LAST))


def _covered(tape: Tape, symbol: str, granularity: int, *, since: int, until: int) -> Coverage | None:
    step, holes, count = granularity * SECOND, [], 0
    first = expected = None
    for bar in bars_between(tape, symbol, granularity_sec=granularity, since=since, until=until):
        first = bar.bucket_ts if first is None else first
        if expected is not None and bar.bucket_ts > expected:
            holes.append((expected, bar.bucket_ts))
        expected, count = bar.bucket_ts + step, count + 1
    if first is None or expected is None:
        return None
    return Coverage(symbol, granularity, first, expected, count, tuple(holes))
