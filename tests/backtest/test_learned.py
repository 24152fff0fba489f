"""What a stretch taught: records as experience would have them, trends as scipy tests them, luck kept out."""

import random

import msgspec
import pytest
import scipy

from tapebook.backtest.book_range import TradeOutcome
from tapebook.backtest.measure import ProviderWeights, mean_difference, records_of, result_rows, with_trend_directions
from tapebook.backtest.result import ChunkTrend
from tapebook.domain.estimate import Estimate
from tapebook.experience.records import ALL, PROVIDER, REGIME, Record, outcome_of, records_from_scratch
from tests.experience.makers import closed, run_of, vote


def ended(count: int, *, seed: int, shift_bps: float = 0.0, regime: str = "chop_lowvol") -> list[TradeOutcome]:
    rng = random.Random(seed)
    found = []
    for number in range(count):
        trade = closed(number, net_bps=rng.gauss(shift_bps, 30), gross_bps=rng.gauss(shift_bps, 30), regime=regime)
        run = run_of(trade, votes=[vote("a", "long"), vote("b", "short"), vote("c", None, "hold")])
        outcome = msgspec.structs.replace(outcome_of(trade, run), confidence_e4=None)
        found.append(TradeOutcome(trade, outcome))
    return found


def test_records_are_those_experience_would_have_learned() -> None:
    found = ended(40, seed=1)
    assert records_of(found) == records_from_scratch(each.outcome for each in found)
    assert records_of([]) == {}


def test_a_difference_is_welchs() -> None:
    one, other = ended(30, seed=2, shift_bps=20), ended(55, seed=3)
    now, before = records_of(one)[ALL, ""], records_of(other)[ALL, ""]
    found = mean_difference(now, before)
    assert found is not None
    estimate, chance = found
    samples = [[each.outcome.result_ppm / 100 for each in part] for part in (one, other)]
    test = scipy.stats.ttest_ind(*samples, equal_var=False)
    interval = test.confidence_interval(0.95)
    assert estimate.value == pytest.approx(sum(samples[0]) / 30 - sum(samples[1]) / 55, rel=1e-9)
    assert [estimate.low, estimate.high] == pytest.approx([interval.low, interval.high], rel=1e-9)
    assert chance == pytest.approx(test.pvalue, rel=1e-9)


@pytest.mark.parametrize(("now", "before"), [(1, 9), (9, 1), (0, 9)])
def test_two_trades_are_the_least_to_differ_by(now: int, before: int) -> None:
    sides = [records_of(ended(count, seed=count)).get((ALL, ""), Record(ALL, "")) for count in (now, before)]
    assert mean_difference(sides[0], sides[1]) is None
    same = Record(ALL, "", 3, 3, 300, 30_000, 3)
    assert mean_difference(same, same) is None


def test_rows_say_n_interval_weight_and_trend() -> None:
    before, now = records_of(ended(30, seed=4)), records_of(ended(30, seed=5, shift_bps=60))
    known = records_from_scratch(each.outcome for each in ended(30, seed=4))
    found = {
        row.name: row
        for row in result_rows(PROVIDER, now, before, trusted=ProviderWeights({"a": 0.4}, {"a": 0.25, "b": 0.2}))
    }
    assert sorted(found) == ["a", "b", "trend"]
    for name, row in found.items():
        record = now[PROVIDER, name]
        assert (row.n, row.won, row.net_usd_e6) == (record.n, record.wins, record.usd_e6)
        assert row.win_rate.n == row.n and row.mean_bps is not None and row.mean_bps.n == row.n
        assert row.trend is not None and row.trend.earlier_n == known[PROVIDER, name].n
    assert {name: (row.weight_before, row.weight) for name, row in found.items()} == {
        "a": (0.25, 0.4),
        "b": (0.2, None),
        "trend": (None, None),
    }
    assert found["a"].trend is not None and found["a"].trend.change_bps.value > 20
    plain = result_rows(REGIME, now, {})
    assert [row.trend for row in plain] == [None] and [row.weight for row in plain] == [None]


def test_one_trade_has_no_mean() -> None:
    (row,) = result_rows(REGIME, records_of(ended(1, seed=6)), {})
    assert (row.n, row.mean_bps, row.trend) == (1, None, None)


@pytest.mark.parametrize(
    ("chances", "called"),
    [([0.001, 0.02, 0.03, 0.2, 0.9], 3), ([0.04, 0.5], 0), ([0.04], 1), ([0.2], 0), ([], 0)],
)
def test_changes_are_called_by_how_many_were_looked_at(chances: list[float], called: int) -> None:
    (row,) = result_rows(REGIME, records_of(ended(9, seed=1)), {})
    table = [
        msgspec.structs.replace(row, trend=ChunkTrend("unclear", Estimate(-5.0, -9.0, -1.0, 9), 9, chance))
        for chance in chances
    ]
    half = len(table) // 2
    found = [each.trend for part in with_trend_directions(table[:half], table[half:]) for each in part]
    assert [trend.direction for trend in found if trend] == ["down"] * called + ["unclear"] * (len(chances) - called)


def test_a_planted_change_is_called_and_luck_is_not() -> None:
    called = 0
    for seed in range(60):
        before = records_of(ended(40, seed=1_000 + seed))
        now = records_of(ended(40, seed=seed))
        (table,) = with_trend_directions(result_rows(REGIME, now, before))
        called += any(row.trend is not None and row.trend.direction != "unclear" for row in table)
    assert called <= 8
    before, now = records_of(ended(60, seed=1)), records_of(ended(60, seed=2, shift_bps=60))
    providers, regimes = with_trend_directions(result_rows(PROVIDER, now, before), result_rows(REGIME, now, before))
    said = {row.name: row.trend.direction for row in (*providers, *regimes) if row.trend}
    assert (said["a"], said["b"], said["chop_lowvol"]) == ("up", "down", "up")
