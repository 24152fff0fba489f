"""Regimes last for hours, all of them come, and none has the last word."""

from collections import Counter

import pytest

from tapebook.world.drivers import REGIMES, RegimeChain
from tapebook.world.random_streams import random_stream

MINUTES = 200_000


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int]]:
    """(name, minutes) of every regime of one long chain."""
    chain = RegimeChain(random_stream(3, "market"))
    spells = [(chain.regime.name, 0)]
    for _ in range(MINUTES):
        if chain.advance():
            spells.append((chain.regime.name, 0))
        name, length = spells[-1]
        spells[-1] = (name, length + 1)
    return spells[:-1]


def test_every_regime_comes(told: list[tuple[str, int]]) -> None:
    assert Counter(name for name, _ in told).keys() == REGIMES.keys()


def test_they_last_hours(told: list[tuple[str, int]]) -> None:
    assert min(length for _, length in told) >= 2 * 60
    assert 5 * 60 < sum(length for _, length in told) / len(told) < 9 * 60


def test_rises_and_falls_are_worth_the_same() -> None:
    impulse = [regime.drift_per_hour * regime.mean_hours for regime in REGIMES.values()]
    assert sum(impulse) == pytest.approx(0.0, abs=0.01)


def test_the_next_regime_is_not_known_from_the_last() -> None:
    chain = RegimeChain(random_stream(4, "market"))
    followers: dict[str, set[str]] = {}
    for _ in range(MINUTES):
        before = chain.regime.name
        if chain.advance():
            followers.setdefault(before, set()).add(chain.regime.name)
    assert all(len(names) >= 4 for names in followers.values())
