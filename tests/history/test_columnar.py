"""Parquet and feather: instants by their type, other columns as they are."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from tapebook.errors import BadInput
from tapebook.history import tables
from tapebook.history.import_file import parse_file
from tests.history.files import MIDNIGHT, ask, bars, lines, parsed, write

NAMES = ("open", "high", "low", "close", "volume")


def table(times: Any, *, as_type: Any = None) -> Any:
    """Five bars as an Arrow table with this column of times."""
    cells = [line.split(",")[1:] for line in lines(5)]
    columns = {name: pa.array([float(row[place]) for row in cells], as_type) for place, name in enumerate(NAMES)}
    return pa.table({"date": times, **columns})


def stamps(unit: str, zone: str | None = "UTC") -> Any:
    """The times of five minutes as Arrow timestamps."""
    factor = {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}[unit]
    return pa.array([(MIDNIGHT // 1_000 + 60 * n) * factor for n in range(5)], pa.timestamp(unit, zone))


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "plain.feather", "a.parquet.gz"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_both_formats_and_all_units(name: str, unit: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if "feather" in name:
        feather.write_feather(table(stamps(unit)), str(path), compression="uncompressed" if "plain" in name else "lz4")
    else:
        parquet.write_table(table(stamps(unit)), path.with_suffix(".parquet"))
    if name.endswith(".gz"):
        path = write(tmp_path, path.with_suffix(".parquet").read_bytes(), name)
    found = parse_file(path, ask())
    assert found.rows == bars(5)
    # Parquet knows no seconds and keeps milliseconds.
    kept = "ms" if (unit, "parquet" in name) == ("s", True) else unit
    assert found.told.times == f"timestamps in {kept}, with the zone UTC"


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (stamps("ns", None), "timestamps in ns, without a zone, taken as UTC"),
        (stamps("ms", "Europe/Berlin"), "timestamps in ms, with the zone Europe/Berlin"),
        (pa.array([MIDNIGHT + 60_000 * n for n in range(5)]), "milliseconds since 1970, UTC"),
        (pa.array([f"2023-07-24 00:0{n}:00" for n in range(5)]), "ISO-8601 without a zone, taken as UTC"),
        (pa.array([float(MIDNIGHT // 1000 + 60 * n) for n in range(5)]), "seconds since 1970, UTC"),
    ],
)
def test_other_columns_of_times(times: Any, words: str, tmp_path: Path) -> None:
    parquet.write_table(table(times), tmp_path / "a.parquet")
    found = parse_file(tmp_path / "a.parquet", ask())
    assert (found.rows, found.told.times) == (bars(5), words)


def test_dates_are_midnights(tmp_path: Path) -> None:
    days = pa.array([MIDNIGHT // 86_400_000 + n for n in range(5)], pa.int32()).cast(pa.date32())
    parquet.write_table(table(days), tmp_path / "a.parquet")
    found = parse_file(tmp_path / "a.parquet", ask(interval="1d"))
    assert [bar.bucket_ts - MIDNIGHT for bar in found.rows] == [86_400_000 * n for n in range(5)]
    assert found.told.times == "dates, taken as 00:00 UTC"


def test_nulls_and_other_types_of_numbers(tmp_path: Path) -> None:
    whole = table(stamps("ms"))
    prices = [pa.array([None, 101, 102, 103, 104], pa.int64()), *whole.columns[2:]]
    parquet.write_table(pa.table([whole.column(0), *prices], names=["date", *NAMES]), tmp_path / "a.parquet")
    found = parse_file(tmp_path / "a.parquet", ask())
    assert [(problem.row, problem.why) for problem in found.problems] == [(1, "open is missing")]
    assert found.rows == bars(5)[1:]


def test_rows_are_counted_through_the_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BLOCK_ROWS", 2)
    parquet.write_table(table(stamps("ms")), tmp_path / "a.parquet")
    with open(tmp_path / "a.parquet", "rb") as file:
        assert [list(block.numbers) for block in tables.read_parquet(file).blocks] == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
def test_damaged_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.parquet":
        parquet.write_table(table(stamps("ms")), path)
    else:
        feather.write_feather(table(stamps("ms")), str(path))
    whole = path.read_bytes()
    for size in (8, 100, len(whole) - 3):
        with pytest.raises(BadInput, match=r"file is damaged or cut off"):
            parse_file(write(tmp_path, whole[:size], name), ask())
    garbled = whole[:40] + bytes(60) + whole[100:]
    try:
        assert parsed(tmp_path, garbled, name).told.rows_read == 5
    except BadInput as error:
        assert name in str(error)
