"""Commands on backtests: a list, a screen, a comparison, files, and errors of one line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.api.backtests import Backtests
from tests.backtest.books import played

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one finished backtest."""
    return played(tmp_path_factory.getbasetemp()).parent


@pytest.fixture
def shelf(facade: SimpleNamespace, parent: Path) -> dict[str, Any]:
    """The façade on that home; gives the backtest's row."""
    facade.backtests = Backtests(parent)
    row: dict[str, Any] = facade.backtests.all()[0]
    return row


def test_the_list(run: Run, shelf: dict[str, Any]) -> None:
    for words in (["backtests"], ["backtests", "list"]):
        code, out, err = run(*words)
        assert (code, err) == (0, "")
        heading, line = out.splitlines()
        columns = ["change", "usd", "fill", "current", "status"]
        assert heading.split() == ["backtest", "agent", "from", "to", "memory", "trades", *columns]
        figures = rf"{shelf['trades']} +\S+  bar_close  no: other code  done"
        assert re.match(rf"{shelf['id']}  voter-1h  2026-01-05  2026-02-02  on +{figures}", line)
        assert json.loads(run(*words, "--json")[1]) == [shelf]


def test_nothing_yet(run: Run, facade: SimpleNamespace, tmp_path: Path) -> None:
    facade.backtests = Backtests(tmp_path)
    assert run("backtests") == (0, "no backtests yet; `tapebook backtest AGENT` makes one\n", "")


def test_a_screen_and_the_same_for_programs(run: Run, shelf: dict[str, Any]) -> None:
    code, out, err = run("backtests", "show", shelf["id"][:5])
    assert (code, err) == (0, "") and f"\n{shelf['id']}  voter-1h version 1" in out
    # It was written by hand, so nobody knows of which data and code.
    stale = "STALE: made with other code than now; run `tapebook backtest voter-1h` again for a current result\n"
    assert out.startswith(stale)
    assert "\n  won by provider " in out and "by regime" in out
    chunks = run("backtests", "show", shelf["id"], "--chunks")[1]
    assert chunks.endswith(out) and chunks.startswith(f"{stale}2026-W02  2026-01-05 to 2026-01-12")
    view = json.loads(run("backtests", "--json", "show", shelf["id"])[1])
    assert view["total"]["trades"] == shelf["trades"] and view["ticks_per_second"] > 0


def test_a_comparison(run: Run, shelf: dict[str, Any]) -> None:
    code, out, _ = run("backtests", "compare", shelf["id"], shelf["id"])
    assert code == 0 and out.endswith("verdict: not enough evidence\n")
    assert json.loads(run("backtests", "compare", shelf["id"], shelf["id"], "--json")[1])["test"]["days"] == 28


def test_files(run: Run, shelf: dict[str, Any], tmp_path: Path) -> None:
    page, tables = tmp_path / "report.html", tmp_path / "tables.zip"
    code, out, err = run("backtests", "export", shelf["id"], "--html", str(page), "--csv", str(tables))
    assert (code, err) == (0, "") and out == f"written: {tables}\nwritten: {page}\n"
    assert page.stat().st_size < 3_000_000 and tables.stat().st_size > 1_000
    again = run("backtests", "export", shelf["id"], "--html", str(page))
    assert again == (2, "", f"error: {page} is there already: choose another name, or --overwrite\n")
    assert run("backtests", "export", shelf["id"], "--html", str(page), "--overwrite")[0] == 0
    assert run("backtests", "export", shelf["id"]) == (
        *(2, ""),
        "error: say what to write, and where: csv, html or json\n",
    )


@pytest.mark.parametrize("words", ["show zz", "remove zz", "export zz --html x.html", "compare zz zz"])
def test_an_unknown_one_is_one_line(run: Run, shelf: dict[str, Any], words: str) -> None:
    said = f"error: there is no backtest 'zz'; backtests: {shelf['id']}\n"
    assert run("backtests", *words.split()) == (2, "", said)


def test_removing(run: Run, facade: SimpleNamespace) -> None:
    facade.backtests = SimpleNamespace(remove=lambda name: f"{name}full")
    assert run("backtests", "remove", "ab") == (0, "removed abfull\n", "")


def test_similar_ones_and_what_differs(run: Run, facade: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    parts = {"agent": 1.0, "market": 1.0, "period": 0.5, "settings": 0.98, "result": 0.61}
    row = {
        **{"id": "ab12", "agent": "btc", "start": "2026-01-05T00:00:00.000Z", "end": "2026-02-02T00:00:00.000Z"},
        **{"memory": "off", "likeness": 0.818, "parts": parts, "differs": ["memory: on here, off there"]},
        **{"trades": 12, "change_usd": -3.5, "sharpe": None},
    }
    facade.backtests = SimpleNamespace(similar=lambda name, *, most: [row][:most])
    assert run("backtests", "similar", "x")[1].splitlines() == [
        "backtest  agent  alike  market  period  settings  result  from        to          trades  change usd",
        "ab12      btc    82%    100%    50%     98%       61%     2026-01-05  2026-02-02      12       -3.50",
        "ab12 differs: memory: on here, off there",
    ]
    assert json.loads(run("backtests", "similar", "x", "--json")[1]) == [row]
    facade.backtests = SimpleNamespace(similar=lambda name, *, most: [])
    assert run("backtests", "similar", "x")[1] == "no other backtest is finished\n"
