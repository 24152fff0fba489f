"""Opening a home, starting it again and doing a tick again are no events."""

import shutil
from pathlib import Path

import msgspec
import pytest

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.domain.units import MINUTE, SECOND
from tapebook.settings.config import FILE
from tapebook.tick.decide import Slot
from tapebook.tick.story import tick
from tests.replay import desk, storm
from tests.replay.home_fingerprint import Remains
from tests.replay.moments import base_before, moment
from tests.replay.stage import Stage


def test_opening_ten_times_changes_nothing(copied: Path) -> None:
    before, files = Remains.of(copied), {path.name for path in copied.iterdir()}
    for _ in range(10):
        with app.open(copied) as book:
            book.agents()
            book.runs()
            book.doctor()
        before.assert_same_in(copied)
    with app.open(copied) as book:
        assert book.verify() == []
    before.assert_same_in(copied)
    assert {path.name for path in copied.iterdir()} == files


def test_starting_ten_times_changes_nothing(copied: Path) -> None:
    before = Remains.of(copied)
    for _ in range(10):
        desk.trade(copied)
        before.assert_same_in(copied)


def test_starting_an_ended_demo_changes_nothing(place: Path, shown: tuple[Path, app.DemoReport]) -> None:
    home = shutil.copytree(shown[0], place / "home")
    before, report = Remains.of(home), shown[1].to_dict()
    again = app.demo(home, seconds=storm.SECONDS, seed=storm.SEED)
    assert again.to_dict() | {"home": report["home"]} == report
    before.assert_same_in(home)


def test_stops_on_the_way_change_nothing(recorded: Path, place: Path) -> None:
    for stop in range(desk.START, desk.END, 12 * MINUTE + 35 * SECOND):
        desk.trade(place / "home", until=stop)
    desk.trade(place / "home")
    Remains.of(recorded).assert_same_in(place / "home")


def test_every_tick_again_is_no_event(copied: Path) -> None:
    before = Remains.of(copied)
    with desk.opened(copied) as (rooms, _):
        deployments = {deployment.id: deployment for deployment in desk.deployments(rooms)}
        for run_id in rooms.book.run_ids(most=1_000):
            run = rooms.book.run(run_id)
            assert run
            again = tick(rooms, Slot(deployments[run.deployment], run.symbol, run.scheduled_for))
            assert again == run
    before.assert_same_in(copied)


@pytest.mark.parametrize("kind", ["opens", "turns", "closes"])
def test_tick_with_an_order_again_is_no_event_before_its_fill(kind: str, recorded: Path, place: Path) -> None:
    when = moment(recorded, kind)
    home = base_before(when, Stage(place))
    desk.trade(home, until=when)
    before = Remains.of(home)
    with desk.opened(home) as (rooms, _):
        for deployment in desk.deployments(rooms):
            for order, placed in rooms.book.working_orders(deployment.id):
                run = rooms.book.run(order.run_id)
                assert run and placed and run.status == "placed"
                for _ in range(3):
                    again = tick(rooms, Slot(deployment, order.symbol, run.scheduled_for))
                    assert again == run
    before.assert_same_in(home)


def test_tick_after_its_fill_gives_the_same_decision(recorded: Path, place: Path) -> None:
    when = moment(recorded, "opens")
    home = base_before(when, Stage(place))
    desk.trade(home, until=when)
    with desk.opened(home) as (rooms, clock):
        deployments = desk.deployments(rooms)
        (deployment, order), *_ = [
            (each, order) for each in deployments for order, _ in rooms.book.working_orders(each.id)
        ]
        placed = rooms.book.run(order.run_id)
        assert placed
        step = desk.steps_after(when)[0]
        clock.advance(step.at)
        rooms.tape.commit(step.observations)
        done = tick(rooms, Slot(deployment, order.symbol, placed.scheduled_for))
        assert done == msgspec.structs.replace(placed, status="done")
        assert rooms.book.working_orders(deployment.id) == []
    with app.open(home, clock=VirtualClock(when)) as book:
        assert book.verify() == []


def test_longer_demo_goes_on_where_a_shorter_one_ended(place: Path, demo_minutes: Path) -> None:
    # The second ends where that home ended, of the same seed.
    for seconds in (0.3, 0.75):
        app.demo(place / "twice", seconds=seconds, seed=7)
    twice, once = Remains.of(place / "twice"), Remains.of(demo_minutes)
    assert twice.tables == once.tables
    assert once.archive == twice.archive


def test_a_source_that_the_settings_drop_was_still_heard(place: Path, shown: tuple[Path, app.DemoReport]) -> None:
    home = shutil.copytree(shown[0], place / "home")
    with app.open(home) as book:
        told = [book.run(run["run_id"]) for run in book.runs(most=1_000)]
        assert any("capitalFlows" in (each["packet"] or "") for each in told)
    (home / FILE).write_text("", "utf-8")
    with app.open(home) as book:
        assert book.replay().different == [] and book.verify(tape=True) == []
