"""Portfolio and risk caps: in dollars and cents, from integers."""

import pytest

from tapebook.context.sections import portfolio
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E6, E8
from tapebook.domain.position import Portfolio, Position
from tests.context.situations import deployed, profile, situation


@pytest.mark.parametrize(
    ("size", "side", "worth", "unrealised", "equity"),
    [(2, "long", "220.00", "20.00", "1020.00"), (-2, "short", "220.00", "-20.00", "980.00")],
)
def test_position_in_the_symbol(size: int, side: str, worth: str, unrealised: str, equity: str) -> None:
    held = Position("BTC", size * E8, size * 100 * E6)
    other = Position("ETH", E8, 50 * E6)
    section = portfolio.build(
        situation(portfolio=Portfolio({"ETH": other, "BTC": held}, 1_000 * E6), marks={"BTC": 110 * E8, "ETH": 50 * E8})
    )
    assert section is not None
    assert section.rows == (
        ("cash_usd", "1000.00"),
        ("equity_usd", equity),
        ("position_side", side),
        ("position_usd", worth),
        ("entry_price", "100.00"),
        ("mark", "110.00"),
        ("unrealised_usd", unrealised),
        ("open_symbols", "BTC ETH"),
        ("max_position_usd", "2000.00"),
        ("max_leverage", "5"),
    )


def test_flat_account_shows_its_caps() -> None:
    agent = profile(caps=RiskCaps(max_position_usd_e6=1_500_500_000, max_leverage=3))
    section = portfolio.build(situation(portfolio=Portfolio({}, -5_000), marks={}, deployment=deployed(agent)))
    assert section is not None
    assert section.rows == (
        ("cash_usd", "0.00"),
        ("equity_usd", "0.00"),
        ("position_side", "flat"),
        ("open_symbols", "none"),
        ("max_position_usd", "1500.50"),
        ("max_leverage", "3"),
    )


def test_position_in_another_symbol_is_not_this_ones() -> None:
    held = {"ETH": Position("ETH", E8, 50 * E6)}
    section = portfolio.build(situation(portfolio=Portfolio(held, 0), marks={"ETH": 60 * E8}))
    assert section is not None
    assert (section.get("position_side"), section.get("position_usd")) == ("flat", None)
    assert (section.get("equity_usd"), section.get("open_symbols")) == ("10.00", "ETH")
