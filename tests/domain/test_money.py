"""The rounding rules, each against fractions or decimals that do not round."""

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tapebook.domain import units
from tapebook.domain.units import (
    E6,
    E8,
    E12,
    average_price_e8,
    decimal_text,
    divide_half_even,
    floats_to_e8,
    notional_usd_e6,
    short_price,
    size_e8_for,
    to_e8,
    to_units,
)
from tests.matrix import examples

ANY = st.integers(-(10**40), 10**40)
SIZES = st.integers(-(10**17), 10**17)
PRICES = st.integers(1, 10**15)
UNITS = st.sampled_from([E6, E8, E12])


def digits_of(unit: int) -> int:
    """How many decimals a unit has."""
    return len(str(unit)) - 1


@given(numerator=ANY, denominator=st.integers(1, 10**30))
def test_divide_is_the_fraction_rounded_half_to_even(numerator: int, denominator: int) -> None:
    assert divide_half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@given(half=st.integers(-(10**20), 10**20), denominator=st.integers(1, 10**10).map(lambda n: 2 * n))
def test_divide_of_an_exact_half_goes_to_the_even_neighbour(half: int, denominator: int) -> None:
    given_half = divide_half_even(half * denominator + denominator // 2, denominator)
    assert given_half % 2 == 0
    assert given_half in (half, half + 1)


@given(numerator=ANY, denominator=st.integers(-(10**30), -1))
def test_divide_takes_a_negative_denominator(numerator: int, denominator: int) -> None:
    assert divide_half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(5, 2, 2), (7, 2, 4), (-5, 2, -2), (-7, 2, -4), (-1, 2, 0), (1, 3, 0), (2, 3, 1), (-2, 3, -1), (0, 7, 0)],
)
def test_divide_by_hand(numerator: int, denominator: int, expected: int) -> None:
    assert divide_half_even(numerator, denominator) == expected


def test_divide_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        divide_half_even(1, 0)


@given(size=SIZES, price=PRICES)
def test_notional_is_within_half_a_unit_and_odd(size: int, price: int) -> None:
    worth = notional_usd_e6(size, price)
    assert abs(worth - Fraction(size * price, 10**10)) <= Fraction(1, 2)
    assert notional_usd_e6(-size, price) == -worth
    assert notional_usd_e6(price, size) == worth


@pytest.mark.parametrize(
    ("size", "price", "usd"),
    [("1", "65200", "65200"), ("-0.5", "3420.1", "-1710.05"), ("1000000", "0.0123456", "12345.6"), ("1e-8", "1", "0")],
)
def test_notional_by_hand(size: str, price: str, usd: str) -> None:
    assert notional_usd_e6(to_units(size, E8), to_units(price, E8)) == to_units(usd, E6)


@given(size=SIZES.filter(bool), price=PRICES)
def test_average_price_gives_the_notional_back(size: int, price: int) -> None:
    worth = notional_usd_e6(size, price)
    average = average_price_e8(worth, size)
    # Half a unit of money, spread over the size, and half a unit of price.
    assert abs(average - price) <= Fraction(10**10, 2 * abs(size)) + Fraction(1, 2)
    assert average == average_price_e8(-worth, size) == average_price_e8(worth, -size)


@given(notional=st.integers(-(10**18), 10**18), price=PRICES)
def test_size_never_costs_more_than_was_asked_for(notional: int, price: int) -> None:
    size = size_e8_for(notional, price)
    assert abs(size) * price <= abs(notional) * 10**10 < (abs(size) + 1) * price
    assert abs(notional_usd_e6(size, price)) <= abs(notional)
    assert size * notional >= 0
    assert size_e8_for(-notional, price) == -size


@given(value=st.integers(-(10**20), 10**20), unit=UNITS)
def test_decimal_text_and_back(value: int, unit: int) -> None:
    text = decimal_text(value, unit, digits_of(unit))
    assert to_units(text, unit) == value
    assert Decimal(text) * unit == value


@given(value=st.integers(-(10**15), 10**15), unit=UNITS, digits=st.integers(0, 12))
def test_decimal_text_has_the_digits_that_were_asked_for(value: int, unit: int, digits: int) -> None:
    text = decimal_text(value, unit, digits)
    whole, _, part = text.partition(".")
    assert len(part) == digits
    assert whole.lstrip("-").isdigit()
    assert Fraction(text) == Fraction(round(Fraction(value, unit) * 10**digits), 10**digits)
    assert not (text.startswith("-") and Fraction(text) == 0)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1_234_567, 2, "1.23"), (1_235_000, 2, "1.24"), (1_225_000, 2, "1.22"), (-4_000, 2, "0.00"), (-5_001, 2, "-0.01"),
     (999_999, 2, "1.00"), (2_500_000, 0, "2"), (-3_500_000, 0, "-4"), (50_000, 6, "0.050000")],
)  # fmt: skip
def test_decimal_text_by_hand(value: int, digits: int, text: str) -> None:
    assert decimal_text(value, E6, digits) == text


@given(text=st.decimals(-(10**12), 10**12, places=10).map(str), unit=UNITS)
def test_scaled_rounds_half_to_even(text: str, unit: int) -> None:
    assert to_units(text, unit) == round(Fraction(text) * unit)


@pytest.mark.parametrize(
    ("given_number", "unit", "expected"),
    [("0.1", E8, 10_000_000), (0.1, E8, 10_000_000), (1e-7, E8, 10), (3, E6, 3_000_000), (Decimal("1e-8"), E8, 1),
     ("-0.000000005", E8, 0), ("0.000000015", E8, 2), ("6.52E+4", E6, 65_200_000_000), ("0.0000125", E12, 12_500_000)],
)  # fmt: skip
def test_scaled_by_hand(given_number: str | int | float | Decimal, unit: int, expected: int) -> None:
    assert to_units(given_number, unit) == expected


@given(
    number=st.floats(-1e12, 1e12) | st.decimals(0, 10**9, places=7).map(float) | st.integers(0, 10**13).map(float),
    unit=st.sampled_from([10_000, E6, E8, E12]),
)
@example(number=0.00005, unit=10_000)
@example(number=0.00015, unit=10_000)
@example(number=-0.0, unit=E6)
@example(number=1e-7, unit=E6)
@example(number=900_000_000.5, unit=E6)
def test_a_float_is_scaled_as_its_text_is(number: float, unit: int) -> None:
    assert to_units(number, unit) == round(Fraction(str(number)) * unit)


@pytest.mark.parametrize("text", ["", "abc", "1,5", "nan", "sNaN", "inf", "-Infinity", "0x10", "None", "1 2"])
def test_what_is_no_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        to_units(text, E8)


@pytest.mark.parametrize("text", ["1e999999999", "1e99999", "-1e5000"])
def test_a_number_nobody_can_hold_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        to_units(text, E8)


@pytest.mark.parametrize("text", ["1e-999999999", "-1e-999999999", "0e-999999999"])
def test_a_number_too_small_for_the_unit_is_zero(text: str) -> None:
    assert to_units(text, E12) == 0


def test_scaled_does_not_round_twice() -> None:
    just_above_half = "0.000000005" + "0" * 40 + "1"
    assert to_units(just_above_half, E8) == 1


@given(value=st.integers(-(10**35), 10**35), unit=UNITS)
def test_scaled_holds_numbers_of_any_length(value: int, unit: int) -> None:
    assert to_units(decimal_text(value, unit, digits_of(unit)), unit) == value


def test_scaled_does_not_depend_on_the_precision_somebody_set() -> None:
    with decimal.localcontext() as context:
        context.prec = 6
        assert to_units("65200.12345678", E8) == 6_520_012_345_678


@pytest.mark.parametrize(
    ("price", "text"),
    [("65200", "65200"), ("123456.7", "123457"), ("10000", "10000"), ("3420.1", "3420.1"), ("3420.15", "3420.2"),
     ("100", "100.00"), ("12.3456", "12.346"), ("1", "1.0000"), ("0.12345", "0.12345"), ("0.0123456", "0.012346"),
     ("0.00001234", "0.00001234"), ("0.00000001", "0.00000001"), ("0.5", "0.50000")],
)  # fmt: skip
def test_short_price_by_hand(price: str, text: str) -> None:
    assert short_price(to_units(price, E8)) == text


@pytest.mark.parametrize(
    ("price", "text"), [("9999.96", "10000"), ("99.9996", "100.00"), ("0.999999", "1.0000"), ("0.0999999", "0.10000")]
)
def test_short_price_that_rounds_up_to_another_digit_still_has_five(price: str, text: str) -> None:
    assert short_price(to_units(price, E8)) == text


@given(price=st.integers(10_000 * E8, 10**17) | st.integers(10_000, 10**9).map(lambda whole: whole * E8 + E8 // 2))
def test_a_price_of_five_digits_or_more_is_whole(price: int) -> None:
    assert short_price(price) == decimal_text(price, E8, 0)


@given(price=st.integers(1, 10**15))
def test_short_price_is_right_to_five_digits(price: int) -> None:
    shown = Fraction(short_price(price)) * E8
    # Half of the fifth digit, or half a unit of e8 where eight decimals end first, or half a dollar above 10,000.
    allowed = max(Fraction(price, 20_000), Fraction(1, 2)) if price < 10_000 * E8 else Fraction(E8, 2)
    assert abs(shown - price) <= allowed


DECIMALS = st.builds(
    lambda sign, digits, places, tail: f"{sign}{Decimal(digits).scaleb(-places):f}{tail}",
    st.sampled_from(["", "", "-", "+"]),
    st.integers(0, 10**18),
    st.integers(0, 20),
    st.sampled_from(["", "", "", "e0", "e3", "E-7", "e-9", "e+12", "e-400", "e400", " ", "\n", ".", "_0"]),
)
# An odd number of halves of the last unit, alone and a hair to either side: here a float cannot tell.
TIES = st.builds(
    lambda units, tail: f"{Decimal(2 * units + 1).scaleb(-9) * 5:f}"[:-1] + tail,
    st.integers(0, 10**15),
    st.sampled_from(["5", "50", "4999999999999", "5000000000001", "49", "51"]),
)
WORDS = ["", ".", "-", "nan", "inf", "-Infinity", "sNaN", "1_000", "_1", "1__0", "٣.٥", "0x10", "1e", "e5", "1,5"]
ODD = st.sampled_from(
    [*WORDS, "0", "-0", " 1.5 ", "1\x00", "\ud800", *(f"{digit}e{sign}{'9' * 20}" for digit in "01" for sign in "+-")]
)
TEXTS = DECIMALS | TIES | ODD | st.text(max_size=8) | st.floats().map(repr) | st.text("0123456789.e-+_ ", max_size=24)


def said(convert: Callable[[str], int], text: str) -> int | str:
    """What a conversion gives, or the error it raises."""
    try:
        return convert(text)
    except ValueError as error:
        return f"ValueError: {error}"


@settings(max_examples=examples(500))
@given(TEXTS)
@example("0.000000025")
@example("25e-9")
@example("0.000000005")
@example("0.000000015")
@example("8999999.999999995")
@example("9000000.000000005")
@example("90071992.547409935")
def test_the_fast_way_gives_and_raises_what_the_exact_way_does(text: str) -> None:
    assert said(to_e8, text) == said(lambda each: to_units(each, E8), text)


@given(st.lists(st.integers(1, 9 * 10**14 - 1).map(lambda unit: f"{Decimal(unit).scaleb(-8):f}"), min_size=1))
def test_prices_of_eight_decimals_are_taken_one_by_one_at_full_speed(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "to_units", None)
        found = [to_e8(text) for text in texts]
    assert found == [to_units(text, E8) for text in texts]


@settings(max_examples=examples(300))
@given(st.lists(TIES | DECIMALS | st.sampled_from(["nan", "inf", "-inf", "0", "0.000000004"]), max_size=6))
def test_floats_are_exact_or_not_taken(texts: list[str]) -> None:
    numbers = [number for text in texts if (number := _float(text)) is not None]
    found = floats_to_e8(numbers)
    if found is not None:
        exact = [to_units(text, E8) for text in texts if _float(text) is not None]
        assert found == exact and min(found) > 0


def test_floats_of_a_whole_market_are_taken() -> None:
    texts = [f"{(number * 7919 % 100_000 + 1) / 10 ** (number % 6):.5g}" for number in range(2_000)]
    assert floats_to_e8([float(text) for text in texts]) == [to_units(text, E8) for text in texts]
    assert floats_to_e8([]) is None and floats_to_e8([1.0, float("nan")]) is None and floats_to_e8([1.0, 0.0]) is None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
