"""Export: bars as stored or rolled up from the finest, whole files or none, and nothing lost on the way back."""

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tapebook import plug
from tapebook.clock import VirtualClock
from tapebook.db import connect, migrate
from tapebook.domain.market import Candle
from tapebook.domain.units import DAY, E8, HOUR, MINUTE
from tapebook.errors import BadInput, StoreFailed
from tapebook.history import exporter
from tapebook.history.import_file import parse_file
from tapebook.history.importer import assumed_known_at
from tapebook.tape.bars import roll_up
from tapebook.tape.store import MIGRATIONS, Tape
from tapebook.tape.view import INTERVALS, View
from tests.history.files import MIDNIGHT, NOW, ask, bars

SUFFIXES = [".csv", ".json", ".csv.gz", ".json.gz", ".parquet"]
ALL = View(NOW + MINUTE)


@pytest.fixture
def tape() -> Iterator[Tape]:
    """An empty tape."""
    with closing(connect(":memory:", durable=False)) as db:
        migrate(db, (MIGRATIONS,))
        yield Tape(db, clock=VirtualClock(NOW))


def export(path: Path, *blocks: list[Candle]) -> Path:
    """Writes blocks of bars to a file."""
    with exporter.atomic_file(path) as file, closing(exporter.open_writer(path, file)) as writer:
        for block in blocks:
            writer.write(block)
    return path


def read(
    tape: Tape, interval: str, *, since: int = MIDNIGHT, until: int = MIDNIGHT + DAY, view: View = ALL
) -> list[Candle]:
    """The bars an export of BTC would hold."""
    blocks = exporter.read_blocks(tape, "BTC", granularity_sec=INTERVALS[interval], since=since, until=until, view=view)
    return [bar for block in blocks for bar in block]


def test_every_suffix_has_a_module() -> None:
    assert plug.names("tapebook.history.exporters") == ["csv", "json", "parquet"]


def test_csv_is_plain_text(tmp_path: Path) -> None:
    small = Candle("BTC", 60, MIDNIGHT + MINUTE, 1, 12_345_678_900_000, 1, E8, 1e-9, 1e22, 3)
    text = export(tmp_path / "a.csv", bars(1), [small]).read_text()
    assert text.splitlines() == [
        "time,open,high,low,close,volume,quote_volume,trades,interval",
        "2023-07-24T00:00:00.000Z,100,101.5,99.5,101,0.25,25.125,0,1m",
        "2023-07-24T00:01:00.000Z,0.00000001,123456.789,0.00000001,1,1e-09,1e+22,3,1m",
    ]


def test_json_is_a_list_of_objects(tmp_path: Path) -> None:
    rows = json.loads(gzip.decompress(export(tmp_path / "a.json.gz", bars(2)[:1], bars(2)[1:]).read_bytes()))
    assert [row["time"] for row in rows] == [MIDNIGHT, MIDNIGHT + MINUTE]
    assert rows[0] == {
        **{"time": MIDNIGHT, "open": 100, "high": 101.5, "low": 99.5, "close": 101},
        **{"volume": 0.25, "quote_volume": 25.125, "trades": 0, "interval": "1m"},
    }
    assert json.loads(export(tmp_path / "b.json").read_text()) == []


def test_parquet_has_typed_columns(tmp_path: Path) -> None:
    schema = parquet.read_schema(export(tmp_path / "a.parquet", bars(3)))
    assert schema.names == list(exporter.COLUMNS)
    assert [str(field.type) for field in schema][:2] == ["timestamp[ms, tz=UTC]", "double"]


def test_a_price_parquet_cannot_hold_is_refused(tmp_path: Path) -> None:
    price = 2**62 + 1
    big = Candle("BTC", 60, MIDNIGHT, price, price, price, price, 1.0, 1.0, 1)
    with pytest.raises(BadInput, match=r"more digits than a double of Parquet holds: export to .csv"):
        export(tmp_path / "a.parquet", [big])
    assert list(tmp_path.iterdir()) == []


@st.composite
def series(draw: st.DrawFn, *, most: int) -> list[Candle]:
    """Any bars of one length: prices up to `most`, any volumes, any gaps."""
    length = draw(st.sampled_from(sorted(INTERVALS.values())))
    amounts = st.floats(0, 1e29)
    found = []
    for place in sorted(draw(st.sets(st.integers(0, 500), min_size=1, max_size=8))):
        low, one, two, high = sorted(draw(st.tuples(*[st.integers(1, most)] * 4)))
        opened, close = draw(st.permutations([one, two]))
        values = (draw(amounts), draw(amounts), draw(st.integers(0, 2**53 - 1)))
        begins = MIDNIGHT + place * length * 1_000
        found.append(Candle("BTC", length, begins, opened, high, low, close, *values))
    return found


def returned(suffix: str, rows: list[Candle], folder: Path) -> list[Candle]:
    """What comes back of bars that were exported and imported."""
    path = export(folder / f"round{suffix}", rows[:3], rows[3:])
    parsed = parse_file(path, ask(interval=exporter.INTERVAL_NAMES[rows[0].granularity_sec]))
    assert (parsed.problem_count, parsed.told.duplicates) == (0, 0)
    return [bar for bar in parsed.rows if isinstance(bar, Candle)]


@pytest.mark.parametrize("suffix", SUFFIXES[:4])
@given(rows=series(most=2**63 - 1))
def test_export_and_import_is_the_identity(
    suffix: str, rows: list[Candle], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert returned(suffix, rows, tmp_path_factory.getbasetemp()) == rows


@given(rows=series(most=9 * 10**6 * E8))
def test_export_and_import_is_the_identity_for_parquet(
    rows: list[Candle], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert returned(".parquet", rows, tmp_path_factory.getbasetemp()) == rows


def test_stored_bars_come_as_they_are(tape: Tape) -> None:
    flat = [msgspec.structs.replace(bar, volume_base=0.0) for bar in bars(10)]
    tape.commit(flat, assumed=assumed_known_at)
    assert read(tape, "1m") == flat
    assert read(tape, "1m", since=MIDNIGHT + 1, until=MIDNIGHT + 3 * MINUTE) == flat[1:3]
    assert read(tape, "1m", since=MIDNIGHT + 3 * MINUTE, until=MIDNIGHT + 3 * MINUTE + 1) == flat[3:4]


def test_larger_bars_are_made_of_the_finest(tape: Tape) -> None:
    minutes = bars(200)
    tape.commit(minutes, assumed=assumed_known_at)
    for interval in ("5m", "15m", "1h", "4h", "1d"):
        made = roll_up(minutes, granularity_sec=INTERVALS[interval])
        assert read(tape, interval) == [bar for bar in made if bar.end <= MIDNIGHT + 200 * MINUTE]
    # A larger bar that is stored beside its minutes does not count.
    tape.commit([Candle("BTC", 3600, MIDNIGHT, 1, 1, 1, 1, 1.0, 1.0, 1)])
    assert read(tape, "1h") == roll_up(minutes, granularity_sec=3600)[:-1]
    # But where there are no finer ones it does, and smaller ones cannot be made of it.
    hour = Candle("BTC", 3600, MIDNIGHT + 10 * HOUR, 1, 1, 1, 1, 1.0, 1.0, 1)
    tape.commit([hour])
    assert read(tape, "1h") == [*roll_up(minutes, granularity_sec=3600), hour]
    assert read(tape, "15m")[-1].bucket_ts < hour.bucket_ts
    # The four hours it lies in are not over.
    assert [bar.bucket_ts for bar in read(tape, "4h")] == [MIDNIGHT]


def test_only_what_was_known_and_had_ended(tape: Tape) -> None:
    tape.commit(bars(60), assumed=assumed_known_at)
    assert len(read(tape, "1m", view=View(MIDNIGHT + 30 * MINUTE))) == 29
    assert len(read(tape, "1m", view=View(MIDNIGHT + 30 * MINUTE + 2_000))) == 30
    # The last minute is known two seconds after the hour: before, the hour is not whole.
    assert read(tape, "1h", view=View(MIDNIGHT + HOUR + 1_999)) == []
    assert read(tape, "1h", view=View(MIDNIGHT + HOUR + 2_000)) == roll_up(bars(60), granularity_sec=3600)
    watermark = tape.head()[0]
    tape.commit([msgspec.structs.replace(bars(1)[0], volume_base=9.0)])
    assert read(tape, "1m")[0].volume_base == 9.0
    assert read(tape, "1m", view=View(NOW + MINUTE, watermark))[0].volume_base == 0.25


def test_blocks_do_not_show(tape: Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    tape.commit(bars(500), assumed=assumed_known_at)
    whole = {interval: read(tape, interval, since=MIDNIGHT + 7 * MINUTE) for interval in INTERVALS}
    monkeypatch.setattr(exporter, "BLOCK_MINUTES", 11)
    assert {interval: read(tape, interval, since=MIDNIGHT + 7 * MINUTE) for interval in INTERVALS} == whole


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("precious")
    for path, says in (
        (there, "is there already: choose another name, or `overwrite=`"),
        (tmp_path / "a.txt", r"has no known ending: choose one of .csv, .json, .parquet, or .csv.gz"),
        (tmp_path / "none", "has no known ending"),
        (tmp_path / "missing" / "a.csv", "there is no folder"),
    ):
        with pytest.raises(BadInput, match=says):
            exporter.check_export_path(path, overwrite=False)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        exporter.check_export_path(tmp_path / "folder.csv", overwrite=True)
    exporter.check_export_path(there, overwrite=True)
    assert there.read_text() == "precious"


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), exporter.atomic_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
    with pytest.raises(StoreFailed, match=r"cannot write .*: No space left"), exporter.atomic_file(path) as file:
        raise OSError(28, "No space left on device")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("before", [path])
