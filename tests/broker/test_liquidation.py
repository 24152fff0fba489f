"""Where a position falls: at its liquidation price, at the open beyond it, and together with those it shares with."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.broker.margin import PRICE_STEPS, AdverseMove, MarginTiers, liquidation_prices
from tapebook.domain.position import Position
from tapebook.domain.units import E6, E8

MARGINS = MarginTiers(default_max_leverage=5)


def fallen(cash: float, *held: Position, **ways: tuple[float, float]) -> dict[str, float] | None:
    """The prices positions fall at."""
    found = liquidation_prices(
        round(cash * E6),
        {each.symbol: each for each in held},
        {symbol: AdverseMove(round(first * E8), round(worst * E8)) for symbol, (first, worst) in ways.items()},
        margins=MARGINS,
    )
    return None if found is None else {symbol: price / E8 for symbol, price in found.items()}


LONG = Position("BTC", 10 * E8, 1_000 * E6)
SHORT = Position("BTC", -10 * E8, -1_000 * E6)


@pytest.mark.parametrize(
    ("held", "first", "worst", "price"),
    [
        # 10 × p − 1,000 + 50 = 10 × p / 80
        (LONG, 100, 90, 95 / (1 - 1 / 80)),
        (LONG, 97, 80, 95 / (1 - 1 / 80)),
        (LONG, 100, 96.21, None),
        (LONG, 90, 80, 90),
        (LONG, 90, 90, 90),
        (SHORT, 100, 110, 105 / (1 + 1 / 80)),
        (SHORT, 100, 103.70, None),
        (SHORT, 112, 120, 112),
    ],
)
def test_one_position(held: Position, first: float, worst: float, price: float | None) -> None:
    found = fallen(50, held, BTC=(first, worst))
    if price is None:
        assert found is None
        return
    assert found is not None
    # A millionth of the way beyond the exact price at most, and never before it.
    beyond = (price - found["BTC"]) * (1 if held.size_e8 > 0 else -1)
    assert -1e-8 <= beyond <= abs(worst - first) / PRICE_STEPS + 1e-7


def test_positions_that_share_fall_at_the_same_step() -> None:
    other = Position("ETH", -10 * E8, -1_000 * E6)
    found = fallen(50, LONG, other, BTC=(100, 90), ETH=(100, 110))
    assert found is not None
    assert 100 - found["BTC"] == pytest.approx(found["ETH"] - 100, abs=1e-6)
    # Alone, each would have lasted much further.
    assert found["BTC"] > 97


def test_a_price_that_stands_still_is_the_one_it_falls_at() -> None:
    other = Position("ETH", 10 * E8, 1_000 * E6)
    found = fallen(50, LONG, other, BTC=(100, 80), ETH=(98, 98))
    assert found is not None and found["ETH"] == 98


@given(
    st.integers(0, 200 * E6),
    st.integers(1, 10**10),
    st.integers(80 * E8, 120 * E8),
    st.tuples(st.integers(50 * E8, 150 * E8), st.integers(0, 50 * E8)),
    st.sampled_from([1, -1]),
)
def test_first_step_at_which_it_falls_short(cash: int, size: int, paid: int, way: tuple[int, int], side: int) -> None:
    held = {"BTC": Position("BTC", side * size, round(Fraction(side * size * paid, 10**10)))}
    path = AdverseMove(way[0], way[0] - side * way[1])
    found = liquidation_prices(cash, held, {"BTC": path}, margins=MARGINS)
    if found is None:
        assert not MARGINS.falls_short(cash, held, {"BTC": path.worst_e8})
        return
    assert MARGINS.falls_short(cash, held, found)
    if found["BTC"] != path.first_e8:
        # One step back it lasts; steps are smaller than the smallest price where the way is short.
        step = max(1, way[1] // PRICE_STEPS + 1)
        assert not MARGINS.falls_short(cash, held, {"BTC": found["BTC"] + side * step})
