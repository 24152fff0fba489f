"""What a situation says of itself."""

import pytest

from tapebook.domain.market import Mid
from tapebook.domain.money import E6, E8
from tapebook.domain.position import Portfolio, Position
from tests.context.situations import NOW, empty_situation, market, situation


def test_age_of_the_price() -> None:
    assert situation(market=market(mid=Mid("BTC", NOW - 3_000, E8))).price_age_ms == 3_000
    assert situation(market=market(mid=Mid("BTC", NOW, E8))).price_age_ms == 0
    assert empty_situation().price_age_ms is None


@pytest.mark.parametrize(
    ("held", "mark", "worth"),
    [
        (Position("BTC", 2 * E8, 200 * E6), 150 * E8, 300 * E6),
        (Position("BTC", -2 * E8, -200 * E6), 150 * E8, -300 * E6),
        (Position("ETH", 2 * E8, 200 * E6), 150 * E8, 0),
    ],
)
def test_position_is_worth_its_mark(held: Position, mark: int, worth: int) -> None:
    here = situation(portfolio=Portfolio({held.symbol: held}), marks={held.symbol: mark})
    assert here.held_usd_e6("BTC") == worth


def test_equity_is_at_the_marks() -> None:
    held = {"BTC": Position("BTC", 2 * E8, 200 * E6)}
    assert situation(portfolio=Portfolio(held, 1_000 * E6), marks={"BTC": 150 * E8}).equity_usd_e6 == 1_100 * E6
