"""Larger bars from one-minute bars: a pure function.

A minute without trades repeats the last price and must not move open, high or low; it only
counts towards the bucket being there. A bucket of such minutes alone is flat at its close.
"""

from collections.abc import Iterable
from itertools import groupby

import msgspec

from tapebook.domain.instants import SECOND, floor
from tapebook.domain.market import Candle


def roll_up(minutes: Iterable[Candle], *, granularity_sec: int) -> list[Candle]:
    """Bars of `granularity_sec` from one symbol's minutes in order; a bucket appears when any of its minutes does."""
    step = granularity_sec * SECOND
    groups = groupby(minutes, key=lambda minute: floor(minute.bucket_ts, step))
    return [_merge(list(group), bucket_ts=bucket_ts, granularity_sec=granularity_sec) for bucket_ts, group in groups]


def _merge(minutes: list[Candle], *, bucket_ts: int, granularity_sec: int) -> Candle:
    traded = [minute for minute in minutes if minute.volume_base > 0] or [_flat(minutes[-1])]
    return Candle(
        symbol=traded[0].symbol,
        granularity_sec=granularity_sec,
        bucket_ts=bucket_ts,
        open_e8=traded[0].open_e8,
        high_e8=max([minute.high_e8 for minute in traded]),
        low_e8=min([minute.low_e8 for minute in traded]),
        close_e8=traded[-1].close_e8,
        volume_base=sum([minute.volume_base for minute in traded]),
        volume_quote_usd=sum([minute.volume_quote_usd for minute in traded]),
        sample_count=sum([minute.sample_count for minute in traded]),
    )


def _flat(minute: Candle) -> Candle:
    close = minute.close_e8
    return msgspec.structs.replace(minute, open_e8=close, high_e8=close, low_e8=close)
