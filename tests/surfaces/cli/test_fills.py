"""The command `import fills`: one line that says what came of a file, or what is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]

FILLS = """time,symbol,side,size,price,fee
2026-01-05T00:00:00Z,BTC,buy,0.5,60000,13.5
2026-01-05T03:00:00Z,BTC,sell,0.5,62000,14
"""


def test_fills_become_trades_once(run: Run, tmp_path: Path) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "fills.csv"
    run("init", "--home", home)
    file.write_text(FILLS)
    words = ("import", "fills", str(file), "--agent", "btc-5m", "--home", home)
    booked = "for btc-5m: 1 trades opened, 1 closed, net 972.50 USD"
    assert run(*words, "--dry-run") == (0, f"2 of 2 fills would be booked {booked}\n", "")
    assert run("trades", "btc-5m", "--home", home)[1] == "no trades yet\n"
    assert run(*words) == (0, f"2 of 2 fills booked {booked}\n", "")
    assert run(*words) == (0, "nothing new: btc-5m has all of these 2 fills already\n", "")
    report = json.loads(run(*words, "--json")[1])
    assert (report["fills"], report["new"], report["agent"]) == (2, 0, "btc-5m")
    (trade,) = json.loads(run("trades", "btc-5m", "--home", home, "--json")[1])
    assert (trade["net_pnl_usd"], trade["exit_reason"]) == (972.5, "imported")


def test_a_bad_row_is_named(run: Run, tmp_path: Path) -> None:
    home, file = str(tmp_path / "home"), tmp_path / "fills.csv"
    run("init", "--home", home)
    file.write_text(FILLS.replace("sell,0.5", "sell,-1"))
    words = ("import", "fills", str(file), "--home", home, "--agent")
    assert run(*words, "btc-5m") == (2, "", f"error: {file} row 3: size and price must be above 0\n")
    assert run(*words, "nobody")[2].startswith("error: there is no agent called 'nobody'; ")
