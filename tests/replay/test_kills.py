"""A process that is killed anywhere and started again leaves what an undisturbed one leaves: no row more, none less.

First by luck: a storm of kills on the command line. Then without luck: an end before the acts
(an SQL statement, or a change of a folder) of the moments that matter.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tapebook import app
from tapebook.domain.instants import MINUTE
from tapebook.world.cadence import STEP
from tests.replay import storm
from tests.replay.moments import (
    Points,
    base_before,
    compare_ends,
    end_everywhere,
    every,
    every_other_disk,
    moment,
    start_demo,
    start_desk,
)
from tests.replay.remains import Remains, assert_whole


def test_storm_of_kills_changes_nothing(place: Path, shown: tuple[Path, app.DemoReport]) -> None:
    undisturbed, report = shown
    weather = storm.Storm(place / "home")
    weather.rage(early=3, late=6)
    assert weather.kills >= 8
    expected = Remains.of(undisturbed)
    assert {row[7] for row in expected.tables["trade_history"]} == {"open", "closed"}
    expected.assert_same_in(place / "home")
    assert_whole(place / "home")
    again = app.demo(place / "home", seconds=storm.SECONDS, seed=storm.SEED)
    assert again.to_dict() | {"home": report.home} == report.to_dict()
    expected.assert_same_in(place / "home")


@pytest.mark.parametrize(
    ("kind", "points"), [("opens", every), ("turns", every_other_disk), ("closes", every_other_disk)]
)
def test_ended_before_every_act_of_a_tick_with_an_order(kind: str, points: Points, recorded: Path, place: Path) -> None:
    acts = end_everywhere(moment(recorded, kind), place, points=points)
    written = " ".join(acts)
    assert all(f"INSERT INTO {table}" in written for table in ("orders", "fills", "wallet_ledger", "positions"))


def test_ended_before_every_act_of_the_first_start(place: Path) -> None:
    acts = compare_ends(start_desk, place, points=every_other_disk)
    written = " ".join(acts)
    for word in ("tapebook.toml", "CREATE TABLE", "INSERT INTO deployments", "INSERT INTO tape_commits", "archive"):
        assert word in written, f"{word} is no act of a start any more: where is it done?"


def test_ended_on_the_way_of_the_first_start_of_a_demo(place: Path) -> None:
    def some(acts: list[str]) -> list[int]:
        points = every_other_disk(acts)
        return points[:: 1 + len(points) // 8]

    compare_ends(start_demo, place, points=some)


@pytest.mark.parametrize(("kind", "minutes", "count"), [("opens", 1, 60), ("pays funding", 0, 30)])
def test_killed_by_the_system_at_evenly_spread_acts(
    kind: str, minutes: int, count: int, recorded: Path, place: Path
) -> None:
    when = moment(recorded, kind)
    base = base_before(when - minutes * MINUTE, place)
    until = when + minutes * MINUTE + STEP
    command = [sys.executable, "-m", "tests.replay.wrecks", str(base), str(until), str(count)]
    done = subprocess.run(command, cwd=storm.ROOT, env=storm.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole, *wrecks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(wrecks) == count
    assert [number for number, wreck in enumerate(wrecks) if wreck != whole] == []
