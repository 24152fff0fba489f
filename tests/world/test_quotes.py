"""Prices are on Hyperliquid's grid."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import E8
from tapebook.world.assets import quote_e8, tick_bps

PRICES = st.floats(min_value=0.001, max_value=500_000.0)
DECIMALS = st.integers(min_value=0, max_value=6)


@pytest.mark.parametrize(
    ("price", "most_decimals", "quoted"),
    [
        (70_739.53, 1, "70740"),
        (123_456.7, 1, "123457"),
        (9_999.96, 1, "10000"),
        (2_058.847, 2, "2058.8"),
        (86.74949, 4, "86.749"),
        (0.09334749, 6, "0.093347"),
        (0.0033514, 6, "0.003351"),
    ],
)
def test_examples(price: float, most_decimals: int, quoted: str) -> None:
    assert quote_e8(price, most_decimals) == int(Decimal(quoted) * E8)


@given(PRICES, DECIMALS)
def test_five_figures_or_whole_and_never_too_many_decimals(price: float, most_decimals: int) -> None:
    exact = (Decimal(quote_e8(price, most_decimals)) / E8).normalize()
    _sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    assert exponent >= 0 or len(digits) <= 5
    assert -exponent <= most_decimals


@given(PRICES, st.floats(min_value=0.0, max_value=0.01), DECIMALS)
def test_rounding_keeps_the_order(price: float, more: float, most_decimals: int) -> None:
    assert quote_e8(price, most_decimals) <= quote_e8(price * (1 + more), most_decimals)


def test_a_tick_of_bitcoin_is_one_dollar() -> None:
    assert tick_bps(80_000.0, 1) == pytest.approx(0.125)
