"""Commands on what came of decisions: tables that fit a terminal, the façade's values as JSON."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

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
STILL_OPEN = (
    TRADE
    | {"symbol": "kPEPE", "status": "open", "entry_price": 0.01234}
    | dict.fromkeys(("exit_price", "holding_minutes", "exit_reason"))
)


@pytest.mark.usefixtures("screen")
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


ORDER = {
    "intended_at": "2026-01-05T04:00:00.000Z",
    "deployment_id": "btc-5m.paper",
    "symbol": "ETH",
    "side": "sell",
    "size": 0.47940936,
    "limit_price": None,
    "status": "filled",
    "detail": "",
}


@pytest.mark.usefixtures("screen")
def test_orders_cut_only_the_detail(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    limit = {"symbol": "kPEPE", "limit_price": 0.01234, "size": 326690.62, "status": "cancelled", "detail": "x" * 99}
    facade.orders = lambda agent, *, working, most: [ORDER, ORDER | limit]
    assert run("orders")[1].splitlines() == [
        "intended          deployment    symbol  side        size     limit  status     detail",
        "2026-01-05T04:00  btc-5m.paper  ETH     sell  0.47940936         -  filled     -",
        "2026-01-05T04:00  btc-5m.paper  kPEPE   sell   326690.62  0.012340  cancelled  xxxxxxx…",
    ]


def test_orders_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def orders(agent: str | None, *, working: bool, most: int) -> list[Any]:
        asked.append((agent, working, most))
        return []

    facade.orders = orders
    assert run("orders")[:2] == (0, "no orders yet\n")
    assert run("orders", "a", "--working", "--most", "3")[:2] == (0, "no orders are working\n")
    assert run("orders", "--json")[:2] == (0, "[]\n")
    assert asked == [(None, False, 20), ("a", True, 3), (None, False, 20)]


def test_orders_of_a_real_home(run: Run, home: str) -> None:
    found = json.loads(run("orders", "--home", home, "--json")[1])
    assert found and {"client_id", "run_id", "status", "size"} <= found[0].keys()
    own = json.loads(run("orders", "alts-15m", "--home", home, "--json")[1])
    assert own == [order for order in found if order["deployment_id"] == "alts-15m.paper"]
    assert run("orders", "nobody", "--home", home)[0] == 2
