"""A book in levels says what the world's row of liquidity says, as far as twenty levels and the grid allow."""

import math
from random import Random

import msgspec
import pytest

from tapebook.domain.market import Liquidity
from tapebook.domain.units import E8, HOUR
from tapebook.world.assets import DEFAULT_SYMBOLS, asset_of, quote_e8, tick_bps
from tapebook.world.market import World
from tapebook.world.server.levels import MOST_LEVELS, Grid, SimulatedBook, SimulatedLevel, aggregate_levels, build_book
from tests.world.exchange_client import START


def grid_of(symbol: str) -> Grid:
    asset = asset_of(symbol)
    return Grid(asset.price_decimals, asset.size_decimals)


def rows(symbol: str) -> list[Liquidity]:
    """The world's books of some hours."""
    found: list[Liquidity] = []
    for step in World(11, start=START, symbols=(symbol,)).steps():
        found += [each for each in step.observations if isinstance(each, Liquidity)]
        if step.at >= START + 6 * HOUR:
            return found
    raise AssertionError


def measured(bids: list[SimulatedLevel], asks: list[SimulatedLevel], middle: float) -> tuple[float, float, float]:
    """Depth within 0.1, 0.5 and 1 % of the middle, in USD."""
    sides = [(level.price_e8 / E8, level.size) for level in bids + asks]
    bands = (0.001, 0.005, 0.01)
    near = [sum(price * size for price, size in sides if abs(price / middle - 1) <= band + 1e-12) for band in bands]
    return near[0], near[1], near[2]


@pytest.mark.parametrize("symbol", DEFAULT_SYMBOLS)
def test_twenty_levels_tell_depth_spread_and_imbalance(symbol: str) -> None:
    grid, asset = grid_of(symbol), asset_of(symbol)
    for row in rows(symbol):
        book = build_book(row, grid, Random(1), mid_e8=row.mid_e8)
        bids, asks = book.bids[:MOST_LEVELS], book.asks[:MOST_LEVELS]
        middle = (bids[0].price_e8 + asks[0].price_e8) / 2 / E8
        tick = tick_bps(row.mid_e8 / E8, asset.price_decimals)
        assert abs(middle / (row.mid_e8 / E8) - 1) * 10_000 <= tick / 2 + 1e-9
        assert book.spread_e8 / row.mid_e8 * 10_000 == pytest.approx(row.spread_bps, abs=tick / 2 + 1e-6)
        depths = measured(bids, asks, middle)
        assert depths == pytest.approx((row.depth_usd_10bps, row.depth_usd_50bps, row.depth_usd_100bps), rel=0.002)
        heavier = measured(bids, [], middle)[2] - measured([], asks, middle)[2]
        assert heavier / depths[2] == pytest.approx(row.imbalance, abs=0.002)


@pytest.mark.parametrize("symbol", DEFAULT_SYMBOLS)
def test_levels_are_on_the_grid_in_order_and_reach_beyond_one_percent(symbol: str) -> None:
    grid = grid_of(symbol)
    for row in rows(symbol)[:12]:
        book = build_book(row, grid, Random(1), mid_e8=row.mid_e8)
        for side, away in ((book.bids, -1), (book.asks, 1)):
            prices = [level.price_e8 for level in side]
            assert prices == sorted(set(prices), reverse=away < 0)
            assert all(quote_e8(price / E8, grid.price_decimals) == price for price in prices)
            assert len(prices) > MOST_LEVELS
            middle = (book.bids[0].price_e8 + book.asks[0].price_e8) / 2
            assert abs(prices[MOST_LEVELS - 1] / middle - 1) > 0.01
            assert all(level.size > 0 and level.orders >= 1 for level in side)


def test_a_spread_wider_than_a_band_moves_its_depth_outwards() -> None:
    row = msgspec.structs.replace(rows("SOL")[0], spread_bps=40.0)
    book = build_book(row, grid_of("SOL"), Random(1), mid_e8=row.mid_e8)
    middle = (book.bids[0].price_e8 + book.asks[0].price_e8) / 2 / E8
    near, wider, widest = measured(book.bids, book.asks, middle)
    assert near == 0
    assert (wider, widest) == pytest.approx((row.depth_usd_50bps, row.depth_usd_100bps), rel=0.002)


@pytest.mark.parametrize("spread_bps", [1.0, 7.0, 16.0])
def test_a_book_across_a_power_of_ten_keeps_to_both_grids(spread_bps: float) -> None:
    row = msgspec.structs.replace(rows("HYPE")[0], mid_e8=round(9.9995 * E8), spread_bps=spread_bps)
    book = build_book(row, grid_of("HYPE"), Random(1), mid_e8=row.mid_e8)
    for level in book.bids + book.asks:
        assert quote_e8(level.price_e8 / E8, 4) == level.price_e8


@pytest.mark.parametrize(
    ("figures", "mantissa", "step"), [(5, 1, 1), (5, 2, 2), (5, 5, 5), (4, 1, 10), (3, 1, 100), (2, 1, 1_000)]
)
def test_fewer_figures_draw_levels_together_away_from_the_mid(figures: int, mantissa: int, step: int) -> None:
    row = rows("BTC")[0]
    grid = grid_of("BTC")
    book: SimulatedBook = build_book(row, grid, Random(1), mid_e8=row.mid_e8)
    for side, away in ((book.bids, -1), (book.asks, 1)):
        coarse = aggregate_levels(side, grid, figures=figures, mantissa=mantissa, away=away)
        assert all(level.price_e8 % (step * E8) == 0 for level in coarse)
        assert math.isclose(sum(level.size for level in coarse), sum(level.size for level in side))
        assert sum(level.orders for level in coarse) == sum(level.orders for level in side)
        assert (coarse[0].price_e8 - side[0].price_e8) * away >= 0
        assert [level.price_e8 for level in coarse] == sorted((level.price_e8 for level in coarse), reverse=away < 0)
