"""Planted worlds: a true pattern becomes a lesson, one that is luck does not, over many seeds and at the rate it says.

A trade's result is a draw with a deviation of 60 bps. In `trend_up_lowvol` it has an edge; symbols, sides, hours, sizes
and holding times mean nothing. Whoever believes every difference with a chance below 5 % finds a "pattern" in more
than half of the worlds without any, since 28 of them are looked at.
"""

import random
from functools import cache

import pytest

from tapebook.domain.agent import AgentProfile
from tapebook.domain.position import ClosedTrade
from tapebook.lessons import note_bullets, note_text, run_reflection
from tapebook.lessons.facts import FALSE_SHARE, TradeFacts, facts_of
from tapebook.lessons.reflection import Lesson, ReflectorTerms
from tapebook.lessons.reflectors import statistics
from tests.lessons.trades import closed

TRUE = "trend_up_lowvol"
REGIMES = (TRUE, "trend_down_hivol", "chop_lowvol")
DEVIATION = 60.0
NULL_WORLDS, WORLDS = 200, 100


def world(seed: int, *, edge_bps: float) -> list[ClosedTrade]:
    rng = random.Random(seed)
    made = []
    for number in range(200):
        regime, size = rng.choice(REGIMES), rng.choice((500.0, 1_000.0, 2_000.0))
        net = size * rng.gauss(edge_bps if regime == TRUE else 0.0, DEVIATION) / 10_000
        made.append(
            closed(
                number,
                net_usd=net,
                symbol=rng.choice(("BTC", "ETH", "SOL")),
                side=rng.choice(("long", "short")),
                hour=rng.randrange(24),
                regime=regime,
                size_usd=size,
                minutes=rng.randrange(10, 300),
                best_usd=1.2 * max(net, 0.0),
            )
        )
    return made


@cache
def tables(edge_bps: float, count: int) -> list[TradeFacts]:
    return [facts_of(world(seed, edge_bps=edge_bps)) for seed in range(count)]


def lesson(trades: list[ClosedTrade], *, active: str | None = None) -> Lesson:
    found = run_reflection(statistics.create(ReflectorTerms()), AgentProfile("a", ("BTC",)), trades, active=active)
    assert isinstance(found, Lesson)
    return found


def test_where_there_is_nothing_hardly_anything_is_said() -> None:
    worlds = tables(0.0, NULL_WORLDS)
    naive = sum(any(group.chance < 0.05 for group in facts.groups) for facts in worlds)
    said = sum(any(group.believed for group in facts.groups) for facts in worlds)
    assert naive > NULL_WORLDS / 2
    # At 5 % of 200 worlds, more than 20 would need luck of 1 in 500.
    assert said <= 20


def test_a_true_pattern_is_found_and_false_ones_stay_within_their_share() -> None:
    worlds = tables(50.0, WORLDS)
    believed = [[group for group in facts.groups if group.believed] for facts in worlds]
    found = sum(any(group.name == TRUE and group.result_bps.low > 0 for group in groups) for groups in believed)
    assert found >= 0.95 * WORLDS
    # Every regime differs from the rest when one has an edge; all other groups mean nothing.
    shares = [sum(group.slot != "Regime fit" for group in groups) / max(1, len(groups)) for groups in believed]
    assert sum(shares) / WORLDS <= FALSE_SHARE + 0.03


def test_the_true_interval_holds_the_planted_edge_as_often_as_it_says() -> None:
    groups = [group for facts in tables(50.0, WORLDS) for group in facts.groups if group.name == TRUE]
    held = sum(group.result_bps.low <= 50.0 <= group.result_bps.high for group in groups)
    # At 95 %, fewer than 87 of 100 would need luck of 1 in 1,000.
    assert len(groups) == WORLDS and held >= 87


@pytest.mark.parametrize("seed", range(5))
def test_the_note_names_the_true_pattern_with_its_numbers(seed: int) -> None:
    said = note_bullets(lesson(world(seed, edge_bps=50.0)).text)
    (true,) = [bullet for bullet in said if bullet.startswith(f"Regime fit: {TRUE} does better")]
    assert "n=" in true and "95%" in true


@pytest.mark.parametrize("seed", range(5))
def test_a_false_lesson_of_an_earlier_note_is_not_carried_on(seed: int) -> None:
    false = "BTC does better: +40.0 bps a trade (n=12, 95% +2.0 to +78.0), the rest -3.0 bps (n=30)"
    found = lesson(world(seed, edge_bps=50.0), active=note_text({"Symbol selection": [false]}))
    assert false not in found.text
