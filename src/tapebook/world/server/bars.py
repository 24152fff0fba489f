"""The bars of one coin: the forming minute step by step, and all intervals rolled from closed minutes.

1. `forming_states` splits a minute's final bar over its twelve steps; the last state is the final bar.
2. `CoinBars.close_minute` takes a closed minute; it flows from interval to interval as buckets fill.
3. `CoinBars.rows` gives the newest closed bars and the forming one.

A minute without trades repeats the last price and moves no open, high or low of a larger bar; a
bucket of such minutes alone is flat at its close.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import attrgetter
from random import Random

from msgspec.structs import replace

from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, floor_to_step
from tapebook.world.cadence import STEPS_PER_MINUTE

NEWEST_BARS = 5_000

# Each interval is rolled from the one named second, so that a closed minute touches two bars, not eleven.
_ROLLED_FROM = {
    **{"3m": (3 * MINUTE, "1m"), "5m": (5 * MINUTE, "1m"), "15m": (15 * MINUTE, "5m"), "30m": (30 * MINUTE, "15m")},
    **{"1h": (HOUR, "30m"), "2h": (2 * HOUR, "1h"), "4h": (4 * HOUR, "2h"), "8h": (8 * HOUR, "4h")},
    **{"12h": (12 * HOUR, "4h"), "1d": (DAY, "12h"), "3d": (3 * DAY, "1d")},
}
INTERVALS = ("1m", *_ROLLED_FROM)

_BEGINNING = attrgetter("bucket_ts")


def forming_states(final: Candle, mids_e8: list[int], chance: Random, *, size_decimals: int) -> list[Candle | None]:
    """The bar after each step of its minute, None until its first trade; without a trade it stays as it was."""
    states: list[Candle | None] = [None] * STEPS_PER_MINUTE
    if not final.sample_count:
        return states
    shares = list(accumulate(0.2 + chance.random() for _ in mids_e8))
    top, bottom = mids_e8.index(max(mids_e8)), mids_e8.index(min(mids_e8))
    state: Candle | None = None
    for step, share in enumerate(shares[:-1]):
        trades = int(final.sample_count * share / shares[-1])
        if trades > (state.sample_count if state else 0):
            so_far = mids_e8[: step + 1]
            state = replace(
                final,
                # The wicks belong to the outermost mids: before those are reached the bar cannot know them.
                high_e8=final.high_e8 if top <= step else max(so_far),
                low_e8=final.low_e8 if bottom <= step else min(so_far),
                close_e8=mids_e8[step],
                volume_base=_volume_share(final.volume_base, share / shares[-1], size_decimals),
                sample_count=trades,
            )
        states[step] = state
    # Rounding down left at least one trade, so the last step always has one and ends the bar.
    states[-1] = final
    return states


def _volume_share(volume: float, share: float, size_decimals: int) -> float:
    """A share of the volume in whole lots, one at least."""
    return max(round(volume * share, size_decimals), 10.0**-size_decimals)


def merge_bars(first: Candle | None, second: Candle | None) -> Candle | None:
    """Two neighbours as one bar that begins with the first; None stands for no bar."""
    if first is None or second is None:
        return first or second
    if not second.volume_base and first.volume_base:
        return first
    if not first.volume_base:
        return replace(second, bucket_ts=first.bucket_ts)
    return replace(
        first,
        high_e8=max(first.high_e8, second.high_e8),
        low_e8=min(first.low_e8, second.low_e8),
        close_e8=second.close_e8,
        volume_base=first.volume_base + second.volume_base,
        volume_quote_usd=first.volume_quote_usd + second.volume_quote_usd,
        sample_count=first.sample_count + second.sample_count,
    )


class _Roll:
    """One interval: its closed bars, and what has closed of the bucket that is open."""

    def __init__(self, span: int) -> None:
        self.span = span
        self.closed: list[Candle] = []
        self.open: Candle | None = None
        self.larger: list[_Roll] = []

    def add_bar(self, bar: Candle) -> None:
        """A closed bar of the smaller interval."""
        self.open = merge_bars(self.open, bar)
        if self.open is not None and bar.end % self.span == 0:
            ended, self.open = self.at_interval(self.open), None
            self.closed.append(ended)
            if len(self.closed) >= 2 * NEWEST_BARS:
                del self.closed[:-NEWEST_BARS]
            for roll in self.larger:
                roll.add_bar(ended)

    def at_interval(self, bar: Candle) -> Candle:
        """A bar of this interval that begins where the interval does."""
        return replace(bar, bucket_ts=floor_to_step(bar.bucket_ts, self.span), granularity_sec=self.span // SECOND)


class CoinBars:
    """All bars of one coin."""

    def __init__(self) -> None:
        self._rolls = {"1m": _Roll(MINUTE)}
        for name, (span, smaller) in _ROLLED_FROM.items():
            self._rolls[name] = _Roll(span)
            self._rolls[smaller].larger.append(self._rolls[name])

    @property
    def minutes(self) -> list[Candle]:
        """The closed minutes, oldest first."""
        return self._rolls["1m"].closed

    def close_minute(self, minute: Candle) -> None:
        """Takes a minute that is over."""
        self._rolls["1m"].add_bar(minute)

    def open_bar(self, interval: str, minute: Candle | None) -> Candle | None:
        """The forming bar of an interval, given the forming minute; None before its first trade."""
        if interval == "1m":
            return minute
        roll, smaller = self._rolls[interval], _ROLLED_FROM[interval][1]
        bar = merge_bars(roll.open, self.open_bar(smaller, minute))
        return None if bar is None else roll.at_interval(bar)

    def rows(self, interval: str, minute: Candle | None, *, start: int, end: int) -> list[Candle]:
        """The bars that reach into a range, out of the newest there are; the forming one is the last."""
        closed, bar = self._rolls[interval].closed, self.open_bar(interval, minute)
        kept = closed[-(NEWEST_BARS - (bar is not None)) :]
        first = bisect_left(kept, floor_to_step(start, self._rolls[interval].span), key=_BEGINNING)
        rows = kept[first : bisect_right(kept, end, key=_BEGINNING)]
        return [*rows, bar] if bar is not None and bar.end > start and bar.bucket_ts <= end else rows
