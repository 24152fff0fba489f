"""Metrics: the keys readers know, decimal strings of fixed digits, and None for what is not known."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.context.market_sections import SHOWN_FEATURES as SHOWN
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.tape.features import (
    Feature,
    FundingPressure,
    LiquidityProfile,
    PositioningPressure,
    VenueRate,
    full_day_lines,
    funding_input,
    metrics_json,
    positioning_line,
    positioning_of,
    to_metrics,
    volatility_line,
)
from tapebook.tape.price_features import SlidingReturns, VolatilityProfile, WindowVolatility, volatility_of

AS_OF = 1_760_000_400_000

LIQUIDITY = LiquidityProfile("BTC", AS_OF, 1.2, 2e6, 7.5e6, 12e6, 0.18, -8.25, 31.04, 288, "normal")
FUNDING = FundingPressure(
    symbol="BTC",
    as_of=AS_OF,
    rate_1h_e12=1_500_000_000,
    rate_8h_e12=12_000_000_000,
    rate_annual_e12=13_140_000_000_000,
    premium_e12=-423_908_400,
    venues=(VenueRate("BinPerp", 100_000_000), VenueRate("HlPerp", 12_000_000_000)),
    venue_spread_8h_e12=11_900_000_000,
    above_other_venues_8h_e12=11_900_000_000,
    open_interest_change_1h_pct=4.1,
    open_interest_change_24h_pct=-0.004,
    regime="crowded_long",
)
VOLATILITY = VolatilityProfile(
    symbol="BTC",
    as_of=AS_OF,
    hour=WindowVolatility(60, 0.034, 3.18226, 0.0331234567),
    day=WindowVolatility(1440, 0.1, 1.91049731745428, 0.0987654321),
    ratio=1.66565,
    regime="high",
)
POSITIONING = PositioningPressure("BTC", AS_OF, "long_pressure", 0.72, 0.64, 2.345, 0.824, 0.9, 0.18)
FEATURES: list[Feature] = [LIQUIDITY, FUNDING, VOLATILITY, POSITIONING]


def test_liquidity() -> None:
    assert to_metrics(LIQUIDITY) == {
        "spreadBps": "1.200",
        "depthUsd01Pct": "2000000",
        "depthUsd05Pct": "7500000",
        "depthUsd1Pct": "12000000",
        "imbalance": "0.180",
        "spreadChange24hPct": "-8.2",
        "depthChange24hPct": "31.0",
        "booksUsed": 288,
        "regime": "normal",
    }


def test_funding() -> None:
    assert to_metrics(FUNDING) == {
        "fundingRate1h": "0.0015000000",
        "fundingRate8h": "0.0120000000",
        "fundingRateAnnual": "13.140000",
        "premium": "-0.0004239084",
        "fundingRate8hBinPerp": "0.0001000000",
        "fundingRate8hHlPerp": "0.0120000000",
        "venueSpread8h": "0.0119000000",
        "aboveOtherVenues8h": "0.0119000000",
        "openInterestChange1hPct": "4.10",
        "openInterestChange24hPct": "0.00",
        "regime": "crowded_long",
    }


def test_volatility() -> None:
    assert to_metrics(VOLATILITY) == {
        "realizedVol1h": "0.034000",
        "annualizedVol1h": "3.1823",
        "parkinsonVol1h": "0.033123",
        "minutesUsed1h": 60,
        "realizedVol24h": "0.100000",
        "annualizedVol24h": "1.9105",
        "parkinsonVol24h": "0.098765",
        "minutesUsed24h": 1440,
        "volRatio1hTo24h": "1.666",
        "regime": "high",
    }


def test_positioning_as_canonical_json() -> None:
    assert metrics_json(POSITIONING) == (
        '{"confidence":"0.640","direction":"long_pressure","funding":"0.900","imbalance":"0.180",'
        '"momentum":"0.824","momentumZ":"2.35","score":"0.720"}'
    )


def test_what_is_not_known_is_null_and_its_key_stays() -> None:
    bare = replace(FUNDING, venues=(), venue_spread_8h_e12=None, open_interest_change_1h_pct=None)
    metrics = to_metrics(bare)
    assert metrics["venueSpread8h"] is metrics["openInterestChange1hPct"] is None
    assert not any(key.endswith("Perp") for key in metrics)
    unknown = to_metrics(replace(VOLATILITY, day=WindowVolatility(312), ratio=None, regime=None))
    assert unknown.keys() == to_metrics(VOLATILITY).keys()
    assert (unknown["realizedVol24h"], unknown["minutesUsed24h"], unknown["regime"]) == (None, 312, None)
    assert '"regime":null' in metrics_json(replace(LIQUIDITY, regime=None))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: type(feature).__name__)
def test_there_is_no_float_and_twice_is_the_same(feature: Feature) -> None:
    assert all(isinstance(value, str | int | None) for value in to_metrics(feature).values())
    assert metrics_json(feature) == metrics_json(replace(feature))


@pytest.mark.parametrize(
    ("score", "text"),
    [(-0.0, "0.000"), (-0.0004, "0.000"), (-0.0006, "-0.001"), (0.9996, "1.000"), (1e-300, "0.000"), (-1.0, "-1.000")],
)
def test_what_rounds_to_zero_has_no_sign(score: float, text: str) -> None:
    assert to_metrics(replace(POSITIONING, score=score))["score"] == text


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="is no statistic"):
        to_metrics(replace(LIQUIDITY, spread_bps=number))


def shown(feature: Feature, names: tuple[str, ...]) -> str:
    """The figures of a feature that a packet shows, one by one."""
    metrics = to_metrics(feature)
    return " ".join(f"{name}={metrics[name]}" for name in names if metrics[name] is not None)


SIZES = st.floats(0, 10)
SCORES = st.floats(-1, 1) | st.sampled_from((-0.0004, 0.0, -0.0, -1.0))


@given(SIZES, SIZES, SIZES, st.none() | SIZES)
def test_volatility_written_at_once_is_what_its_metrics_say(
    hour: float, day: float, range_: float, ratio: float
) -> None:
    windows = WindowVolatility(60, hour, hour * 9, range_), WindowVolatility(1440, day, day * 9, range_)
    found = VolatilityProfile("BTC", AS_OF, *windows, ratio, None if ratio is None else "normal")
    line = volatility_line(found)
    assert line is None if ratio is None else line == shown(found, SHOWN["volatilityProfile"])


@given(SCORES, SCORES, st.none() | st.floats(-50, 50), st.none() | SCORES)
def test_positioning_written_at_once_is_what_its_metrics_say(
    score: float, confidence: float, z: float | None, funding: float | None
) -> None:
    found = PositioningPressure("BTC", AS_OF, "neutral", score, confidence, z, z, funding, None)
    line = positioning_line(found)
    assert line is None or line == shown(found, SHOWN["positioningPressure"])
    if z is not None and funding is not None and min(score, confidence, z, funding) > 0:
        assert line is not None
    assert positioning_line(replace(found, imbalance=0.5)) is None


@pytest.mark.parametrize("minutes", [1, 5, 15])
def test_lines_of_a_full_day_are_those_of_its_features(minutes: int) -> None:
    chance, returns, price, length = Random(minutes), SlidingReturns(), 2 * 10**12, minutes * MINUTE
    at, written = AS_OF - AS_OF % length, 0
    for number in range(2 * DAY // length):
        opened, price = price, round(price * (1 + chance.choice((0.0, chance.gauss(0, 0.002)))))
        high, low = max(opened, price) + chance.randrange(10**9), min(opened, price) - chance.randrange(10**9)
        bar = Candle("BTC", minutes * 60, at + number * length, opened, high, low, price, 1.0, 1.0, 1)
        # Now and then a bar is missing: then there are no such lines for a day.
        returns.slide([bar] if number != 7 else [], since=bar.end - DAY)
        as_of, rate = bar.end + chance.randrange(length), chance.choice((None, chance.randrange(-(10**9), 10**9)))
        found = full_day_lines(returns, as_of=as_of, funding=None if rate is None else funding_input(rate))
        assert (found is None) == (len(returns.bars) * length != DAY + length)
        if found is not None:
            volatility = volatility_of(returns, as_of=as_of)
            positioning = positioning_of("BTC", returns, as_of=as_of, rate_8h_e12=rate, imbalance=None)
            assert volatility is not None and positioning is not None
            assert found == (volatility_line(volatility), positioning_line(positioning))
            written += 1
    assert written > 50
    # An hour after its last bar a day is not full any more; nor is there a line of a price that stands still.
    assert full_day_lines(returns, as_of=as_of + HOUR, funding=None) is None
    times, quiet = range(at, at + DAY + length, length), SlidingReturns()
    still = [Candle("BTC", minutes * 60, each, 5, 5, 5, 5, 1.0, 1.0, 1) for each in times]
    quiet.slide(still, since=at)
    assert full_day_lines(quiet, as_of=still[-1].end, funding=None) is None
    assert full_day_lines(SlidingReturns(), as_of=as_of, funding=None) is None
