"""Commands on decisions: the list, one in full, and the replay that must give the same bytes."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.app import ReplayReport

Run = Callable[..., tuple[int, str, str]]

HOLD = {"action": "hold", "symbol": "BTC", "side": None, "notional_usd": 0.0, "reason": "no\ntrend", "rule": None}
OPEN = {
    "action": "open",
    "symbol": "BTC",
    "side": "long",
    "notional_usd": 1250.5,
    "leverage": 2,
    "order_type": "market",
    "reason": "trend is up",
    "rule": None,
}
REFUSED = OPEN | {"action": "adjust", "rule": "max_leverage", "detail": "2 is above 1"}
DECISION = {
    "run_id": "618dc3cf2da887a63b0f",
    "agent": "btc-5m",
    "agent_version": 1,
    "symbol": "BTC",
    "as_of": "2026-01-05T05:00:00.000Z",
    "trigger": "schedule",
    "engine": "trend",
    "tokens": 1495,
    "packet_sha256": "249d2e858e3136ce0c3e7dcd2a7ba1b3c7278519c9a8b84cde580de7b9e07c31",
    "status": "done",
    "actions": [OPEN, REFUSED],
    "degraded": [],
    "note": "",
    "error": None,
}


def test_runs_fit_80_columns(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    held, failed = DECISION | {"actions": [HOLD], "status": "held"}, DECISION | {"actions": [], "status": "failed"}
    facade.runs = lambda agent, *, most: [DECISION, held, failed]
    assert run("runs")[1].splitlines() == [
        "run                   as of             agent   symbol  status  decided",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     done    long 1,250, adj…",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     held    hold",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     failed  -",
    ]


def test_runs_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def runs(agent: str | None, *, most: int) -> list[Any]:
        asked.append((agent, most))
        return []

    facade.runs = runs
    assert run("runs")[:2] == (0, "no runs yet\n")
    assert run("runs", "--agent", "a", "--most", "3", "--json")[:2] == (0, "[]\n")
    assert asked == [(None, 20), ("a", 3)]


def test_one_run_is_told_in_full(run: Run, facade: SimpleNamespace) -> None:
    facade.run = lambda run_id: DECISION | {"run_id": run_id}
    assert run("runs", "show", "x")[1].splitlines() == [
        "run       x",
        "agent     btc-5m, version 1",
        "symbol    BTC",
        "as of     2026-01-05T05:00:00.000Z",
        "trigger   schedule",
        "engine    trend",
        "told      1,495 tokens, sha256 249d2e858e3136ce…",
        "status    done",
        "decided   open long BTC 1,250.50 USD at 2x, market: allowed",
        "          adjust long BTC 1,250.50 USD at 2x, market: refused by max_leverage, 2 is above 1",
        "because   trend is up",
        "          trend is up",
        "degraded  -",
        "note      -",
        "error     -",
    ]


def test_flags_before_show_count_too(run: Run, facade: SimpleNamespace) -> None:
    facade.run = lambda run_id: DECISION
    code, out, _ = run("runs", "--home", "before", "--json", "show", "x")
    assert (code, json.loads(out), facade.asked) == (0, DECISION, Path("before"))
    assert run("runs", "--home", "before", "show", "x", "--home", "after")[0] == 0
    assert facade.asked == Path("after")


def test_replay_of_a_real_home_is_equal(run: Run, home: str) -> None:
    # On a slow machine, progress appears on stderr.
    code, out, _ = run("replay", "--all", "--home", home, "--json")
    report = json.loads(out)
    assert (code, report["different"]) == (0, [])
    assert report["checked"] == report["equal"] > 20
    one = json.loads(run("runs", "--most", "1", "--home", home, "--json")[1])[0]["run_id"]
    assert run("replay", one, "--home", home) == (0, "1 of 1 packets are equal byte for byte\n", "")


def test_replay_that_differs_exits_3(run: Run, facade: SimpleNamespace) -> None:
    different = [f"{number}: inputs differ" for number in range(12)]
    facade.replay = lambda run_id, *, progress: ReplayReport(13, 1, different)
    code, out, err = run("replay", "--all")
    assert (code, out.splitlines()) == (3, ["1 of 13 packets are equal byte for byte", *different[:10]])
    assert err.startswith("error: 12 of 13 runs differ (--json lists all): ") and err.count("\n") == 1
    code, out, _ = run("replay", "--all", "--json")
    assert (code, json.loads(out)) == (3, {"checked": 13, "equal": 1, "different": different})


def test_unknown_run_is_refused(run: Run, home: str) -> None:
    for words in (["runs", "show", "x"], ["replay", "x"]):
        assert run(*words, "--home", home) == (2, "", "error: there is no run 'x'; `tapebook runs` lists them\n")
