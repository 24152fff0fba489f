"""The commands about the market: bad input in one line, and problems of ingestion said once while they last."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapebook.api import app
from tapebook.ingest.live import IngestProgress
from tapebook.surfaces.cli.market import _IngestReporter
from tests.surfaces.cli.conftest import Run


def progress(problem: str | None, rows: int = 0) -> IngestProgress:
    return IngestProgress(1_767_571_200_000, {"mids": rows}, 2, problem)


def test_a_problem_is_said_when_it_begins_and_not_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    told = _IngestReporter(lambda done, text: None)
    for problem in ("no room (waiting: 3 facts)", "no room (waiting: 9 facts)", None, None, "no room (1 …)", "x"):
        told(progress(problem, 5))
    assert capsys.readouterr().err.splitlines() == [
        "warning: no room (waiting: 3 facts)",
        "warning: no room (1 …)",
        "warning: x",
    ]
    assert told.lines() == ["mids         5 rows", "2 open gaps"]


def test_nothing_received_is_said() -> None:
    assert _IngestReporter(lambda done, text: None).lines() == ["nothing was received"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("market", "NOPE"), "the tape has nothing of 'NOPE'"),
        (("market", "BTC", "--as-of", "2026-13-45"), "is not a time"),
        (
            ("market", "BTC", "--sources", "polymarket,x"),
            "there is no source 'x'; choose from: hyperliquid, polymarket",
        ),
        (("ingest", "--url", "nonsense", "--seconds", "1"), "'nonsense' is no address"),
        (("ingest", "--url", "http://127.0.0.1:9", "--seconds", "1"), "nothing answers at http://127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str, run: Run, tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    code, out, err = run(*words, "--home", str(tmp_path / "home"))
    assert (code, out) == (2, "") and says in err
    # On a terminal that is none, progress is a line of its own.
    assert [line for line in err.splitlines() if not line.startswith("ingest ")] == [err.splitlines()[-1]]


def test_a_market_is_told_in_names_units_and_ages(run: Run, home: str) -> None:
    code, out, err = run("market", "BTC", "--home", home, "--as-of", "2026-01-05T00:57:30Z")
    assert (code, err) == (0, "")
    assert (
        out
        == """\
symbol         BTC as of 2026-01-05T00:57:30.000Z
price          65,919 USD, 0 s old
regime         trend_down_lowvol (100 bars of 5 min)
funding        0.00125 % per hour, 10.95 % a year: longs pay, neutral; 2 min old
               8 hours: Binance 0.0144 %, Bybit 0.0061 %, Hyperliquid 0.0100 %; 0.0003 % below the others
open interest  change -0.25 % in 1 h, not known in 24 h
premium        0.0015 % over the oracle's price
liquidity      spread 0.15 bps, imbalance +14 % (bids weigh more); 2 min old
               depth 11.4 M USD within 0.1 %, 33.8 M USD within 0.5 %, 51.7 M USD within 1 %
volatility     0.19 % in 1 h (18.0 % a year), not known in 24 h (774 of 1,440 minutes); 2 min old
positioning    neutral: score +0.00 of 1, confidence 3 %; 2 min old
gaps           none in the last hour
"""
    )


def test_what_is_not_known_or_old_of_a_market_is_said(run: Run, facade: SimpleNamespace) -> None:
    nothing = dict.fromkeys(("midPrice", "regime", "liquidityProfile", "fundingPressure", "volatilityProfile"))
    facade.market = lambda symbol, as_of: {
        **{"symbol": symbol, "asOf": "2026-01-05T00:00:00.000Z", **nothing},
        "positioningPressure": {
            **{"direction": "long_pressure", "score": "0.5", "confidence": None},
            **{"ageSeconds": 5_400, "stale": True},
        },
        "gaps": [
            {"channel": "mids", "from": "2026-01-04T23:10:00.0Z", "to": "2026-01-04T23:12:30.0Z", "filled": False}
        ],
    }
    assert run("market", "X") == (
        0,
        "symbol       X as of 2026-01-05T00:00:00.000Z\n"
        "price        not known\nregime       not known\nfunding      not known\n"
        "liquidity    not known\nvolatility   not known\n"
        "positioning  long pressure: score +0.50 of 1, confidence not known; stale, 90 min old\n"
        "gaps         mids from 23:10:00 to 23:12:30, open\n",
        "",
    )


def test_a_context_of_chosen_sources_has_their_blocks_alone(run: Run, home: str) -> None:
    code, out, _ = run("market", "BTC", "--sources", "defillama, polymarket", "--home", home, "--json")
    assert code == 0 and set(json.loads(out)["BTC"]) == {"predictionMarkets", "macro"}
    code, out, _ = run("market", "BTC", "--sources", "defillama", "--home", home)
    assert code == 0 and [line.split()[0] for line in out.splitlines()][:2] == ["symbol", "capital"]
    assert "global/defi capital flows: chainFlowBias " in out and " USD, tvlChange1d " in out
    code, out, _ = run("market", "BTC", "--sources", "polymarket", "--home", home)
    assert code == 0 and "prediction markets" in out and re.search(r"\d+ % Yes: Will .*, ends 2026-", out)


def test_assets_of_a_fresh_home_are_those_of_the_snapshot(run: Run, tmp_path: Path) -> None:
    app.init(home := tmp_path / "home")
    code, out, _ = run("assets", "--json", "--home", str(home))
    found = {asset["symbol"]: asset for asset in json.loads(out)}
    perps = [each for each in found.values() if each["kind"] == "perp" and ":" not in each["symbol"]]
    assert code == 0 and len(perps) >= 190 and "MATIC" not in found
    assert found["ETH"]["displayName"] == "Ethereum" and found["ETH"]["coverage"]["funding"] is True
    code, out, _ = run("assets", "--category", "Layer 2", "--home", str(home), "--as-of", "2026-01-01")
    assert code == 0 and out.splitlines()[0].split()[:2] == ["symbol", "kind"] and "ARB" in out and "BTC" not in out
    code, _, err = run("assets", "--category", "Layer 9", "--home", str(home))
    assert code == 2 and err.startswith("error: there is no category 'Layer 9'; choose one of:")
    code, out, _ = run("assets", "--snapshot", str(tmp_path / "seed.sql"), "--home", str(home))
    assert code == 0 and "markets written to" in out and (tmp_path / "seed.sql").read_text("utf-8").startswith("-- The")


def test_assets_of_a_demo_home_are_all_known_and_those_of_its_world_are_listed(run: Run, home: str) -> None:
    """Failed while the six perps of the world made all others look delisted."""
    code, out, _ = run("assets", "--json", "--home", home)
    found = {asset["symbol"]: asset for asset in json.loads(out)}
    perps = [each for each in found.values() if each["kind"] == "perp" and ":" not in each["symbol"]]
    assert code == 0 and len(perps) >= 190 and sum(each["listed"] for each in perps) == 6
    assert found["BTC"]["coverage"]["trading"] and not any(found["ARB"]["coverage"].values())
    code, out, err = run("assets", "--category", "Layer 2", "--home", home)
    assert code == 0 and "not listed here" in out and "not listed by the exchange" in err
    code, out, err = run("assets", "--category", "Stocks", "--home", home, "--as-of", "2026-01-04")
    assert code == 0 and "xyz:TSLA" in out and "the snapshot of 2026-07-31, assumed" in err
