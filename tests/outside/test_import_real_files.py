"""Real files of history through import and export: bars, funding and marks of several exchanges.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import parquet

from tapebook.clock import SystemClock
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND, parse_instant
from tapebook.errors import BadInput
from tapebook.history import exporter
from tapebook.history.import_file import parse_file
from tapebook.history.importer import ImportRequest
from tapebook.history.transfer import export_candles, import_file
from tapebook.home import make_home
from tapebook.tape.view import INTERVALS, View
from tapebook.wiring import Rooms

pytestmark = pytest.mark.outside


YEAR_2023 = parse_instant("2023-01-01")
ONE_DAY = parse_instant("2025-07-24")


@pytest.fixture(scope="module")
def files() -> Path:
    """The folder of recorded files."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "candles"


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rooms]:
    """A home for all of them."""
    home = tmp_path_factory.mktemp("imports") / "home"
    make_home(home)
    with closing(Rooms(home, clock=SystemClock())) as opened:
        yield opened


def test_a_year_of_five_minutes(files: Path, rooms: Rooms, tmp_path: Path) -> None:
    path = files / "BTC_5m_2023.parquet"
    report = import_file(
        rooms.tape,
        rooms.clock,
        "candles",
        path,
        symbol="BTC",
        interval="5m",
        config=rooms.config,
        sources=rooms.sources,
    )
    assert (report.rows_written, report.problem_count, report.told.gap_count) == (105_120, 0, 0)
    assert (
        import_file(
            rooms.tape,
            rooms.clock,
            "candles",
            path,
            symbol="BTC",
            interval="5m",
            config=rooms.config,
            sources=rooms.sources,
        ).rows_written
        == 0
    )
    with pytest.raises(BadInput, match="the rows are 5m apart but `interval=` says 1m"):
        import_file(
            rooms.tape,
            rooms.clock,
            "candles",
            path,
            symbol="BTC",
            interval="1m",
            config=rooms.config,
            sources=rooms.sources,
        )
    out = export_candles(rooms.tape, rooms.clock, tmp_path / "a.parquet", symbol="BTC", interval="5m", since=YEAR_2023)
    assert out.rows == 105_120
    assert (
        import_file(
            rooms.tape,
            rooms.clock,
            "candles",
            tmp_path / "a.parquet",
            symbol="BTC",
            interval="5m",
            config=rooms.config,
            sources=rooms.sources,
        ).same_rows
        == 105_120
    )
    days = export_candles(rooms.tape, rooms.clock, tmp_path / "a.csv", symbol="BTC", interval="1d", since=YEAR_2023)
    assert days.rows == 365


def test_funding_every_eight_hours(files: Path, rooms: Rooms) -> None:
    report = import_file(
        rooms.tape,
        rooms.clock,
        "funding",
        files / "BTC_funding_8h_2023.parquet",
        symbol="BTC",
        interval="8h",
        config=rooms.config,
        sources=rooms.sources,
    )
    assert (report.rows_written, report.problem_count, report.told.gap_count) == (1_095, 0, 0)
    view = View(YEAR_2023 + DAY)
    rates = rooms.tape.facts(FundingRate, "BTC", since=YEAR_2023, view=view)
    assert [(rate.bucket_ts - YEAR_2023, rate.rate_e12) for rate in rates] == [
        *((0, 100_000_000), (8 * HOUR, 100_000_000), (16 * HOUR, 6_910_000)),
    ]


def test_marks_every_eight_hours(files: Path, rooms: Rooms) -> None:
    report = import_file(
        rooms.tape,
        rooms.clock,
        "marks",
        files / "BTC_mark_8h_2023.parquet",
        symbol="BTC",
        interval="8h",
        config=rooms.config,
        sources=rooms.sources,
    )
    assert (report.rows_written, report.problem_count) == (1_095, 0)
    assert rooms.tape.newest(Mid, "BTC", view=View(YEAR_2023 + HOUR)) == Mid("BTC", YEAR_2023, 1_653_760_000_000)


@pytest.mark.parametrize(("name", "rows", "gaps"), [("BTC", 26_301, 3), ("ETH", 26_301, 3), ("EUR", 18_693, 156)])
def test_three_years_of_hours(name: str, rows: int, gaps: int, files: Path, rooms: Rooms) -> None:
    path = files / f"{name}_USD_H1_2020_2022.parquet"
    report = import_file(
        rooms.tape,
        rooms.clock,
        "candles",
        path,
        symbol=f"{name}-H1",
        interval="1h",
        config=rooms.config,
        sources=rooms.sources,
    )
    assert (report.rows_written, report.problem_count, report.told.gap_count) == (rows, 0, gaps)


def test_rolled_up_minutes_are_the_exchanges_own_bars(files: Path, rooms: Rooms) -> None:
    path = files / "hyperliquid_1m_20_markets_2025-07-24.parquet"
    names = parquet.read_table(path).select(["symbol", "market"]).to_pylist()
    perps = sorted({row["symbol"] for row in names if row["market"] == "perp"})
    assert "HYPE" in perps and len(perps) >= 15
    compared = 0
    for symbol in perps:
        assert (
            import_file(
                rooms.tape,
                rooms.clock,
                "candles",
                path,
                symbol=symbol,
                interval="1m",
                config=rooms.config,
                sources=rooms.sources,
            ).problem_count
            == 0
        )
        for interval in ("5m", "15m", "1h", "4h"):
            larger = files / f"hyperliquid_{interval}_20_markets_2025-07-24.parquet"
            with pytest.raises(BadInput, match=r"the tape has .* in bars of 1m in this range"):
                import_file(
                    rooms.tape,
                    rooms.clock,
                    "candles",
                    larger,
                    symbol=symbol,
                    interval=interval,
                    config=rooms.config,
                    sources=rooms.sources,
                )
            compared += same_bars(rooms, larger, symbol, interval)
    assert compared > 5_000


def same_bars(rooms: Rooms, file: Path, symbol: str, interval: str) -> int:
    """Holds the bars made of minutes against those of a file; gives how many there are."""
    until, length = ONE_DAY + DAY, INTERVALS[interval]
    blocks = exporter.read_blocks(
        rooms.tape, symbol, granularity_sec=length, since=ONE_DAY, until=until, view=View(until + MINUTE)
    )
    made = [bar for block in blocks for bar in block]
    given = [
        bar
        for bar in parse_file(file, ImportRequest("candles", symbol, length * SECOND, until)).rows
        if isinstance(bar, Candle)
    ]
    assert [prices(bar) for bar in made] == [prices(bar) for bar in given]
    # A sum of floats depends on the order in which it is taken.
    assert [bar.volume_base for bar in made] == pytest.approx([bar.volume_base for bar in given], rel=1e-12)
    return len(given)


def prices(bar: Candle) -> tuple[int, ...]:
    """When a bar began and its four prices."""
    return bar.bucket_ts, bar.open_e8, bar.high_e8, bar.low_e8, bar.close_e8
