"""The programs of `examples/` run offline, end to end, and every packet they were given can be made again."""

import inspect
import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tapebook
from tapebook.api import app

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An example as its users load it: by its file, with its neighbours beside it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for each in (name, "market"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    return __import__(name)


def check(home: Path, agent: str, report: tapebook.ReplayReport, *, trades: int) -> None:
    """All packets replay, and trades were remembered with reasons and learned from."""
    assert report.checked == report.equal > 0
    with app.open(home) as tb:
        closed = tb.trades(agent, status="closed")
        assert len(closed) >= trades and tb.verify() == []
        assert all(each["entry_reason"] and each["entry_snapshot_id"] for each in closed)
        assert tb.experience.show(agent)["outcomes"] == len(closed)


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text("utf-8")
    names = [path.stem for path in EXAMPLES.glob("*.py") if path.stem != "market"]
    assert len(names) == 5 and [name for name in names if f'load("{name}"' not in text] == []
    loop = (EXAMPLES / "loop.py").read_text("utf-8").split("def decide")[1].split("if __name__")[0]
    assert len([line for line in loop.splitlines() if line.strip()]) <= 30


def test_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    check(home, "loop", load("loop", monkeypatch).run(str(home), count=200), trades=1)


def test_a_langgraph_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langgraph", reason="langgraph is not installed")
    home = tmp_path / "home"
    check(home, "graph", load("langgraph_node", monkeypatch).run(str(home), count=110), trades=2)


class ModelServer(BaseHTTPRequestHandler):
    """Speaks the chat format: asks for what is known, gets a decision wrong, corrects it, and says a sentence."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [each["content"] for each in asked["messages"] if each["role"] == "tool"]
        holds = any("position_side: long" in text for text in said)
        calls: list[Any] = [("what_is_known", {}), ("decide", {"action": "buy", "confidence": 0.5, "reason": "r"})]
        right = {"action": "close"} if holds else {"action": "open", "side": "long", "notional_usd": 150.0}
        calls.append(("decide", right | {"confidence": 0.6, "reason": "by turns"}))
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if len(said) < len(calls):
            name, arguments = calls[len(said)]
            function = {"name": name, "arguments": json.dumps(arguments)}
            message = {"role": "assistant", "content": None}
            message["tool_calls"] = [{"id": f"call{len(said)}", "type": "function", "function": function}]
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def model_url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), ModelServer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_an_agent_of_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_url: str) -> None:
    home = tmp_path / "home"
    check(home, "tools", load("tool_agent", monkeypatch).run(str(home), model_url, "local", count=124), trades=2)
    with app.open(home) as tb:
        assert {each["engine"] for each in tb.runs("tools")} == {"local"}


# As freqtrade documents them for strategies of interface version 3; each is called with keywords alone.
CALLBACKS = {
    "bot_start": [],
    "populate_indicators": ["dataframe", "metadata"],
    "populate_entry_trend": ["dataframe", "metadata"],
    "populate_exit_trend": ["dataframe", "metadata"],
    "confirm_trade_entry": [
        *("pair", "order_type", "amount", "rate", "time_in_force", "current_time", "entry_tag", "side"),
    ],
    "confirm_trade_exit": [
        *("pair", "trade", "order_type", "amount", "rate", "time_in_force", "exit_reason", "current_time"),
    ],
    "order_filled": ["pair", "trade", "order", "current_time"],
}


def test_the_callbacks_of_a_freqtrade_strategy_are_those_it_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """freqtrade brings a hundred packages, so tests do without; where it is installed, it has the word."""
    strategy = load("freqtrade_strategy", monkeypatch).TapebookStrategy
    base = strategy.__mro__[1]
    for name, expected in CALLBACKS.items():
        for kind in (strategy, base) if base is not object else (strategy,):
            found = inspect.signature(getattr(kind, name)).parameters.values()
            assert [each.name for each in found if each.kind is not each.VAR_KEYWORD][1:] == expected, (kind, name)
        takes_more = any(
            each.kind is each.VAR_KEYWORD for each in inspect.signature(getattr(strategy, name)).parameters.values()
        )
        assert takes_more or name.startswith("populate_"), f"{name} must take what later versions add"


def trade_with_freqtrade(module: ModuleType, market: ModuleType, home: Path, *, count: int) -> tapebook.ReplayReport:
    """Calls the strategy as freqtrade does: candles, signals, confirmation, fill; a frame is columns by name.

    freqtrade knows its open trade after a restart. Here it is the one that the home knows.
    """
    pair, clock = "BTC/USDT:USDT", tapebook.VirtualClock(market.START)
    strategy = module.TapebookStrategy()
    strategy.timeframe, strategy.config = "1m", {"exchange": {"pair_whitelist": [pair]}}
    with tapebook.open(home, clock=clock) as tb:
        strategy.tb = tb
        strategy.bot_start()
        trade = SimpleNamespace(pair=pair, fee_open=0.0005, fee_close=0.0005)
        is_open = len(tb.trades("freqtrade", status="open")) > 0
        for number, bar in market.minutes(clock, count, since=tb.now()):
            if number < 60 or number % 10:
                continue
            bars = [
                each | {"date": datetime.fromtimestamp(each["time"] / 1_000, UTC)} for each in past_bars(market, number)
            ]
            frame: dict[str, Any] = {name: [each[name] for each in bars] for name in bars[0]}
            for step in (strategy.populate_indicators, strategy.populate_entry_trend, strategy.populate_exit_trend):
                frame = step(frame, {"pair": pair})
            now, rate, terms = bars[-1]["date"], bar["close"], {"order_type": "market", "time_in_force": "GTC"}
            order = SimpleNamespace(order_id=f"o{number}", safe_filled=0.002, safe_price=rate, ft_order_side="buy")
            asked: dict[str, Any] = terms | {"pair": pair, "amount": 0.002, "rate": rate, "current_time": now}
            if not is_open and frame["enter_long"][-1]:
                assert strategy.confirm_trade_entry(entry_tag="above average", side="long", **asked)
                strategy.order_filled(pair, trade, order, now)
                is_open = True
            elif is_open and frame["exit_long"][-1]:
                assert strategy.confirm_trade_exit(trade=trade, exit_reason="exit_signal", **asked)
                order.ft_order_side = "sell"
                strategy.order_filled(pair, trade, order, now)
                strategy.order_filled(pair, trade, order, now)
                is_open = False
        # An entry far above the caps: the guard advises against it.
        large = asked | {"amount": 900.0}
        assert is_open or not strategy.confirm_trade_entry(entry_tag=None, side="long", **large)
        return tb.replay()


def past_bars(market: ModuleType, number: int) -> list[dict[str, Any]]:
    return [market.bar_of(each) for each in range(number + 1)]


def test_a_freqtrade_strategy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, market = load("freqtrade_strategy", monkeypatch), load("market", monkeypatch)
    home = tmp_path / "home"
    tapebook.init(home)
    check(home, "freqtrade", trade_with_freqtrade(module, market, home, count=200), trades=1)


def test_a_chat_agent_by_mcp_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    report = load("mcp_chat", monkeypatch).run(str(home), [65_000.0, 65_150.0])
    check(home, "chat", report, trades=1)
    assert "close: in and out by turns (done)" in capfd.readouterr().out
