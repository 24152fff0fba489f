"""What a position is given to lose: margin comes with what enters and leaves with what leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.order import Fill
from tapebook.domain.position import Position, position_after_fill
from tapebook.domain.units import E6, E8


def fill(size_e8: int, price_e8: int = 100 * E8, at: int = 7) -> Fill:
    """A fill in BTC."""
    return Fill("f", "BTC", at, size_e8, price_e8, 0, maker=False)


@pytest.mark.parametrize(
    ("before", "size", "leverage", "margin"),
    [
        pytest.param(None, 3, 1, 300, id="an open without leverage"),
        pytest.param(None, 3, 4, 75, id="an open"),
        pytest.param(None, -3, 4, 75, id="an open to the short side"),
        pytest.param((3, 60), 2, 4, 110, id="an add brings its own"),
        pytest.param((3, 60), -1, 9, 40, id="a third leaves with a third"),
        pytest.param((-3, 60), 2, 9, 20, id="of a short too"),
        pytest.param((3, 60), -5, 4, 50, id="a turn begins anew"),
    ],
)
def test_margin(before: tuple[int, int] | None, size: int, leverage: int, margin: int) -> None:
    held = Position("BTC", before[0] * E8, before[0] * 100 * E6, 2, before[1] * E6, 5) if before else None
    after, _ = position_after_fill(held, fill(size * E8), leverage=leverage)
    assert after is not None
    assert (after.margin_usd_e6, after.moved_at) == (margin * E6, 7)


def test_margin_is_rounded_up() -> None:
    after, _ = position_after_fill(None, fill(1, 10**12 + 1), leverage=3)
    assert after is not None
    # 100 µUSD and a bit, which is no µUSD of its own: a third is 33.3, and 34 are asked for.
    assert (after.cost_usd_e6, after.margin_usd_e6) == (100, 34)


def test_funding_is_paid_from_the_margin() -> None:
    held = Position("BTC", E8, 100 * E6, 2, 50 * E6, 5)
    assert held.with_funding(-3) == Position("BTC", E8, 100 * E6, 2, 50 * E6 - 3, 5)


@given(st.integers(1, 10**12), st.integers(-(10**9), 10**12), st.lists(st.integers(1, 10**11), max_size=6))
def test_margin_leaves_in_parts_and_is_never_more_than_its_share(size: int, margin: int, cuts: list[int]) -> None:
    held: Position | None = Position("BTC", size, 10**9, 2, margin, 5)
    for cut in cuts:
        if held is None or cut >= held.size_e8:
            break
        left = held
        held, _ = position_after_fill(held, fill(-cut), leverage=1)
        assert held is not None
        # What is left has its share, to the half unit that is rounded.
        assert abs(held.margin_usd_e6 * left.size_e8 - left.margin_usd_e6 * held.size_e8) * 2 <= left.size_e8
        assert (held.leverage, held.moved_at) == (2, 7)
