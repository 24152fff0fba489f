"""The worst that can come of an account: every figure is the most that some way of filling leads to."""

import pytest

from tapebook.decision.guard import Move, move_of_order
from tapebook.domain.units import E8
from tests.decision.accounts import MARK, limits, order, usd, working


@pytest.mark.parametrize(
    ("held", "under_way", "longs", "shorts"),
    [
        pytest.param(0, [], 0, 0, id="nothing"),
        pytest.param(500, [], 500, 0, id="a long"),
        pytest.param(-500, [], 0, 500, id="a short"),
        pytest.param(500, [working("BTC", 300)], 800, 0, id="an add"),
        pytest.param(500, [working("BTC", -800)], 500, 300, id="a turn"),
        pytest.param(500, [working("BTC", -800, limit=100)], 500, 800, id="a turn that may wait"),
        pytest.param(500, [working("BTC", -800, limit=110)], 500, 880, id="a turn that waits higher up"),
        pytest.param(500, [working("BTC", 300, limit=90)], 800, 0, id="a bid below"),
        pytest.param(500, [working("BTC", -500, reduces=True)], 500, 0, id="a close"),
        pytest.param(500, [working("BTC", -500, reduces=True), working("BTC", -800)], 500, 800, id="close and turn"),
        pytest.param(0, [working("BTC", 300), working("BTC", -200), working("BTC", 100)], 400, 200, id="both sides"),
        pytest.param(500, [working("ETH", 300)], 500, 0, id="another symbol"),
    ],
)
def test_worst_of_each_side(held: float, under_way: list[Move], longs: float, shorts: float) -> None:
    known = limits(held=held, working=tuple(under_way))
    assert known.worst_usd_e6("BTC", buys=True) == usd(longs)
    assert known.worst_usd_e6("BTC", buys=False) == usd(shorts)


def test_gross_and_margin_count_every_symbol() -> None:
    under_way = (working("SOL", -600, leverage=3), working("ETH", 100, leverage=5))
    known = limits(held=-500, others={"ETH": 1_000}, working=under_way)
    adding = working("BTC", -500, leverage=2)
    assert known.gross_usd_e6(adding) == usd(1_000 + 1_100 + 600)
    # BTC and ETH are held without leverage, and that counts for what is added to them.
    assert known.margin_usd_e6(adding) == usd(1_000 + 1_100 + 200)
    assert limits().margin_usd_e6(working("BTC", -500, leverage=2)) == usd(250)


def test_margin_is_rounded_up() -> None:
    assert limits().margin_usd_e6(Move("BTC", True, 10, MARK, None, 3, False)) == 4


def test_order_of_the_book_as_a_move() -> None:
    sold = order(-300, type="limit", limit_price_e8=110 * E8, leverage=4)
    assert move_of_order(sold, 120 * E8) == Move("BTC", False, usd(360), 120 * E8, 110 * E8, 4, False)
    assert move_of_order(sold, 120 * E8).order_usd_e6 == usd(330)
    assert move_of_order(sold, None) == Move("BTC", False, usd(330), 110 * E8, 110 * E8, 4, False)
