"""Sizes and prices in the steps of an exchange: never more, never worse, and the same when they are there already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.order import Increments, round_price, round_size
from tapebook.domain.units import E8

POWERS = st.integers(0, 9).map(lambda power: 10**power)
LOTS = POWERS | st.integers(1, 10**6)
# Significant digits and a tick go together where both are decimal.
STEPS = st.builds(Increments, LOTS, LOTS, st.just(0)) | st.builds(Increments, LOTS, POWERS, st.integers(1, 6))
SIZES = st.integers(-(10**14), 10**14)
PRICES = st.integers(1, 10**14)


@given(SIZES, STEPS)
def test_size_goes_to_the_next_lot_towards_zero(size: int, steps: Increments) -> None:
    fit = round_size(size, steps)
    assert fit % steps.lot_e8 == 0 and fit * size >= 0
    assert 0 <= abs(size) - abs(fit) < steps.lot_e8


@given(st.integers(-(10**6), 10**6), SIZES, STEPS)
def test_size_on_the_lot_stays(lots: int, held: int, steps: Increments) -> None:
    size = lots * steps.lot_e8
    assert round_size(size, steps) == round_size(size, steps, held_e8=held) == size
    assert round_size(size, Increments()) == size


@given(SIZES, STEPS)
def test_close_of_a_position_leaves_nothing(held: int, steps: Increments) -> None:
    assert held + round_size(-held, steps, held_e8=held) == 0


@given(PRICES, STEPS, st.booleans())
def test_price_goes_to_the_grid_and_never_to_the_worse_side(price: int, steps: Increments, buying: bool) -> None:
    at = round_price(price, steps, buying=buying)
    tick = steps.tick_at_e8(price)
    assert at > 0 and at % steps.tick_e8 == 0 and abs(at - price) < max(tick, price + 1)
    # Below the first tick there is no price for a buy but that tick.
    assert at <= max(price, tick) if buying else at >= price
    assert round_price(at, steps, buying=buying) == at
    digits = len(str(at).rstrip("0"))
    assert not steps.price_digits or digits <= steps.price_digits or at % min(E8, tick) == 0


@pytest.mark.parametrize(
    ("price", "buy", "sell"),
    [
        # BTC: five decimals of sizes leave one for prices, and five digits none of it above 9,999.
        ("65432.1", "65432", "65433"),
        ("65432", "65432", "65432"),
        ("123456", "123456", "123456"),
        ("9999.96", "9999.9", "10000"),
        ("0.05", "0.1", "0.1"),
    ],
)
def test_prices_of_a_coin(price: str, buy: str, sell: str) -> None:
    steps = Increments(10**3, 10**7, 5)
    e8 = {text: round(float(text) * E8) for text in (price, buy, sell)}
    assert round_price(e8[price], steps, buying=True) == e8[buy]
    assert round_price(e8[price], steps, buying=False) == e8[sell]
