"""What type checkers see of the façade, and that what it gives is of those types."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pytest

import tapebook
from tapebook.api import app
from tapebook.api.agents import AgentView, ProfileView
from tapebook.api.experience import ExperienceView
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
reveal_type(tb.experience.show("btc-5m")["providers"][0]["win_rate"])
reveal_type(tb.backtests.show("1f")["chunks"][0]["drawdown"]["share"])
reveal_type(tb.memory("btc-5m").recent_closed(limit=3)[0]["mfe_usd"])
reveal_type(tb.trades("btc-5m").exact[0]["net_usd_e6"])
reveal_type(tb.record_decision("ticket", "open", side="long", notional_usd=5.0)["status"])
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
    'Revealed type is "TypedDict(tapebook.api.experience.IntervalView,',
    'Revealed type is "float"',
    'Revealed type is "float"',
    'Revealed type is "int"',
    "Revealed type is \"Literal['",
    'Revealed type is "int"',
    'TypedDict "TradeView" has no key "net_pnl"',
    "incompatible type \"Literal['quater']\"",
    'Unexpected keyword argument "since"',
]


def user_program(tb: app.Tapebook) -> None:
    """What `PROGRAM` asks for, checked by the type check of the tests themselves: what must be refused is ignored."""
    assert_type(tb.runs("btc-5m"), views.Page[views.RecordedRunView])
    assert_type(tb.run("1f")["orders"][0]["limit_price"], float | None)
    assert_type(tb.trades("btc-5m")[0]["net_pnl_usd"], float)
    assert_type(tb.agents()[0]["watch"], list[str])
    assert_type(tb.recall.search("loss")[0].path, str)
    assert_type(tb.backtests.all()[0]["change_usd"], float | None)
    assert_type(tb.backtests.show("1f")["chunks"][0]["drawdown"]["share"], float)
    assert_type(tb.memory("btc-5m").recent_closed(limit=3)[0]["mfe_usd"], float)
    assert_type(tb.trades("btc-5m").exact[0]["net_usd_e6"], int)
    assert_type(tb.backtest("btc-5m", chunks="week").total.trades, int)
    tb.trades("btc-5m")[0]["net_pnl"]  # type: ignore[typeddict-item]
    tb.backtest("btc-5m", chunks="quater")  # type: ignore[arg-type]
    tb.backtest("btc-5m", since="2025-01-01")  # type: ignore[call-arg]


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(tapebook.__file__).parent / "py.typed").is_file()


@pytest.mark.proof
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
def book(demo_hour: Path) -> Iterator[app.Tapebook]:
    """A home with an hour of a demo in it, opened."""
    with app.open(demo_hour) as tb:
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
    check([book.experience.show("btc-5m")], ExperienceView)
    check(book.horizons.show("btc-5m"), LayerView)


def test_a_page_is_a_table(book: app.Tapebook) -> None:
    """Arrow for pandas and polars, with the integers that are stored; a table for notebooks, with nothing executed."""
    page = book.trades("btc-5m", most=1)
    frame = page.frame()
    assert frame.num_rows == len(page) and {"net_pnl_usd", "net_usd_e6", "fees_usd_e6"} <= set(frame.column_names)
    for row, exact in zip(page, page.exact, strict=True):
        assert row["net_pnl_usd"] == exact["net_usd_e6"] / 1e6 and row["fees_usd"] == exact["fees_usd_e6"] / 1e6
    orders = book.orders(most=2)
    assert orders.frame().column("size_e8").to_pylist() == [each["size_e8"] for each in orders.exact]
    assert book.runs(most=5).frame().num_rows == 5 and views.Page().frame().num_rows == 0
    page[0]["entry_reason"] = "<script>alert(1)</script>"
    shown = page._repr_html_()
    assert shown.startswith("<table>") and "&lt;script&gt;" in shown and "<script>" not in shown
    assert "before=page.next" in shown
    assert "&lt;" not in book.context("btc-5m", "BTC")._repr_html_().split("<pre>")[0]


def test_the_memory_of_an_agent(book: app.Tapebook) -> None:
    """The names of a memory client, in either spelling."""
    memory = book.memory("btc-5m")
    assert (
        memory.recent_closed(limit=2) == book.trades("btc-5m", status="closed", most=2) == memory.recentClosed(limit=2)
    )
    assert memory.open_with_mfe_mae() == book.trades("btc-5m", status="open") == memory.openWithMfeMae()
    assert memory.active_lessons() is None and memory.activeLessons() is None
    assert book.memory("btc-5m", as_of="2026-01-05T00:00:01Z").recent_closed() == []
