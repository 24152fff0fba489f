"""Commands that stop money: one plain line, JSON when asked, and nothing for names that do not exist."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tapebook
from tapebook.api import app
from tapebook.api.app import FlattenReport
from tests.desk.desks import desk, reply

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with its first agents and no market."""
    app.init(tmp_path / "home")
    return str(tmp_path / "home")


def test_halt_and_resume_of_the_desk(run: Run, home: str) -> None:
    assert run("halt", "--home", home) == (0, "the desk is halted: nothing is sent until `tapebook resume`\n", "")
    again = run("halt", "--home", home)
    assert again == (0, "the desk was halted already: nothing is sent until `tapebook resume`\n", "")
    assert run("resume", "--home", home) == (0, "the desk may send orders again\n", "")
    assert run("resume", "--home", home) == (0, "the desk was not halted\n", "")


def test_halt_and_resume_of_one_agent(run: Run, home: str) -> None:
    said = run("halt", "btc-5m", "--reason", "odd fills", "--home", home)
    assert said == (0, "btc-5m is halted: nothing is sent until `tapebook resume btc-5m`\n", "")
    assert run("resume", "--home", home)[1] == "the desk was not halted; still halted: btc-5m.paper\n"
    run("halt", "--home", home)
    assert run("resume", "btc-5m", "--home", home)[1] == "btc-5m may send orders again; still halted: the whole desk\n"


def test_halt_as_json(run: Run, home: str) -> None:
    code, out, err = run("halt", "btc-5m", "--reason", "odd fills", "--home", home, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"subject": "btc-5m.paper", "changed": True, "halts": {"btc-5m.paper": "odd fills"}}
    with tapebook.open(home) as book:
        assert book.halt("btc-5m", reason="odd fills").changed is False


@pytest.mark.parametrize("command", ["halt", "resume", "flatten"])
def test_unknown_agent_is_an_error_in_one_line(run: Run, home: str, command: str) -> None:
    code, out, err = run(command, "nobody", "--home", home)
    assert (code, out) == (2, "")
    assert err.startswith("error: there is no agent called 'nobody'; agents: ") and err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["btc-5m", "--all"]])
def test_flatten_needs_one_agent_or_all(run: Run, home: str, words: list[str]) -> None:
    code, out, err = run("flatten", *words, "--home", home)
    assert (code, out) == (2, "") and "--all" in err and err.count("\n") == 1


def test_flatten_where_nothing_was_traded(run: Run, home: str) -> None:
    assert run("flatten", "--all", "--home", home) == (0, "nothing was ever traded here\n", "")
    run("tick", "btc-5m", "BTC", "--home", home)
    said = run("flatten", "btc-5m", "--home", home)
    words = "btc-5m.paper: closing no position, 0 orders cancelled; `tapebook halt` keeps it flat\n"
    assert said == (0, words, "")
    code, out, _ = run("flatten", "--all", "--home", home, "--json")
    assert (code, json.loads(out)) == (
        0,
        [{"deployment": "btc-5m.paper", "closing": [], "cancelled": 0, "left_to_desk": False, "closed": []}],
    )


def test_flatten_reaches_what_an_agent_holds(tmp_path: Path) -> None:
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100)
        floor.say(agent, reply("open", "long", 500))
        floor.later(10_000, BTC=100)
        floor.work(agent)
        floor.later(10_000, BTC=100)
    with app.open(tmp_path / "home", clock=floor.clock) as book:
        assert book.flatten("a", reason="enough") == [FlattenReport("a.paper", ["BTC"], 0, False)]
        assert book.flatten() == [FlattenReport("a.paper", ["BTC"], 0, False)]
        assert [order["status"] for order in book.orders("a", working=True)] == ["placed"]
        assert book.verify() == []


def test_flatten_of_one_symbol(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "home")
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        floor.quote(BTC=100, ETH=10)
        floor.say(agent, reply("open", "long", 500))
        floor.say(agent, reply("open", "long", 500, symbol="ETH"), symbol="ETH")
        floor.later(10_000, BTC=100, ETH=10)
        floor.work(agent)
        assert len(floor.held(agent)) == 2
        now = floor.clock.now()
    # The day of this home: to follow its positions for all the months since takes a minute.
    monkeypatch.setattr("tapebook.clock.SystemClock.now", lambda self: now)
    code, out, err = run("flatten", "a", "--symbol", "BTC", "--home", home)
    assert (code, err) == (0, "") and out.startswith("a.paper: closing BTC, 0 orders cancelled")
    code, out, err = run("flatten", "a", "--symbol", "btc", "--home", home)
    assert (code, out) == (2, "")
    assert err == "error: nothing here trades 'btc'; symbols: BTC, ETH\n"
    code, out, _ = run("flatten", "--all", "--symbol", "ETH", "--home", home, "--json")
    assert [each["closing"] for each in json.loads(out)] == [["ETH"]]
