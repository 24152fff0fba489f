"""A year of real bars and funding rates: BTC in 2023, every fill of a backtest against a bare loop.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tapebook
from tapebook.domain.order import FillRule
from tests.backtest.bare_loop import HOUR, Bar
from tests.backtest.test_bare_loop import compare

pytestmark = pytest.mark.outside

parquet = pytest.importorskip("pyarrow.parquet")


def rows_of(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its moment in milliseconds."""
    return [(round(row["date"].timestamp() * 1_000), row) for row in parquet.read_table(file).to_pylist()]


def scaled(value: float, unit: int) -> int:
    """A number as it is printed, as an integer of a unit."""
    return round(Decimal(repr(value)) * unit)


@pytest.mark.parametrize("fill", ["next_open"])
def test_a_year_of_fills_is_that_of_a_bare_loop(tmp_path: Path, fill: FillRule) -> None:
    files = Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "candles"
    candles, funding = files / "BTC_5m_2023.parquet", files / "BTC_funding_8h_2023.parquet"
    home = tmp_path / "home"
    tapebook.init(home)
    with tapebook.open(home) as book:
        book.add_agent("tester", {"watch": "BTC", "engine": "trend", "every_minutes": "5"})
        book.import_file("candles", candles, symbol="BTC", interval="5m")
        book.import_file("funding", funding, symbol="BTC", interval="8h")
        result = book.backtest("tester", chunks="none", memory="off", fill=fill)
    names = ("open", "high", "low", "close")
    bars = [Bar(at, *(scaled(row[name], 10**8) for name in names)) for at, row in rows_of(candles)]
    # Some rates are stamped a few milliseconds after their hour.
    rates = {at // HOUR * HOUR: scaled(row["open"], 10**12) for at, row in rows_of(funding)}
    expected = compare(home, result, bars, rates)
    assert result.total.ticks == len(bars) == 105_120 and len(expected.fills) > 1_000
    print(f"{len(expected.fills):,} fills and {len(expected.funding):,} payments of a year are the same")
