"""Spread and depth answer to the heat of the market."""

from random import Random
from statistics import fmean

import pytest

from tapebook.domain.market import Liquidity
from tapebook.domain.units import E8
from tapebook.world.assets import ASSETS, DEFAULT_SYMBOLS, Asset, asset_of, quote_e8, tick_bps
from tapebook.world.listings import liquidity_of


def books(asset: Asset, *, heat: float = 1.0, momentum: float = 0.0) -> list[Liquidity]:
    """Two hundred books under the same conditions."""
    chance = Random(2)
    mid = quote_e8(asset.start_price_usd, asset.price_decimals)
    return [liquidity_of(asset, chance, at=0, mid_e8=mid, heat=heat, momentum=momentum) for _ in range(200)]


@pytest.mark.parametrize("asset", ASSETS.values(), ids=DEFAULT_SYMBOLS)
def test_a_hot_market_is_wide_and_thin(asset: Asset) -> None:
    calm, hot = books(asset), books(asset, heat=3.0)
    assert fmean(book.spread_bps for book in hot) > 1.5 * fmean(book.spread_bps for book in calm)
    assert fmean(book.depth_usd_10bps for book in hot) < 0.6 * fmean(book.depth_usd_10bps for book in calm)


@pytest.mark.parametrize("asset", ASSETS.values(), ids=DEFAULT_SYMBOLS)
def test_a_book_is_whole(asset: Asset) -> None:
    for book in books(asset, heat=0.3):
        assert 0 < book.depth_usd_10bps < book.depth_usd_50bps < book.depth_usd_100bps
        assert -1 <= book.imbalance <= 1
        assert book.spread_bps >= round(tick_bps(book.mid_e8 / E8, asset.price_decimals), 4)


def test_bids_are_heavier_in_a_rising_market() -> None:
    eth = asset_of("ETH")
    rising, falling = books(eth, momentum=2.0), books(eth, momentum=-2.0)
    assert fmean(book.imbalance for book in rising) > 0.1 > -0.1 > fmean(book.imbalance for book in falling)
