"""What a driver draws: regimes that can be felt, clustered volatility, fat tails, one deviation a day."""

from itertools import groupby
from statistics import correlation, fmean, pstdev

import pytest

from tapebook.world.cadence import MINUTES_PER_DAY, STEPS_PER_MINUTE
from tapebook.world.drivers import REGIMES, Driver, DriverMove
from tapebook.world.random_streams import random_stream

DAYS = 200


@pytest.fixture(scope="module")
def told() -> list[tuple[str, DriverMove]]:
    """(regime, move) of every minute of a long, evenly paced run."""
    driver = Driver(random_stream(11, "market"))
    moves = []
    for _ in range(DAYS * MINUTES_PER_DAY):
        move = driver.next_minute(1.0)
        moves.append((driver.chain.regime.name, move))
    return moves


@pytest.fixture(scope="module")
def by_regime(told: list[tuple[str, DriverMove]]) -> dict[str, list[float]]:
    """The returns of each regime, jumps left out."""
    returns: dict[str, list[float]] = {name: [] for name in REGIMES}
    for name, move in told:
        returns[name].append(move.calm)
    return returns


@pytest.mark.parametrize("vol", ["lowvol", "hivol"])
def test_trends_drift_and_chop_does_not(by_regime: dict[str, list[float]], vol: str) -> None:
    hourly = {name: fmean(returns) * 60 for name, returns in by_regime.items()}
    assert hourly[f"trend_up_{vol}"] > 0.03
    assert hourly[f"trend_down_{vol}"] < -0.03
    assert abs(hourly[f"chop_{vol}"]) < 0.015


@pytest.mark.parametrize("direction", ["trend_up", "trend_down", "chop"])
def test_high_volatility_is_felt(by_regime: dict[str, list[float]], direction: str) -> None:
    assert pstdev(by_regime[f"{direction}_hivol"]) > 1.8 * pstdev(by_regime[f"{direction}_lowvol"])


def test_chop_goes_nowhere_and_trends_go_far(told: list[tuple[str, DriverMove]]) -> None:
    """The squared way a spell comes, against the sum of its squared minutes: 1 for a random walk."""
    spells = [(name, [move.calm for _, move in spell]) for name, spell in groupby(told, key=lambda minute: minute[0])]
    ways = {
        kind: fmean(sum(way) ** 2 / sum(step**2 for step in way) for name, way in spells if name.startswith(kind))
        for kind in ("chop", "trend")
    }
    assert ways["chop"] < 0.6
    assert ways["trend"] > 2.0


def test_a_day_is_about_one_standard_deviation(told: list[tuple[str, DriverMove]]) -> None:
    moves = [move.calm + move.jump for _, move in told]
    days = [sum(moves[at : at + MINUTES_PER_DAY]) for at in range(0, len(moves), MINUTES_PER_DAY)]
    assert 0.8 < pstdev(days) < 1.25


def test_volatility_clusters(told: list[tuple[str, DriverMove]]) -> None:
    sizes = [abs(move.calm) for _, move in told]
    assert correlation(sizes[:-30], sizes[30:]) > 0.1


def test_tails_are_fat(told: list[tuple[str, DriverMove]]) -> None:
    moves = [move.calm + move.jump for _, move in told]
    assert fmean(move**4 for move in moves) / fmean(move**2 for move in moves) ** 2 > 5


def test_jumps_come_now_and_then(told: list[tuple[str, DriverMove]]) -> None:
    jumps = [move for _, move in told if move.jump]
    assert 0.4 < len(jumps) / DAYS < 1.1
    assert all(0 <= move.jump_step < STEPS_PER_MINUTE for move in jumps)
