"""What type checkers see of the façade, and that what it gives is of those types."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tapebook
from tapebook.api import app
from tapebook.api.agents import AgentView, ProfileView
from tapebook.api.horizons import LayerView
from tapebook.domain import views
from tapebook.report.market import MarketView

PROGRAM = """
import tapebook

tb = tapebook.open("home")
reveal_type(tb.runs("btc-5m"))
reveal_type(tb.run("1f")["orders"][0]["limit_price"])
reveal_type(tb.trades("btc-5m")[0]["net_pnl_usd"])
reveal_type(tb.agents()[0]["watch"])
reveal_type(tb.market("BTC")["midPrice"])
reveal_type(tb.recall.search("loss")[0].path)
reveal_type(tb.backtests.all()[0]["change_usd"])
reveal_type(tb.backtest("btc-5m", chunks="week").total.trades)
tb.trades("btc-5m")[0]["net_pnl"]
tb.backtest("btc-5m", chunks="quater")
tb.backtest("btc-5m", since="2025-01-01")
"""

SEEN = [
    'Revealed type is "tapebook.domain.views.Page[TypedDict(tapebook.domain.views.RecordedRunView,',
    'Revealed type is "float | None"',
    'Revealed type is "float"',
    'Revealed type is "list[str]"',
    'Revealed type is "TypedDict(tapebook.report.market.PriceView,',
    'Revealed type is "str"',
    'Revealed type is "float | None"',
    'Revealed type is "int"',
    'TypedDict "TradeView" has no key "net_pnl"',
    "incompatible type \"Literal['quater']\"",
    'Unexpected keyword argument "since"',
]


def test_a_program_of_a_user_is_checked(tmp_path: Path) -> None:
    """Against the package as it is installed, by its marker `py.typed`; not by a path to its source."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    package = Path(tapebook.__file__).parent
    assert (package / "py.typed").is_file()
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file", "/dev/null", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    notes = ("Did you mean", "defined in")
    said = [line for line in ran.stdout.splitlines() if line.startswith("program.py:")]
    said = [line for line in said if not any(note in line for note in notes)]
    assert len(said) == len(SEEN), ran.stdout + ran.stderr
    for line, expected in zip(said, SEEN, strict=True):
        assert expected in line


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app.Tapebook]:
    """A home with some minutes of a demo in it, opened."""
    folder = tmp_path_factory.mktemp("typed") / "home"
    app.demo(folder, seconds=1.0, seed=7)
    with app.open(folder) as tb:
        yield tb


def check(rows: list[Any], kind: Any) -> None:
    """Every row has exactly the keys of its type, and values of their types."""
    assert rows
    optional = kind.__optional_keys__
    for row in rows:
        assert kind.__required_keys__ <= row.keys() <= kind.__required_keys__ | optional
        msgspec.convert(row, kind)


def test_rows_are_of_their_types(book: app.Tapebook) -> None:
    runs = book.runs(most=100)
    check(runs, views.RecordedRunView)
    check([action for run in runs for action in run["actions"]], views.ActionView)
    ordered = [book.run(order["run_id"]) for order in book.orders()]
    check(ordered, views.ExplainedRunView)
    check([trade for run in ordered for trade in run["trades"]], views.RunTradeView)
    check([fill for run in ordered for fill in run["fills"]], views.FillView)
    check(book.orders(), views.OrderView)
    check([*book.trades("btc-5m"), *book.trades("alts-15m")], views.TradeView)
    check(book.agents(), ProfileView)
    check([book.agent("btc-5m")], AgentView)
    check([book.market("BTC")], MarketView)
    check(book.horizons.show("btc-5m"), LayerView)
