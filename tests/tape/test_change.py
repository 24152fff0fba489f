"""When a feature is written between the five-minute rows: each step just missed and just passed."""

from typing import Any

import pytest
from msgspec.structs import replace

from tapebook.tape.features import Feature, FundingPressure, LiquidityProfile, PositioningPressure, changed_enough
from tapebook.tape.price_features import VolatilityProfile, WindowVolatility

AS_OF = 1_760_000_400_000

LIQUIDITY = LiquidityProfile("BTC", AS_OF, 2.0, 200.0, 500.0, 1000.0, 0.1, None, None, 0, "normal")
FUNDING = FundingPressure("BTC", AS_OF, 0, 150_000_000, 0, 0, (), None, None, 2.0, None, "neutral")
VOLATILITY = VolatilityProfile(
    "BTC", AS_OF, WindowVolatility(60, 0.02, 1.0, 0.02), WindowVolatility(1440, 0.1, 1.0, 0.1), 1.0, "normal"
)
POSITIONING = PositioningPressure("BTC", AS_OF, "neutral", 0.1, 0.5, None, None, None, 0.1)
FEATURES: list[Feature] = [LIQUIDITY, FUNDING, VOLATILITY, POSITIONING]


def hour(realised: float | None) -> dict[str, Any]:
    """The change of a volatility profile to another hour."""
    return {"hour": WindowVolatility(60, realised)}


CASES: list[tuple[Feature, dict[str, Any], bool]] = [
    (LIQUIDITY, {"depth_usd_100bps": 1990.0}, False),
    (LIQUIDITY, {"depth_usd_100bps": 2000.0}, True),
    (LIQUIDITY, {"depth_usd_100bps": 510.0}, False),
    (LIQUIDITY, {"depth_usd_100bps": 500.0}, True),
    (LIQUIDITY, {"depth_usd_100bps": 0.0}, True),
    (LIQUIDITY, {"depth_usd_100bps": 1400.0, "regime": "deep"}, False),
    (LIQUIDITY, {"depth_usd_100bps": 1420.0, "regime": "deep"}, True),
    (LIQUIDITY, {"regime": "thin"}, False),
    (LIQUIDITY, {"spread_bps": 3.9}, False),
    (LIQUIDITY, {"spread_bps": 4.0}, True),
    (LIQUIDITY, {"spread_bps": 1.0}, True),
    (LIQUIDITY, {"imbalance": 0.89}, False),
    (LIQUIDITY, {"imbalance": 0.91}, True),
    (LIQUIDITY, {"imbalance": -0.71}, True),
    (FUNDING, {"rate_8h_e12": 249_999_999}, False),
    (FUNDING, {"rate_8h_e12": 250_000_000}, True),
    (FUNDING, {"rate_8h_e12": 50_000_000}, True),
    (FUNDING, {"rate_8h_e12": 199_999_999, "regime": "long_leaning"}, False),
    (FUNDING, {"rate_8h_e12": 200_000_000, "regime": "long_leaning"}, True),
    (FUNDING, {"premium_e12": 499_999_999}, False),
    (FUNDING, {"premium_e12": -500_000_000}, True),
    (FUNDING, {"open_interest_change_1h_pct": 2.9}, False),
    (FUNDING, {"open_interest_change_1h_pct": 3.0}, True),
    (FUNDING, {"open_interest_change_1h_pct": None}, True),
    (FUNDING, {"open_interest_change_24h_pct": 50.0}, False),
    (VOLATILITY, hour(0.0249), False),
    (VOLATILITY, hour(0.0251), True),
    (VOLATILITY, hour(0.0159), True),
    (VOLATILITY, hour(0.0), True),
    (VOLATILITY, hour(None), True),
    (VOLATILITY, {**hour(0.0223), "regime": "high"}, False),
    (VOLATILITY, {**hour(0.0225), "regime": "high"}, True),
    (POSITIONING, {"score": 0.34}, False),
    (POSITIONING, {"score": 0.36}, True),
    (POSITIONING, {"score": -0.16}, True),
    (POSITIONING, {"score": 0.22, "direction": "long_pressure"}, False),
    (POSITIONING, {"score": 0.23, "direction": "long_pressure"}, True),
    (POSITIONING, {"confidence": 0.0}, False),
]


@pytest.mark.parametrize(("before", "change", "enough"), CASES)
def test_steps(before: Feature, change: dict[str, Any], enough: bool) -> None:
    after = replace(before, **change)
    assert changed_enough(before, after) is enough
    assert changed_enough(after, before) is enough


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: type(feature).__name__)
def test_the_same_later_is_no_change(feature: Feature) -> None:
    assert not changed_enough(feature, replace(feature, as_of=AS_OF + 60_000))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: type(feature).__name__)
def test_the_first_is_written_and_what_cannot_be_computed_is_not(feature: Feature) -> None:
    assert changed_enough(None, feature)
    assert not changed_enough(feature, None)
    assert not changed_enough(None, None)


def test_nothing_is_still_nothing() -> None:
    empty = replace(LIQUIDITY, depth_usd_100bps=0.0, spread_bps=0.0)
    flat = replace(VOLATILITY, **hour(None))
    assert not changed_enough(empty, empty)
    assert not changed_enough(flat, flat)


def test_slow_drifts_add_up() -> None:
    rows = [replace(POSITIONING, score=0.1 + 0.02 * step) for step in range(20)]
    written = [rows[0]]
    for row in rows[1:]:
        if changed_enough(written[-1], row):
            written.append(row)
    assert [round(row.score, 2) for row in written] == [0.1, 0.36]


def test_two_families_are_not_compared() -> None:
    with pytest.raises(TypeError, match="LiquidityProfile and FundingPressure"):
        changed_enough(LIQUIDITY, FUNDING)
