"""The table of assets is complete and plausible."""

import pytest

from tapebook.world.assets import ASSETS, DEFAULT_SYMBOLS, Asset, asset_of


def test_the_world_lists_six_assets() -> None:
    assert DEFAULT_SYMBOLS == ("BTC", "ETH", "SOL", "HYPE", "DOGE", "kPEPE")


def test_an_unknown_symbol_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no 'XRP': choose from BTC, ETH, SOL, HYPE, DOGE, kPEPE"):
        asset_of("XRP")


@pytest.mark.parametrize("asset", ASSETS.values(), ids=DEFAULT_SYMBOLS)
def test_common_and_own_volatility_make_up_the_whole(asset: Asset) -> None:
    assert asset.own_vol > 0.3 * asset.daily_vol
    assert asset.common_vol**2 + asset.own_vol**2 == pytest.approx(asset.daily_vol**2)


def test_one_asset_is_worth_less_than_a_cent() -> None:
    assert asset_of("kPEPE").start_price_usd < 0.01
