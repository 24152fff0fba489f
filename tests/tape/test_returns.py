"""Which bars count, and what their closes add up to."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, MINUTE
from tapebook.tape.price_features import (
    Returns,
    SlidingReturns,
    bars_since,
    covered_ms,
    ended_bars,
    sum_of_ranges,
    sum_of_squares,
)

START = 1_760_000_400_000


def bar(number: int, close: float, *, low: float | None = None) -> Candle:
    """The bar of a minute, flat at its close."""
    e8 = round(close * E8)
    low_e8 = e8 if low is None else round(low * E8)
    return Candle("BTC", 60, START + number * MINUTE, e8, e8, low_e8, e8, 1.0, close, 1)


def test_a_bar_counts_from_its_end() -> None:
    bars = [bar(0, 100.0), bar(1, 101.0)]
    end = bars[1].end
    assert ended_bars(bars, as_of=end) == bars
    assert ended_bars(bars, as_of=end - 1) == bars[:1]


def test_bars_are_put_in_order_and_a_price_of_zero_is_dropped() -> None:
    bars = [bar(2, 100.0), bar(0, 100.0), bar(1, 0.0), bar(3, 100.0, low=0.0)]
    assert ended_bars(bars, as_of=START + 9 * MINUTE) == [bars[1], bars[0]]


def test_a_window_starts_with_the_close_at_its_start() -> None:
    bars = [bar(number, 100.0) for number in range(4)]
    assert bars_since(bars, bars[1].end) == bars[1:]
    assert bars_since(bars, bars[1].end + 1) == bars[2:]
    assert bars_since([], START) == []


def test_the_move_over_a_gap_is_one_return() -> None:
    bars = [bar(0, 100.0), bar(1, 110.0), bar(5, 99.0)]
    assert sum_of_squares(bars) == pytest.approx(math.log(1.1) ** 2 + math.log(0.9) ** 2, rel=1e-12)
    assert covered_ms(bars) == 5 * MINUTE


def test_nothing_adds_up_to_nothing() -> None:
    assert sum_of_squares([]) == sum_of_squares([bar(0, 100.0)]) == 0
    assert covered_ms([]) == covered_ms([bar(0, 100.0)]) == 0


STORED = st.integers(1, 2**63 - 1)
NEAR = st.integers(10**13, 10**13 + 1_000) | st.integers(10**10, 10**13)
PRICES = st.lists(st.tuples(NEAR, NEAR, NEAR) | st.tuples(STORED, STORED, STORED) | st.just((0, 0, 0)), max_size=40)


def ranged(number: int, prices: tuple[int, int, int]) -> Candle:
    """A bar that opens, closes and reaches somewhere."""
    opened, closed, beyond = prices
    high, low = max(prices), min(prices)
    return Candle("BTC", 60, START + number * MINUTE, opened, high, low, closed, float(beyond % 7), 1.0, 1)


@given(PRICES, st.integers(1, 20), st.lists(st.integers(0, 5), max_size=30))
def test_sums_that_move_on_are_those_from_scratch_to_the_last_bit(
    prices: list[tuple[int, int, int]], size: int, steps: list[int]
) -> None:
    bars = [ranged(number, each) for number, each in enumerate(prices)]
    sliding, at = SlidingReturns(), 0
    for step in [*steps, len(bars)]:
        new, at = bars[at : at + step], at + step
        first = START + (at - size) * MINUTE
        sliding.slide(new, since=first)
        plain = Returns(ended_bars([bar for bar in bars[:at] if bar.end >= first], as_of=START + at * MINUTE))
        assert sliding.bars == plain.bars
        for place in range(len(plain.bars)):
            end, squares = plain.bars[place].end, sum_of_squares(plain.bars[place:])
            assert sliding.squares_since(end) == plain.squares_since(end) == (place, squares)
            assert sliding.range_sum(place) == plain.range_sum(place) == sum_of_ranges(plain.bars[place:])
            assert sliding.last_bar_by(end) == plain.last_bar_by(end) == plain.bars[place]
            before = plain.bars[place - 1] if place else None
            assert sliding.last_bar_by(end - 1) == plain.last_bar_by(end - 1) == before
    beyond = START + 999 * MINUTE
    assert sliding.squares_since(beyond) == (len(sliding.bars), 0.0)
    sliding.clear()
    assert sliding.bars == [] and sliding.squares_since(START) == Returns([]).squares_since(START) == (0, 0.0)
    assert sliding.last_bar_by(START) is None is Returns([]).last_bar_by(START)
