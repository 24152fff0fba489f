"""Twins in the tick: learned from votes, kept once a day, the same for every reader, and followed by the ensemble."""

import random
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from tapebook.api.experience import HomeExperience
from tapebook.api.open_home import OpenHome
from tapebook.decision import EngineAnswer
from tapebook.decision.engines.ensemble import EnsembleEngine
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, ExperienceSettings, ReflectionSettings
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, SlotMark
from tapebook.domain.units import HOUR
from tapebook.experience.memories import TwinMemory, twin_differences
from tapebook.experience.twins import TwinsBySymbol
from tapebook.lab.replay import replay_runs
from tapebook.tick.decide import Slot
from tapebook.tick.memory import runs_of
from tapebook.tick.story import tick
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply

PROFILE = AgentProfile(
    *("a", ("BTC",)),
    cadence_ms=HOUR,
    engine="ensemble",
    members=("bull", "bear"),
    context=ContextProfile(bar_minutes=1, bar_count=15),
    reflection=ReflectionSettings("off"),
)


class Says:
    """A member that always wants one side."""

    identity = ""

    def __init__(self, side: str) -> None:
        self._side = side

    def decide(self, packet: Packet) -> EngineAnswer:
        """An open on its side."""
        return EngineAnswer(reply("open", self._side, 100, symbol=packet.symbol, confidence=0.6))


ENSEMBLE = EnsembleEngine([("bull", Says("long")), ("bear", Says("short"))])


class Alternates:
    """A member that wants another side every hour."""

    identity = ""

    def decide(self, packet: Packet) -> EngineAnswer:
        """An open on the side of the hour."""
        side = ("long", "short")[packet.as_of // HOUR % 2]
        return EngineAnswer(reply("open", side, 100, symbol=packet.symbol, confidence=0.6))


# With a third that changes its mind all the time.
RESTLESS = EnsembleEngine([("bull", Says("long")), ("bear", Says("short")), ("coin", Alternates())])


def decide(floor: Desk, agent: Deployment, price: float, *, restless: bool = False) -> DecisionRun:
    """One hour later, at a price."""
    floor.later(HOUR, BTC=price)
    slot = Slot(agent, "BTC", floor.clock.now())
    with mock.patch.object(floor.rooms, "engine", lambda _agent: RESTLESS if restless else ENSEMBLE):
        run = tick(floor.rooms, slot)
    floor.later(10_000, BTC=price)
    floor.work(agent)
    return run


def rising(floor: Desk, agent: Deployment, count: int) -> list[DecisionRun]:
    """Decisions in a market that goes up."""
    rng, price, runs = random.Random(7), 100.0, []
    for _ in range(count):
        price *= 1.004 + rng.gauss(0, 0.002)
        runs.append(decide(floor, agent, price))
    return runs


def twins_of(floor: Desk, agent: Deployment, *, cold: bool = False, seq: int | None = None) -> TwinsBySymbol:
    """What a reader knows; a cold one has nothing in memory."""
    rooms = floor.rooms
    memory = TwinMemory(rooms.book_db, owner=rooms.config.owner) if cold else rooms.experience.twins
    head = rooms.book.head(agent.id) if seq is None else seq
    return memory.as_of(agent.id, seq=head, runs=runs_of(rooms.book, rooms.log, agent.id))


def test_the_ensemble_follows_whose_twin_earns(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        runs = rising(floor, agent, 120)
        assert runs[0].actions[0].action == "hold"
        # Two that never agree are no majority; whose account grows is trusted with more and more.
        assert runs[-1].votes[0].weight_e4 > 7_000 > 300 > runs[-1].votes[1].weight_e4
        assert floor.rooms.book.account(agent.id, seq=floor.rooms.book.head(agent.id)).portfolio.positions
        gains = {each.name: each.gain_e9 for each in twins_of(floor, agent)["BTC"].accounts}
        assert gains["bull"] > 0 == gains["cash"] > gains["bear"]
        text = (floor.rooms.archive.get(runs[-1].packet_key or "") or b"").decode()
        assert "- provider bull: 0." in text and "- provider cash: 0." in text
        assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=999)).different == []
        assert floor.is_whole()
        # What is shown is the trust that weighed the votes, and a twin's account as of that moment.
        members: Any = HomeExperience(OpenHome(floor.rooms)).show("a")["members"]
        shown = {each["name"]: each for each in members}
        assert list(shown) == ["cash", "equal", "bull", "bear"]
        assert shown["bull"]["weight"] > 0.7 > 0.03 > shown["bear"]["weight"]
        assert sum(each["weight"] for each in shown.values()) == pytest.approx(1, abs=0.001)
        assert shown["bull"]["symbols"][0]["gain_bps"] == round(gains["bull"] / 100_000, 1)
        first = HomeExperience(OpenHome(floor.rooms)).show("a", as_of=runs[0].as_of + 1)["members"]
        assert {each["name"]: each["gain_bps"] for each in first} == dict.fromkeys(shown, 0.0)


def test_every_reader_knows_the_same_as_of_every_event(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(PROFILE)
        rising(floor, agent, 60)
        rooms, head = floor.rooms, floor.rooms.book.head(agent.id)
        assert twins_of(floor, agent) == twins_of(floor, agent, cold=True)
        kept = rooms.experience.twins.kept_between(agent.id, seq=head)
        # Sixty hours are three days, and a day begins with keeping what was known.
        assert 2 <= len(kept) <= 3
        warm = TwinMemory(rooms.book_db, owner=rooms.config.owner)
        for seq in range(1, head + 1, 7):
            found = warm.as_of(agent.id, seq=seq, runs=runs_of(rooms.book, rooms.log, agent.id))
            assert found == twins_of(floor, agent, cold=True, seq=seq)
        runs = runs_of(rooms.book, rooms.log, agent.id)
        assert twin_differences(warm, agent.id, seq=head, runs=runs) == []
        rooms.book_db.execute(sql(f"UPDATE experience_twins SET twins_json = '[]' WHERE seq = {kept[0][0]}"))
        assert twin_differences(warm, agent.id, seq=head, runs=runs)
        assert not floor.is_whole()


@pytest.mark.parametrize("chosen", [ExperienceSettings(enabled=False), ExperienceSettings()])
def test_twins_are_learned_while_experience_is_off_and_weigh_nothing(
    tmp_path: Path, chosen: ExperienceSettings
) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire(replace(PROFILE, experience=chosen))
        runs = rising(floor, agent, 40)
        assert isinstance(runs[-1].mark, SlotMark)
        assert twins_of(floor, agent)["BTC"].slots == 39
        weights = [vote.weight_e4 for vote in runs[-1].votes]
        assert (weights == [10_000, 10_000]) == (not chosen.enabled)


ENDS = [({"learning_rate_e4": 1}, {"learning_rate_e4": 10_000}), ({"context_window": 1}, {"context_window": 1_000})]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        *(pytest.param(*ends, marks=pytest.mark.proof) for ends in ENDS),
        pytest.param({"max_memory_size": 1}, {"max_memory_size": 10**6}, marks=pytest.mark.proof),
    ],
)
def test_the_ends_of_the_settings_trade_differently(tmp_path: Path, low: dict[str, int], high: dict[str, int]) -> None:
    traded = []
    for number, chosen in enumerate((low, high)):
        with desk(tmp_path / str(number)) as floor:
            agent = floor.hire(replace(PROFILE, experience=replace(ExperienceSettings(), **chosen)))
            prices = [100 * 1.004**number for number in range(60)]
            prices += [126 * 0.996**number for number in range(50)]
            runs = [decide(floor, agent, price, restless=True) for price in prices]
            traded.append([(run.as_of, run.actions[0].action) for run in runs if run.actions[0].action != "hold"])
    assert traded[0] != traded[1]
