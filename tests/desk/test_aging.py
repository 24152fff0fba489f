"""A demo that is a day old when it begins: what it brings along, and the same bytes however it was made."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

import tapebook
from tapebook.api import app
from tapebook.api.app import DemoProgress
from tapebook.clock import VirtualClock
from tapebook.desk import aging, demo
from tapebook.desk.aging import age_home
from tapebook.desk.demo import AGED_AGENTS, DEMO_SOURCES
from tapebook.domain.units import DAY, HOUR, iso_text
from tapebook.errors import HomeError
from tapebook.home import DEMO_MARKER, DEMO_START, make_home
from tapebook.wiring import Rooms
from tapebook.world.assets import PriceHabit
from tapebook.world.market import World
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


def test_the_past_was_also_lived_through_with_and_without_memory(aged: tuple[Path, list[str]]) -> None:
    """Two finished backtests of one agent, which differ in nothing else and can be compared."""
    home, report = aged
    with tapebook.open(home) as tb:
        made = {row["memory"]: row for row in tb.backtests.all()}
        assert made.keys() == {"on", "off"}
        for row in made.values():
            assert (row["agent"], row["agent_version"], row["status"], row["stale"]) == ("demo-ensemble", 1, "done", [])
            assert (row["start"], row["end"]) == (iso_text(DEMO_START - DAY), iso_text(DEMO_START - HOUR))
            total = tb.backtests.show(row["id"])["total"]
            assert total is not None and total["ticks"] == 23 * 3
            with tb.backtests.open(row["id"]) as past:
                for trade in past.trades("demo-ensemble"):
                    assert past.run(trade["entry_snapshot_id"] or "")["symbol"] == trade["symbol"]
                # Its market goes on in the demo; what it held at its end is worth what it was then.
                assert past.equity()["points"][-1]["at"] == row["end"]
                assert past.verify() == []
        compared = tb.backtests.compare(made["on"]["id"], made["off"]["id"])
        assert compared.lines()[-1] == "verdict: not enough evidence"
    (said,) = [line for line in report if line.startswith("backtests")]
    on, off = made["on"]["change_usd"], made["off"]["change_usd"]
    expected = f"demo-ensemble again, 1 day: {on:+,.2f} USD with its memory, {off:+,.2f} without: not enough evidence"
    assert said == f"backtests     {expected}"


def test_a_manual_is_proposed_from_what_was_learned(aged: tuple[Path, list[str]]) -> None:
    """It waits for the owner, with the decision it came from."""
    with tapebook.open(aged[0]) as tb:
        (proposal,) = tb.recall.proposals()
        agent = proposal["agent"]
        assert (proposal["status"], proposal["written_by"]) == ("open", agent)
        assert proposal["known_at"] == iso_text(DEMO_START)
        last = tb.run(proposal["run_id"])
        assert last["agent"] == agent and last["scheduled_for"] < iso_text(DEMO_START)
        added = [line for line in tb.recall.proposal(proposal["proposal_id"]).diff if line.startswith("+")]
        assert "+## What my trades showed by 2026-01-05" in added and "round trips" in added[-1]
        assert [(each["kind"], each["place"]) for each in tb.recall.writes()] == [("proposal", proposal["proposal_id"])]
        # Nothing has changed yet.
        assert tb.agent(agent)["manual"] == ""


@pytest.mark.parametrize("word", ["approved", "rejected"])
@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
def test_a_proposal_that_was_decided_does_not_come_back(
    word: str, aged: tuple[Path, list[str]], tmp_path: Path
) -> None:
    home = shutil.copytree(aged[0], tmp_path / "home")
    with tapebook.open(home) as tb:
        (proposal,) = tb.recall.proposals()
        decide = tb.recall.approve if word == "approved" else tb.recall.reject
        assert decide(proposal["proposal_id"]).status == word
    app.demo(home, seconds=2 * SECONDS, weeks=DAY_OLD)
    with tapebook.open(home) as tb:
        assert [(each["proposal_id"], each["status"]) for each in tb.recall.proposals()] == [
            (proposal["proposal_id"], word)
        ]
        profile = tb.agent(proposal["agent"])
        assert ("What my trades showed" in profile["manual"]) == (word == "approved")
        newest = tb.runs(proposal["agent"], most=1)[0]
        assert newest["agent_version"] == profile["version"]
        assert tb.verify() == []


def stop_at_tape(progress: DemoProgress) -> None:
    """Stops when the tape is there."""
    raise KeyboardInterrupt


def stop_at_book(progress: DemoProgress) -> None:
    """Stops when the past is lived through and nothing behind it is done."""
    if progress.ticks:
        raise KeyboardInterrupt


@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
def test_a_home_that_was_stopped_while_it_aged_has_the_same_bytes(tmp_path: Path) -> None:
    """One symbol and two agents, up to where a demo would begin."""
    world = World(7, start=DEMO_START - DAY, symbols=("BTC",))
    agents = [(past, live) for past, live in AGED_AGENTS if past.name in ("btc-5m", "demo-ensemble")]
    agents = [(replace(past, watchlist=("BTC",)), replace(live, watchlist=("BTC",))) for past, live in agents]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for home in (whole, stopped):
        make_home(home, sources=DEMO_SOURCES)
    for stop in (stop_at_tape, stop_at_book):
        with pytest.raises(KeyboardInterrupt):
            age_home(stopped, world, until=DEMO_START, agents=agents, progress=stop)
    with closing(Rooms(stopped, clock=VirtualClock(DEMO_START))) as rooms:
        # One that was killed right behind its first act at the end of the past.
        aging._propose_from_past(rooms, [live.name for _, live in agents])
    for home in (whole, stopped):
        age_home(home, world, until=DEMO_START, agents=agents, progress=lambda progress: None)
    expected = Remains.of(whole)
    assert len(expected.tables["decision_runs"]) == 48 + 24 and len(expected.tables["manual_proposals"]) == 1
    expected.assert_same_in(stopped)


def stop_at_backtest(progress: DemoProgress) -> None:
    """Stops when the first backtest has made its decisions and is not measured."""
    if progress.doing == "backtest with memory on":
        raise KeyboardInterrupt


def stop_at_market(progress: DemoProgress) -> None:
    """Stops when the market has gone on a little."""
    if progress.market_time > DEMO_START:
        raise KeyboardInterrupt


@pytest.mark.soak
@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
def test_a_demo_that_was_stopped_on_its_way_ends_with_the_same_bytes(
    aged: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """With all symbols and agents, and what the demo makes of it."""
    home = tmp_path / "home"
    for stop in (stop_at_tape, stop_at_book, stop_at_backtest, stop_at_market):
        with pytest.raises(KeyboardInterrupt):
            app.demo(home, seconds=SECONDS, weeks=DAY_OLD, progress=stop)
    assert app.demo(home, seconds=SECONDS, weeks=DAY_OLD).lines()[:-1] == aged[1][:-1]
    Remains.of(aged[0]).assert_same_in(home)


@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
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


@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
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


@pytest.mark.sqlite_file("a home is aged by a single writer, in files")
def test_backtests_of_the_past_are_made_once(aged: tuple[Path, list[str]], tmp_path: Path) -> None:
    """Who removed them from a demo that has begun does not get them again."""
    home = shutil.copytree(aged[0], tmp_path / "home")
    with tapebook.open(home) as tb:
        for row in tb.backtests.all():
            tb.backtests.remove(row["id"])
    report = app.demo(home, seconds=2 * SECONDS, weeks=DAY_OLD)
    with tapebook.open(home) as tb:
        assert tb.backtests.all() == []
    assert not [line for line in report.lines() if line.startswith("backtests")]


def test_a_home_keeps_its_age(demo_minutes: Path, tmp_path: Path) -> None:
    """Only a new home is aged; another seed is another market."""
    home = shutil.copytree(demo_minutes, tmp_path / "home")
    before = Remains.of(home)
    app.demo(home, seconds=SECONDS, weeks=4)
    before.assert_same_in(home)
    with pytest.raises(HomeError, match="was made with `seed=` 7"):
        app.demo(home, seconds=SECONDS, seed=8)
