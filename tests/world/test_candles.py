"""A bar holds its mids, and its trading is in whole lots at a price within it."""

import math
from random import Random
from statistics import fmean

import pytest

from tapebook.domain.market import Candle
from tapebook.domain.units import E8
from tapebook.world.assets import ASSETS, DEFAULT_SYMBOLS, Asset, asset_of
from tapebook.world.listings import PriceMinute, candle_of, minute_mids_e8


def candles(asset: Asset, *, change: float = 0.001, heat: float = 1.0, quiet: bool = False) -> list[Candle]:
    """A hundred bars of minutes alike; every one is checked to hold its mids."""
    chance, opened = Random(4), math.log(asset.start_price_usd)
    minute = PriceMinute(opened, opened + change, heat, (), quiet)
    bars = []
    for _ in range(100):
        mids = minute_mids_e8(asset, minute, chance)
        bar = candle_of(asset, minute, chance, at=60_000, mids_e8=mids)
        assert bar.low_e8 <= min(mids) <= max(mids) <= bar.high_e8
        assert (bar.open_e8, bar.close_e8) == (mids[0], mids[-1])
        bars.append(bar)
    return bars


@pytest.mark.parametrize("asset", ASSETS.values(), ids=DEFAULT_SYMBOLS)
def test_volume_is_in_lots_at_a_price_within_the_bar(asset: Asset) -> None:
    for bar in candles(asset):
        assert bar.volume_base == round(bar.volume_base, asset.size_decimals) > 0
        assert bar.low_e8 <= bar.volume_quote_usd / bar.volume_base * E8 * (1 + 1e-4)
        assert bar.high_e8 >= bar.volume_quote_usd / bar.volume_base * E8 * (1 - 1e-4)
        assert bar.sample_count >= 1


def test_wicks_reach_beyond_the_mids_now_and_then() -> None:
    bars = candles(asset_of("BTC"))
    assert any(bar.high_e8 > max(bar.open_e8, bar.close_e8) for bar in bars)
    assert len({bar.high_e8 for bar in bars}) > 5


def test_a_quiet_minute_is_flat_and_empty() -> None:
    for bar in candles(asset_of("kPEPE"), change=0.0, quiet=True):
        assert bar.open_e8 == bar.high_e8 == bar.low_e8 == bar.close_e8
        assert (bar.volume_base, bar.volume_quote_usd, bar.sample_count) == (0.0, 0.0, 0)


def test_volume_grows_with_heat_and_with_the_move() -> None:
    eth = asset_of("ETH")
    usual = fmean(bar.volume_quote_usd for bar in candles(eth))
    assert fmean(bar.volume_quote_usd for bar in candles(eth, change=0.004)) > 1.5 * usual
    assert fmean(bar.volume_quote_usd for bar in candles(eth, heat=3.0)) > 1.2 * usual
