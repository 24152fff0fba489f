"""Commands on agents: tables for people, the façade's values as JSON, and the arguments that reach it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook import app
from tapebook.domain.instants import parse_instant

Run = Callable[..., tuple[int, str, str]]

TRADE = {
    "symbol": "ETH",
    "side": "short",
    "status": "closed",
    "entry_tick_at": "2026-01-05T04:00:00.000Z",
    "entry_price": 2122.5,
    "exit_price": 2131.1,
    "holding_minutes": 115.0,
    "net_pnl_usd": -1004.9,
    "exit_reason": "trend is gone",
}
STILL_OPEN = TRADE | {"symbol": "kPEPE", "status": "open", "entry_price": 0.01234} | dict.fromkeys(
    ("exit_price", "holding_minutes", "exit_reason")
)


def test_agents_are_listed(run: Run, home: str) -> None:
    assert run("agents", "--home", home)[1].splitlines() == [
        "agent     version  engine  broker  every min  watches",
        "alts-15m        1  trend   paper          15  SOL, HYPE, DOGE, kPEPE",
        "btc-5m          1  trend   paper           5  BTC, ETH",
        "hold-5m         1  hold    paper           5  BTC",
    ]


def test_agents_as_json_are_what_the_facade_gives(run: Run, home: str) -> None:
    code, out, err = run("agents", "--home", home, "--json")
    with app.open(home) as book:
        assert (code, json.loads(out), err) == (0, book.agents(), "")


def test_trades_fit_80_columns(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    facade.trades = lambda agent, *, status, most: [STILL_OPEN, TRADE, TRADE | {"exit_reason": "x" * 240}]
    assert run("trades", "btc-5m")[1].splitlines() == [
        "entry             symbol  side         in     out  min    net usd  why",
        "2026-01-05T04:00  kPEPE   short  0.012340       -    -  -1,004.90  -",
        "2026-01-05T04:00  ETH     short    2122.5  2131.1  115  -1,004.90  trend is gone",
        "2026-01-05T04:00  ETH     short    2122.5  2131.1  115  -1,004.90  xxxxxxxxxxxx…",
    ]


def test_trades_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def trades(agent: str, *, status: str | None, most: int) -> list[Any]:
        asked.append((agent, status, most))
        return []

    facade.trades = trades
    assert run("trades", "a")[:2] == (0, "no trades yet\n")
    assert run("trades", "a", "--status", "open", "--most", "3", "--json")[:2] == (0, "[]\n")
    assert asked == [("a", None, 20), ("a", "open", 3)]


def test_context_shows_what_the_engine_is_sent(run: Run, home: str) -> None:
    moment = "2026-01-05T00:30:00Z"
    with app.open(home) as book:
        packet = book.context("btc-5m", "BTC", as_of=parse_instant(moment))
    for words in ([moment], [str(packet.as_of)], ["2026-01-05T00:30"], ["2026-01-05T01:30+01:00"]):
        code, out, err = run("context", "btc-5m", "BTC", "--home", home, "--as-of", *words)
        assert (code, out, err) == (0, f"{packet.system}\n\n{packet.text}\n", "")


def test_context_as_json(run: Run, home: str) -> None:
    code, out, err = run("context", "btc-5m", "BTC", "--home", home, "--as-of", "2026-01-05T00:30", "--json")
    view = json.loads(out)
    assert (code, err) == (0, "")
    assert {"text", "system", "sections", "tokens", "sha256", "as_of"} <= view.keys()
    assert view["as_of"] == "2026-01-05T00:30:00.000Z"


def test_tick_shows_the_decision(run: Run, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    assert run("init", "--home", home)[0] == 0
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home)
    assert (code, err) == (0, "")
    assert "agent     btc-5m, version 1\n" in out and "decided   hold BTC: allowed\n" in out
    code, out, err = run("tick", "btc-5m", "BTC", "--home", home, "--json")
    assert (code, json.loads(out)["status"], err) == (0, "held", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("context nobody BTC", "there is no agent called 'nobody'; agents: alts-15m, btc-5m, hold-5m"),
        ("context btc-5m XYZ", "btc-5m does not watch 'XYZ'; it watches: BTC, ETH"),
        ("tick btc-5m XYZ", "btc-5m does not watch 'XYZ'; it watches: BTC, ETH"),
        ("trades nobody", "there is no agent called 'nobody'; agents: alts-15m, btc-5m, hold-5m"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(run: Run, home: str, words: str, says: str) -> None:
    assert run(*words.split(), "--home", home) == (2, "", f"error: {says}\n")
