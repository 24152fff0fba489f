"""Real fills through `import fills`: two accounts of an exchange, a page that begins in positions, leveraged trades.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import csv
import gzip
import json
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tapebook.api import app
from tapebook.domain.units import E6, E8, E12, SECOND, divide_half_even, notional_usd_e6, to_units
from tapebook.errors import BadInput

pytestmark = pytest.mark.outside

AGENT = "btc-5m"
ACCOUNTS = {
    "0xae5eacaf9c6b9111fd53034a602c192a04e082ed": (460, 103),
    "0x72c6a4624e1dffa724e6d00d64ceae698af892a0": (1413, 17),
}


@pytest.fixture(scope="module")
def data() -> Path:
    """The folder of recorded data."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"])


@pytest.fixture
def book(tmp_path: Path) -> Iterator[app.Tapebook]:
    """A new home."""
    app.init(tmp_path / "home")
    with app.open(tmp_path / "home") as opened:
        yield opened


def test_real_accounts_import_whole(data: Path, tmp_path: Path) -> None:
    """Every start position is what the fills before it come to; spot rows and their fees stand apart."""
    path, closed = data / "ledgers" / "hyperliquid_fills_two_accounts.csv.gz", 0
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    for account, (perps, spots) in ACCOUNTS.items():
        app.init(tmp_path / account)
        with app.open(tmp_path / account) as book:
            with pytest.raises(BadInput, match="has fills of 2 accounts"):
                book.import_fills(path, agent=AGENT)
            report = book.import_fills(path, agent=AGENT, account=account)
            assert (report.fills, report.spot, report.bridged, report.repeated) == (perps + spots, spots, (), 0)
            own = [row for row in rows if row["account"] == account]
            bought = sum(Fraction(row["fee"]) for row in own if row["coin"].startswith("@") and row["side"] == "B")
            assert abs(Fraction(report.token_fees["@107"]) - bought) <= Fraction(spots, 10**8)
            fees = sum(Fraction(row["fee"]) for row in own if not row["coin"].startswith("@"))
            trades = book.trades(AGENT, most=10_000)
            assert sum(trade["fees_usd"] for trade in trades) == pytest.approx(float(fees), abs=perps * 1e-6)
            assert {trade["symbol"] for trade in trades} == {row["coin"] for row in own} - {"@107"}
            assert book.import_fills(path, agent=AGENT, account=account).new == 0
            assert book.verify() == []
            closed += report.closed
    assert closed == 37


def test_a_page_that_begins_in_positions_is_refused_and_bridged(data: Path, book: app.Tapebook, tmp_path: Path) -> None:
    """The newest 500 fills of an account, newest first, fills of one moment in either order, flips among them."""
    yaml = pytest.importorskip("yaml")
    cassette = yaml.safe_load((data / "payloads/hyperliquid_sdk_cassettes/test_get_user_fills.yaml").read_text())
    fills: list[dict[str, Any]] = json.loads(cassette["interactions"][0]["response"]["body"]["string"])
    path = tmp_path / "page.json"
    path.write_text(json.dumps(fills))
    with pytest.raises(BadInput, match=r"page.json row \d+: \w+ stood at -?[\d.]+ before it, by the fills known 0"):
        book.import_fills(path, agent=AGENT)
    assert book.trades(AGENT) == []
    report = book.import_fills(path, agent=AGENT, bridge=True)
    assert report.fills == len(fills) == 500
    # One of each symbol that was held before the page, and where the page cut a self-trade in two: the order of
    # execution is found for all others.
    begun = [each for each in report.bridged if each.endswith("by the fills known 0")]
    assert (len(begun), len({fill["coin"] for fill in fills}), len(report.bridged)) == (15, 15, 16)
    trades = book.trades(AGENT, most=1_000)
    bridged = [trade for trade in trades if "fills" in trade["lacks"]]
    assert len(bridged) == 15 and {trade["entry_reason"] for trade in bridged} == {"bridged"}
    # The results this page tells are not those of average cost, which the exchange came to later: only sizes compare.
    turned = sum(">" in fill["dir"] for fill in fills)
    assert len(trades) >= 15 + turned and {trade["status"] for trade in trades} == {"closed"}
    assert book.verify() == []


def instant(moment: datetime) -> int:
    """A moment in milliseconds."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def fills_of(trades: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The two fills of each trade as an exchange would tell them, fees in USDC."""
    fills: list[dict[str, Any]] = []
    for trade in trades:
        size = trade["amount"] * (-1 if trade["is_short"] else 1)
        for end, signed, start in (("open", size, 0.0), ("close", -size, size)):
            price = to_units(trade[f"{end}_rate"], E8)
            fee = divide_half_even(abs(to_units(size, E8)) * price * to_units(trade[f"fee_{end}"], E12), 10**22)
            fill = {"coin": "LTC", "px": f"{price / E8:.8f}", "sz": repr(abs(size)), "side": "B" if signed > 0 else "A"}
            fill |= {"time": trade[f"{end}_timestamp"], "startPosition": repr(start), "fee": f"{fee / E6:.6f}"}
            fills.append(fill | {"feeToken": "USDC", "tid": len(fills) + 1})
    return sorted(fills, key=lambda fill: fill["time"])


def test_leveraged_trades_get_funding_and_path_and_their_recorded_net(
    data: Path, book: app.Tapebook, tmp_path: Path
) -> None:
    """Net is the recorded one within a millionth of a dollar per entry of the ledger.

    The record pays funding at the moment a trade is opened, too; a position that did not exist before that moment owes
    none here, so that payment is taken off the record.
    """
    ledgers = data / "ledgers"
    with gzip.open(ledgers / "freqtrade_LTC_trades.json.gz", "rt") as file:
        recorded = sorted(json.load(file), key=lambda trade: trade["open_timestamp"])
    book.import_file("candles", ledgers / "LTC_15m-futures.parquet", symbol="LTC")
    book.import_file("funding", ledgers / "LTC_8h-funding_rate.parquet", symbol="LTC")
    book.import_file("marks", ledgers / "LTC_8h-mark.parquet", symbol="LTC")
    path = tmp_path / "fills.json"
    path.write_text(json.dumps(fills_of(recorded)))
    report = book.import_fills(path, agent=AGENT)
    assert (report.fills, report.closed, report.bridged, report.lacks) == (980, 490, (), {})
    ours = sorted(book.trades(AGENT, most=1_000), key=lambda trade: str(trade["entry_tick_at"]))
    marks = {instant(row["date"]): to_units(row["open"], E8) for row in rows_of(ledgers / "LTC_8h-mark.parquet")}
    rates = {
        instant(row["date"]) // SECOND * SECOND: to_units(row["open"], E12)
        for row in rows_of(ledgers / "LTC_8h-funding_rate.parquet")
    }
    bars = sorted(
        (instant(row["date"]), to_units(row["low"], E8), to_units(row["high"], E8))
        for row in rows_of(ledgers / "LTC_15m-futures.parquet")
    )
    paid = 0
    for trade, record in zip(ours, recorded, strict=True):
        start, end = record["open_timestamp"], record["close_timestamp"]
        size = to_units(record["amount"], E8) * (-1 if record["is_short"] else 1)
        at_open = -divide_half_even(notional_usd_e6(size, marks[start]) * rates[start], E12) if start in rates else 0
        hours = [hour for hour in rates if start < hour <= end]
        paid += bool(hours)
        entries = 4 + len(hours)
        allowed = entries + abs(Fraction(record["amount"])) / 100
        expected = Fraction(record["profit_abs"]) * E6 - at_open
        assert abs(Fraction(trade["net_pnl_usd"]) * E6 - expected) <= allowed, record
        lived = bars[bisect_left(bars, (start, 0, 0)) : bisect_left(bars, (end, 0, 0))]
        seen = [price for _, low, high in lived for price in (low, high)]
        seen += [marks[hour] for hour in marks if start <= hour < end]
        cost = notional_usd_e6(size, to_units(record["open_rate"], E8))
        check_extremes(trade, [notional_usd_e6(size, price) - cost for price in seen])
    assert paid > 100
    assert book.verify() == []


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file."""
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def check_extremes(trade: Mapping[str, Any], results_usd_e6: list[int]) -> None:
    """Best and worst result are those of every bar and mark of the trade's life, and of its fills."""
    results = [0, round(trade["realized_pnl_usd"] * E6), *results_usd_e6]
    assert (round(trade["mae_usd"] * E6), round(trade["mfe_usd"] * E6)) == (min(results), max(results))
