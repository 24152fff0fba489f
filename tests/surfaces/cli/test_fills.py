"""The command `import fills`: one line that says what came of a file, or what is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]

FILLS = """time,symbol,side,size,price,fee
2026-01-05T00:00:00Z,BTC,buy,0.5,60000,13.5
2026-01-05T03:00:00Z,BTC,sell,0.5,62000,14
"""


NOTE = "note: no column for startPosition: whether fills are missing cannot be checked\n"


def test_fills_become_trades_once(run: Run, tmp_path: Path) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "fills.csv"
    run("init", "--home", home)
    file.write_text(FILLS)
    words = ("import", "fills", str(file), "--agent", "btc-5m", "--home", home)
    booked = "for btc-5m: 1 trade opened, 1 closed, net 972.50 USD"
    found = f"{file}: CSV separated by commas, 2 fills\n{NOTE}"
    unknown = "funding is not all known of 1 of 1 closed trade: the tape lacks rates or prices of their hours\n"
    unknown += "best and worst results are not all known of 1 of 1 closed trade: the tape lacks prices of their time\n"
    assert run(*words, "--dry-run") == (0, f"{found}{unknown}2 of 2 fills would be booked {booked}\n", "")
    assert run("trades", "btc-5m", "--home", home)[1] == "no trades yet\n"
    assert run(*words) == (0, f"{found}{unknown}2 of 2 fills booked {booked}\n", "")
    assert run(*words) == (0, f"{found}nothing new: btc-5m has all of these 2 fills already\n", "")
    report = json.loads(run(*words, "--json")[1])
    assert (report["fills"], report["new"], report["agent"]) == (2, 0, "btc-5m")
    (trade,) = json.loads(run("trades", "btc-5m", "--home", home, "--json")[1])["rows"]
    assert (trade["net_pnl_usd"], trade["exit_reason"]) == (972.5, "imported")
    assert trade["lacks"] == ["funding", "path"]


def test_a_bad_row_is_named(run: Run, tmp_path: Path) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "fills.csv"
    run("init", "--home", home)
    file.write_text(FILLS.replace("sell,0.5", "sell,-1"))
    words = ("import", "fills", str(file), "--home", home, "--agent")
    assert run(*words, "btc-5m") == (2, "", f"error: {file} row 3: size and price must be above 0\n")
    assert run(*words, "nobody")[2].startswith("error: there is no agent called 'nobody'; ")


def test_a_page_that_begins_in_a_position_is_refused_or_bridged(run: Run, tmp_path: Path) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "page.json"
    run("init", "--home", home)
    fill = {"coin": "SUI", "px": "1.30", "sz": "5", "side": "A", "time": 1_767_571_200_000, "dir": "Close Long"}
    file.write_text(json.dumps([fill | {"startPosition": "5.0", "closedPnl": "-0.5", "fee": "0.1", "tid": 7}]))
    words = ("import", "fills", str(file), "--agent", "btc-5m", "--home", home)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err == (
        f"error: {file} row 1: SUI stood at 5 before it, by the fills known 0; "
        "import what came before it first, or book the difference with --bridge\n"
    )
    assert run("trades", "btc-5m", "--home", home)[1] == "no trades yet\n"
    code, out, err = run(*words, "--bridge")
    assert (code, err) == (0, "")
    assert "bridged: row 1: SUI stood at 5 before it, by the fills known 0\n" in out
    (trade,) = json.loads(run("trades", "btc-5m", "--home", home, "--json")[1])["rows"]
    assert (trade["side"], trade["realized_pnl_usd"], trade["lacks"]) == ("long", -0.5, ["fills"])
    assert "imported (lacks fills)" in run("trades", "btc-5m", "--home", home)[1]
