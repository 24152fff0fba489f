"""A backtest as files: chunks.csv, trades.csv and equity.csv in a folder or a zip, or the whole as JSON.

`report_data` reads what files and page are written from: the result, and the moments and trades behind it. The same
backtest gives the same bytes. Text that a spreadsheet would take for a formula is marked as text.
"""

import csv
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tapebook.backtest.book_range import TradeOutcome, book_range
from tapebook.backtest.equity import EquityPoint, equity_points
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.price_series import BarColumns, finest_bars
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.spending import SpendingTotals
from tapebook.book.store import Book
from tapebook.db import Database
from tapebook.domain import views
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.units import E6, iso_text
from tapebook.errors import BadInput, StoreFailed
from tapebook.history.exporter import atomic_file, check_file_place
from tapebook.tape.store import Tape


class ReportData(msgspec.Struct, frozen=True):
    """Everything a report or an export shows."""

    result: BacktestResult
    points: list[EquityPoint]
    trades: list[TradeOutcome]
    stale: tuple[str, ...] = ()
    spent: SpendingTotals = SpendingTotals()

    def chunk_of(self, place: int) -> ChunkResult:
        """The chunk in which the trade at a place ended: trades stand in the order of their exits."""
        for chunk in self.result.chunks:
            place -= chunk.trades
            if place < 0:
                return chunk
        return self.result.chunks[-1]


def report_data(
    book: Book,
    book_db: Database,
    plan: BacktestPlan,
    result: BacktestResult,
    *,
    stale: tuple[str, ...] = (),
    spent: SpendingTotals | None = None,
) -> ReportData:
    """Reads the book of a backtest up to where it was measured; `stale` names inputs that are others by now."""
    deployment = Deployment(book.owner, deployment_id(plan.agent), plan.agent, plan.agent_version)
    decided = book_range(book, book_db, deployment, after=0, until=result.total.head_seq)
    # The book's last moment may lie before the end of the range, where the result was measured.
    last = EquityPoint(result.end, result.total.equity_end_usd_e6, result.total.insurance_usd_e6)
    return ReportData(result, [*equity_points(decided), last], decided.ended_trades(), stale, spent or SpendingTotals())


def market_bars(tape: Tape, plan: BacktestPlan) -> list[BarColumns]:
    """The finest bars of every symbol of a plan."""
    found = (finest_bars(tape, plan, symbol) for symbol in plan.symbols)
    return [bars for bars in found if bars is not None]


# With these a spreadsheet takes a cell for a formula, and reasons are words of a model.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# The earliest a zip can say: files have no time of their own.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
# Equal in every row of one backtest.
_HIDDEN = ("deployment_id", "skill_id", "skill_version")


def csv_files(data: ReportData) -> dict[str, str]:
    """Every file by its name."""
    result = data.result
    chunks = [_chunk_row(chunk) for chunk in (*result.chunks, result.total)]
    trades = [_trade_row(data, place) for place in range(len(data.trades))]
    equity = [{"at": iso_text(point.at), "equity_usd": point.usd_e6 / E6} for point in data.points]
    return {
        "chunks.csv": _csv(chunks, list(chunks[0])),
        "trades.csv": _csv(trades, list(trades[0]) if trades else ["id"]),
        "equity.csv": _csv(equity, ["at", "equity_usd"]),
    }


def write_csv(path: Path, files: Mapping[str, str], *, overwrite: bool) -> None:
    """Writes the files into a folder, which is made, or into one zip."""
    if path.suffix == ".zip":
        _write_zip(path, files, overwrite=overwrite)
        return
    if path.exists() and not path.is_dir():
        raise BadInput(f"{path} is a file: name a folder, or a file in .zip")
    for name in files:
        if (path / name).exists() and not overwrite:
            raise BadInput(f"{path / name} is there already: choose another folder, or `overwrite=`")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreFailed(f"cannot make {path}: {error.strerror}; choose another place") from error
    for name, text in files.items():
        with atomic_file(path / name) as file:
            file.write(text.encode())


def write_text(path: Path, text: bytes, *, overwrite: bool) -> None:
    """Writes one file, whole or not at all."""
    check_file_place(path, overwrite=overwrite)
    with atomic_file(path) as file:
        file.write(text)


def json_bytes(view: Mapping[str, Any]) -> bytes:
    """A view as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2) + b"\n"


def _write_zip(path: Path, files: Mapping[str, str], *, overwrite: bool) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(zipfile.ZipInfo(name, _NO_TIME), text, zipfile.ZIP_DEFLATED)
    write_text(path, content.getvalue(), overwrite=overwrite)


def _chunk_row(chunk: ChunkResult) -> dict[str, Any]:
    money = ("gross", "fees", "funding", "net", "open", "equity_start", "equity_end", "drawdown", "insurance")
    ratio = chunk.sharpe
    return {
        "chunk": chunk.name,
        "start": iso_text(chunk.start),
        "end": iso_text(chunk.end),
        "ticks": chunk.ticks,
        "trades": chunk.trades,
        "won": chunk.won,
        "win_rate": chunk.win_rate.value,
        "win_rate_low": chunk.win_rate.low,
        "win_rate_high": chunk.win_rate.high,
        **{f"{name}_usd": getattr(chunk, f"{name}_usd_e6") / E6 for name in money},
        "drawdown_share": chunk.drawdown_ppm / E6,
        "sharpe": ratio.value if ratio else None,
        "sharpe_low": ratio.low if ratio else None,
        "sharpe_high": ratio.high if ratio else None,
        "sharpe_days": ratio.n if ratio else 0,
        "exposure": chunk.exposure,
        **{name.removesuffix("_e6"): value / E6 for name, value in _parts(chunk)},
        "lessons": len(chunk.lessons),
        "lessons_hash": chunk.lessons_hash,
        "situations": chunk.situations,
        "packets_sha256": chunk.packets_sha256,
        "head_seq": chunk.head_seq,
        "head_hash": chunk.head_hash,
    }


def _parts(chunk: ChunkResult) -> Iterable[tuple[str, int]]:
    """Those that are not columns already."""
    named = ("market_usd_e6", "timing_usd_e6", "sizing_usd_e6")
    return [(name, getattr(chunk.parts, name)) for name in named]


def _trade_row(data: ReportData, place: int) -> dict[str, Any]:
    each, result = data.trades[place], data.result
    view = views.trade_view(each.trade, deployment="", maker=(result.agent, result.agent_version))
    kept = {name: value for name, value in view.items() if name not in _HIDDEN}
    return {"chunk": data.chunk_of(place).name, "provider": each.outcome.provider, **kept}


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    # Fixed, so that the same backtest gives the same bytes on every system.
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
