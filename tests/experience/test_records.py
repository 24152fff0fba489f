"""Records are sums: any order gives the same, and who is credited with what is fixed."""

import random
import statistics

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from tapebook.domain.estimate import mean_estimate
from tapebook.experience.records import (
    ALL,
    ASSET,
    CONFIDENCE,
    PROVIDER,
    PROVIDER_REGIME,
    REGIME,
    Outcome,
    Record,
    add_records,
    mean_difference_bps,
    outcome_of,
    records_from_scratch,
    updated_records,
)
from tests.experience.makers import closed, run_of, vote


def outcome(number: int, net_bps: float, **more: object) -> Outcome:
    trade = closed(number, net_bps=net_bps, **more)  # type: ignore[arg-type]
    return outcome_of(trade, run_of(trade, votes=[vote("reversion", "short")]))


OUTCOMES = st.lists(
    st.builds(
        lambda number, net, side: outcome(number, net, side=side),
        st.integers(0, 10_000),
        st.integers(-300, 300),
        st.sampled_from(["long", "short"]),
    ),
    max_size=12,
)


def test_votes_are_credited_by_what_they_were_for() -> None:
    trade = closed(1, net_bps=10, gross_bps=14, regime="trend_up_lowvol", symbol="SOL")
    votes = [
        vote("trend", "long"),
        vote("breakout", "long", "adjust"),
        vote("reversion", "short"),
        vote("carry", None, "hold"),
        vote("other", None, "close"),
        vote("unsure", None, "adjust"),
    ]
    found = records_from_scratch(
        [outcome_of(trade, run_of(trade, engine="ensemble", votes=votes, confidence_e4=6_400))]
    )
    net = (1, 1, 1_000)
    expected = {
        (ALL, ""): net,
        (REGIME, "trend_up_lowvol"): net,
        (ASSET, "SOL"): net,
        (CONFIDENCE, "0.6-0.7"): net,
        (PROVIDER, "ensemble"): net,
        (PROVIDER, "trend"): net,
        (PROVIDER, "breakout"): net,
        # Before costs: +14 bps for the long would have been -14 for the short.
        (PROVIDER, "reversion"): (1, 0, -1_400),
    }
    expected |= {(PROVIDER_REGIME, f"{k[1]} in trend_up_lowvol"): v for k, v in expected.items() if k[0] == PROVIDER}
    assert {key: (record.n, record.wins, record.total_ppm) for key, record in found.items()} == expected
    assert found[PROVIDER, "reversion"].usd_e6 == -1_400_000


@given(OUTCOMES, st.randoms())
def test_order_does_not_matter(outcomes: list[Outcome], rng: random.Random) -> None:
    shuffled = outcomes.copy()
    rng.shuffle(shuffled)
    assert records_from_scratch(shuffled) == records_from_scratch(outcomes)


@given(OUTCOMES, OUTCOMES)
def test_records_merge_and_take_apart(first: list[Outcome], second: list[Outcome]) -> None:
    whole, before = records_from_scratch(first + second), records_from_scratch(first)
    for key, record in records_from_scratch(second).items():
        assert add_records(whole[key], before.get(key, Record(*key)), sign=-1) == record
        assert add_records(record, before.get(key, Record(*key))) == whole[key]


@given(st.lists(st.integers(-500, 500), min_size=2, max_size=60))
def test_estimates_from_sums_are_those_of_the_results(results: list[int]) -> None:
    record = records_from_scratch([outcome(number, value) for number, value in enumerate(results)])[ALL, ""]
    expected = mean_estimate([float(value) for value in results])
    assert record.mean_bps.value == pytest.approx(expected.value)
    assert record.mean_bps.low == pytest.approx(expected.low)
    assert record.mean_bps.high == pytest.approx(expected.high)
    assert record.deviation_ppm / 100 == pytest.approx(statistics.stdev(results))
    assert (record.win_rate.n, record.wins) == (len(results), sum(value > 0 for value in results))


def test_interval_of_many_is_a_little_wide_and_never_narrow() -> None:
    results = [float(number % 7) for number in range(1_234)]
    record = Record("all", "", 1_234, 0, int(sum(results)) * 100, int(sum(r * r for r in results)) * 10_000)
    exact = mean_estimate(results)
    assert record.mean_bps.low <= exact.low
    assert record.mean_bps.low == pytest.approx(exact.low, rel=1e-3)


def test_one_trade_has_no_interval_and_nothing_has_none() -> None:
    one = records_from_scratch([outcome(1, 5)])[ALL, ""]
    assert (one.mean_bps.value, one.mean_bps.high, one.deviation_ppm) == (5.0, float("inf"), 0.0)
    assert Record("all", "").mean_bps.n == 0


def test_learned_gives_the_new_versions_alone() -> None:
    known = records_from_scratch([outcome(1, 5), outcome(2, 5, symbol="ETH")])
    new = {record.key: record for record in updated_records(known, outcome(3, -5))}
    assert (ASSET, "ETH") not in new
    assert new[ASSET, "BTC"].n == 2
    assert known[ASSET, "BTC"].n == 1


def test_gap_of_two_records_is_welchs_interval() -> None:
    rng = random.Random(4)
    first, second = [rng.gauss(10, 20) for _ in range(30)], [rng.gauss(0, 60) for _ in range(12)]
    one, other = (
        Record("x", "x", len(ppm), 0, sum(ppm), sum(each**2 for each in ppm))
        for ppm in ([round(100 * bps) for bps in results] for results in (first, second))
    )
    found = mean_difference_bps(one, other)
    theirs = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)
    assert mean_difference_bps(one, Record("x", "x", 1, 0, 100, 10_000)) is None
    assert mean_difference_bps(Record("x", "x", 2, 0, 200, 20_000), Record("x", "x", 2, 0, 200, 20_000)) is None
