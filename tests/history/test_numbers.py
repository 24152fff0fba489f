"""Numbers: exact to the last decimal that is kept, and nothing that is no number becomes one."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.units import E8, E12
from tapebook.history import table_columns

NAN, INFINITY = float("nan"), float("inf")
NO_NUMBERS: list[Any] = ["", None, NAN, INFINITY, "many", True, []]


@pytest.mark.parametrize(
    ("value", "price"),
    [
        ("16537.5", 1_653_750_000_000),
        (16537.5, 1_653_750_000_000),
        (1, E8),
        ("0.00000001", 1),
        (Decimal("0.1"), E8 // 10),
        (" 2e3 ", 2_000 * E8),
        ("92233720368.54775807", 2**63 - 1),
        ("12345678.12345678", 1_234_567_812_345_678),
        # None of these is a price.
        *((value, 0) for value in [*NO_NUMBERS, 0, "0", -1, "-1.5", "1,5", "nan", "1e30"]),
        ("0.000000001", 0),
        ("92233720368.54775808", 0),
    ],
)
def test_prices(value: Any, price: int) -> None:
    assert table_columns.read_price_e8(value) == price
    assert table_columns.read_prices_e8([value]) == [price]
    assert table_columns.read_prices_e8(["1.5", value]) == [150_000_000, price]


@given(st.lists(st.integers(1, 2**63 - 1), min_size=1))
def test_a_written_price_is_exact(prices: list[int]) -> None:
    assert table_columns.read_prices_e8([f"{price // E8}.{price % E8:08d}" for price in prices]) == prices


@pytest.mark.parametrize(
    ("value", "volume", "count"),
    [
        ("0", 0.0, 0),
        (12, 12.0, 12),
        ("3.0", 3.0, 3),
        ("1.5", 1.5, -1),
        *((value, -1.0, -1) for value in [*NO_NUMBERS, -1]),
        (1e29, 1e29, -1),
        (1e30, -1.0, -1),
    ],
)
def test_volumes_and_counts(value: Any, volume: float, count: int) -> None:
    assert table_columns.read_volume(value) == volume
    assert table_columns.read_volumes([value]) == [volume]
    assert table_columns.read_volumes([1.0, value]) == [1.0, volume]
    assert table_columns.read_trade_count(value) == count


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("0.0001", E12 // 10_000),
        (-1.488e-05, -14_880_000),
        (0, 0),
        ("0.01%", E12 // 10_000),
        ("-0.5 %", -E12 // 200),
        *((value, None) for value in ("", None, NAN, "abc", "%", False)),
    ],
)
def test_rates(value: Any, rate: int | None) -> None:
    assert table_columns.read_rate_e12(value) == rate


def test_lost_digits_are_counted_where_they_matter() -> None:
    given_prices = ["0.0000012345", "0.00000123", "0.5"]
    kept = table_columns.read_prices_e8(given_prices)
    assert kept == [123, 123, 50_000_000]
    assert table_columns.count_rounded_prices(given_prices, kept) == 1
    assert table_columns.count_rounded_prices(["abc", "0.5"], table_columns.read_prices_e8(["abc", "0.5"])) == 0
    assert (
        table_columns.count_rounded_prices(
            ["0.123456789", "12345.5"], table_columns.read_prices_e8(["0.123456789", "12345.5"])
        )
        == 0
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "close is missing"),
        ("", "close is missing"),
        (NAN, "close is missing (NaN)"),
        ("nan", "close is missing (NaN)"),
        ("abc", "close 'abc' is not a number"),
        (-3.5, "close -3.5 is negative"),
        (0, "close is 0"),
        ("1e30", "close 1e30 is more than the tape can hold"),
    ],
)
def test_why_a_number_is_bad(value: Any, why: str) -> None:
    assert table_columns.why_bad_number("close", value) == why


@pytest.mark.parametrize(("common", "digits"), [(0, 0), (E8, 0), (5 * E8, 0), (E8 // 10, 1), (E8 // 4, 2), (3, 8)])
def test_decimals_used(common: int, digits: int) -> None:
    assert table_columns.decimals_used(common) == digits
