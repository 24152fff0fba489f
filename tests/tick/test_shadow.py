"""A shadow knows what the real decision knew, trades nothing, changes nothing, and survives a kill."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api import app
from tapebook.desk import demo
from tapebook.domain.agent import AgentProfile, Deployment, RiskCaps
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import E6
from tapebook.tick.decide import Slot
from tapebook.tick.story import shadow_profile, shadow_slot, shadow_tick
from tapebook.wiring import Rooms
from tests.desk.pairs import PLAIN, SHADOW, SHADOWED, play
from tests.replay import desk
from tests.replay.home_fingerprint import fingerprint

MOST = 2**31 - 1


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The desk with shadows, after all its hours."""
    home = tmp_path_factory.mktemp("shadow") / "home"
    play(home, SHADOWED)
    return home


@contextmanager
def rooms_of(home: Path) -> Iterator[Rooms]:
    """The rooms of a home, to read."""
    with desk.opened(home) as (rooms, _):
        yield rooms


def all_runs(rooms: Rooms) -> list[DecisionRun]:
    """Every run of a home."""
    found = (rooms.book.run(run_id) for run_id in rooms.book.run_ids(most=MOST))
    return [run for run in found if run is not None]


def slot(agent: AgentProfile, **changes: object) -> Slot:
    """A scheduled decision of an agent."""
    plain = Slot(Deployment("local", f"{agent.name}.paper", agent, 1), "kPEPE", desk.START)
    return msgspec.structs.replace(plain, **changes)


def test_the_shadow_of_a_slot() -> None:
    main = slot(SHADOWED[0])
    found = shadow_slot(main)
    assert found is not None
    assert (found.trigger, found.branch, found.symbol, found.scheduled_for) == ("shadow", "shadow", "kPEPE", desk.START)
    assert (found.deployment.id, found.deployment.version) == (main.deployment.id, 1)
    assert (found.deployment.agent.context, found.deployment.agent.shadow) == (SHADOW, None)
    assert found.run_id() != main.run_id()
    assert shadow_slot(found) is None
    assert shadow_slot(slot(PLAIN[0])) is None
    assert shadow_slot(slot(SHADOWED[0], branch="arm-b")) is None
    assert shadow_profile(PLAIN[0]) == PLAIN[0]


def test_every_real_decision_has_its_shadow_and_both_knew_the_same(beside: Path) -> None:
    with rooms_of(beside) as rooms:
        runs = all_runs(rooms)
    keys: dict[str, dict[tuple[str, str, int], DecisionRun]] = {"main": {}, "shadow": {}}
    for run in runs:
        keys[run.branch][run.deployment, run.symbol, run.scheduled_for] = run
    assert keys["main"].keys() == keys["shadow"].keys() and len(keys["main"]) > 80
    for key, main in keys["main"].items():
        shadow = keys["shadow"][key]
        assert (main.trigger, shadow.trigger) == ("schedule", "shadow")
        assert (main.as_of, main.watermarks, main.engine) == (shadow.as_of, shadow.watermarks, shadow.engine)
        assert main.packet_sha256 != shadow.packet_sha256
    assert any(
        [action.action for action in main.actions] != [action.action for action in keys["shadow"][key].actions]
        for key, main in keys["main"].items()
    )


def test_a_shadow_places_nothing(beside: Path) -> None:
    with rooms_of(beside) as rooms:
        shadows = [run for run in all_runs(rooms) if run.trigger == "shadow"]
        wanted = [run for run in shadows if any(action.action != "hold" for action in run.actions)]
        assert wanted and {run.status for run in shadows} <= {"held", "rejected"}
        assert not any(rooms.book.orders_of_run(run.run_id) for run in shadows)


def test_a_shadow_changes_nothing_for_the_real_decisions(beside: Path, tmp_path: Path) -> None:
    play(tmp_path / "plain", PLAIN)
    told = list[dict[str, Any]]()
    for home in (beside, tmp_path / "plain"):
        with rooms_of(home) as rooms:
            runs = [run for run in all_runs(rooms) if run.branch == "main"]
            told.append({run.run_id: (run.packet_sha256, run.actions, run.verdicts, run.status) for run in runs})
        with app.open(home) as book:
            told[-1] |= {
                trade["id"]: trade for name in ("quick-2m", "votes-10m") for trade in book.trades(name, most=MOST)
            }
    assert told[0] == told[1] and len(told[0]) > 80


def test_shadows_are_replayed_with_their_own_context_and_verified(beside: Path) -> None:
    with app.open(beside) as book:
        report = book.replay()
        assert (report.different, report.equal > 160, book.verify()) == ([], True, [])


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("after", [41, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_before_a_shadow_writes_the_same_bytes(
    beside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    calls = 0

    def kill(rooms: Rooms, moment: Slot, main: DecisionRun) -> DecisionRun | None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise Killed
        return shadow_tick(rooms, moment, main)

    monkeypatch.setattr(demo, "shadow_tick", kill)
    with pytest.raises(Killed):
        play(tmp_path / "home", SHADOWED)
    play(tmp_path / "home", SHADOWED)
    assert fingerprint(tmp_path / "home") == fingerprint(beside)


def test_a_shadow_is_judged_by_the_account_of_the_real_decision(tmp_path: Path) -> None:
    """Both see the same bars and want the same; the cap has room for one of them, which the real one has taken."""
    caps, context = RiskCaps(max_position_usd_e6=1_500 * E6), PLAIN[0].context
    shadow = msgspec.structs.replace(context, memory=False)
    play(tmp_path / "home", [msgspec.structs.replace(PLAIN[0], caps=caps, shadow=shadow)])
    with rooms_of(tmp_path / "home") as rooms:
        runs = {(run.branch, run.symbol, run.scheduled_for): run for run in all_runs(rooms)}
    opened = [run for run in runs.values() if run.branch == "main" and run.status in ("placed", "done")]
    assert opened
    for run in opened:
        beside = runs["shadow", run.symbol, run.scheduled_for]
        assert beside.actions == run.actions
        assert [verdict.rule for verdict in beside.verdicts] == [verdict.rule for verdict in run.verdicts]


def test_a_manual_tick_has_a_shadow_too(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    with app.open(tmp_path / "home") as book:
        book.add_agent("mine", {"watch": "BTC", "engine": "hold", "shadow": "memory=off"})
        run = book.tick("mine", "BTC")
        found = book.compare_shadow("mine")
        assert (found.pairs, found.ticks[0].main_run, found.unpaired) == (1, run.run_id, 0)
        assert len(book.runs("mine")) == 2
