"""The demo from the command line: progress on stderr, the report alone on stdout."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.api.app import DemoProgress
from tapebook.surfaces.cli import output

Run = Callable[..., tuple[int, str, str]]


def test_report_comes_alone_on_stdout(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "EVERY_SECONDS", 0.0)
    words = ["demo", "--weeks", "0", "--seconds", "0.5", "--fast", "--no-web", "--home", str(tmp_path / "home")]
    code, out, err = run(*words)
    assert code == 0
    assert "market time   2026-01-05T00:00 to 2026-01-05T00:10 UTC" in out
    assert err.splitlines()[-1].startswith("demo 100%  2026-01-05T00:10  rows ")
    code, out, _ = run(*words, "--json")
    report = json.loads(out)
    assert (code, report["seed"], report["market_until"]) == (0, 7, "2026-01-05T00:10:00.000Z")


def test_flags_reach_the_facade(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def demo(home: Path, *, progress: Callable[[DemoProgress], None], **options: Any) -> Any:
        asked.append((str(home), *(options[name] for name in ("seconds", "seed", "weeks", "paced"))))
        return SimpleNamespace(lines=lambda: ["market  1", "home    2"], to_dict=lambda: {"a": 1})

    facade.module.demo = demo
    assert run("demo", "--home", "x") == (0, "market  1\nhome    2\npage          tapebook web x\n", "")
    assert run("demo", "--home", "x", "--no-web") == (0, "market  1\nhome    2\n", "")
    chosen = ("--seconds", "2.5", "--seed", "9", "--weeks", "0", "--fast", "--json")
    assert run("demo", "--home", "x", *chosen)[1] == '{\n  "a": 1\n}\n'
    assert asked == [("x", 12.0, 7, 4.0, True), ("x", 12.0, 7, 4.0, True), ("x", 2.5, 9, 0.0, False)]


def test_another_seed_in_the_same_home_is_refused(run: Run, home: str) -> None:
    code, out, err = run("demo", "--seed", "8", "--home", home)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "was made with --seed 7" in err


def test_a_demo_runs_the_agents_that_were_added_and_changed(run: Run, demo: str) -> None:
    run("agents", "add", "mine", "--watch", "BTC,FOO", "--engine", "trend", "--home", demo)
    run("agents", "edit", "btc-5m", "--avoid", "chase", "--home", demo)
    run("agents", "disable", "hold-5m", "--home", demo)
    code, out, _ = run("demo", "--seconds", "3.5", "--fast", "--home", demo)
    assert code == 0 and "mine          0 round trips" in out
    decided = json.loads(run("runs", "--agent", "mine", "--json", "--home", demo)[1])["rows"]
    assert {each["symbol"]: each["status"] for each in decided} == {"BTC": "held", "FOO": "held"}
    assert {each["scheduled_for"][11:16] for each in decided} == {"01:05", "01:10"}
    changed = json.loads(run("runs", "--agent", "btc-5m", "--json", "--most", "1", "--home", demo)[1])["rows"]
    assert (changed[0]["agent_version"], changed[0]["scheduled_for"]) == (2, "2026-01-05T01:10:00.000Z")
    stopped = json.loads(run("runs", "--agent", "hold-5m", "--json", "--most", "1", "--home", demo)[1])["rows"]
    assert stopped[0]["scheduled_for"] == "2026-01-05T01:00:00.000Z"
    assert run("verify", "--home", demo)[0] == 0 and run("replay", "--all", "--home", demo)[0] == 0


def test_the_orders_of_a_tick_fill_and_flattening_closes_them(run: Run, demo: str) -> None:
    trend = ("--engine", "trend", "--set", "bar_minutes=15", "--set", "bar_count=100")
    run("agents", "add", "mine", "--watch", "SOL", *trend, "--home", demo)
    code, out, err = run("tick", "mine", "SOL", "--home", demo)
    assert (code, err) == (0, "")
    assert "status    done since" in out and ": filled" in out and "entry of long SOL" in out
    # Nothing but what was asked for is traded.
    (held,) = json.loads(run("trades", "mine", "--json", "--home", demo)[1])["rows"]
    assert held["status"] == "open" and held["turnover_usd"] < 1_001
    assert "is halted" in run("halt", "mine", "--home", demo)[1]
    said = run("flatten", "mine", "--home", demo)[1]
    assert said == "mine.paper: closed SOL, 0 orders cancelled; `tapebook halt` keeps it flat\n"
    (trade,) = json.loads(run("trades", "mine", "--json", "--home", demo)[1])["rows"]
    assert (trade["status"], trade["exit_reason"]) == ("closed", "external_flatten")
    assert run("verify", "--home", demo)[0] == 0 and run("replay", "--all", "--home", demo)[0] == 0


@pytest.mark.parametrize("whom", [(), ("--agent", "btc-5m")])
def test_curated_entries_show_at_once(run: Run, demo: str, whom: tuple[str, ...]) -> None:
    for key, words in (("core_principles", "cut losers"), ("never_again", "sell the low")):
        assert run("horizons", "set", "L1", "LEGACY", key, words, *whom, "--home", demo)[0] == 0
    assert "L1 LEGACY never_again (curated" in run("context", "btc-5m", "BTC", "--home", demo)[1]
    run("tick", "btc-5m", "BTC", "--home", demo)
    newest = json.loads(run("runs", "--agent", "btc-5m", "--most", "1", "--json", "--home", demo)[1])["rows"][0]
    assert newest["trigger"] == "manual"
    assert "never_again (curated" in run("runs", "show", newest["run_id"], "--packet", "--home", demo)[1]
