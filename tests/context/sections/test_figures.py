"""Money and prices as lines about trades write them."""

import pytest

from tapebook.context.sections.figures import percent, price, signed_usd, whole_usd
from tapebook.domain.money import E6, E8, scaled


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("65200", "65,200"),
        ("65200.49", "65,200"),
        ("3420.1", "3,420.1"),
        ("3420", "3,420"),
        ("999.5", "999.5"),
        ("1", "1"),
        ("1.2", "1.2"),
        ("0.0123456", "0.012346"),
        ("0.5", "0.5"),
        ("0.00000001", "0.00000001"),
        ("0", "0"),
        ("92233720368.54775807", "92,233,720,369"),
    ],
)
def test_price(amount: str, shown: str) -> None:
    assert price(scaled(amount, E8)) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [("250", "$250"), ("250.5", "$250"), ("251.5", "$252"), ("1234567.89", "$1,234,568")]
)
def test_whole_usd(amount: str, shown: str) -> None:
    assert whole_usd(scaled(amount, E6)) == shown


@pytest.mark.parametrize(
    ("amount", "digits", "shown"),
    [("28.4", 2, "+$28.40"), ("-9.7", 2, "-$9.70"), ("0", 2, "+$0.00"), ("22", 0, "+$22"), ("-8.4", 0, "-$8")],
)
def test_signed_usd(amount: str, digits: int, shown: str) -> None:
    assert signed_usd(scaled(amount, E6), digits=digits) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (2_840_000, 250 * E6, "+1.1%"),
        (-1_842_105, 180 * E6, "-1.0%"),
        (0, 250 * E6, "+0.0%"),
        (5, 0, "+0.0%"),
        (10**18, 1, "+100000000000000000000.0%"),
    ],
)
def test_percent(part: int, whole: int, shown: str) -> None:
    assert percent(part, whole) == shown
