"""What the tape has of a symbol's bars: how fine, from when to when, and where they are missing.

A bar that is missing in imported history is a hole. A live tape has no bar of a minute in which nobody
traded, so there a missing minute is a hole only

- when an open gap of candles is recorded for it, or
- when nothing else shows that the feed was heard: no bar and no midpoint of any symbol of its exchange in
  that minute, and the bars before and after it did not come in one answer.
"""

from collections.abc import Iterator

import msgspec

from tapebook.domain.instants import DAY, MINUTE, SECOND
from tapebook.domain.market import Candle, Gap, Mid
from tapebook.tape.families import CANDLES
from tapebook.tape.importer import INTERVALS
from tapebook.tape.sources.hyperliquid.gaps import subject_of
from tapebook.tape.sources.hyperliquid.universe import dex_of
from tapebook.tape.store import Tape, View

_LAST = 253_402_300_799_999
_PAGE = 30 * DAY
_STRETCH = CANDLES.span_ms


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
    step, holes, count = granularity * SECOND, list[tuple[int, int]](), 0
    live = _LiveMinutes(tape, symbol, since=since) if step == MINUTE else None
    first = expected = None
    for bar in bars_between(tape, symbol, granularity_sec=granularity, since=since, until=until):
        first = bar.bucket_ts if first is None else first
        if expected is not None and bar.bucket_ts > expected:
            missing = (expected, bar.bucket_ts)
            holes += live.holes(missing) if live else [missing]
        expected, count = bar.bucket_ts + step, count + 1
    if first is None or expected is None:
        return None
    return Coverage(symbol, granularity, first, expected, count, tuple(holes))


class _LiveMinutes:
    """Tells quiet minutes of a symbol from missing ones."""

    def __init__(self, tape: Tape, symbol: str, *, since: int) -> None:
        self._tape = tape
        self._symbol = symbol
        self._dex = dex_of(symbol)
        self._since = since
        self._gaps: list[Gap] | None = None
        # Minutes in which a bar of any symbol came, of the stretch that was looked at last: holes come in order.
        self._heard: tuple[int, set[int]] = (-1, set())

    def holes(self, missing: tuple[int, int]) -> list[tuple[int, int]]:
        """What of a stretch without bars is missing, and was not just quiet."""
        since, until = missing
        around = self._tape.minute_commits(self._symbol, since=since - MINUTE, until=until)
        before, after = (around.get(at, frozenset()) for at in (since - MINUTE, until))
        if not before and not after:
            return [missing]
        together = bool(before & after)
        holes: list[tuple[int, int]] = []
        for minute in range(since, until, MINUTE):
            if not self._in_gap(minute) and (together or self._is_heard(minute)):
                continue
            begins = holes.pop()[0] if holes and holes[-1][1] == minute else minute
            holes.append((begins, minute + MINUTE))
        return holes

    def _in_gap(self, minute: int) -> bool:
        if self._gaps is None:
            mine = (self._symbol, subject_of(self._dex))
            found = self._tape.channel_gaps("candles", since=self._since, as_of=_LAST)
            self._gaps = [each.gap for each in found if each.filled_at is None and each.gap.subject in mine]
        return any(gap.from_ts <= minute < gap.to_ts for gap in self._gaps)

    def _is_heard(self, minute: int) -> bool:
        begins = minute - minute % _STRETCH
        if begins != self._heard[0]:
            self._heard = begins, self._observed(Candle, begins, begins + _STRETCH)
        return minute in self._heard[1] or bool(self._observed(Mid, minute, minute + MINUTE))

    def _observed(self, channel: type[Candle] | type[Mid], since: int, until: int) -> set[int]:
        return self._tape.observed_minutes(channel, of=self._is_of_dex, since=since, until=until)

    def _is_of_dex(self, symbol: str) -> bool:
        return dex_of(symbol) == self._dex
