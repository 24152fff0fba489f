"""A process that is killed anywhere and started again leaves what an undisturbed one leaves: no row more, none less.

First by luck: a storm of kills on the command line. Then without luck: an end before the acts
(an SQL statement, or a change of a folder) of the moments that matter.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.domain.units import MINUTE
from tapebook.world.cadence import STEP
from tests.replay import desk, storm
from tests.replay.conftest import Servers, Tellers
from tests.replay.home_fingerprint import Remains, assert_whole
from tests.replay.moments import (
    MOMENTS,
    Points,
    base_before,
    compare_ends,
    end_everywhere,
    every,
    every_other_disk,
    moment,
    some,
    start_demo,
    start_desk,
)
from tests.replay.stage import Stage


@pytest.mark.soak
def test_storm_of_kills_changes_nothing(place: Path, shown: tuple[Path, app.DemoReport]) -> None:
    undisturbed, report = shown
    weather = storm.Storm(place / "home")
    weather.rage(early=3, late=6)
    assert weather.kills >= 8
    expected = Remains.of(undisturbed)
    assert {row[7] for row in expected.tables["trade_history"]} == {"open", "closed"}
    # The rows of all three sources are among what is compared.
    for table in ("hyperliquid_candles", "polymarket_immediate_markets", "defillama_capital_base", "tape_registry"):
        assert expected.tables[table], table
    expected.assert_same_in(place / "home")
    assert_whole(place / "home")
    again = app.demo(place / "home", seconds=storm.SECONDS, seed=storm.SEED)
    assert again.to_dict() | {"home": report.home} == report.to_dict()
    expected.assert_same_in(place / "home")


KINDS = ("opens", "turns", "closes")
EVERY = [pytest.param(kind, every, marks=pytest.mark.soak) for kind in KINDS]
NORMAL = [("opens", some(6)), ("turns", some(3)), ("closes", some(3))]


@pytest.mark.parametrize(("kind", "points"), [*NORMAL, *EVERY])
def test_ended_before_every_act_of_a_tick_with_an_order(kind: str, points: Points, recorded: Path, place: Path) -> None:
    acts = end_everywhere(moment(recorded, kind), Stage(place), points=points)
    written = " ".join(acts)
    assert all(f"INSERT INTO {table}" in written for table in ("orders", "fills", "wallet_ledger", "positions"))


@pytest.mark.parametrize("points", [some(5), pytest.param(every_other_disk, marks=pytest.mark.soak)])
def test_ended_before_every_act_of_the_first_start(points: Points, place: Path) -> None:
    acts = compare_ends(start_desk, Stage(place), points=points)
    written = " ".join(acts)
    for word in ("tapebook.toml", "CREATE TABLE", "INSERT INTO deployments", "INSERT INTO tape_commits", "archive"):
        assert word in written, f"{word} is no act of a start any more: where is it done?"


@pytest.mark.parametrize("most", [2, pytest.param(16, marks=pytest.mark.soak)])
def test_ended_on_the_way_of_the_first_start_of_a_demo(most: int, place: Path) -> None:
    compare_ends(start_demo, Stage(place), points=some(most))


SURROUNDINGS = [
    *(("desk", "SQLite", "opens", 1, 6), ("desk", "SQLite", "pays funding", 0, 3)),
    ("crew", "PostgreSQL", "opens", 0, 3),
    pytest.param("desk", "SQLite", "pays funding", 0, 12, marks=pytest.mark.soak),
    pytest.param("crew", "SQLite", "opens", 0, 12, marks=pytest.mark.soak),
    pytest.param("desk", "SQLite", "opens", 1, 48, marks=pytest.mark.soak),
    pytest.param("crew", "PostgreSQL", "opens", 0, 24, marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("hands", "store", "kind", "minutes", "count"), SURROUNDINGS)
def test_killed_by_the_system_at_evenly_spread_acts(
    hands: desk.Hands, store: str, kind: str, minutes: int, count: int, *, recorded: Path, server: Servers, place: Path
) -> None:
    when = moment(recorded, kind)
    stage = Stage(place, server(store))
    base = base_before(when - minutes * MINUTE, stage, hands=hands)
    until = when + minutes * MINUTE + STEP
    words = [str(base), str(until), str(count), hands, stage.dsn]
    command = [sys.executable, "-m", "tests.replay.crash_runner", *words]
    done = subprocess.run(command, cwd=storm.ROOT, env=storm.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole, *wrecks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(wrecks) == count
    assert [number for number, wreck in enumerate(wrecks) if wreck != whole] == []
    stage.clear()


@pytest.mark.parametrize(
    ("hands", "store", "kind", "most"),
    [
        *(("crew", "SQLite", "opens", 3), ("crew", "SQLite", "is liquidated", 2)),
        *(("desk", "PostgreSQL", "turns", 2), ("desk", "SQLite", "waits", 2)),
        pytest.param("crew", "SQLite", "is liquidated", 12, marks=pytest.mark.soak),
        pytest.param("desk", "PostgreSQL", "turns", 8, marks=pytest.mark.soak),
        pytest.param("desk", "SQLite", "waits", 12, marks=pytest.mark.soak),
        pytest.param("crew", "SQLite", "opens", 48, marks=pytest.mark.soak),
        pytest.param("crew", "PostgreSQL", "opens", 24, marks=pytest.mark.soak),
        pytest.param("crew", "PostgreSQL", "is filled later", 24, marks=pytest.mark.soak),
    ],
)
def test_ended_before_acts_of_every_kind_of_moment(
    hands: desk.Hands, store: str, kind: str, most: int, *, told: Tellers, server: Servers, place: Path
) -> None:
    story = MOMENTS[kind][0]
    end_everywhere(moment(told(story), kind), Stage(place, server(store)), points=some(most), story=story, hands=hands)


@pytest.mark.parametrize(
    ("store", "count", "seed"),
    [
        ("SQLite", 2, 1),
        pytest.param("SQLite", 0, 3, marks=pytest.mark.soak),
        pytest.param("PostgreSQL", 0, 4, marks=pytest.mark.soak),
    ],
)
def test_killed_while_old_decisions_leave(store: str, count: int, seed: int, server: Servers, place: Path) -> None:
    words = [str(place), str(count), str(seed), server(store)]
    command = [sys.executable, "-m", "tests.replay.movers", *words]
    done = subprocess.run(command, cwd=storm.ROOT, env=storm.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole, *wrecks = [json.loads(line) for line in done.stdout.splitlines()]
    assert whole["left"] > 10 and len(wrecks) == (count or whole["points"]) and all(each["killed"] for each in wrecks)
    for state in (whole, *wrecks, *(each["then"] for each in wrecks)):
        assert (state["findings"], state["different"], state["replayed"]) == ([], [], whole["replayed"] or None), state
