"""A backtest as files: sums that agree with the result, the same bytes, and nothing a spreadsheet would run."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.backtest.home import BacktestHome
from tapebook.clock import VirtualClock
from tapebook.errors import BadInput
from tapebook.report.export import ReportData, csv_files, json_bytes, market_bars, report_data, write_csv, write_text
from tapebook.wiring import Rooms
from tests.backtest.books import Played


@pytest.fixture(scope="module")
def told(played: Played) -> Iterator[ReportData]:
    home = BacktestHome(played.parent / "backtests" / played.result.id)
    plan = home.plan()
    rooms = Rooms(home.folder, clock=VirtualClock(plan.end))
    assert [bars.symbol for bars in market_bars(rooms.tape, plan)] == ["BTC", "ETH"]
    yield report_data(rooms.book, rooms.book_db, plan, played.result)
    rooms.close()


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_sum_to_the_result(told: ReportData) -> None:
    files, result = csv_files(told), told.result
    chunks, trades, equity = (rows(files[name]) for name in ("chunks.csv", "trades.csv", "equity.csv"))
    assert [row["chunk"] for row in chunks] == [*(chunk.name for chunk in result.chunks), "total"]
    for row, chunk in zip(chunks, (*result.chunks, result.total), strict=True):
        own = [trade for trade in trades if trade["chunk"] == row["chunk"] or row["chunk"] == "total"]
        assert int(row["trades"]) == chunk.trades == len(own)
        assert float(row["net_usd"]) == pytest.approx(sum(float(trade["net_pnl_usd"]) for trade in own), abs=1e-6)
        parts = [float(row[f"{name}_usd"]) for name in ("market", "timing", "sizing", "funding")]
        assert sum(parts) - float(row["fees_usd"]) == pytest.approx(float(row["net_usd"]), abs=1e-6)
    assert {trade["provider"] for trade in trades} == {"ensemble"}
    values = [float(row["equity_usd"]) for row in equity]
    assert (values[0], values[-1]) == (10_000.0, result.total.equity_end_usd_e6 / 1e6)
    peaks = [max(values[: place + 1]) - value for place, value in enumerate(values)]
    assert max(peaks) == pytest.approx(result.total.drawdown_usd_e6 / 1e6, abs=1e-6)
    assert [row["at"] for row in equity] == sorted(row["at"] for row in equity)


@pytest.mark.parametrize("reason", ["=cmd()", "+1", "-1", "@x", "\tx"])
def test_no_text_is_a_formula(told: ReportData, reason: str) -> None:
    first = told.trades[0]
    state = msgspec.structs.replace(first.trade.state, entry_reason=reason)
    trade = msgspec.structs.replace(first.trade, state=state, exit_reason=f'a,"{reason}\nb')
    changed = msgspec.structs.replace(told, trades=[msgspec.structs.replace(first, trade=trade)])
    found = rows(csv_files(changed)["trades.csv"])
    assert found[0]["entry_reason"] == f"'{reason}" and found[0]["exit_reason"] == f'a,"{reason}\nb'
    assert float(found[0]["net_pnl_usd"]) == first.trade.state.net_usd_e6 / 1e6


def test_a_folder_and_a_zip_hold_the_same(told: ReportData, tmp_path: Path) -> None:
    files = csv_files(told)
    write_csv(tmp_path / "tables", files, overwrite=False)
    for name in ("one.zip", "two.zip"):
        write_csv(tmp_path / name, files, overwrite=False)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert packed.namelist() == sorted(files, key=list(files).index)
        for name in files:
            assert packed.read(name) == (tmp_path / "tables" / name).read_bytes() == files[name].encode()


def test_what_is_there_is_kept_unless_asked(told: ReportData, tmp_path: Path) -> None:
    files = csv_files(told)
    write_csv(tmp_path / "tables", files, overwrite=False)
    with pytest.raises(BadInput, match=r"chunks.csv is there already: choose another folder, or `overwrite=`"):
        write_csv(tmp_path / "tables", {"chunks.csv": "x"}, overwrite=False)
    assert (tmp_path / "tables" / "chunks.csv").read_text() == files["chunks.csv"]
    write_csv(tmp_path / "tables", {"chunks.csv": "x"}, overwrite=True)
    assert (tmp_path / "tables" / "chunks.csv").read_text() == "x"
    with pytest.raises(BadInput, match="is a file: name a folder"):
        write_csv(tmp_path / "tables" / "chunks.csv", files, overwrite=True)
    with pytest.raises(BadInput, match="there is no folder"):
        write_text(tmp_path / "none" / "a.json", b"", overwrite=False)
    write_text(tmp_path / "a.json", json_bytes({"a": 1}), overwrite=False)
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 1}


def test_a_backtest_without_trades_has_its_tables(told: ReportData) -> None:
    files = csv_files(msgspec.structs.replace(told, trades=[]))
    assert files["trades.csv"] == "id\n" and len(rows(files["chunks.csv"])) == 5
