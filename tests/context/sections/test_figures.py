"""Money, prices and amounts as lines write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.context.render import (
    percent_text,
    price_text,
    signed_usd_text,
    three_digits_text,
    usd_text,
    whole_usd_text,
)
from tapebook.domain.units import E6, E8, decimal_text, statistic_text, to_units


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
    assert price_text(to_units(amount, E8)) == shown


@pytest.mark.parametrize(
    ("amount", "shown"), [("250", "$250"), ("250.5", "$250"), ("251.5", "$252"), ("1234567.89", "$1,234,568")]
)
def test_whole_usd(amount: str, shown: str) -> None:
    assert whole_usd_text(to_units(amount, E6)) == shown


def test_usd() -> None:
    assert [usd_text(amount) for amount in (1_020_004_999, -5_000_001, 0)] == ["1020.00", "-5.00", "0.00"]


HALF_CENTS = st.integers(-5_000, 5_000).map(lambda count: count * 5_000)


@given(st.integers(-(10**16), 10**16) | st.integers(-20 * E6, 20 * E6) | HALF_CENTS)
def test_usd_is_exact_to_the_cent(amount: int) -> None:
    assert usd_text(amount) == decimal_text(amount, E6, 2)


@pytest.mark.parametrize(
    ("amount", "digits", "shown"),
    [("28.4", 2, "+$28.40"), ("-9.7", 2, "-$9.70"), ("0", 2, "+$0.00"), ("22", 0, "+$22"), ("-8.4", 0, "-$8")],
)
def test_signed_usd(amount: str, digits: int, shown: str) -> None:
    assert signed_usd_text(to_units(amount, E6), digits=digits) == shown


@pytest.mark.parametrize(
    ("part", "whole", "digits", "shown"),
    [
        (2_840_000, 250 * E6, 1, "+1.1%"),
        (-1_842_105, 180 * E6, 1, "-1.0%"),
        (-123 * E6, 10_000 * E6, 2, "-1.23%"),
        (0, 250 * E6, 1, "+0.0%"),
        (5, 0, 1, "+0.0%"),
        (5, 0, 2, "+0.00%"),
        (10**18, 1, 1, "+100000000000000000000.0%"),
    ],
)
def test_percent(part: int, whole: int, digits: int, shown: str) -> None:
    assert percent_text(part, whole, digits=digits) == shown


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(1.25, 2, "1.25"), (-0.25, 2, "-0.25"), (-0.001, 2, "0.00"), (-0.0, 0, "0"), (3e6, 0, "3000000")],
)
def test_statistic(value: float, digits: int, shown: str) -> None:
    assert statistic_text(value, digits) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12.5, "12.5"),
        (17_654.0, "17700"),
        (2_740_123.0, "2740000"),
        (0.000123456, "0.000123"),
        (0.0000123456, "0.0000123"),
        (0.0, "0"),
        (-0.0, "0"),
        (1e300, "1e+300"),
        (1e-12, "1e-12"),
    ],
)
def test_three_digits(value: float, shown: str) -> None:
    assert three_digits_text(value) == shown


@given(st.floats(0, 1e300))
def test_three_digits_say_the_value(value: float) -> None:
    assert float(three_digits_text(value)) == float(f"{value:.3g}")
