"""Long storms: twenty kills and more on `tapebook demo --fast`, and an end before many acts of its first start."""

from pathlib import Path

import pytest

from tapebook.api import app
from tests.replay.home_fingerprint import Remains, assert_whole
from tests.replay.moments import compare_ends, every_other_disk, start_demo
from tests.replay.stage import Stage
from tests.replay.storm import Storm

pytestmark = pytest.mark.soak

SECONDS = 36.0


@pytest.mark.parametrize("seed", [7, 50])
def test_twenty_kills_change_nothing(seed: int, tmp_path: Path) -> None:
    weather = Storm(tmp_path / "home", seed=seed, seconds=SECONDS)
    weather.rage(early=8, late=16)
    assert weather.kills >= 20
    app.demo(tmp_path / "undisturbed", seconds=SECONDS, seed=seed)
    expected = Remains.of(tmp_path / "undisturbed")
    assert len(expected.tables["trade_history"]) >= 5
    expected.assert_same_in(tmp_path / "home")
    assert_whole(tmp_path / "home")


def test_twenty_kills_change_nothing_in_an_aged_demo(tmp_path: Path) -> None:
    """On its way through the days before it, in the backtests of them, and after them."""
    weather = Storm(tmp_path / "home", seed=7, seconds=3.0, aged_days=7)
    weather.rage(early=6, late=14, backtests=5)
    assert weather.kills >= 20
    app.demo(tmp_path / "undisturbed", seconds=3.0, seed=7, weeks=1)
    expected = Remains.of(tmp_path / "undisturbed")
    assert len(expected.tables["trade_history"]) >= 100 and len(expected.backtests) == 2
    expected.assert_same_in(tmp_path / "home")
    assert_whole(tmp_path / "home")
    with app.open(tmp_path / "home") as tb:
        quarters = {row["timeframe"] for row in tb.horizons.show("btc-5m", layer="L3")}
        assert quarters == {"2025-Q4", "2026-Q1"}


def test_ended_before_many_acts_of_the_first_start_of_a_demo(tmp_path: Path) -> None:
    compare_ends(start_demo, Stage(tmp_path), points=lambda acts: every_other_disk(acts)[::3])
