"""Experience of a home: exported, imported, shown as of any moment, and built again from its outcomes."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.api.experience import ForgottenExperience, HomeExperience
from tapebook.api.open_home import OpenHome
from tapebook.domain.agent import AgentProfile, Deployment, ExperienceSettings
from tapebook.domain.units import DAY, HOUR, MINUTE, iso_text
from tapebook.errors import BadInput, HomeError
from tapebook.experience import ExperienceQuery
from tapebook.experience.events import draft_situation_seen
from tapebook.home import shared_lock
from tapebook.lab.replay import replay_runs
from tapebook.tick.memory import append_experience_snapshot
from tapebook.tick.story import deploy_agent
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply
from tests.experience.makers import T0, closed, run_of, sight, vote

AGENTS = ("a", "b")
# So many that the newest brings a fit of all before it, whether they are learned one by one or from files.
COUNT = 126


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    """A desk with two agents, of which one has learned from 130 trades in two chunks."""
    with desk(tmp_path / "home") as found:
        for name in AGENTS:
            found.hire(AgentProfile(name, ("BTC", "ETH"), engine="ensemble"))
        found.clock.advance(T0 + 40 * DAY)
        taught(found, deploy_agent(found.rooms.book, found.rooms.clock, "a"))
        yield found


def taught(floor: Desk, agent: Deployment) -> None:
    rng, book = random.Random(1), floor.rooms.book
    for chunk in ("2026-Q1", "2026-Q2"):
        since = book.head(agent.id)
        for number in range(COUNT // 2):
            add = number + (COUNT // 2) * (chunk == "2026-Q2")
            trade = closed(add, net_bps=rng.gauss(5, 30), symbol=rng.choice(("BTC", "ETH")))
            run = run_of(trade, engine="ensemble", votes=[vote("trend", "long"), vote("carry", "short")])
            append(floor, agent, [draft_situation_seen(f"r{add}", "BTC", sight(rng))])
            seq = book.head(agent.id)
            append(floor, agent, floor.rooms.experience.learn(agent.id, [(trade, run)], seq=seq))
        append_experience_snapshot(
            book,
            floor.rooms.experience,
            agent.id,
            label=chunk,
            since_seq=since,
            seq=book.head(agent.id),
            span=(T0, T0 + DAY),
        )


def append(floor: Desk, agent: Deployment, drafts: list) -> None:  # type: ignore[type-arg]
    floor.rooms.book.append(agent.id, drafts, expected_seq=floor.rooms.book.head(agent.id))


def home(floor: Desk) -> HomeExperience:
    return HomeExperience(OpenHome(floor.rooms))


def rows(floor: Desk, agent: str) -> tuple[object, ...]:
    """What a decision would be told."""
    room, name = floor.rooms.experience, f"{agent}.paper"
    ask, look = ExperienceQuery(T0 + 10 * DAY, "BTC", "chop_lowvol", ("trend", "carry")), sight(random.Random(9))
    return room.rows_as_of(name, ask, look, seq=floor.rooms.book.head(name), settings=ExperienceSettings())


def test_what_is_exported_and_imported_teaches_the_same(floor: Desk, tmp_path: Path) -> None:
    done = home(floor).export("a", tmp_path / "out")
    assert (done.outcomes, done.snapshots) == (COUNT, 2)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == COUNT + 4 and {"provider_performance.json", "regime_performance.json"} <= {*names}
    got = home(floor).import_files("b", tmp_path / "out")
    assert (got.new_outcomes, got.new_snapshots) == (COUNT, 2)
    assert rows(floor, "b") == rows(floor, "a")
    assert any(getattr(row, "kind", "") == "similar" for row in rows(floor, "b"))
    one, two = (dict(home(floor).show(name)) for name in AGENTS)
    assert {key: one[key] for key in one if key not in ("agent", "deployment_id", "fit")} == {
        key: two[key] for key in two if key not in ("agent", "deployment_id", "fit")
    }
    # The same folder again changes nothing, and what was imported can be exported again.
    again = home(floor).import_files("b", tmp_path / "out")
    assert (again.outcomes, again.new_outcomes, again.new_snapshots) == (COUNT, 0, 0)
    home(floor).export("b", tmp_path / "back")
    for path in (tmp_path / "out").iterdir():
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()
    assert floor.is_whole()


def test_one_bad_file_and_nothing_is_imported(floor: Desk, tmp_path: Path) -> None:
    home(floor).export("a", tmp_path / "out")
    path = tmp_path / "out" / "outcome_t7.json"
    good = json.loads(path.read_text())
    head = floor.rooms.book.head("b.paper")
    bad = {
        "outcome": "a win that lost",
        "situation": {"no such field": 1},
        "exit_time": iso_text(floor.clock.now() + HOUR),
    }
    for key, value in bad.items():
        path.write_text(json.dumps(good | {key: value}))
        with pytest.raises(BadInput, match=r"outcome_t7\.json: .*; nothing was imported") as refused:
            home(floor).import_files("b", tmp_path / "out")
        assert "\n" not in str(refused.value)
        assert floor.rooms.book.head("b.paper") == head
    # What is known already with another result is no second trade, and no reason to say nothing.
    path.write_text(json.dumps(good))
    home(floor).import_files("b", tmp_path / "out")
    head = floor.rooms.book.head("b.paper")
    path.write_text(json.dumps(good | {"realized_pnl": "12", "outcome": "win"}))
    with pytest.raises(
        BadInput, match=r"outcome_t7\.json: it is known as .* and told as .* net 12\.000000 USD; nothing"
    ):
        home(floor).import_files("b", tmp_path / "out")
    assert floor.rooms.book.head("b.paper") == head
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="has neither an outcome"):
        home(floor).import_files("b", tmp_path / "empty")
    with pytest.raises(BadInput, match="is not empty"):
        home(floor).export("a", tmp_path / "out")


def test_trades_that_ended_before_an_import_are_learned_from_all_the_same(floor: Desk, tmp_path: Path) -> None:
    home(floor).export("a", tmp_path / "out")
    trade_once(floor, deploy_agent(floor.rooms.book, floor.rooms.clock, "b"))
    home(floor).import_files("b", tmp_path / "out")
    found = floor.rooms.experience.outcomes("b.paper", seq=floor.rooms.book.head("b.paper"), most=999)
    assert len(found) == COUNT + 1
    assert floor.is_whole()


def test_show_is_as_of_a_moment_and_no_rate_is_bare(floor: Desk) -> None:
    now: Any = home(floor).show("a")
    assert (now["outcomes"], now["situations"], [each["chunk"] for each in now["snapshots"]]) == (
        COUNT,
        COUNT,
        ["2026-Q2", "2026-Q1"],
    )
    assert now["fit"] == {"first_situation": 1, "last_situation": 125}
    providers = {each["name"]: each for each in now["providers"]}
    assert providers.keys() == {"ensemble", "trend", "carry"}
    # Records of trades weigh nobody: trust is earned by twins, and here nobody has voted yet.
    assert now["members"] == []
    assert [providers[name]["weight"] for name in providers] == [None, None, None]
    assert providers["trend"]["regimes"][0]["regime"] == "chop_lowvol"
    assert providers["trend"]["trend"]["direction"] == "unclear"
    assert {each["name"] for each in now["assets"]} == {"BTC", "ETH"}
    assert now["calibration"][0]["confidence"] == "0.6-0.7"
    for table in ("providers", "regimes", "assets", "calibration"):
        assert all({"n", "win_rate"} <= row.keys() and "low" in row["win_rate"] for row in now[table])
    before = home(floor).show("a", as_of=T0)
    assert (before["outcomes"], before["providers"], before["snapshots"]) == (0, [], [])
    newest, _ = home(floor).snapshots("a")
    assert (newest["chunk"], newest["n"]) == ("2026-Q2", COUNT // 2)
    assert sum(each["n"] for each in newest["assets"]) == COUNT // 2
    assert {each["name"] for each in newest["providers"]} == {"ensemble", "trend", "carry"}
    assert home(floor).snapshots("a", as_of=T0) == []
    assert home(floor).show("b")["fit"] is None
    assert msgspec.json.encode(now)


def trade_once(floor: Desk, agent: Deployment) -> None:
    """Opens and closes a position."""
    floor.later(MINUTE, BTC=100)
    floor.say(agent, reply("open", "long", 100))
    floor.later(10_000, BTC=100)
    floor.work(agent)
    floor.later(MINUTE, BTC=101)
    floor.say(agent, reply("close"))
    floor.later(10_000, BTC=101)
    floor.work(agent)


def test_forget_by_source_and_its_undo_leave_old_packets_as_they_were(floor: Desk, tmp_path: Path) -> None:
    home(floor).export("a", tmp_path / "desk-1")
    agent = deploy_agent(floor.rooms.book, floor.rooms.clock, "b")
    home(floor).import_files("b", tmp_path / "desk-1")
    trade_once(floor, agent)
    floor.say(agent, reply("hold"))
    told, whole = rows(floor, "b"), dict(home(floor).show("b"))
    # The trade that ended was not learned from before its next decision; all of it is imported, but for that one.
    assert home(floor).forget("b", source="imported", dry_run=True).outcomes == COUNT
    head = floor.rooms.book.head("b.paper")
    assert home(floor).forget("b", source="desk-2") == ForgottenExperience(None, 0)
    assert floor.rooms.book.head("b.paper") == head
    gone = home(floor).forget("b", source="desk-1", until=iso_text(T0 + 90 * HOUR), reason="another market")
    assert gone.outcomes == 90 and gone.id is not None
    less = home(floor).show("b")
    assert less["outcomes"] == COUNT - 90 + 1
    assert less["forgotten"][0] | {"at": ""} == {
        **{"id": gone.id, "at": "", "outcomes": 90, "source": "desk-1", "provider": None, "since": None},
        **{"until": iso_text(T0 + 90 * HOUR), "reason": "another market", "undone_at": None},
    }
    assert rows(floor, "b") != told
    # What is forgotten is not exported, nor learned again from the files it came from.
    assert home(floor).export("b", tmp_path / "out").outcomes == COUNT - 90 + 1
    assert home(floor).import_files("b", tmp_path / "desk-1").new_outcomes == 0
    floor.say(agent, reply("hold"))
    assert home(floor).remember("b", gone.id).outcomes == 90
    assert rows(floor, "b") == told
    assert {name: dict(home(floor).show("b"))[name] for name in whole if name not in ("as_of", "forgotten")} == {
        name: whole[name] for name in whole if name not in ("as_of", "forgotten")
    }
    own = home(floor).forget("b", source="own", provider="ensemble")
    assert own.outcomes == 1
    assert home(floor).rebuild("b").differences == ()
    assert replay_runs(floor.rooms, floor.rooms.book.run_ids(most=99)).different == []
    assert floor.is_whole()


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({}, "say what to forget: a source, a provider, or exits since or until a time"),
        ({"since": "soon"}, "'soon' is not a time"),
        ({"until": "2999-01-01"}, "lies in the future"),
    ],
)
def test_what_cannot_be_forgotten_is_one_line(floor: Desk, terms: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput, match=re.escape(says)) as refused:
        home(floor).forget("a", **terms)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    for name in ("own", "imported", "", "x" * 81, "a\nb"):
        with pytest.raises(BadInput, match="is no name for an import"):
            home(floor).import_files("a", floor.rooms.home, source=name)


def test_rebuild_finds_nothing_and_puts_right_what_was_changed(floor: Desk) -> None:
    fine = home(floor).rebuild("a")
    assert (fine.outcomes, fine.situations, fine.differences) == (COUNT, COUNT, ())
    told = rows(floor, "a")
    floor.rooms.book_db.execute(sql("UPDATE experience_records SET wins = wins + 1 WHERE kind = 'provider'"))
    found = home(floor).rebuild("a")
    assert len(found.differences) == 3 and all(line.startswith("record provider") for line in found.differences)
    assert home(floor).rebuild("a") == fine
    assert rows(floor, "a") == told and floor.is_whole()


def test_rebuild_waits_for_nobody_but_writes_beside_nobody(floor: Desk) -> None:
    with shared_lock(floor.rooms.home):
        assert home(floor).rebuild("a").differences == ()
        floor.rooms.book_db.execute(sql("UPDATE experience_records SET wins = wins + 1 WHERE kind = 'provider'"))
        with pytest.raises(HomeError, match="is in use"):
            home(floor).rebuild("a")
