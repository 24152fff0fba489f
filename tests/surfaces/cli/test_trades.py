"""Commands on what came of decisions: tables that fit a terminal, the façade's values as JSON."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.domain.views import Page

Run = Callable[..., tuple[int, str, str]]
EMPTY = '{\n  "rows": [],\n  "next": null\n}\n'

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
    facade.trades = lambda agent, **asked: Page([STILL_OPEN, TRADE, TRADE | {"exit_reason": "x" * 240}])
    assert run("trades", "btc-5m")[1].splitlines() == [
        "entry             symbol  side         in     out  min    net usd  why",
        "2026-01-05T04:00  kPEPE   short  0.012340       -    -  -1,004.90  -",
        "2026-01-05T04:00  ETH     short    2122.5  2131.1  115  -1,004.90  trend is gone",
        "2026-01-05T04:00  ETH     short    2122.5  2131.1  115  -1,004.90  xxxxxxxxxxxx…",
    ]


def test_trades_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def trades(agent: str, **options: Any) -> Page[Any]:
        asked.append((agent, options))
        return Page()

    facade.trades = trades
    assert run("trades", "a")[:2] == (0, "no trades yet\n")
    assert run("trades", "a", "--status", "open", "--most", "3", "--json")[:2] == (0, EMPTY)
    assert run("trades", "a", "--before", "t@7", "--as-of", "2026-01-05T04:00Z")[0] == 0
    plain = {"status": None, "most": 20, "before": None, "as_of": None}
    later = plain | {"before": "t@7", "as_of": "2026-01-05T04:00Z"}
    assert asked == [("a", plain), ("a", plain | {"status": "open", "most": 3}), ("a", later)]


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
    facade.orders = lambda agent, **asked: Page([ORDER, ORDER | limit])
    assert run("orders")[1].splitlines() == [
        "intended          deployment    symbol  side        size     limit  status     detail",
        "2026-01-05T04:00  btc-5m.paper  ETH     sell  0.47940936         -  filled     -",
        "2026-01-05T04:00  btc-5m.paper  kPEPE   sell   326690.62  0.012340  cancelled  xxxxxxx…",
    ]


def test_orders_pass_on_what_was_asked(run: Run, facade: SimpleNamespace) -> None:
    asked: list[Any] = []

    def orders(agent: str | None, **options: Any) -> Page[Any]:
        asked.append((agent, options))
        return Page()

    facade.orders = orders
    assert run("orders")[:2] == (0, "no orders yet\n")
    assert run("orders", "a", "--working", "--most", "3")[:2] == (0, "no orders are working\n")
    assert run("orders", "--before", "o1", "--json")[:2] == (0, EMPTY)
    plain = {"working": False, "most": 20, "before": None, "as_of": None}
    assert asked == [(None, plain), ("a", plain | {"working": True, "most": 3}), (None, plain | {"before": "o1"})]


def test_orders_of_a_real_home(run: Run, home: str) -> None:
    found = json.loads(run("orders", "--home", home, "--json")[1])["rows"]
    assert found and {"client_id", "run_id", "status", "size"} <= found[0].keys()
    own = json.loads(run("orders", "alts-15m", "--home", home, "--json")[1])["rows"]
    assert own == [order for order in found if order["deployment_id"] == "alts-15m.paper"]
    assert run("orders", "nobody", "--home", home)[0] == 2


def test_pages_of_a_real_home(run: Run, home: str) -> None:
    """Each page names the one behind it, and all of them together are the list."""
    for words in (["orders"], ["trades", "alts-15m"], ["runs"]):
        whole = json.loads(run(*words, "--most", "500", "--home", home, "--json")[1])
        first = json.loads(run(*words, "--most", "2", "--home", home, "--json")[1])
        rest = json.loads(run(*words, "--before", first["next"], "--most", "500", "--home", home, "--json")[1])
        assert len(whole["rows"]) > 2 and first["rows"] + rest["rows"] == whole["rows"]
        assert whole["next"] is None is rest["next"]
        early = json.loads(run(*words, "--as-of", "2025-01-01", "--home", home, "--json")[1])
        assert early == {"rows": [], "next": None}
        assert run(*words, "--before", "nothing", "--home", home)[0] == 2
        assert run(*words, "--as-of", "2999-01-01", "--home", home)[0] == 2


@pytest.mark.usefixtures("screen")
def test_a_screen_says_how_to_go_on(run: Run, home: str) -> None:
    shown = run("trades", "alts-15m", "--most", "1", "--home", home)[1].splitlines()
    following = json.loads(run("trades", "alts-15m", "--most", "1", "--home", home, "--json")[1])["next"]
    assert shown[-1] == f"more: --before {following}"
