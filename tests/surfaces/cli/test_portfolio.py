"""`status`, `portfolio` and `equity`: aligned for people, the façade's values as JSON, colours on a terminal alone."""

import json
from collections.abc import Callable

import pytest

from tapebook.surfaces.cli.portfolio import sparkline

Run = Callable[..., tuple[int, str, str]]


def test_a_line_of_blocks_follows_time_not_points() -> None:
    assert sparkline([(0, 1.0), (99, 1.0), (100, 8.0)], 4) == "▁▁▁█"
    assert sparkline([(0, 8.0), (50, 1.0), (100, 4.5)], 2) == "▁█"
    assert sparkline([(0, 2.0)], 3) == "▁▁▁"


def test_every_command_prints_what_its_json_says(run: Run, home: str) -> None:
    for words in (
        ["status"],
        ["portfolio"],
        ["portfolio", "btc-5m"],
        ["equity"],
        ["equity", "btc-5m", "--since", "day"],
    ):
        code, out, err = run(*words, "--home", home, "--json")
        assert code == 0, err
        found = json.loads(out)
        code, text, err = run(*words, "--home", home)
        assert code == 0, err
        assert f"{found['end_usd' if words[0] == 'equity' else 'equity_usd']:,.2f}" in text or words[0] == "portfolio"
        assert "\x1b" not in text
    accounts = json.loads(run("portfolio", "--home", home, "--json")[1])["accounts"]
    assert all(each["agent"] in text for each in accounts for text in [run("portfolio", "--home", home)[1]])


@pytest.mark.usefixtures("screen")
def test_results_are_coloured_on_a_terminal(run: Run, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = run("status", "--home", home)[1]
    assert "\x1b[31m" in coloured or "\x1b[32m" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("status", "--home", home)[1]


def test_what_cannot_be_shown_is_one_line(run: Run, own: str) -> None:
    code, out, err = run("equity", "--home", own)
    assert (code != 0, out) == (True, "")
    assert err == "error: no account has begun yet: `tapebook up` lets agents trade\n"
    assert run("equity", "--home", own, "--since", "soon")[0] == 2
    assert run("status", "--home", own)[0] == 0
