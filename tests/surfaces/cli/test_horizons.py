"""Commands on the layers: a tree for people, rows for programs, the owner's word, one-line errors."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.api import app
from tests.desk.desks import START, desk
from tests.desk.exits import booked
from tests.horizons.makers import exit_at

Run = Callable[..., tuple[int, str, str]]


def row(layer: str, timeframe: str, key: str, value: Any, origin: str = "rollup") -> dict[str, Any]:
    """One entry as the façade gives it."""
    return {"layer": layer, "timeframe": timeframe, "scope": "a.paper", "key": key, "value": value, "origin": origin}


ROWS = [
    row("L1_LEGACY", "LEGACY", "core_principles", ["Cut losses fast", "[b]Let[/b] winners\x1b[31m run"], "curated"),
    row("L1_LEGACY", "LEGACY", "total_pnl", -12.5),
    row("L6_DAILY", "2026-02-04", "win_rate", 60.0),
    row("L6_DAILY", "2026-02-04", "win_rate_interval", [31.3, 83.2]),
    row("L6_DAILY", "2026-02-04", "win_rate_n", 10),
    row("L6_DAILY", "2026-02-04", "market_phase", "Bull"),
    row("L6_DAILY", "2026-02-04", "market_phase_n", 4),
    row("L7_REALTIME", "2026-02-04", "current_position_BTC", {"size": 0.5}, "live"),
]


@pytest.mark.usefixtures("screen")
def test_the_layers_are_a_tree(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    facade.horizons = SimpleNamespace(show=lambda agent, *, layer, as_of: ROWS)
    code, out, err = run("horizons", "show", "a")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "a",
        "├── L1 LEGACY",
        "│   ├── core_principles (curated)  Cut losses fast; [b]Let[/b] winner…",
        "│   └── total_pnl                  -12.5",
        "├── L6 2026-02-04",
        "│   ├── win_rate      60.0  (n=10, 95% 31.3 to 83.2)",
        "│   └── market_phase  Bull  (n=4)",
        "└── L7 2026-02-04",
        '    └── current_position_BTC  {"size": 0.5}',
    ]


def test_show_passes_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def show(agent: str | None, *, layer: str | None, as_of: str | None) -> list[Any]:
        asked.append((agent, layer, as_of))
        return ROWS if agent else []

    facade.horizons = SimpleNamespace(show=show)
    assert run("horizons", "show")[1].startswith("nothing yet: ")
    code, out, _ = run("horizons", "show", "a", "--layer", "L5", "--as-of", "2026-02-04T10:00", "--json")
    assert code == 0 and json.loads(out) == ROWS
    assert asked == [(None, None, None), ("a", "L5", "2026-02-04T10:00")]
    assert run("horizons", "show", "--as-of", "soon")[0] == 2


def test_rolling_up_and_cleaning_up_say_what_they_did(run: Run, facade: SimpleNamespace) -> None:
    done = {"a.paper": True, "": False}
    facade.horizons = SimpleNamespace(rollup=lambda agent: done, cleanup=lambda: {"L6_DAILY": 12, "L7_REALTIME": 0})
    assert run("horizons", "rollup")[1] == "a.paper: rolled up\nall agents: nothing new\n"
    assert json.loads(run("horizons", "rollup", "--json")[1]) == done
    assert run("horizons", "cleanup")[1].split() == ["layer", "dropped", "L6_DAILY", "12", "L7_REALTIME", "0"]
    assert json.loads(run("horizons", "cleanup", "--json")[1]) == {"L6_DAILY": 12, "L7_REALTIME": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [("Cut losses fast", "Cut losses fast"), ('["a", "b"]', ["a", "b"]), ("1.5", 1.5), ("null", None)],
)
def test_a_value_is_json_or_words(text: str, value: Any, run: Run, facade: SimpleNamespace) -> None:
    written: list[Any] = []
    facade.horizons = SimpleNamespace(set=lambda *what, agent: written.append((*what, agent)))
    assert run("horizons", "set", "L1", "LEGACY", "k", text)[1] == "k of LEGACY is set for all agents\n"
    assert run("horizons", "set", "L1", "LEGACY", "k", text, "--agent", "a")[1] == "k of LEGACY is set for a\n"
    said = json.loads(run("horizons", "set", "L1", "LEGACY", "k", text, "--json")[1])
    assert said == {"layer": "L1", "timeframe": "LEGACY", "key": "k", "value": value, "agent": None}
    assert [each[3:] for each in written] == [(value, None), (value, "a"), (value, None)]
    assert {each[:3] for each in written} == {("L1", "LEGACY", "k")}


@pytest.fixture
def traded(tmp_path: Path) -> str:
    """A home in which an agent has traded."""
    with desk(tmp_path / "home") as floor:
        agent = floor.hire()
        booked(floor.rooms, agent, [exit_at(START, 5.0)])
        floor.quote(BTC=100)
    return str(tmp_path / "home")


def test_from_a_trade_to_the_tree_in_a_home(run: Run, traded: str) -> None:
    where = ("--home", traded)
    assert run("horizons", "rollup", *where)[1] == "a.paper: rolled up\nall agents: rolled up\n"
    assert run("horizons", "set", "L1", "LEGACY", "never_again", "martingale", *where)[0] == 0
    code, out, _ = run("horizons", "show", "a", "--layer", "L5", "--json", *where)
    (sums,) = [entry for entry in json.loads(out) if entry["key"] == "weekly_pnl"]
    assert code == 0 and sums == {
        "layer": "L5_WEEKLY",
        "timeframe": "2026-W02",
        "scope": "a.paper",
        "key": "weekly_pnl",
        "value": 5.0,
        "origin": "rollup",
    }
    shown = run("horizons", "show", *where)[1]
    assert "never_again (curated)  martingale" in shown and "total_pnl              5.0" in shown
    with app.open(traded) as tb:
        assert "martingale" in tb.context("a", "BTC").text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "nobody"), "there is no agent called 'nobody'"),
        (("show", "--layer", "L9"), "'L9' is not a layer"),
        (("set", "L5", "2026-02", "k", "v"), "'2026-02' is no week: write it like 2026-W06"),
        (("set", "L1", "LEGACY", "k", "NaN"), "a value must be JSON"),
        (("set", "L1", "LEGACY", "k", "v", "--agent", "nobody"), "there is no agent called 'nobody'"),
        (("rollup", "nobody"), "there is no agent called 'nobody'"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], says: str, run: Run, traded: str) -> None:
    code, out, err = run("horizons", *words, "--home", traded)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ") and says in err
