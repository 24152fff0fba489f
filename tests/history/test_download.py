"""Downloads from a local exchange: pages within its weights, gone on with after a stop, and errors of one line."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import tapebook
from tapebook.domain.market import FundingRate
from tapebook.domain.units import DAY, HOUR, parse_instant
from tapebook.errors import BadInput, Busy
from tapebook.history.download import Download, DownloadKind, DownloadReport, fetch_history
from tapebook.world.faults import Faults
from tapebook.world.market import World, symbol_candles, symbol_history
from tapebook.world.server import WorldServer

START = parse_instant("2026-01-01T00:00:00Z")
NOW = START + 2 * DAY


def fetch(
    path: Path, *, kind: DownloadKind = "candles", symbol: str = "BTC", since: int = START, faults: Faults | None = None
) -> tuple[DownloadReport, list[float]]:
    """A download from a world of its own, and what it waited for."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> DownloadReport:
        server = WorldServer(World(5, start=START, symbols=("BTC",)), history_ms=2 * DAY, faults=faults or Faults())
        url = await server.start()
        try:
            step = 5 * 60_000 if kind == "candles" else HOUR
            asked = Download(kind, symbol, "5m", step, since, NOW, url)
            return await fetch_history(asked, path, weight_share=0.6, sleep=sleep)
        finally:
            await server.stop()

    return asyncio.run(run()), [wait for wait in waits if wait]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("whole") / "BTC-5m.csv"
    report, waits = fetch(path)
    assert (report.rows, report.new_rows, report.first_ts, waits) == (576, 576, START, [])
    yield path


def test_bars_are_those_of_the_exchange_and_can_be_imported(whole: Path, tmp_path: Path) -> None:
    tapebook.init(tmp_path / "home")
    with tapebook.open(tmp_path / "home") as book:
        report = book.import_file("candles", whole, symbol="BTC", interval="5m")
        assert (report.rows_written, report.told.gap_count) == (576, 0)
    minutes = list(symbol_candles(World(5, start=START, symbols=("BTC",)), "BTC", until=START + 5 * 60_000))
    line = whole.read_text("utf-8").splitlines()[1].split(",")
    assert [float(text) for text in line[1:5]] == [
        *(minutes[0].open_e8 / 1e8, max(bar.high_e8 for bar in minutes) / 1e8),
        *(min(bar.low_e8 for bar in minutes) / 1e8, minutes[-1].close_e8 / 1e8),
    ]


def test_a_stopped_download_goes_on(whole: Path, tmp_path: Path) -> None:
    """Cut off in the middle of a line, or begun with fewer days: what is missing is fetched, nothing twice."""
    path = tmp_path / "BTC-5m.csv"
    text = whole.read_text("utf-8")
    path.write_text(text[: len(text) // 3], "utf-8")
    report, _ = fetch(path)
    assert 300 < report.new_rows < 500 and path.read_text("utf-8") == text
    assert fetch(path)[0].new_rows == 0
    late = tmp_path / "late.csv"
    assert fetch(late, since=NOW - HOUR)[0].rows == 12
    assert fetch(late)[0].rows == 576
    assert sorted(late.read_text("utf-8").splitlines()) == sorted(text.splitlines())


def test_funding(tmp_path: Path) -> None:
    report, _ = fetch(tmp_path / "f.csv", kind="funding")
    rows = symbol_history(World(5, start=START, symbols=("BTC",)), "BTC", until=NOW)
    rates = [row for row in rows if isinstance(row, FundingRate)]
    # The rate of this very hour is settled and not published yet.
    assert report.rows == len(rates) - 1 == 47
    first = (tmp_path / "f.csv").read_text("utf-8").splitlines()[1].split(",")
    assert first[0] == "2026-01-01T01:00:00.000Z" and round(float(first[1]) * 1e12) == rates[0].rate_e12


def test_more_days_than_the_exchange_keeps_are_noted(whole: Path) -> None:
    report, _ = fetch(whole, since=START - 40 * DAY)
    assert "newest 5,000 bars of 5m: 40.0 of the days asked for are not there" in report.lines()[1]


def test_a_symbol_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not know FOO: check the spelling"):
        fetch(tmp_path / "a.csv", symbol="FOO")


def test_a_busy_exchange_is_asked_again_and_then_given_up(tmp_path: Path) -> None:
    with pytest.raises(Busy, match=r"does not answer .*run the same command again to go on"):
        fetch(tmp_path / "a.csv", faults=Faults(down=(("info", START, NOW + DAY),)))


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("notes\n", "utf-8")
    with pytest.raises(BadInput, match="is another file"):
        fetch(tmp_path / "a.csv")
