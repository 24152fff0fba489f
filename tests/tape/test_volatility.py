"""Volatility: tables by hand, exact logarithms, and what gaps, scale and the future may do to it."""

import math
from decimal import Decimal, localcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.domain.market import Candle
from tapebook.domain.units import E8, HOUR, MINUTE
from tapebook.tape.price_features import (
    Returns,
    VolatilityProfile,
    volatility_of,
    volatility_profile,
    volatility_regime,
)
from tests.matrix import examples

AS_OF = 1_760_000_400_000
LN_101 = 0.00995033085316808
SQRT_60, SQRT_1440 = 7.745966692414834, 37.94733192202055


def bar(age: int, close: float, *, before: float | None = None, stretch: float = 1.0) -> Candle:
    """The minute that ended `age` minutes before now: opens at `before`, `stretch` from low to high."""
    opened, closed = round((close if before is None else before) * E8), round(close * E8)
    low, high = min(opened, closed), max(opened, closed)
    start = AS_OF - (age + 1) * MINUTE
    return Candle("BTC", 60, start, opened, round(high * stretch), low, closed, 1.0, close, 1)


def bars(closes: list[float]) -> list[Candle]:
    """One bar per close, the last ending now, each opening where the one before closed."""
    count = len(closes)
    return [bar(count - 1 - i, close, before=closes[max(i - 1, 0)]) for i, close in enumerate(closes)]


def zigzag(count: int) -> list[float]:
    """A price that goes up and down by 1 %."""
    return [100.0 if i % 2 else 101.0 for i in range(count)]


def profile(minutes: list[Candle], *, as_of: int = AS_OF) -> VolatilityProfile:
    """The profile, which must exist."""
    found = volatility_profile(minutes, as_of=as_of)
    assert found is not None
    return found


def test_a_zigzag_by_hand() -> None:
    found = profile(bars(zigzag(1441)))
    assert (found.symbol, found.as_of) == ("BTC", AS_OF)
    assert (found.hour.minutes_used, found.day.minutes_used) == (60, 1440)
    assert found.hour.realised == pytest.approx(SQRT_60 * LN_101, rel=1e-9)
    assert found.day.realised == pytest.approx(SQRT_1440 * LN_101, rel=1e-9)
    assert found.hour.annualised == pytest.approx(math.sqrt(525_600) * LN_101, rel=1e-9)
    assert found.day.annualised == pytest.approx(math.sqrt(525_600) * LN_101, rel=1e-9)
    assert found.ratio == pytest.approx(1.0, rel=1e-9)
    assert found.regime == "normal"


def test_parkinson_by_hand() -> None:
    """Flat closes, every bar 2 % high: ln 1.02 / sqrt(4 ln 2) = 0.0198026273 / 1.6651092223 a minute."""
    found = profile([bar(age, 100.0, stretch=1.02) for age in range(1441)])
    assert found.hour.parkinson == pytest.approx(0.0921203, rel=1e-5)
    assert found.day.parkinson == pytest.approx(0.4512958, rel=1e-5)
    assert (found.hour.realised, found.day.realised) == (0, 0)
    assert (found.ratio, found.regime) == (None, None)


def test_jumps_between_bars_are_part_of_parkinson() -> None:
    """Bars without height that each open 1 % away: all of the move lies between them."""
    closes = zigzag(61)
    found = profile([bar(60 - i, close) for i, close in enumerate(closes)])
    assert found.hour.parkinson == pytest.approx(found.hour.realised, rel=1e-12)
    assert found.hour.realised == pytest.approx(SQRT_60 * LN_101, rel=1e-9)


@settings(max_examples=examples(20))
@given(st.lists(st.integers(90_00, 110_00), min_size=61, max_size=61))
def test_realised_is_the_root_of_exact_squared_logarithms(cents: list[int]) -> None:
    closes = [Decimal(each) / 100 for each in cents]
    with localcontext(prec=40):
        exact = sum(((b / a).ln() ** 2 for a, b in pairwise(closes)), Decimal(0)).sqrt()
    assert profile(bars([float(close) for close in closes])).hour.realised == pytest.approx(float(exact), abs=1e-12)


@given(st.integers(2, 10**6))
@settings(max_examples=examples(20))
def test_the_unit_of_the_price_does_not_matter(factor: int) -> None:
    before = bars([100 + math.sin(i) for i in range(61)])
    prices = ("open_e8", "high_e8", "low_e8", "close_e8")
    after = [replace(bar, **{name: getattr(bar, name) * factor for name in prices}) for bar in before]
    assert profile(after).hour.realised == pytest.approx(profile(before).hour.realised, rel=1e-12)
    assert profile(after).hour.parkinson == pytest.approx(profile(before).hour.parkinson, rel=1e-12)


def test_twice_the_move_is_twice_the_volatility() -> None:
    small, large = (profile(bars([100.0 * math.exp(size * (i % 2)) for i in range(61)])) for size in (0.01, 0.02))
    assert large.hour.realised == pytest.approx(2 * (small.hour.realised or 0), rel=1e-7)


def test_quiet_minutes_may_be_missing_without_a_trace() -> None:
    """Every second minute repeats the price: with or without those bars the figures are the same."""
    full = bars([100.0 + (i // 2) % 3 for i in range(61)])
    sparse = full[::2]
    whole, part = profile(full).hour, profile(sparse).hour
    assert (whole.minutes_used, part.minutes_used) == (60, 30)
    assert part.realised == pytest.approx(whole.realised, rel=1e-12)
    assert part.parkinson == pytest.approx(whole.parkinson, rel=1e-12)


# Bars by age of their end in minutes; minutes used, and whether the hour counts.
@pytest.mark.parametrize(
    ("ages", "used", "counts"),
    [
        (range(61), 60, True),
        (range(60), 59, True),
        (range(46), 45, True),
        (range(45), 44, False),
        (range(15, 61), 45, True),
        (range(16, 61), 44, False),
        (range(0, 61, 2), 30, True),
        (range(0, 61, 3), 20, False),
        ([*range(30), 60], 30, True),
        ([*range(29), 60], 29, False),
    ],
)
def test_how_many_minutes_an_hour_needs(ages: list[int], used: int, counts: bool) -> None:
    day_long = [bar(age, 100.0 + age % 2) for age in range(61, 1441)]
    found = profile([*day_long, *(bar(age, 100.0 + age % 2) for age in ages)])
    assert found.hour.minutes_used == used
    assert (found.hour.realised is not None) is (found.regime is not None) is counts


def test_what_the_closes_do_not_span_is_made_up_for() -> None:
    """48 of 60 minutes at 1 % each are scaled to 60."""
    found = profile(bars(zigzag(49)))
    assert found.hour.minutes_used == 48
    assert found.hour.realised == pytest.approx(SQRT_60 * LN_101, rel=1e-9)
    assert (found.day.minutes_used, found.day.realised, found.ratio) == (48, None, None)


def test_a_day_can_be_known_when_the_hour_is_not() -> None:
    found = profile(bars(zigzag(1441))[:-20])
    assert found.hour.realised is None
    assert found.day.realised == pytest.approx(SQRT_1440 * LN_101, rel=1e-9)
    assert found.regime is None
    assert profile(bars(zigzag(1441))[:-100]).hour.minutes_used == 0


@pytest.mark.parametrize("count", [0, 1, 2, 45])
def test_too_few_bars_give_nothing(count: int) -> None:
    assert volatility_profile(bars(zigzag(count)), as_of=AS_OF) is None


@pytest.mark.parametrize(
    ("ratio", "regime"),
    [(0.0, "low"), (0.49, "low"), (0.5, "normal"), (1.49, "normal"), (1.5, "high"), (2.49, "high"), (2.5, "extreme")],
)
def test_regime_of_a_ratio(ratio: float, regime: str) -> None:
    assert volatility_regime(ratio) == regime


# The hour's moves beside the day's: 23 hours at 1 %, the last at `size`. Ratio = size / sqrt((23 + size²) / 24).
@pytest.mark.parametrize(("size", "regime"), [(0.4, "low"), (1.0, "normal"), (2.0, "high"), (4.0, "extreme")])
def test_an_hour_against_its_day(size: float, regime: str) -> None:
    logs = [0.01 * (i % 2) * (1.0 if i <= 1380 else size) for i in range(1441)]
    found = profile(bars([100 * math.exp(log) for log in logs]))
    assert found.ratio == pytest.approx(size / math.sqrt((23 + size**2) / 24), rel=0.01)
    assert found.regime == regime


def test_bars_of_the_future_other_sizes_and_no_price_are_ignored() -> None:
    minutes = bars(zigzag(61))
    forming = bar(-1, 500.0)
    five = Candle("BTC", 300, AS_OF - HOUR, E8, 9 * E8, E8, 9 * E8, 1.0, 1.0, 1)
    worthless = bar(70, 0.0)
    assert profile([worthless, *minutes, five, forming]) == profile(minutes)


def test_the_window_ends_with_the_newest_full_minute() -> None:
    minutes = [*bars(zigzag(61)), bar(-1, 300.0)]
    for late in (1, 30_000, MINUTE - 1):
        found = profile(minutes, as_of=AS_OF + late)
        assert (found.hour, found.as_of) == (profile(minutes).hour, AS_OF + late)
    assert profile(minutes, as_of=AS_OF + MINUTE).hour.realised != profile(minutes).hour.realised


def test_bars_before_the_window_do_not_count() -> None:
    wild = [bar(age, 50.0 + 100 * (age % 2)) for age in range(1441, 1500)]
    assert profile([*wild, *bars(zigzag(1441))]) == profile(bars(zigzag(1441)))


def test_order_does_not_matter_and_twice_is_the_same() -> None:
    minutes = bars([100 + math.sin(i) for i in range(200)])
    assert profile(minutes) == profile(minutes[::-1]) == profile(minutes)


def longer(minutes: int, *, count: int = 2_000) -> VolatilityProfile | None:
    """The profile of a zigzag in bars of another length, after the last of them ended."""
    step, end = minutes * MINUTE, AS_OF - AS_OF % (minutes * MINUTE)
    made = []
    for number, close in enumerate(zigzag(count)):
        e8 = round(close * E8)
        made.append(Candle("BTC", minutes * 60, end - (count - number) * step, e8, e8, e8, e8, 1.0, 1.0, 1))
    return volatility_of(Returns(made), as_of=AS_OF)


@pytest.mark.parametrize(("minutes", "hour", "day"), [(5, 60, 1440), (15, 60, 1440), (60, 0, 1440), (240, 0, 1440)])
def test_bars_of_any_length_by_their_own_time(minutes: int, hour: int, day: int) -> None:
    found = longer(minutes)
    assert found is not None
    assert found.day.minutes_used == day and found.day.realised == pytest.approx(math.sqrt(1440 / minutes) * LN_101)
    assert found.day.annualised == pytest.approx(math.sqrt(525_600 / minutes) * LN_101)
    if hour:
        assert found.hour.minutes_used == hour and found.hour.realised == pytest.approx(
            math.sqrt(60 / minutes) * LN_101
        )
        assert found.ratio == pytest.approx(1.0)
    else:
        assert found.hour.realised is None and found.ratio is None and found.regime is None


def test_days_say_nothing_of_a_day() -> None:
    assert longer(1_440) is None


def test_four_returns_are_the_least() -> None:
    assert longer(15, count=5) is not None
    assert longer(15, count=4) is None
