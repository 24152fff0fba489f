"""A demo that is a day old when it begins: what it brings along, and the same bytes however it was made."""

import json
import re
import shutil
from pathlib import Path

import pytest

import tapebook
from tapebook.api import app
from tapebook.api.app import DemoProgress
from tapebook.desk import demo
from tapebook.domain.instants import iso_text
from tapebook.errors import HomeError
from tapebook.home import DEMO_MARKER, DEMO_START
from tapebook.world.assets import PriceHabit
from tests.replay.home_fingerprint import Remains

DAY_OLD = 1 / 7
SECONDS = 0.25


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A home that is a day old when its demo begins, and the report."""
    home = tmp_path_factory.mktemp("aged") / "home"
    return home, app.demo(home, seconds=SECONDS, weeks=DAY_OLD).lines()


def test_agents_bring_along_what_they_lived_through(aged: tuple[Path, list[str]]) -> None:
    home, report = aged
    with tapebook.open(home) as tb:
        runs = tb.runs(most=10_000)
        past = [run for run in runs if run["scheduled_for"] < iso_text(DEMO_START)]
        assert {run["agent"] for run in past} == {"btc-5m", "majors-15m", "pepe-5m", "demo-ensemble"}
        assert len(past) == 48 * (2 + 2 + 2) + 24 * 3 and {run["agent_version"] for run in past} == {1}
        live = [run for run in runs if run["scheduled_for"] >= iso_text(DEMO_START)]
        assert {run["agent_version"] for run in live if run["agent"] == "btc-5m"} == {2}
        exits = [trade["exit_tick_at"] or "" for trade in tb.trades("btc-5m", status="closed")]
        assert exits and min(exits) < iso_text(DEMO_START)
        layers = {row["layer"] for row in tb.horizons.show("btc-5m")}
        assert {"L2_ANNUAL", "L3_QUARTERLY", "L4_MONTHLY", "L6_DAILY"} <= layers
        packet = tb.context("btc-5m", "BTC").text
        assert "global/runbooks/" in packet and "predictionMarkets" in packet and "capitalFlows" in packet
        assert tb.verify() == []
    assert re.search(r"^replay +(\d+) of \1 packets", "\n".join(report), re.MULTILINE)
    assert re.search(r"^refused order 2026-01-04T.* R10_COOLDOWN", "\n".join(report), re.MULTILINE)
    assert re.search(r"^citation +global/runbooks/", "\n".join(report), re.MULTILINE)


def test_a_demo_that_was_stopped_on_its_way_ends_with_the_same_bytes(
    aged: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Once when the tape is there, and once when the past is lived through and nothing behind it is done."""
    home = tmp_path / "home"

    def stop_at_tape(progress: DemoProgress) -> None:
        raise KeyboardInterrupt

    def stop_at_book(progress: DemoProgress) -> None:
        if progress.ticks:
            raise KeyboardInterrupt

    for stop in (stop_at_tape, stop_at_book):
        with pytest.raises(KeyboardInterrupt):
            app.demo(home, seconds=SECONDS, weeks=DAY_OLD, progress=stop)
    assert app.demo(home, seconds=SECONDS, weeks=DAY_OLD).lines()[:-1] == aged[1][:-1]
    Remains.of(aged[0]).assert_same_in(home)


def test_an_agent_that_is_added_to_an_aged_home_decides_from_then_on(
    aged: tuple[Path, list[str]], tmp_path: Path
) -> None:
    home = shutil.copytree(aged[0], tmp_path / "home")
    with tapebook.open(home) as tb:
        tb.add_agent("mine", {"watch": "BTC, HYPE", "engine": "breakout", "every_minutes": 5})
        added = tb.now()
        before = len(tb.runs("btc-5m", most=10_000))
    app.demo(home, seconds=3 * SECONDS, weeks=DAY_OLD)
    with tapebook.open(home) as tb:
        mine = tb.runs("mine", most=100)
        assert {run["symbol"] for run in mine} == {"BTC", "HYPE"}
        assert {run["status"] for run in mine} <= {"held", "done"}
        assert all(run["scheduled_for"] >= iso_text(added)[:16] for run in mine)
        assert len(tb.runs("btc-5m", most=10_000)) > before
        # It sees the bars and documents of before it, though it did not live through that day.
        packet = tb.context("mine", "BTC").text
        assert packet.splitlines()[1].startswith("00:00 ") and "global/runbooks/" in packet
        replayed = tb.replay()
        assert replayed.equal == replayed.checked > len(mine)
        assert tb.verify() == []


def test_a_home_of_before_ranges_were_written_down_keeps_its_market(
    aged: tuple[Path, list[str]], tmp_path: Path
) -> None:
    home = shutil.copytree(aged[0], tmp_path / "home")
    marker = home / DEMO_MARKER
    made = json.loads(marker.read_text())
    assert set(made.pop("ranging")) == {"HYPE", "kPEPE"}
    marker.write_text(json.dumps(made))
    world = demo._read_marker(home).world()
    assert world.ranging == {"HYPE": PriceHabit(half_life_days=0.05)}
    # It is not aged again, with agents that it never had.
    demo.age_demo(home, progress=lambda step: pytest.fail("it was aged"))


def test_a_home_keeps_its_age(aged: tuple[Path, list[str]]) -> None:
    """Only a new home is aged; another seed is another market."""
    before = Remains.of(aged[0])
    app.demo(aged[0], seconds=SECONDS, weeks=4)
    before.assert_same_in(aged[0])
    with pytest.raises(HomeError, match="was made with `seed=` 7"):
        app.demo(aged[0], seconds=SECONDS, seed=8)
