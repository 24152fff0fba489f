"""Positioning pressure: the score by hand, both sides alike, and what a missing input does."""

import math
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, HOUR, MINUTE
from tapebook.tape.features import (
    FundingPressure,
    LiquidityProfile,
    PositioningPressure,
    direction_of,
    funding_regime,
    positioning_pressure,
)
from tests.matrix import examples

AS_OF = 1_760_000_400_000
TANH_1 = 0.7615941559557649


def bars(closes_e8: list[int], *, minutes: int = 5, last_end: int = AS_OF) -> list[Candle]:
    """Bars one after the other, the last ending at `last_end`."""
    step, count = minutes * MINUTE, len(closes_e8)
    return [
        Candle("BTC", minutes * 60, last_end - (count - i) * step, close, close, close, close, 1.0, 1.0, 1)
        for i, close in enumerate(closes_e8)
    ]


def funding(rate_8h_e12: int, *, as_of: int = AS_OF) -> FundingPressure:
    """A funding pressure of which only the rate matters."""
    regime = funding_regime(rate_8h_e12)
    return FundingPressure("BTC", as_of, 0, rate_8h_e12, 0, 0, (), None, None, None, None, regime)


def book(imbalance: float, *, as_of: int = AS_OF) -> LiquidityProfile:
    """A liquidity profile of which only the imbalance matters."""
    return LiquidityProfile("BTC", as_of, 1.0, 1.0, 1.0, 1.0, imbalance, None, None, 0, None)


def pressure(
    candles: list[Candle], fees: FundingPressure | None = None, liquidity: LiquidityProfile | None = None
) -> PositioningPressure:
    """The pressure now, which must exist."""
    found = positioning_pressure(candles, fees, liquidity, as_of=AS_OF)
    assert found is not None
    return found


def powers(exponents: list[int]) -> list[int]:
    """Prices that are powers of two, exact in e8 from -8 to 8, so that a mirrored path is exact too."""
    return [E8 * 2**each if each >= 0 else E8 // 2**-each for each in exponents]


EXPONENTS = st.lists(st.integers(-8, 8), min_size=13, max_size=60)
RATES = st.integers(-(10**10), 10**10)
LEANS = st.floats(-1.0, 1.0)


def test_momentum_by_hand() -> None:
    """Twelve equal steps up in the hour and none against: z = 12 r / sqrt(12 r²) = sqrt 12."""
    found = pressure(bars([round(100 * E8 * 1.001**i) for i in range(13)]))
    assert found.momentum_z == pytest.approx(math.sqrt(12), rel=1e-6)
    assert found.momentum == found.score == pytest.approx(math.tanh(math.sqrt(12) / 2), rel=1e-6)
    assert (found.symbol, found.as_of, found.direction) == ("BTC", AS_OF, "long_pressure")
    assert found.confidence == pytest.approx(1 / 3)


def test_momentum_is_measured_against_the_usual_move() -> None:
    """An hour of twelve steps up after an hour of steps four times as large: z = 12 / sqrt((12 + 12 × 16) / 2)."""
    logs = [0.004 * (i % 2) for i in range(12)] + [0.001 * i for i in range(13)]
    found = pressure(bars([round(100 * E8 * math.exp(log)) for log in logs]))
    assert found.momentum_z == pytest.approx(12 / math.sqrt((12 + 12 * 16) / 2), rel=0.01)


def test_one_and_five_minute_bars_agree() -> None:
    chance = Random(3)
    logs = accumulate(chance.gauss(0.0001, 0.001) for _ in range(1441))
    closes = [round(100 * E8 * math.exp(log)) for log in logs]
    ones, fives = pressure(bars(closes, minutes=1)), pressure(bars(closes[::5]))
    assert ones.momentum_z == pytest.approx(fives.momentum_z, rel=0.1)


# 8-hour rate; the input it makes: nothing up to 0.01 %, tanh 1 at 0.05 %.
@pytest.mark.parametrize(
    ("rate_8h_e12", "expected"),
    [
        (0, 0.0),
        (100_000_000, 0.0),
        (-100_000_000, 0.0),
        (500_000_000, TANH_1),
        (-500_000_000, -TANH_1),
        (900_000_000, math.tanh(2)),
    ],
)
def test_funding_alone(rate_8h_e12: int, expected: float) -> None:
    found = pressure([], funding(rate_8h_e12))
    assert found.funding == found.score == pytest.approx(expected)
    assert (found.momentum, found.momentum_z, found.imbalance) == (None, None, None)


def test_all_three_by_hand() -> None:
    """0.5 tanh(sqrt 12 / 2) + 0.3 × 0.7616 + 0.2 × −0.5, of which the book pushes the other way."""
    found = pressure(bars([round(100 * E8 * 1.001**i) for i in range(13)]), funding(500_000_000), book(-0.5))
    push = 0.5 * 0.939298 + 0.3 * 0.761594
    assert found.score == pytest.approx(push - 0.1, abs=1e-5)
    assert found.confidence == pytest.approx((push - 0.1) / (push + 0.1), abs=1e-5)
    assert found.direction == "long_pressure"


# Inputs present; the weights they are shared among.
@pytest.mark.parametrize(
    ("rate_8h_e12", "imbalance", "score", "confidence"),
    [
        (500_000_000, 0.5, (0.3 * TANH_1 + 0.2 * 0.5) / 0.5, 2 / 3),
        (500_000_000, -0.5, (0.3 * TANH_1 - 0.1) / 0.5, 2 / 3 * (0.3 * TANH_1 - 0.1) / (0.3 * TANH_1 + 0.1)),
        (None, 0.5, 0.5, 1 / 3),
        (None, 7.0, 1.0, 1 / 3),
        (None, -7.0, -1.0, 1 / 3),
        (None, 0.0, 0.0, 0.0),
        (0, 0.0, 0.0, 0.0),
    ],
)
def test_weights_are_shared_by_what_is_present(
    rate_8h_e12: int | None, imbalance: float, score: float, confidence: float
) -> None:
    fees = None if rate_8h_e12 is None else funding(rate_8h_e12)
    found = pressure([], fees, book(imbalance))
    assert found.score == pytest.approx(score)
    assert found.confidence == pytest.approx(confidence)


@given(EXPONENTS, RATES, LEANS)
def test_both_sides_are_treated_alike(exponents: list[int], rate: int, lean: float) -> None:
    one = pressure(bars(powers(exponents)), funding(rate), book(lean))
    other = pressure(bars(powers([-each for each in exponents])), funding(-rate), book(-lean))
    mirrored = {"long_pressure": "short_pressure", "short_pressure": "long_pressure", "neutral": "neutral"}
    assert other.score == pytest.approx(-one.score, abs=1e-12)
    assert other.confidence == pytest.approx(one.confidence, abs=1e-9)
    if abs(abs(one.score) - 0.2) > 1e-9:
        assert other.direction == mirrored[one.direction]


@given(EXPONENTS, st.none() | RATES, st.none() | LEANS)
def test_score_and_confidence_keep_their_bounds(exponents: list[int], rate: int | None, lean: float | None) -> None:
    fees, liquidity = None if rate is None else funding(rate), None if lean is None else book(lean)
    found = positioning_pressure(bars(powers(exponents)), fees, liquidity, as_of=AS_OF)
    assert (found is None) == (len(set(exponents)) == 1 and rate is None and lean is None)
    if found is not None:
        assert -1 <= found.score <= 1
        assert 0 <= found.confidence <= 1
        assert found.direction == direction_of(found.score)


@given(EXPONENTS, RATES, RATES, LEANS)
@settings(max_examples=examples(50))
def test_more_funding_is_never_less_pressure(exponents: list[int], one: int, other: int, lean: float) -> None:
    low, high = sorted((one, other))
    candles = bars(powers(exponents))
    assert pressure(candles, funding(low), book(lean)).score <= pressure(candles, funding(high), book(lean)).score


@given(EXPONENTS, LEANS, LEANS)
@settings(max_examples=examples(50))
def test_heavier_bids_are_never_less_pressure(exponents: list[int], one: float, other: float) -> None:
    low, high = sorted((one, other))
    candles = bars(powers(exponents))
    assert pressure(candles, None, book(low)).score <= pressure(candles, None, book(high)).score


def test_the_unit_of_the_price_does_not_matter() -> None:
    closes = [round((100 + math.sin(i)) * E8) for i in range(60)]
    before, after = pressure(bars(closes)), pressure(bars([close * 1000 for close in closes]))
    assert after.momentum_z == pytest.approx(before.momentum_z, rel=1e-12)


@pytest.mark.parametrize(
    ("score", "direction"),
    [
        (0.2, "long_pressure"),
        (0.19, "neutral"),
        (0.0, "neutral"),
        (-0.19, "neutral"),
        (-0.2, "short_pressure"),
        (-1.0, "short_pressure"),
    ],
)
def test_direction_of_a_score(score: float, direction: str) -> None:
    assert direction_of(score) == direction


@pytest.mark.parametrize(
    "candles",
    [
        [],
        bars([E8, 2 * E8]),
        bars([E8 + i for i in range(12)]),
        bars([E8] * 100),
        bars([E8 + i for i in range(60)], last_end=AS_OF - 15 * MINUTE - 1),
        bars([E8 + i for i in range(11)], minutes=1, last_end=AS_OF - HOUR) + bars([2 * E8], minutes=1),
        bars([E8 + i for i in range(12)], last_end=AS_OF - HOUR - 15 * MINUTE - 1) + bars([2 * E8]),
    ],
    ids=["no bars", "two bars", "no hour", "no move", "stale", "too few of the hour", "a gap an hour ago"],
)
def test_momentum_can_be_missing(candles: list[Candle]) -> None:
    assert positioning_pressure(candles, None, None, as_of=AS_OF) is None
    assert pressure(candles, None, book(0.5)).momentum is None


def test_twelve_returns_are_enough() -> None:
    candles = bars([E8 + i for i in range(12)], minutes=1, last_end=AS_OF - HOUR) + bars([2 * E8], minutes=1)
    assert pressure(candles).momentum is not None


def test_the_hour_may_start_a_little_early() -> None:
    """The close of an hour ago is missing; the one before it stands in, measured over its own span."""
    closes = [round(100 * E8 * 1.001**i) for i in range(20)]
    candles = bars(closes)
    without = [bar for bar in candles if bar.end != AS_OF - HOUR]
    assert pressure(without).momentum_z == pytest.approx(13 / math.sqrt((17 + 4) * 13 / 19), rel=1e-6)
    late = bars(closes, last_end=AS_OF - HOUR - 15 * MINUTE) + bars([E8])
    assert pressure(late).momentum is not None


def test_an_outside_imbalance_counts_as_one_sided() -> None:
    assert pressure([], None, book(1.5)).imbalance == 1.0
    assert pressure([], None, book(-1.5)).imbalance == -1.0


def test_the_usual_move_is_that_of_one_day() -> None:
    calm = bars([round(100 * E8 * 1.001**i) for i in range(289)])
    wild = bars([E8 * (1 + i % 2) for i in range(50)], last_end=calm[0].end - 5 * MINUTE)
    assert pressure([*wild, *calm]) == pressure(calm)


def test_what_comes_later_or_is_stale_is_not_used() -> None:
    candles = bars([round(100 * E8 * 1.001**i) for i in range(13)])
    later = bars([9 * E8, E8], last_end=AS_OF + 10 * MINUTE)
    assert later[0].end == AS_OF + 5 * MINUTE
    assert pressure([*candles, *later]) == pressure(candles)
    for age in (-1, 15 * MINUTE + 1):
        other = AS_OF - age
        assert pressure(candles, funding(10**9, as_of=other), book(1.0, as_of=other)) == pressure(candles)


def test_order_does_not_matter_and_twice_is_the_same() -> None:
    candles = bars([round((100 + math.sin(i)) * E8) for i in range(60)])
    fees, liquidity = funding(300_000_000), book(0.2)
    assert pressure(candles, fees, liquidity) == pressure(candles[::-1], fees, liquidity)
    assert pressure(candles, fees, liquidity) == pressure(candles, fees, liquidity)


def test_nothing_gives_nothing() -> None:
    assert positioning_pressure([], None, None, as_of=AS_OF) is None


@pytest.mark.parametrize("minutes", [1, 5, 15, 60])
def test_momentum_of_longer_bars_is_that_of_their_hour(minutes: int) -> None:
    """A price that grows by the same every bar: the hour's move over its usual size is the root of its returns."""
    closes = [round(E8 * 100 * 1.001**number) for number in range(24 * 60 // minutes + 1)]
    found = pressure(bars(closes, minutes=minutes))
    assert found.momentum_z == pytest.approx(math.sqrt(60 / minutes), rel=1e-3)


def test_a_close_is_fresh_for_as_long_as_its_bar() -> None:
    closes = [round(E8 * 100 * 1.001**number) for number in range(25)]
    assert pressure(bars(closes, minutes=60, last_end=AS_OF - 60 * MINUTE)).momentum_z is not None
    assert positioning_pressure(bars(closes, minutes=60, last_end=AS_OF - 61 * MINUTE), None, None, as_of=AS_OF) is None


def test_bars_of_four_hours_have_no_momentum() -> None:
    closes = [round(E8 * 100 * 1.001**number) for number in range(40)]
    assert positioning_pressure(bars(closes, minutes=240), None, None, as_of=AS_OF) is None
