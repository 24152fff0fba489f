"""An order book in levels with the spread, depth and imbalance that a `Liquidity` row states.

1. `best_prices` puts bid and ask around the mid, as many ticks apart as the spread.
2. Each side gets levels within 0.1, 0.5 and 1 % of the mid that hold exactly its share of the depth (`_side_levels`).
3. More levels lie beyond, which only an answer with fewer figures reaches.
4. `aggregate_levels` draws levels together as `nSigFigs` and `mantissa` ask, away from the mid.

The exchange's grid is coarse for cheap coins: then a band has fewer levels, or none and its depth moves outwards.
"""

import math
from random import Random

import msgspec

from tapebook.domain.market import Liquidity
from tapebook.domain.units import E8
from tapebook.world.assets import decimals_of
from tapebook.world.server import wire

MOST_LEVELS = 20

# The edges of the bands in basis points, and how many levels a side has in each: nineteen within 1 %, so that the
# twentieth lies beyond and a client can see that twenty levels reached far enough.
_BANDS = ((10, 8), (50, 7), (100, 4))
_BEYOND_BPS, _BEYOND_LEVELS = 300, 12

_ORDER_USD = 15_000.0


class Grid(msgspec.Struct, frozen=True):
    """How a coin is quoted."""

    price_decimals: int
    size_decimals: int

    def tick_e8(self, price_e8: int) -> int:
        """The distance between two prices here."""
        return int(E8 // 10 ** decimals_of(price_e8 / E8, self.price_decimals))


class SimulatedLevel(msgspec.Struct, frozen=True):
    """One price with what waits there."""

    price_e8: int
    size: float
    orders: int


class SimulatedBook(msgspec.Struct, frozen=True):
    """Both sides, best first."""

    bids: list[SimulatedLevel]
    asks: list[SimulatedLevel]

    @property
    def spread_e8(self) -> int:
        """Between the best bid and the best ask."""
        return self.asks[0].price_e8 - self.bids[0].price_e8


def best_prices(liquidity: Liquidity, grid: Grid, *, mid_e8: int) -> tuple[int, int]:
    """Bid and ask. An odd number of ticks cannot lie evenly around a mid that is on the grid: the ask is farther."""
    tick = grid.tick_e8(mid_e8)
    ticks = max(1, round(liquidity.spread_bps / 10_000 * mid_e8 / tick))
    bid = mid_e8 - ticks // 2 * tick
    ask = bid + ticks * tick
    # Across a power of ten the grid of the ask is coarser.
    return bid, -(-ask // grid.tick_e8(ask)) * grid.tick_e8(ask)


def build_book(liquidity: Liquidity, grid: Grid, chance: Random, *, mid_e8: int) -> SimulatedBook:
    """The whole book at a mid; full precision shows its first twenty levels a side."""
    bid, ask = best_prices(liquidity, grid, mid_e8=mid_e8)
    # Whoever measures the depth only sees the book, so its own middle counts.
    middle_e8 = (bid + ask) // 2
    depths = (liquidity.depth_usd_10bps, liquidity.depth_usd_50bps, liquidity.depth_usd_100bps)
    heavier, lighter = (1 + liquidity.imbalance) / 2, (1 - liquidity.imbalance) / 2
    bids = _side_levels(bid, [depth * heavier for depth in depths], grid, chance=chance, middle_e8=middle_e8)
    asks = _side_levels(ask, [depth * lighter for depth in depths], grid, chance=chance, middle_e8=middle_e8)
    return SimulatedBook(bids, asks)


def _side_levels(
    best_e8: int, depths_usd: list[float], grid: Grid, *, chance: Random, middle_e8: int
) -> list[SimulatedLevel]:
    """The levels from the best one outwards."""
    levels: list[SimulatedLevel] = []
    away = 1 if best_e8 > middle_e8 else -1
    placed_usd, inner_e8 = 0.0, abs(best_e8 - middle_e8)
    bands = [*zip(_BANDS, depths_usd, strict=True), ((_BEYOND_BPS, _BEYOND_LEVELS), 2.5 * depths_usd[-1])]
    for (edge_bps, quota), depth_usd in bands:
        edge_e8 = middle_e8 * edge_bps // 10_000
        prices = _level_prices(middle_e8, grid, away=away, reach=(inner_e8, edge_e8), quota=quota)
        if prices:
            prices = prices if levels else list(dict.fromkeys((best_e8, *prices[1:])))
            levels += _sized_levels(prices, depth_usd - placed_usd, grid, chance)
            placed_usd = depth_usd
            inner_e8 = max(edge_e8, abs(prices[-1] - middle_e8)) + 1
    return levels


def _level_prices(middle_e8: int, grid: Grid, *, away: int, reach: tuple[int, int], quota: int) -> list[int]:
    """Up to `quota` prices on the grid whose distance from the middle is in reach, evenly spread, nearest first."""
    nearest, farthest = middle_e8 + away * reach[0], middle_e8 + away * reach[1]
    # Above a power of ten the grid is coarser, so it is taken where the band ends.
    tick = grid.tick_e8(max(nearest, farthest))
    start = -(-nearest // tick) * tick if away > 0 else nearest // tick * tick
    count = away * (farthest - start) // tick + 1
    # Each level stands in the middle of its share of the band, clear of the edges; `_side` adds the best price itself.
    ticks = dict.fromkeys(count * (2 * number + 1) // (2 * quota) for number in range(quota))
    return [start + away * tick * each for each in ticks] if count > 0 else []


def _sized_levels(prices: list[int], usd: float, grid: Grid, chance: Random) -> list[SimulatedLevel]:
    """Levels at the given prices that are worth `usd` together, at least one lot each."""
    weights = [0.5 + chance.random() for _ in prices]
    levels = []
    for price_e8, weight in zip(prices, weights, strict=True):
        worth = usd * weight / sum(weights)
        size = max(round(worth / (price_e8 / E8), grid.size_decimals), 10.0**-grid.size_decimals)
        levels.append(SimulatedLevel(price_e8, size, 1 + int(worth / _ORDER_USD * (0.5 + chance.random()))))
    return levels


def aggregate_levels(
    levels: list[SimulatedLevel], grid: Grid, *, figures: int, mantissa: int, away: int
) -> list[SimulatedLevel]:
    """Levels drawn together on a grid of so many figures: bids down, asks up."""
    whole_digits = math.floor(math.log10(levels[0].price_e8 / E8)) + 1
    step = max(mantissa * round(E8 * 10.0 ** (whole_digits - figures)), grid.tick_e8(levels[0].price_e8))
    grouped: dict[int, list[SimulatedLevel]] = {}
    for level in levels:
        price_e8 = -(-level.price_e8 // step) * step if away > 0 else level.price_e8 // step * step
        grouped.setdefault(price_e8, []).append(level)
    return [
        SimulatedLevel(
            price_e8, round(sum(each.size for each in group), grid.size_decimals), sum(each.orders for each in group)
        )
        for price_e8, group in grouped.items()
    ]


def level_text(level: SimulatedLevel, grid: Grid) -> str:
    """A level as JSON."""
    return (
        f'{{"px":"{wire.price_text(level.price_e8)}","sz":"{wire.amount_text(level.size, grid.size_decimals)}",'
        f'"n":{level.orders}}}'
    )
