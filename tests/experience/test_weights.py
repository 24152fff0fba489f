"""Weights: 1.00 without evidence, bounded, monotone, and moved the right way by providers with a planted truth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.agent import ExperienceRow
from tapebook.experience.records import (
    PROVIDER_REGIME,
    Outcome,
    Record,
    RecordKey,
    outcome_of,
    provider_weight,
    records_from_scratch,
    weight_rows,
)
from tests.experience.makers import closed, run_of, vote

COUNTS = st.integers(0, 10_000)
TOTALS = st.integers(-(10**9), 10**9)
PRIOR = 10.0


def of(n: int, total_ppm: int) -> Record:
    return Record("provider", "p", n, 0, total_ppm, total_ppm**2)


def texts(records: dict[RecordKey, Record], regime: str) -> dict[str, float]:
    rows = weight_rows(records, ("trend", "reversion"), regime=regime, prior=PRIOR)
    return {row.name: float(row.value) for row in rows}


def test_nothing_known_weighs_exactly_one() -> None:
    assert weight_rows({}, ("a", "b"), regime="chop_lowvol", prior=PRIOR) == (
        ExperienceRow("provider", "a", "1.00"),
        ExperienceRow("provider", "b", "1.00"),
    )
    other = records_from_scratch([outcome_of(trade, run_of(trade, engine="x")) for trade in [closed(1, net_bps=50)]])
    assert weight_rows(other, ("a",), regime="chop_lowvol", prior=PRIOR)[0].value == "1.00"


@given(COUNTS, TOTALS, COUNTS, TOTALS, st.integers(0, 10**8), st.floats(0.5, 1_000))
def test_weight_is_bounded_and_never_falls_as_results_rise(
    n: int, total: int, more: int, rise: int, scale: int, prior: float
) -> None:
    here, overall = of(n, total), of(n + more, total + rise)
    low = provider_weight(overall, here, scale_ppm=scale, prior=prior)
    assert 0.5 <= low <= 1.5
    better = provider_weight(of(n + more, total + rise + 10**6), of(n, total + 10**6), scale_ppm=scale, prior=prior)
    assert better >= low - 1e-12
    assert provider_weight(of(n + more, total + rise + 10**6), here, scale_ppm=scale, prior=prior) >= low - 1e-12


def test_same_mean_over_more_trades_moves_further() -> None:
    few, many = (provider_weight(of(n, n * 200), of(0, 0), scale_ppm=1_000, prior=PRIOR) for n in (5, 500))
    assert 1 < few < many
    assert many == pytest.approx(1.2, abs=0.01)


def test_regime_is_drawn_to_the_record_elsewhere_which_counts_once() -> None:
    overall, here = of(30, 9_000), of(10, 4_000)
    elsewhere = 5_000 / (20 + 10)
    expected = (4_000 + 10 * elsewhere) / (10 + 10)
    assert provider_weight(overall, here, scale_ppm=1_000, prior=PRIOR) == pytest.approx(1 + expected / 1_000)


def test_learning_rate_decides_how_soon() -> None:
    slow, quick = (provider_weight(of(20, 4_000), of(0, 0), scale_ppm=1_000, prior=prior) for prior in (100.0, 2.0))
    assert 1 < slow < quick < 1.2


def planted(seed: int, n: int) -> list[Outcome]:
    """`trend` is right in trends by 20 bps of a deviation of 60, and wrong in chop; `reversion` says the opposite.

    The ensemble takes the side of `trend` every other time.
    """
    rng = random.Random(seed)
    found = []
    for number in range(n):
        trending = rng.random() < 0.5
        edge = rng.gauss(20 if trending else -20, 60)
        follows = rng.random() < 0.5
        side, result = ("long", edge) if follows else ("short", -edge)
        regime = "trend_up_lowvol" if trending else "chop_lowvol"
        trade = closed(number, net_bps=result, gross_bps=result, side=side, regime=regime)
        votes = [vote("trend", "long"), vote("reversion", "short")]
        found.append(outcome_of(trade, run_of(trade, engine="ensemble", votes=votes)))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_planted_specialists_get_weight_where_they_are_good(seed: int) -> None:
    records = records_from_scratch(planted(seed, 400))
    trend, chop = texts(records, "trend_up_lowvol"), texts(records, "chop_lowvol")
    assert trend["trend"] > 1.1 > 0.9 > trend["reversion"]
    assert chop["reversion"] > 1.1 > 0.9 > chop["trend"]
    # In a regime nobody saw, the two cancel out.
    assert texts(records, "trend_down_hivol")["trend"] == pytest.approx(1.0, abs=0.1)


def test_intervals_hold_the_planted_truth_as_often_as_they_say() -> None:
    held = total = 0
    for seed in range(60):
        records = records_from_scratch(planted(seed, 100))
        for name, truth in (("trend in trend_up_lowvol", 20), ("trend in chop_lowvol", -20)):
            found = records[PROVIDER_REGIME, name].mean_bps
            held += found.low <= truth <= found.high
            total += 1
    assert 0.88 <= held / total <= 1.0
