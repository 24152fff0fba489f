"""Spread, depth and imbalance, measured against books whose answers are known."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import E8
from tapebook.sources.hyperliquid.books import FULL, LEVELS, BookPicture, book_of, liquidity_of, next_picture
from tapebook.sources.hyperliquid.wire import BookRow, LevelRow

Orders = list[tuple[float, float]]


def picture(bids: Orders, asks: Orders, *, figures: int = FULL) -> BookPicture:
    """What the exchange shows of a book: twenty levels a side, rounded away from the mid to so many figures."""
    shown = [_levels(bids, math.floor, figures)[:LEVELS], _levels(asks, math.ceil, figures)[:LEVELS]]
    sides = [[LevelRow(f"{price:.8f}", f"{size:.8f}") for price, size in side] for side in shown]
    book = book_of(BookRow("X", 1, (sides[0], sides[1])))
    assert book is not None
    return book


def _levels(orders: Orders, rounded: Callable[[float], int], figures: int) -> Orders:
    if not figures:
        return orders
    levels: dict[float, float] = {}
    for price, size in orders:
        step = 10.0 ** (math.floor(math.log10(price)) - figures + 1)
        level = rounded(round(price / step, 6)) * step
        levels[level] = levels.get(level, 0.0) + size
    return list(levels.items())


def ladder(mid: float, tick: float, count: int) -> tuple[Orders, Orders]:
    """One unit at every tick, from half a tick beside the mid outwards."""
    bids = [(mid - tick / 2 - tick * number, 1.0) for number in range(count)]
    return bids, [(mid + tick / 2 + tick * number, 1.0) for number in range(count)]


def gathered(bids: Orders, asks: Orders) -> dict[int, BookPicture]:
    """All pictures that are asked for."""
    pictures = {FULL: picture(bids, asks)}
    while (figures := next_picture(pictures)) is not None:
        pictures[figures] = picture(bids, asks, figures=figures)
    return pictures


def test_a_thin_book_is_complete_at_first_sight() -> None:
    bids, asks = [(99.0, 2.0), (98.0, 1.0)], [(101.0, 1.0)]
    pictures = gathered(bids, asks)
    assert list(pictures) == [FULL]
    found = liquidity_of("X", pictures, bucket_ts=300_000)
    assert (found.symbol, found.bucket_ts, found.mid_e8, found.spread_bps) == ("X", 300_000, 100 * E8, 200.0)
    assert (found.depth_usd_10bps, found.depth_usd_50bps, found.depth_usd_100bps) == (0.0, 0.0, 299.0)
    assert found.imbalance == round((198 - 101) / 299, 4)


def test_twenty_levels_that_reach_one_percent_are_enough() -> None:
    bids, asks = ladder(100.0, 0.2, 40)
    assert list(gathered(bids, asks)) == [FULL]


def test_a_dense_book_is_asked_for_with_fewer_figures() -> None:
    """Twenty levels of 1 at 64,900 end at 0.03 %: four figures reach 0.3 %, three reach 3 %."""
    bids, asks = ladder(64_900.5, 1.0, 2_000)
    pictures = gathered(bids, asks)
    assert list(pictures) == [FULL, 4, 3]
    found = liquidity_of("BTC", pictures, bucket_ts=0)
    assert found.spread_bps == round(1 / 64_900.5 * 10_000, 4)
    # 64 levels a side within 0.1 %; the pictures put those beyond their last full step outside.
    assert found.depth_usd_10bps == pytest.approx(2 * 64.9 * 64_900, rel=0.1)
    assert found.depth_usd_50bps == pytest.approx(2 * 324.5 * 64_900, rel=0.15)
    assert found.depth_usd_100bps == pytest.approx(2 * 649.0 * 64_900, rel=0.1)
    assert abs(found.imbalance) < 0.1


def test_one_more_picture_is_enough_where_four_figures_reach() -> None:
    bids, asks = ladder(1.2345, 0.0001, 500)
    assert list(gathered(bids, asks)) == [FULL, 4]


def test_a_level_on_the_edge_belongs_to_the_band() -> None:
    found = liquidity_of("X", gathered([(99.9, 1.0)], [(100.1, 1.0)]), bucket_ts=0)
    assert found.depth_usd_10bps == 200.0


@pytest.mark.parametrize("levels", [([], []), ([LevelRow("1", "1")], []), ([], [LevelRow("1", "1")])])
def test_a_book_with_an_empty_side_says_nothing(levels: tuple[list[LevelRow], list[LevelRow]]) -> None:
    assert book_of(BookRow("X", 1, levels)) is None


@pytest.mark.parametrize("level", [LevelRow("0", "1"), LevelRow("x", "1"), LevelRow("1", "-1"), LevelRow("1", "nan")])
def test_a_level_that_is_none_is_refused(level: LevelRow) -> None:
    with pytest.raises(ValueError):
        book_of(BookRow("X", 1, ([level], [LevelRow("2", "1")])))


def test_the_mid_of_an_odd_spread_is_exact() -> None:
    book = book_of(BookRow("X", 1, ([LevelRow("0.00003655", "1")], [LevelRow("0.00003658", "1")])))
    assert book is not None and book.best_sum_e8 == 7_313


@given(st.floats(1e-6, 9e4), st.floats(1e-5, 5e-2), st.integers(1, 400))
def test_any_book_is_measured_with_at_most_three_pictures(mid: float, tick_share: float, count: int) -> None:
    bids, asks = ladder(mid, mid * tick_share, min(count, int(1 / tick_share) - 1))
    if not bids or round(bids[0][0] * E8) < 100:
        return
    pictures = gathered(bids, asks)
    assert len(pictures) <= 3
    found = liquidity_of("X", pictures, bucket_ts=0)
    assert 0 <= found.depth_usd_10bps <= found.depth_usd_50bps * 1.2 and -1 <= found.imbalance <= 1
