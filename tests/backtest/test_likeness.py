"""How alike backtests are: each part by itself, the same in both directions, and most alike to itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tapebook.backtest.home import BacktestHome
from tapebook.backtest.likeness import PARTS, likeness_of
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.result import BacktestResult
from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.units import DAY
from tests.backtest.books import START, Played

Stored = tuple[BacktestPlan, BacktestResult]


@pytest.fixture(scope="module")
def stored(played: Played) -> Stored:
    return BacktestHome(played.parent / "backtests" / played.result.id).plan(), played.result


def test_a_backtest_is_most_like_itself(stored: Stored) -> None:
    plan, result = stored
    found = likeness_of(plan, result, other=plan, other_result=result)
    assert (found.likeness, found.parts, found.differs) == (1.0, dict.fromkeys(PARTS, 1.0), ())


def test_each_part_says_what_is_other(stored: Stored) -> None:
    plan, result = stored
    agent = replace(plan.agent, name="other", experience=ExperienceSettings(neighbours=7))
    changes = {
        "agent": replace(plan, agent=replace(plan.agent, name="other")),
        "market": replace(plan, symbols=("BTC", "SOL")),
        "period": replace(plan, start=plan.start + 14 * DAY, end=plan.end + 14 * DAY),
        "settings": replace(plan, agent=agent, fill="worst"),
    }
    expected = {"agent": 0.5, "market": 1 / 3, "period": 1 / 3}
    for name, share in expected.items():
        found = likeness_of(plan, result, other=changes[name], other_result=result)
        assert found.parts == dict.fromkeys(PARTS, 1.0) | {name: pytest.approx(share, abs=1e-4)}
    found = likeness_of(plan, result, other=changes["settings"], other_result=result)
    assert {row[0]: row[1:] for row in found.differs} == {
        "experience.neighbours": ("25", "7"),
        "fill": (plan.fill, "worst"),
    }
    poor = replace(result.total, won=0, trades=0, equity_end_usd_e6=result.total.equity_start_usd_e6)
    found = likeness_of(plan, result, other=plan, other_result=replace(result, total=poor))
    assert found.parts["result"] == pytest.approx(3 / 5, abs=0.01) and found.parts["settings"] == 1


@given(
    days=st.lists(st.integers(0, 60), min_size=4, max_size=4),
    picks=st.lists(st.sets(st.sampled_from("ABC")), min_size=2, max_size=2),
)
def test_likeness_is_a_share_and_the_same_both_ways(stored: Stored, days: list[int], picks: list[set[str]]) -> None:
    plan, result = stored
    both = [
        replace(plan, start=START + first * DAY, end=START + (first + length) * DAY, symbols=tuple(sorted(chosen)))
        for first, length, chosen in zip(days[::2], days[1::2], picks, strict=True)
    ]
    there = likeness_of(both[0], result, other=both[1], other_result=result)
    back = likeness_of(both[1], result, other=both[0], other_result=result)
    assert there.parts == back.parts and there.likeness == back.likeness
    assert all(0 <= share <= 1 for share in (*there.parts.values(), there.likeness))
