"""A long storm with many kills: every fault a real exchange has, for hours of the market."""

import json
from pathlib import Path

import pytest

from tests.desk.storms import storm

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "storm.json"
KINDS = {
    *("drop", "silence", "stall", "duplicate", "reorder", "delay", "corrupt"),
    *("late", "correct", "too_many", "error", "timeout"),
}


def test_hours_of_storm_and_many_kills_lose_nothing_that_can_be_had_again(tmp_path: Path) -> None:
    outcome = storm(tmp_path, seed=4, minutes=240, speed=60.0, lives=(1.0, 9.0))
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(outcome.figures(), indent=2, sort_keys=True) + "\n", "utf-8")
    assert outcome.kills >= 30 and outcome.faults.keys() >= KINDS
    outcome.assert_whole()
