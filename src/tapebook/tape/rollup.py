"""Larger bars from smaller ones, minutes as a rule: a pure function.

A minute without trades repeats the last price and must not move open, high or low; it only
counts towards the bucket being there. A bucket of such minutes alone is flat at its close.
"""

from collections.abc import Iterable

import msgspec

from tapebook.domain.instants import SECOND
from tapebook.domain.market import Candle


def roll_up(minutes: Iterable[Candle], *, granularity_sec: int) -> list[Candle]:
    """Bars of `granularity_sec` from one symbol's minutes in order; a bucket appears when any of its minutes does."""
    step = granularity_sec * SECOND
    bars: list[Candle] = []
    group: list[Candle] = []
    bucket_ts = 0
    for minute in minutes:
        begin = minute.bucket_ts - minute.bucket_ts % step
        if begin != bucket_ts and group:
            bars.append(_merge(group, bucket_ts, granularity_sec))
            group = []
        bucket_ts = begin
        group.append(minute)
    return [*bars, _merge(group, bucket_ts, granularity_sec)] if group else bars


def _merge(minutes: list[Candle], bucket_ts: int, granularity_sec: int) -> Candle:
    """One pass in order: every packet does it a hundred times, and `sum` of floats differs between Pythons."""
    traded = [minute for minute in minutes if minute.volume_base > 0] or [_flat(minutes[-1])]
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


def _flat(minute: Candle) -> Candle:
    close = minute.close_e8
    return msgspec.structs.replace(minute, open_e8=close, high_e8=close, low_e8=close)
