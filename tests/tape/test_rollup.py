"""Larger bars: minutes that traded make them, minutes without volume only say that the bucket is there."""

from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import HOUR, MINUTE
from tapebook.tape.bars import roll_up

NOON = 500_000 * HOUR


def minute(at: int, prices: tuple[int, int, int, int], volume: float = 1.0) -> Candle:
    """A one-minute bar so many minutes after noon, with open, high, low and close."""
    return Candle("BTC", 60, NOON + at * MINUTE, *prices, volume, volume * 10, int(volume > 0))


def five(at: int, prices: tuple[int, int, int, int], volume: float, count: int) -> Candle:
    """A five-minute bar."""
    return Candle("BTC", 300, NOON + at * MINUTE, *prices, volume, volume * 10, count)


def test_five_minutes_make_one_bar() -> None:
    minutes = [
        minute(0, (10, 12, 9, 11)),
        minute(1, (11, 11, 8, 9)),
        minute(2, (9, 15, 9, 14), 2.0),
        minute(3, (14, 14, 13, 13)),
        minute(4, (13, 13, 12, 12)),
    ]
    assert roll_up(minutes, granularity_sec=300) == [five(0, (10, 15, 8, 12), 6.0, 5)]


def test_minutes_without_volume_move_nothing() -> None:
    minutes = [
        minute(0, (99, 99, 99, 99), 0.0),
        minute(1, (10, 12, 9, 11)),
        minute(2, (1, 500, 1, 500), 0.0),
        minute(3, (11, 13, 11, 13)),
        minute(4, (77, 77, 77, 77), 0.0),
    ]
    assert roll_up(minutes, granularity_sec=300) == [five(0, (10, 13, 9, 13), 2.0, 2)]


def test_bucket_without_any_volume_is_flat_at_its_close() -> None:
    minutes = [minute(0, (10, 20, 5, 12), 0.0), minute(3, (12, 30, 2, 11), 0.0)]
    assert roll_up(minutes, granularity_sec=300) == [five(0, (11, 11, 11, 11), 0.0, 0)]


def test_bucket_is_there_when_any_of_its_minutes_is() -> None:
    minutes = [minute(4, (1, 1, 1, 1)), minute(5, (2, 2, 2, 2)), minute(19, (3, 3, 3, 3), 0.0)]
    assert [bar.bucket_ts - NOON for bar in roll_up(minutes, granularity_sec=300)] == [0, 5 * MINUTE, 15 * MINUTE]
    assert roll_up([], granularity_sec=300) == []


def test_minutes_of_one_minute_stay_what_they_are() -> None:
    minutes = [minute(at, (10, 12, 9, 11), volume) for at, volume in enumerate([1.0, 2.5])]
    assert roll_up(minutes, granularity_sec=60) == minutes


MINUTES = st.lists(
    st.tuples(st.booleans(), st.tuples(*[st.integers(1, 100)] * 4), st.sampled_from([0.0, 0.0, 0.25, 3.0])), max_size=40
)


@given(MINUTES, st.sampled_from([1, 5, 15]), st.integers(0, 20))
def test_equals_a_naive_model(
    drawn: list[tuple[bool, tuple[int, int, int, int], float]], size: int, start: int
) -> None:
    minutes = [minute(start + at, prices, volume) for at, (there, prices, volume) in enumerate(drawn) if there]
    step = size * MINUTE
    expected = []
    for bucket in range(NOON, NOON + 80 * MINUTE, step):
        inside = [each for each in minutes if bucket <= each.bucket_ts < bucket + step]
        if inside:
            expected.append(naive(inside, bucket, size * 60))
    assert roll_up(minutes, granularity_sec=size * 60) == expected


def naive(inside: list[Candle], bucket: int, seconds: int) -> Candle:
    """One bar, said in other words."""
    traded = [each for each in inside if each.volume_base]
    if not traded:
        close = inside[-1].close_e8
        return Candle("BTC", seconds, bucket, close, close, close, close, 0.0, 0.0, 0)
    highest = max(each.high_e8 for each in traded)
    lowest = min(each.low_e8 for each in traded)
    volume, quote = sum(each.volume_base for each in traded), sum(each.volume_quote_usd for each in traded)
    ends = traded[0].open_e8, traded[-1].close_e8
    return Candle("BTC", seconds, bucket, ends[0], highest, lowest, ends[1], volume, quote, len(traded))
