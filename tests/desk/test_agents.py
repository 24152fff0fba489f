"""Agents are added and changed: only what can run is saved, and only what differs makes a version."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapebook.api import app
from tapebook.book.decision_queue import QueuedDecision
from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.desk import agents, control
from tapebook.desk.executor import Executor
from tapebook.desk.worker import Worker
from tapebook.domain.canonical import canonical_json
from tapebook.domain.market import FundingRate
from tapebook.domain.units import HOUR, parse_instant
from tapebook.errors import BadInput, ConfigError, UnknownName
from tapebook.home import make_home
from tapebook.settings import profiles
from tapebook.tick.decide import Slot
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tests.desk.desks import Desk, desk, holding

NOW = parse_instant("2026-06-04T12:00:00Z")


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    """An empty home."""
    make_home(tmp_path / "home")
    opened = Rooms(tmp_path / "home", clock=VirtualClock(NOW))
    yield opened
    opened.close()


def add(rooms: Rooms, name: str, /, **words: Any) -> agents.SavedAgent:
    """Adds an agent from words."""
    return agents.add_agent(rooms, name, profiles.settings_from_mapping(words))


def edit(rooms: Rooms, name: str, /, **words: Any) -> agents.SavedAgent:
    """Changes an agent by words."""
    return agents.edit_agent(rooms, name, profiles.settings_from_mapping(words))


def test_a_change_makes_a_version_and_the_same_again_makes_none(rooms: Rooms) -> None:
    first = add(rooms, "a", watch="BTC", engine="trend", max_leverage=4)
    assert (first.version, first.new) == (1, True)
    second = edit(rooms, "a", max_leverage=3, strategy="Go.")
    assert (second.version, second.new) == (2, False)
    assert second.changes == [
        {"key": "strategy", "before": "", "after": "Go."},
        {"key": "max_leverage", "before": 4, "after": 3},
    ]
    head = rooms.book.head()
    again = edit(rooms, "a", max_leverage="3")
    assert (again.version, again.changes, rooms.book.head()) == (2, [], head)
    for version, leverage in ((1, 4), (2, 3)):
        found = rooms.book.agent("a", version=version)
        assert found is not None and found[1].caps.max_leverage == leverage


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, "a would watch nothing: name symbols with `watch=`, or `watch` in the file"),
        ({"watch": "BTC", "engine": "nope"}, "there is no 'nope' among the engines; choose one of: "),
        ({"watch": "BTC", "broker": "nope"}, "there is no 'nope' among the brokers; choose one of: "),
        ({"watch": "BTC", "members": "trend,nope:x"}, "there is no 'nope' among the engines; choose one of: "),
        ({"watch": "BTC", "members": "trend,ensemble"}, "`members` names ensemble: "),
        ({"watch": "BTC", "reflector": "nope"}, "there is no 'nope' among the reflectors; choose one of: "),
        ({"watch": "BTC", "engine": "hold", "engine_settings": "fast=5"}, "the engine hold takes no settings: "),
        (
            {"watch": "BTC", "engine": "trend", "engine_settings": "fast=40"},
            "engine trend: `engine_settings` cannot be",
        ),
        (
            {"watch": "BTC", "engine": "trend", "engine_settings": {"fast": 0}},
            "engine trend: `fast` of `engine_settings`",
        ),
        ({"watch": "BTC", "engine": "trend", "engine_settings": "fast"}, '"fast" of `engine_settings` has no value: '),
        ({"watch": "BTC", "engine_settings": {"fast": [1]}}, "`engine_settings` is "),
        ({"watch": "BTC", "engine_settings": {"fast": {"a": 1}}}, "`engine_settings` is "),
        ({"watch": "BTC", "engine_settings": {"Fast": 1}}, "`engine_settings` is "),
        ({"watch": "BTC", "engine_settings": {"fast": float("nan")}}, "`engine_settings` is "),
        ({"watch": "BTC", "engine_settings": 5}, "`engine_settings` is 5 but must be a section of the engine's own "),
        ({"watch": "BTC", "strategy": "word " * 5_000}, "strategy takes "),
        ({"watch": "BTC", "manual": "word\n" * 5_000}, "manual takes "),
        ({"watch": "BTC", "avoid": ["word " * 45] * 20}, "avoid takes "),
        ({"watch": "BTC", "name": "b"}, "the file is about 'b', not about 'a': "),
    ],
)
def test_what_could_not_run_is_not_saved(rooms: Rooms, words: dict[str, Any], says: str) -> None:
    with pytest.raises((BadInput, UnknownName, ConfigError)) as refused:
        add(rooms, "a", **words)
    assert str(refused.value).startswith(says) and "\n" not in str(refused.value)
    assert rooms.book.agents() == []
    add(rooms, "a", watch="BTC")
    if words and "name" not in words:
        with pytest.raises((BadInput, UnknownName, ConfigError)):
            edit(rooms, "a", **words)
        assert rooms.book.agent("a", version=2) is None


def test_settings_of_an_engine_are_part_of_the_version(rooms: Rooms) -> None:
    add(rooms, "a", watch="BTC", engine="trend")
    changed = edit(rooms, "a", engine_settings={"slow": 20, "fast": 5, "enter_bps": 7.5})
    after = {"enter_bps": "7.5", "fast": "5", "slow": "20"}
    assert (changed.version, changed.changes) == (2, [{"key": "engine_settings", "before": {}, "after": after}])
    assert edit(rooms, "a", engine_settings="fast=5,enter_bps=7.5,slow=20").version == 2
    (_, first), (_, second) = (found for at in (1, 2) if (found := rooms.book.agent("a", version=at)) is not None)
    assert rooms.engine(first) is not rooms.engine(second)
    with pytest.raises(ConfigError, match="engine carry: `engine_settings` has no `enter_bps`"):
        edit(rooms, "a", engine="carry")
    assert edit(rooms, "a", engine="carry", engine_settings="").version == 3
    # A profile without settings has the bytes it had before there were any.
    assert b"engine_settings" not in canonical_json(first) and b"engine_settings" in canonical_json(second)
    (_, third) = rooms.book.agent("a") or (0, second)
    assert b"engine_settings" not in canonical_json(third)


def test_names_are_checked_and_taken_once(rooms: Rooms) -> None:
    add(rooms, "a", watch="BTC")
    with pytest.raises(BadInput, match="there is an agent called 'a' already"):
        add(rooms, "a", watch="BTC")
    with pytest.raises(BadInput, match="cannot be the name"):
        add(rooms, "a/b", watch="BTC")
    with pytest.raises(UnknownName, match="there is no agent called 'b'; agents: a"):
        edit(rooms, "b", watch="BTC")


def test_an_owner_has_agents_of_their_own(rooms: Rooms) -> None:
    add(rooms, "a", watch="BTC")
    assert Book(rooms.log, rooms.book_db, owner="stranger").agents() == []


def test_cash_is_fixed_once_the_account_has_begun(rooms: Rooms) -> None:
    add(rooms, "a", watch="BTC", cash=500)
    edit(rooms, "a", cash=600)
    deploy_agent(rooms.book, rooms.clock, "a")
    with pytest.raises(BadInput, match="a has begun with its cash already"):
        edit(rooms, "a", cash=700)
    assert edit(rooms, "a", cash=600, max_leverage=2).version == 3


def test_symbols_the_tape_does_not_know_are_noted_once_it_knows_some(tmp_path: Path, demo_minutes: Path) -> None:
    with app.open(shutil.copytree(demo_minutes, tmp_path / "home")) as book:
        assert book.add_agent("a", {"watch": "BTC"}).notes == []
        said = book.edit_agent("a", {"watch": "BTC,XRP,btc,PEPE"})
        nowhere = "is neither in the registry of markets nor in the tape: did you mean"
        assert said.warnings == [
            "XRP is not listed by the exchange that this home listens to: `tapebook assets` lists what is",
            f"btc {nowhere} BTC?",
            f"PEPE {nowhere} kPEPE?",
        ]
        assert book.edit_agent("a", {"watch": "BTC,xyz:TSLA"}).notes == [
            "the tape has nothing of xyz:TSLA yet: check the spelling"
        ]


def test_near_names_of_the_registry_are_told(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    near = {
        "ETHH": "ETH",
        "bitcoin": "BTC",
        "TSLA": "cash:TSLA or flx:TSLA or km:TSLA",
        "arbitrum": "ARB",
        "DOGGE": "DOGE",
        "SHIB": "kSHIB",
    }
    with app.open(tmp_path / "home") as book:
        for typed, meant in near.items():
            (warning,) = book.add_agent(f"a-{typed.casefold()}", {"watch": typed, "max_leverage": 1}).warnings
            said = f"{typed} is neither in the registry of markets nor in the tape: did you mean {meant}"
            assert warning.startswith(said), warning
        (gone,) = book.add_agent("old", {"watch": "MATIC", "max_leverage": 1}).warnings
        assert gone == "MATIC was delisted: `tapebook assets` lists what is"


def test_a_file_and_words_together(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    (tmp_path / "a.toml").write_text('name = "a"\nwatch = ["BTC"]\nmax_leverage = 2\n[shadow]\nmemory = false\n')
    with app.open(tmp_path / "home") as book:
        book.add_agent("a", {"max_leverage": 3}, file=tmp_path / "a.toml")
        view = book.agent("a")
        assert (view["watch"], view["max_leverage"], (view["shadow"] or {})["memory"]) == (["BTC"], 3, "off")
        assert (view["deployment"], view["closed_trades"], view["net_pnl_usd"]) == (None, 0, 0.0)
        with pytest.raises(BadInput, match="the file is about 'a', not about 'b'"):
            book.add_agent("b", file=tmp_path / "a.toml")


def test_a_disabled_agent_refuses_a_tick(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    with app.open(tmp_path / "home") as book:
        book.edit_agent("btc-5m", {"enabled": False})
        with pytest.raises(BadInput, match="btc-5m is disabled: enable it with `tapebook agents enable btc-5m` first"):
            book.tick("btc-5m", "BTC")
        assert book.runs() == []
        book.edit_agent("btc-5m", {"enabled": True})
        assert book.tick("btc-5m", "BTC").status == "held"


def test_the_first_agents_of_a_home_can_decide(tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    with app.open(tmp_path / "home") as book:
        assert [agent["name"] for agent in book.agents()] == ["btc-5m", "demo-ensemble"]
        run = book.tick("demo-ensemble", "ETH")
        assert (run.engine, [vote.engine for vote in run.votes]) == (
            "ensemble",
            ["trend", "reversion", "breakout", "carry"],
        )


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


CLOSES = "nobody decides on it any more; margin and funding go on; `tapebook flatten a --symbol BTC` closes it"


def test_what_is_dropped_from_the_watchlist_while_it_is_held_is_warned_about(floor: Desk) -> None:
    holding(floor)
    assert edit(floor.rooms, "a", watch="ETH").warnings == [f"a holds BTC long 500.00 USD: {CLOSES}"]
    # Said when it happens, not at every change.
    assert edit(floor.rooms, "a", strategy="Go.").warnings == []
    assert edit(floor.rooms, "a", watch="BTC,SOL").warnings == [
        "a has 1 order for ETH at the broker: it can still fill; `tapebook flatten a --symbol ETH` cancels it"
    ]


def test_disabling_while_holding_is_warned_about(floor: Desk) -> None:
    holding(floor)
    said = edit(floor.rooms, "a", enabled=False)
    assert said.warnings == [
        f"a holds BTC long 500.00 USD: {CLOSES.replace('any more', 'while it is disabled')}",
        "a has 1 order for ETH at the broker: it can still fill; `tapebook flatten a --symbol ETH` cancels it",
    ]
    assert edit(floor.rooms, "a", enabled=True).warnings == []


def test_nothing_held_is_nothing_to_warn_about(floor: Desk) -> None:
    floor.hire()
    for words in ({"watch": "ETH"}, {"enabled": False}):
        assert edit(floor.rooms, "a", **words).warnings == []


@pytest.mark.parametrize("words", [{"watch": "ETH"}, {"enabled": False}])
def test_what_the_warning_says_is_what_happens(floor: Desk, words: dict[str, Any]) -> None:
    """The executor goes on to value it, to charge funding and to fill orders; flatten closes it."""
    agent = holding(floor)
    edit(floor.rooms, "a", **words)
    executor = Executor(floor.rooms)
    to_the_hour = HOUR - floor.clock.now() % HOUR
    floor.rooms.tape.commit([FundingRate("BTC", floor.clock.now() + to_the_hour, 10**8, 0)])
    floor.later(to_the_hour, BTC=80, ETH=9)
    executor.turn()
    assert floor.held(agent).keys() == {"BTC", "ETH"}
    account = floor.rooms.book.account(agent.id, seq=floor.rooms.book.head(agent.id))
    assert account.open_trades["BTC"].funding_usd_e6 < 0
    newest = floor.rooms.book.newest_snapshot(agent.id, seq=floor.rooms.book.head(agent.id))
    assert newest is not None and newest.marks["BTC"] == 80 * 10**8
    control.flatten(floor.rooms, [agent.id], reason="as the warning says", symbol="BTC")
    floor.later(10_000, BTC=80, ETH=9)
    executor.turn()
    assert floor.held(agent).keys() == {"ETH"} and floor.is_whole()


def test_slots_of_an_agent_that_was_removed_expire(floor: Desk) -> None:
    """A worker that finds decisions of it goes on: they are nobody's any more."""
    agent = floor.hire()
    floor.quote(BTC=100)
    slot = Slot(agent, "BTC", floor.clock.now())
    floor.rooms.work.enqueue([QueuedDecision(slot.run_id(), agent.id, "BTC", slot.scheduled_for)])
    agents.remove_agent(floor.rooms.book, floor.rooms.clock, "a", reason="enough")
    worker = Worker(floor.rooms)
    worker.turn()
    worker.close()
    run = floor.rooms.book.run(slot.run_id())
    assert run is not None and (run.status, run.error) == ("expired", "a was removed")
    assert floor.rooms.work.counts_by_state() == {}


def test_an_agent_that_is_removed_while_a_worker_looks_at_it_ends_no_worker(
    floor: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = floor.hire()
    slot = Slot(agent, "BTC", floor.clock.now())
    floor.rooms.work.enqueue([QueuedDecision(slot.run_id(), agent.id, "BTC", slot.scheduled_for)])
    agents.remove_agent(floor.rooms.book, floor.rooms.clock, "a", reason="enough")
    worker = Worker(floor.rooms)
    with monkeypatch.context() as before:
        # What the worker saw a moment before the removal.
        before.setattr(Worker, "_moved_away", lambda self, name, items: False)
        worker.turn()
    assert floor.rooms.work.counts_by_state() != {}
    worker.turn()
    worker.close()
    assert floor.rooms.work.counts_by_state() == {}


def test_an_agent_with_an_order_under_way_is_not_removed(floor: Desk) -> None:
    holding(floor)
    with pytest.raises(BadInput, match=r"^a holds BTC: close it with `tapebook flatten a`, then remove the agent$"):
        agents.remove_agent(floor.rooms.book, floor.rooms.clock, "a", reason="enough")
    control.flatten(floor.rooms, ["a.paper"], reason="by hand")
    with pytest.raises(BadInput, match="a holds BTC"):
        agents.remove_agent(floor.rooms.book, floor.rooms.clock, "a", reason="enough")
    floor.later(10_000, BTC=100, ETH=10)
    Executor(floor.rooms).turn()
    assert agents.remove_agent(floor.rooms.book, floor.rooms.clock, "a", reason="enough").version == 2
    assert floor.is_whole()
