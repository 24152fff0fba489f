"""Commands on decisions: the list, one in full, and the replay that must give the same bytes."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.api.app import ReplayReport
from tapebook.domain.views import Page

Run = Callable[..., tuple[int, str, str]]

HOLD: dict[str, Any] = {
    "action": "hold",
    "symbol": "BTC",
    "side": None,
    "notional_usd": 0.0,
    "reason": "no\ntrend",
    "rule": None,
    "flags": [],
}
OPEN = {
    "action": "open",
    "symbol": "BTC",
    "side": "long",
    "notional_usd": 1250.5,
    "leverage": 2,
    "order_type": "market",
    "reason": "trend is up",
    "rule": None,
    "flags": [],
}
REFUSED = OPEN | {"action": "adjust", "rule": "max_leverage", "detail": "2 is above 1", "flags": ["71,000"]}
VOTE = {"engine": "trend", "action": "open", "side": "long", "confidence": 0.62, "weight": 1.2, "reason": "up"}
USAGE = {"model": "gpt-6-luna", "input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.0021, "attempts": 2}
ORDER = {
    "side": "buy",
    "size": 0.0153,
    "symbol": "BTC",
    "order_type": "limit",
    "limit_price": 65000.0,
    "reduce_only": False,
    "status": "cancelled",
    "detail": "expired",
}
FILL = {
    "happened_at": "2026-01-05T05:00:00.500Z",
    "side": "buy",
    "size": 0.0153,
    "symbol": "BTC",
    "price": 65000.1,
    "fee_usd": 0.45,
    "maker": True,
}
TRADE = {
    "role": "exit",
    "side": "short",
    "symbol": "BTC",
    "status": "closed",
    "holding_minutes": 115.0,
    "net_pnl_usd": -1.5,
}
DECISION = {
    "run_id": "618dc3cf2da887a63b0f",
    "agent": "btc-5m",
    "agent_version": 1,
    "symbol": "BTC",
    "as_of": "2026-01-05T05:00:00.000Z",
    "trigger": "schedule",
    "dry": False,
    "engine": "trend",
    "tokens": 1495,
    "packet_sha256": "249d2e858e3136ce0c3e7dcd2a7ba1b3c7278519c9a8b84cde580de7b9e07c31",
    "status": "done",
    "completed_at": "2026-01-05T05:00:01.500Z",
    "reason_key": None,
    "reply_key": "sha256/ab/abc",
    "actions": [OPEN, REFUSED],
    "degraded": [],
    "degraded_causes": [],
    "problems": [],
    "note": "",
    "error": None,
    "late_ms": 250,
    "votes": [],
    "usage": None,
    "sections": None,
    "packet": "what was sent",
    "reply": None,
    "reasoning": None,
    "orders": [],
    "fills": [],
    "trades": [],
}


@pytest.mark.usefixtures("screen")
def test_runs_fit_80_columns(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    held, failed = DECISION | {"actions": [HOLD], "status": "held"}, DECISION | {"actions": [], "status": "failed"}
    facade.runs = lambda agent, **asked: Page([DECISION, held, failed])
    assert run("runs")[1].splitlines() == [
        "run                   as of             agent   symbol  status  decided",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     done    long 1,250, adj…",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     held    hold",
        "618dc3cf2da887a63b0f  2026-01-05T05:00  btc-5m  BTC     failed  -",
    ]


def test_runs_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def runs(agent: str | None, **options: Any) -> Page[Any]:
        asked.append((agent, options))
        return Page()

    facade.runs = runs
    assert run("runs")[:2] == (0, "no runs yet\n")
    empty = '{\n  "rows": [],\n  "next": null\n}\n'
    assert run("runs", "--agent", "a", "--most", "3", "--before", "r1", "--json")[:2] == (0, empty)
    plain = {"most": 20, "before": None, "as_of": None}
    assert asked == [(None, plain), ("a", plain | {"most": 3, "before": "r1"})]


@pytest.mark.usefixtures("screen")
def test_one_run_is_told_in_full(run: Run, facade: SimpleNamespace) -> None:
    part = {"name": "system", "tokens": 350, "shown": 0, "dropped": 0}
    facade.run = lambda run_id: (
        DECISION
        | {
            "run_id": run_id,
            "sections": [part, part | {"name": "bars", "tokens": 1145, "shown": 88, "dropped": 12}],
            "votes": [VOTE],
            "usage": USAGE,
            "reason_key": "sha256/cd/cde",
            "orders": [ORDER, ORDER | {"limit_price": None, "order_type": "market", "reduce_only": True, "detail": ""}],
            "fills": [FILL],
            "trades": [TRADE, TRADE | {"role": "entry", "side": "long", "status": "open"}],
        }
    )
    assert run("runs", "show", "x")[1].splitlines() == [
        "run       x",
        "agent     btc-5m, version 1",
        "symbol    BTC",
        "as of     2026-01-05T05:00:00.000Z, 0.2 s after its time",
        "trigger   schedule",
        "engine    trend",
        "prompt    1,495 tokens, sha256 249d2e858e3136ce…",
        "          system 350",
        "          bars 1,145 (88 of 100 rows)",
        "status    done since 2026-01-05T05:00:01.500Z",
        "decided   open long BTC 1,250.50 USD at 2x, market: allowed",
        "          adjust long BTC 1,250.50 USD at 2x, market: refused by max_leverage, 2 is above 1",
        "because   trend is up",
        "          trend is up",
        "flagged   nothing in the packet explains 71,000",
        "votes     trend: open long, confidence 0.62, weight 1.20: up",
        "model     gpt-6-luna: 1,200 tokens in, 80 out, 0.002100 USD, attempts: 2",
        "thought   sha256/cd/cde of the archive; --reasoning prints it",
        "degraded  -",
        "error     -",
        "orders    buy 0.0153 BTC, limit at 65000: cancelled (expired)",
        "          buy 0.0153 BTC, market, reduce only: cancelled",
        "fills     2026-01-05T05:00:00.500Z buy 0.0153 BTC at 65000, fee 0.45 USD, maker",
        "trades    exit of short BTC: closed after 115 min, net -1.50 USD",
        "          entry of long BTC: open, net -1.50 USD",
    ]


def test_a_run_that_lacked_something_says_what_and_why(run: Run, facade: SimpleNamespace) -> None:
    lacked = {"degraded": ["lessons", "learning"], "degraded_causes": ["lessons: KeyError: 'x'", "archive: OSError"]}
    facade.run = lambda run_id: DECISION | lacked
    out = run("runs", "show", "x")[1].splitlines()
    at = next(number for number, line in enumerate(out) if line.startswith("degraded"))
    assert out[at : at + 4] == [
        "degraded  lessons",
        "          learning",
        "causes    lessons: KeyError: 'x'",
        "          archive: OSError",
    ]
    facade.runs = lambda agent, **asked: Page(
        [
            DECISION,
            DECISION | lacked,
            DECISION | lacked | {"trigger": "shadow"},
            DECISION | {"degraded_causes": ["archive: OSError"]},
        ]
    )
    listed = run("runs")[1].splitlines()[1:]
    assert ["(degraded)" in line for line in listed] == [False, True, False, False]
    assert "done (shadow, degraded)" in listed[2]


def test_a_run_that_did_nothing_is_short(run: Run, facade: SimpleNamespace) -> None:
    facade.run = lambda run_id: DECISION | {"actions": [HOLD], "error": "no reply"}
    out = run("runs", "show", "x")[1].splitlines()
    assert [line.split("  ")[0] for line in out[-4:]] == ["decided", "because", "degraded", "error"]
    assert out[-1] == "error     no reply"


def test_texts_alone(run: Run, facade: SimpleNamespace) -> None:
    facade.run = lambda run_id: DECISION
    assert run("runs", "show", "x", "--packet") == (0, "what was sent\n", "")
    said = "error: the reply of 618dc3cf2da887a63b0f is not kept: the setting archive.packets was off\n"
    assert run("runs", "show", "x", "--reply") == (2, "", said)
    said = "error: 618dc3cf2da887a63b0f has no reasoning: no model was asked, or its provider showed none\n"
    assert run("runs", "show", "x", "--reasoning") == (2, "", said)
    facade.run = lambda run_id: DECISION | {"reasoning": "first this\nthen that"}
    assert run("runs", "show", "x", "--reasoning") == (0, "first this\nthen that\n", "")


def test_a_shadow_is_marked_in_the_list(run: Run, facade: SimpleNamespace) -> None:
    facade.runs = lambda agent, **asked: Page([DECISION | {"trigger": "shadow", "status": "held"}])
    assert "held (shadow)" in run("runs")[1]
    assert json.loads(run("runs", "--json")[1])["rows"][0]["status"] == "held"


def test_a_traded_run_of_a_real_home_is_explained(run: Run, home: str) -> None:
    order = next(o for o in json.loads(run("orders", "--home", home, "--json")[1])["rows"] if o["status"] == "filled")
    found = json.loads(run("runs", "show", order["run_id"], "--home", home, "--json")[1])
    assert [each["client_id"] for each in found["orders"]] == [order["client_id"]]
    assert sum(fill["size"] for fill in found["fills"]) == pytest.approx(order["size"])
    assert {trade["role"] for trade in found["trades"]} <= {"entry", "exit"} and found["trades"]
    assert found["packet"].startswith("You are ") and found["reply"].startswith("{")
    out = run("runs", "show", order["run_id"], "--home", home)[1]
    assert "fills     " in out and "trades    " in out
    assert run("runs", "show", order["run_id"], "--packet", "--home", home)[1] == found["packet"] + "\n"


def test_tick_shows_the_decision(run: Run, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert run("init", "--home", home)[0] == 0
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home)
    assert (code, err) == (0, "")
    assert "agent     btc-5m, version 1\n" in out and "decided   hold BTC: allowed\n" in out
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home, "--json")
    assert (code, json.loads(out)["status"], err) == (0, "held", "")


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"status": "failed", "error": "401 from the provider"}, "error: run r failed: 401 from the provider\n"),
        (
            {"status": "rejected", "orders": [{"status": "rejected", "detail": "insufficient margin"}]},
            "error: run r was refused: insufficient margin\n",
        ),
    ],
)
def test_tick_that_came_to_nothing_is_an_error(
    run: Run, facade: SimpleNamespace, ended: dict[str, Any], said: str
) -> None:
    facade.made_earlier = lambda agent, symbol: None
    facade.tick = lambda agent, symbol: SimpleNamespace(run_id="r")
    facade.run = lambda run_id: DECISION | {"run_id": "r", "actions": [], "orders": [], "error": None} | ended
    code, out, err = run("tick", "btc-5m", "BTC", "--json")
    assert (code, json.loads(out)["status"], err) == (1, ended["status"], said)


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
    one = json.loads(run("runs", "--most", "1", "--home", home, "--json")[1])["rows"][0]["run_id"]
    assert run("replay", one, "--home", home) == (0, "1 of 1 packets are equal byte for byte\n", "")


@pytest.mark.usefixtures("screen")
def test_replay_that_differs_exits_3(run: Run, facade: SimpleNamespace) -> None:
    different = [f"{number}: inputs differ" for number in range(12)]
    facade.replay = lambda run_id, *, progress: ReplayReport(13, 1, different)
    code, out, err = run("replay", "--all")
    assert (code, out.splitlines()) == (3, ["1 of 13 packets are equal byte for byte", *different[:10]])
    assert err.startswith("error: 12 of 13 runs differ (--json lists all): ") and err.count("\n") == 1
    code, out, _ = run("replay", "--all", "--json")
    assert (code, json.loads(out)) == (3, {"checked": 13, "equal": 1, "different": different, "inputs_equal": []})


def test_replay_says_of_which_runs_the_inputs_alone_could_be_compared(run: Run, facade: SimpleNamespace) -> None:
    said = ["r1: the inputs are equal, read as by renderer 3"]
    facade.replay = lambda run_id, *, progress: ReplayReport(3, 2, [], said)
    assert run("replay", "--all") == (
        0,
        "2 of 3 packets are equal byte for byte; of 1 the inputs are equal and the text cannot be made again\n"
        f"{said[0]}\n",
        "",
    )


def test_unknown_run_is_refused(run: Run, home: str) -> None:
    for words in (["runs", "show", "x"], ["replay", "x"]):
        assert run(*words, "--home", home) == (2, "", "error: there is no run 'x'; `tapebook runs` lists them\n")


def test_a_tick_on_a_market_that_stands_names_the_run_that_was_made_earlier(run: Run, demo: str) -> None:
    run("agents", "add", "mine", "--watch", "BTC", "--engine", "hold", "--home", demo)
    tick = ("tick", "mine", "BTC", "--home", demo)
    first = json.loads(run(*tick, "--json")[1])
    assert (first["status"], first["made_earlier"]) == ("held", False)
    code, out, err = run(*tick)
    assert (code, err) == (0, "")
    assert out == (
        f"made earlier: run {first['run_id']} as of {first['as_of']} (held); the market has not moved since\n"
        f"`tapebook demo --seconds 4 --home {demo}` moves it on, `tapebook runs show {first['run_id']}` shows the run\n"
    )
    again = json.loads(run(*tick, "--json")[1])
    assert (again["run_id"], again["made_earlier"]) == (first["run_id"], True)
    # Whatever changes what is told makes another decision.
    for change in (["agents", "edit", "mine", "--strategy", "Wait."], ["horizons", "set", "L1", "LEGACY", "a", "b"]):
        assert run(*change, "--home", demo)[0] == 0
        other = json.loads(run(*tick, "--json")[1])
        assert (other["agent_version"], other["made_earlier"]) == (2, False)
    assert len(json.loads(run("runs", "--agent", "mine", "--json", "--home", demo)[1])["rows"]) == 3


def test_runs_are_found_by_the_beginning_of_their_id(run: Run, home: str) -> None:
    ids = sorted(
        each["run_id"] for each in json.loads(run("runs", "--most", "200", "--json", "--home", home)[1])["rows"]
    )
    first, second = ids[0], ids[-1]
    short = next(first[:length] for length in range(1, 20) if not ids[1].startswith(first[:length]))
    assert json.loads(run("runs", "show", short, "--json", "--home", home)[1])["run_id"] == first
    assert json.loads(run("runs", "show", short.upper(), "--json", "--home", home)[1])["run_id"] == first
    assert run("replay", short, "--home", home)[1].startswith("1 of 1 packets")
    assert run("compare", short, second[:12], "--json", "--home", home)[0] == 0
    several = next(one[:1] for one, other in pairwise(ids) if one[0] == other[0])
    fit = [each for each in ids if each.startswith(several)]
    for words in (["runs", "show", several], ["replay", several], ["compare", several, second]):
        code, out, err = run(*words, "--home", home)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"error: {several!r} begins the ids of {len(fit)} runs: {fit[0]} (") and fit[1] in err
        assert err.endswith("write more of it\n")
    for nothing in ("zz", "", "%", "_", "'"):
        assert run("runs", "show", nothing, "--home", home)[2].startswith(f"error: there is no run {nothing!r}; ")


def test_an_entry_names_its_run_by_the_beginning_of_its_id(run: Run, demo: str) -> None:
    known = json.loads(run("runs", "--agent", "btc-5m", "--most", "1", "--json", "--home", demo)[1])["rows"][0][
        "run_id"
    ]
    said = run("recall", "append", "note", "btc-5m", "It held.", "--run", known[:9], "--home", demo)
    assert (said[0], said[2]) == (0, "")
    assert json.loads(run("recall", "writes", "--json", "--home", demo)[1])[0]["run_id"] == known
    assert "there is no run 'zz'" in run("recall", "append", "note", "btc-5m", "x", "--run", "zz", "--home", demo)[2]
