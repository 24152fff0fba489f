"""Sights: a market at another price reads the same, the future is not looked at, and nothing unknown is a zero."""

import math
import random
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.market import AssetContext, Candle, Liquidity
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tapebook.experience.features import (
    FEATURE_UNIT,
    FIELDS,
    HALF_HOUR,
    MOST_FEATURE,
    BarFeatures,
    MarketFeatures,
    conditions_of,
    feature_vector_of,
    features_of_bars,
    market_features,
)
from tests.experience.makers import T0

STEP = 5 * MINUTE


def bars(seed: int, count: int, *, price: float = 50_000.0) -> list[Candle]:
    """Five-minute bars of a random walk that ends at T0."""
    rng = random.Random(seed)
    found, close = [], price
    for number in range(count):
        before, close = close, close * math.exp(rng.gauss(0, 0.002))
        high, low = max(before, close) * 1.0005, min(before, close) * 0.9995
        o, h, l, c = (round(each * E8) for each in (before, high, low, close))  # noqa: E741
        found.append(Candle("BTC", 300, T0 - (count - number) * STEP, o, h, l, c, 1.0, 1.0, 1))
    return found


def test_sight_of_bars_is_plain_arithmetic() -> None:
    day = bars(1, 289)
    found = market_features(day, None, None, held=-1, as_of=T0)
    closes = [bar.close_e8 for bar in day]
    assert found.return_15m == pytest.approx(math.log(closes[-1] / closes[-4]))
    assert found.return_1h == pytest.approx(math.log(closes[-1] / closes[-13]))
    assert found.return_24h == pytest.approx(math.log(closes[-1] / closes[-289]))
    squares = sum(math.log(after / before) ** 2 for before, after in zip(closes[-13:-1], closes[-12:], strict=True))
    assert found.volatility_1h == pytest.approx(math.sqrt(squares))
    low, high = min(bar.low_e8 for bar in day[-49:]), max(bar.high_e8 for bar in day[-49:])
    assert found.range_position_4h == pytest.approx((closes[-1] - low) / (high - low))
    assert (found.held, found.funding, found.spread_bps) == (-1, None, None)


def test_book_and_funding_are_taken_over() -> None:
    context = AssetContext("BTC", T0, 12_500_000, -300_000_000, 1.0, E8, E8)
    book = Liquidity("BTC", T0, E8, 0.8, 1.0, 1.0, 1.0, -0.25)
    found = market_features([], context, book, held=0, as_of=T0)
    assert (found.funding, found.premium) == (1.25e-5, -3e-4)
    assert (found.imbalance, found.spread_bps, found.return_1h) == (-0.25, 0.8, None)


def test_windows_that_are_not_covered_are_unknown() -> None:
    found = market_features(bars(1, 40), None, None, held=0, as_of=T0)
    assert found.return_1h is not None
    assert (found.return_4h, found.return_24h, found.volatility_24h, found.range_position_24h) == (None,) * 4


def test_bars_that_had_not_ended_change_nothing() -> None:
    day = bars(1, 289)
    as_of = T0 - 20 * MINUTE
    known = [bar for bar in day if bar.end <= as_of]
    assert market_features(day, None, None, held=0, as_of=as_of) == market_features(
        known, None, None, held=0, as_of=as_of
    )


@given(st.integers(0, 50), st.floats(1e-3, 1e3))
def test_price_level_does_not_matter(seed: int, factor: float) -> None:
    one = feature_vector_of(market_features(bars(seed, 289, price=10.0), None, None, held=0, as_of=T0))
    other = feature_vector_of(market_features(bars(seed, 289, price=10.0 * factor), None, None, held=0, as_of=T0))
    for name, first, second in zip(FIELDS, one, other, strict=True):
        assert (first is None) == (second is None)
        assert first is None or second is None or abs(first - second) <= 2, name


def test_reading_has_a_number_per_field_and_none_for_the_unknown() -> None:
    empty = feature_vector_of(MarketFeatures(as_of=T0 + 6 * HOUR))
    assert dict(zip(FIELDS, empty, strict=True)) == {
        **dict.fromkeys(FIELDS[:12]),
        "held": 0,
        "time_sin": FEATURE_UNIT,
        "time_cos": 0,
    }
    assert feature_vector_of(MarketFeatures(as_of=T0, funding=1e-4))[FIELDS.index("funding")] == round(
        math.asinh(1) * FEATURE_UNIT
    )
    assert feature_vector_of(MarketFeatures(as_of=T0, volatility_1h=0.01, return_1h=0.02))[1] == 2 * FEATURE_UNIT


@given(
    st.builds(
        MarketFeatures, as_of=st.integers(0, 10**13), funding=st.floats(), premium=st.floats(), imbalance=st.floats()
    )
)
def test_readings_stay_in_bounds(sight: MarketFeatures) -> None:
    reading = feature_vector_of(sight)
    assert len(reading) == len(FIELDS)
    assert all(each is None or abs(each) <= MOST_FEATURE for each in reading)


def test_numbers_beyond_all_bounds_are_cut() -> None:
    reading = feature_vector_of(MarketFeatures(as_of=T0, imbalance=-1.7e308, premium=1e300, funding=math.inf))
    assert reading[FIELDS.index("imbalance")] == -MOST_FEATURE
    assert reading[FIELDS.index("funding")] is None


def plainly(sight: MarketFeatures) -> list[int | None]:
    """A reading field by field, with nothing kept from one to the next."""
    hourly = sight.volatility_24h / math.sqrt(24) if sight.volatility_24h else sight.volatility_1h
    moves = zip((sight.return_15m, sight.return_1h, sight.return_4h, sight.return_24h), (0.25, 1, 4, 24), strict=True)
    turn = 2 * math.pi * (sight.as_of // (30 * MINUTE) % 48) / 48
    values = [
        *(None if move is None or not hourly else move / (hourly * math.sqrt(hours)) for move, hours in moves),
        *(math.log(each) if each and each > 0 else None for each in (sight.volatility_1h, sight.volatility_24h)),
        *(sight.range_position_4h, sight.range_position_24h),
        *(None if each is None else math.asinh(each / 1e-4) for each in (sight.funding, sight.premium)),
        *(sight.imbalance, math.log(sight.spread_bps) if sight.spread_bps and sight.spread_bps > 0 else None),
        *(float(sight.held), math.sin(turn), math.cos(turn)),
    ]
    known = [None if each is None or not math.isfinite(each) else each * FEATURE_UNIT for each in values]
    return [None if each is None else round(max(-MOST_FEATURE, min(MOST_FEATURE, each))) for each in known]


RATES = st.none() | st.sampled_from([0.0, -0.0, 1e-4, -2e-4]) | st.floats(-1e-2, 1e-2)


@given(st.integers(0, 3 * DAY), RATES, RATES, st.integers(-1, 1), st.sampled_from([None, 0.0, 0.5, 2.0]))
def test_readings_are_the_same_however_many_were_made_before(
    as_of: int, funding: float | None, premium: float | None, held: int, spread: float | None
) -> None:
    shape = market_features(bars(3, 289), None, None, held=0, as_of=T0)
    known = {"funding": funding, "premium": premium, "spread_bps": spread, "imbalance": premium}
    for moment in (as_of, as_of + 5 * MINUTE, as_of + DAY):
        sight = msgspec.structs.replace(shape, as_of=moment, held=held, **known)
        assert list(feature_vector_of(sight)) == plainly(sight)


@given(st.floats() | st.floats(-40, 40))
def test_any_number_is_read_as_plainly(value: float) -> None:
    sight = MarketFeatures(as_of=T0, imbalance=value)
    assert list(feature_vector_of(sight)) == plainly(sight)


def test_time_of_day_has_no_seam_and_stays_for_half_an_hour() -> None:
    times = [
        feature_vector_of(MarketFeatures(as_of=20_000 * DAY + number * 30 * MINUTE))[-2:] for number in range(-1, 48)
    ]
    steps = [math.dist([one or 0 for one in before], [two or 0 for two in after]) for before, after in pairwise(times)]
    assert max(steps) - min(steps) < 2 and len(set(times)) == 48
    assert (
        feature_vector_of(MarketFeatures(as_of=20_000 * DAY))[-2:]
        == feature_vector_of(MarketFeatures(as_of=20_000 * DAY + 30 * MINUTE - 1))[-2:]
    )


def test_conditions_are_text_of_what_is_known() -> None:
    sight = MarketFeatures(as_of=T0, volatility_1h=0.0051, funding=1e-5)
    assert conditions_of(sight) == (("funding", "0.000010"), ("volatility_1h", "0.005100"))
    assert conditions_of(msgspec.structs.replace(sight, funding=math.nan))[0][0] == "volatility_1h"


STEPS = st.lists(
    st.tuples(st.integers(90, 110), st.integers(0, 3), st.sampled_from((1, 1, 1, 5))), min_size=1, max_size=80
)


@given(STEPS, st.integers(1, 60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=4))
def test_shapes_of_windows_that_move_are_those_of_each(
    steps: list[tuple[int, int, int]], size: int, jumps: list[tuple[int, int]]
) -> None:
    found, at = [], 0
    for close, low, gap in steps:
        at += gap * HALF_HOUR
        # One in four has no price.
        found.append(Candle("BTC", 1_800, at, close, close + 2, low and close - low, close, 1.0, 1.0, 1))
    shapes = BarFeatures()
    for start, count in [(start, size) for start in range(len(found))] + jumps:
        window = tuple(found[start : start + count])
        assert shapes(window) == features_of_bars(window)
