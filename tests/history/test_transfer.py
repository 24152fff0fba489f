"""Import and export on a home: whole or not at all, never twice, and nothing of the tape is overwritten."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.market import Candle, FundingRate, Mid
from tapebook.domain.units import HOUR, MINUTE
from tapebook.errors import BadInput, StoreFailed, UnknownName
from tapebook.history import exporter
from tapebook.history.importer import assumed_known_at
from tapebook.history.transfer import ImportReport, export_candles, import_file
from tapebook.home import make_home
from tapebook.ingest.compaction import retention_by_channel
from tapebook.settings.config import Config
from tapebook.tape.retention import retire_rows
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tests.history.files import HEADER, MIDNIGHT, NOW, bars, lines, write

KEEP = retention_by_channel(Config())

EVERYTHING = View(NOW)


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    """A new home, long after what is imported."""
    make_home(tmp_path / "home")
    with closing(Rooms(tmp_path / "home", clock=VirtualClock(NOW))) as opened:
        yield opened


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    """A file of ninety minutes."""
    return write(tmp_path, [HEADER, *lines(90)], "minutes.csv")


def stored(rooms: Rooms, seconds: int = 60, symbol: str = "BTC") -> list[Candle]:
    return rooms.tape.candles(symbol, granularity_sec=seconds, since=MIDNIGHT - HOUR, view=EVERYTHING)


def imported(rooms: Rooms, path: Path, kind: Any = "candles", **how: Any) -> ImportReport:
    options = {"symbol": "BTC", "interval": "1m"} | how
    return import_file(rooms.tape, rooms.clock, kind, path, config=rooms.config, sources=rooms.sources, **options)


def test_bars_are_known_the_grace_after_their_end(rooms: Rooms, minutes: Path) -> None:
    report = imported(rooms, minutes)
    assert (report.rows, report.new_rows, report.rows_written) == (90, 90, 90)
    assert stored(rooms) == bars(90)
    at = MIDNIGHT + 10 * MINUTE + 2_000
    seen = rooms.tape.candles("BTC", granularity_sec=60, since=MIDNIGHT, view=View(at))
    assert seen == bars(10)
    assert len(rooms.tape.candles("BTC", granularity_sec=60, since=MIDNIGHT, view=View(at - 1))) == 9


def test_the_report_is_told_before_anything_is_written(rooms: Rooms, minutes: Path) -> None:
    told: list[tuple[ImportReport, int]] = []
    report = imported(rooms, minutes, tell=lambda report: told.append((report, rooms.tape.head()[0])))
    ((found, seq),) = told
    assert (seq, found.rows_written, found) == (0, 0, msgspec.structs.replace(report, rows_written=0))
    assert found.lines() == [
        f"{minutes}: CSV separated by commas, 90 lines",
        "columns: time = timestamp, open, high, low, close, volume",
        "times: milliseconds since 1970, UTC",
        "values: prices as written, to 8 decimals (the file uses 1)",
        "note: no quote volume: estimated from the bar's prices",
        "note: no number of trades: stored as 0",
        "candles of BTC: 90 rows from 2023-07-24T00:00:00.000Z to 2023-07-24T01:29:00.000Z, every 1m",
        "BTC is new to the tape: check the spelling",
        "gaps: none; repeated rows: 0",
        "in the tape: 0 are there, 0 differ, 90 are new",
    ]
    assert report.result_line() == "90 rows written, assumed to have been known 2s after the end of their bar"
    assert msgspec.json.decode(msgspec.json.encode(report), type=ImportReport) == report


def test_the_same_file_again_changes_nothing(rooms: Rooms, minutes: Path) -> None:
    imported(rooms, minutes)
    head = rooms.tape.head()
    report = imported(rooms, minutes)
    assert (report.same_rows, report.new_rows, report.rows_written, rooms.tape.head()) == (90, 0, 0, head)
    assert not report.new_symbol
    assert report.result_line() == "nothing new: the tape has all of these rows already"


def test_a_longer_file_adds_only_what_is_new(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    report = imported(rooms, write(tmp_path, [HEADER, *lines(100)]))
    assert (report.same_rows, report.rows_written) == (90, 10)
    assert stored(rooms) == bars(100)


def test_a_dry_run_writes_nothing(rooms: Rooms, minutes: Path) -> None:
    report = imported(rooms, minutes, dry_run=True)
    assert (report.new_rows, report.rows_written, rooms.tape.head()) == (90, 0, (0, 0))
    assert report.result_line() == "dry run: 90 rows would be written"


def test_one_bad_line_refuses_the_file_unless_it_is_skipped(rooms: Rooms, tmp_path: Path) -> None:
    rows = lines(5)
    path = write(tmp_path, [HEADER, *rows[:2], rows[2].replace("102", "-102"), *rows[3:]])
    told: list[ImportReport] = []
    for dry_run in (True, False):
        with pytest.raises(
            BadInput, match=r"file.csv: 1 bad line, the first is 4: open -102 is negative; mend the file"
        ):
            imported(rooms, path, dry_run=dry_run, tell=told.append)
    assert told[0].lines()[-1] == "bad: line 4 open -102 is negative"
    assert rooms.tape.head() == (0, 0)
    report = imported(rooms, path, skip_bad=True)
    assert (report.rows_written, report.problem_count, report.told.missing) == (4, 1, 1)
    assert stored(rooms) == [*bars(5)[:2], *bars(5)[3:]]


def test_twenty_bad_lines_are_shown_and_the_others_counted(rooms: Rooms, tmp_path: Path) -> None:
    told: list[ImportReport] = []
    with pytest.raises(BadInput, match="1,000 bad lines, the first is 3"):
        imported(rooms, write(tmp_path, [HEADER, *lines(1), *["x,1,1,1,1,1"] * 1_000]), tell=told.append)
    assert told[0].lines()[-1] == "bad: 980 more"
    with pytest.raises(BadInput, match="has no row that can be used"):
        imported(rooms, write(tmp_path, [HEADER, "x,1,1,1,1,1"]), skip_bad=True)


def test_gaps_are_told(rooms: Rooms, tmp_path: Path) -> None:
    rows = lines(100)
    gaps = [row for n, row in enumerate(rows) if n % 12 or n == 0]
    told = imported(rooms, write(tmp_path, [HEADER, *gaps]), dry_run=True).lines()
    assert told[-2].startswith("gaps: 8 with 8 rows missing (the longest: 2023-07-24T00:12 to 2023-07-24T00:13, ")


def test_rows_that_differ_are_refused_or_become_revisions(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    watermark = rooms.tape.head()[0]
    other = [row.replace(",0.25", ",7") for row in lines(90)]
    path = write(tmp_path, [HEADER, *other])
    with pytest.raises(
        BadInput, match="1 of 90 rows differ from what the tape has; write them as revisions with `revise=`"
    ):
        imported(rooms, path)
    assert stored(rooms) == bars(90)
    assert imported(rooms, path, revise=True, dry_run=True).result_line() == "dry run: 1 row would be written"
    report = imported(rooms, path, revise=True)
    assert (report.differing_rows, report.rows_written) == (1, 1)
    assert stored(rooms)[0].volume_base == 7
    assert rooms.tape.candles("BTC", granularity_sec=60, since=MIDNIGHT, view=View(NOW, watermark)) == bars(90)


def test_observed_rows_stay_as_they_were_observed(rooms: Rooms, minutes: Path) -> None:
    observed = [msgspec.structs.replace(bar, sample_count=5, volume_quote_usd=1.5) for bar in bars(90)[-30:]]
    rooms.tape.commit(observed)
    report = imported(rooms, minutes)
    assert (report.same_rows, report.rows_written) == (30, 60)
    assert stored(rooms) == [*bars(90)[:60], *observed]


def test_a_range_holds_bars_of_one_length(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    hours = write(tmp_path, [HEADER, *lines(3, step=HOUR)], "hours.csv")
    with pytest.raises(BadInput, match=r"the tape has BTC in bars of 1m in this range.* bars of 1h are made of these"):
        imported(rooms, hours, interval="1h")
    assert stored(rooms, 3600) == []
    assert imported(rooms, hours, interval="1h", symbol="ETH").rows_written == 3


def test_nothing_is_left_of_a_commit_that_failed(rooms: Rooms, minutes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = rooms.tape_db.many

    def full_disk(query: Any, rows: Any, **terms: Any) -> int:
        add(query, list(rows)[:50], **terms)
        raise StoreFailed("no room")

    monkeypatch.setattr(rooms.tape_db, "many", full_disk)
    with pytest.raises(StoreFailed):
        imported(rooms, minutes)
    monkeypatch.undo()
    assert (stored(rooms), rooms.tape.head()) == ([], (0, 0))
    assert imported(rooms, minutes).rows_written == 90


def test_imported_history_never_leaves(rooms: Rooms, minutes: Path) -> None:
    imported(rooms, minutes)
    assert retire_rows(rooms.tape_db, lambda folder, content: "key", keep=KEEP, now=NOW, watched=set) == 0
    assert stored(rooms) == bars(90)


def test_funding_and_marks(rooms: Rooms, tmp_path: Path) -> None:
    rates = write(tmp_path, ["time,rate", *(f"{MIDNIGHT + n * 8 * HOUR},0.0001" for n in range(3))], "rates.csv")
    marks = write(tmp_path, ["time,mark", *(f"{MIDNIGHT + n * 8 * HOUR},{n + 1}" for n in range(3))], "marks.csv")
    for kind, path, basis in (("funding", rates, "their hour"), ("marks", marks, "their five seconds")):
        report = imported(rooms, path, kind, interval="8h")
        assert report.result_line() == f"3 rows written, assumed to have been known 2s after {basis}"
        assert imported(rooms, path, kind, interval=None).rows_written == 0
    assert len(rooms.tape.facts(FundingRate, "BTC", since=MIDNIGHT, view=EVERYTHING)) == 3
    mid = rooms.tape.newest(Mid, "BTC", view=View(MIDNIGHT + 8 * HOUR + 7_000))
    assert mid == Mid("BTC", MIDNIGHT + 8 * HOUR, 2 * 10**8)


def frame(at: int, price: str) -> str:
    return f'{{"at": {at}, "frame": {{"channel": "allMids", "data": {{"mids": {{"BTC": "{price}", "ETH": "5"}}}}}}}}'


def test_a_recording_is_known_when_it_was_received(rooms: Rooms, tmp_path: Path) -> None:
    path = write(tmp_path, [frame(MIDNIGHT + 700, "1"), frame(MIDNIGHT + 6_000, "2")], "a.jsonl")
    report = imported(rooms, path, "stream", symbol=None, interval=None)
    assert (report.rows_written, report.result_line()) == (4, "4 rows written, known when they were received")
    assert rooms.tape.newest(Mid, "BTC", view=View(MIDNIGHT + 5_999)) == Mid("BTC", MIDNIGHT, 10**8)
    assert rooms.tape.newest(Mid, "BTC", view=View(MIDNIGHT + 699)) is None
    assert imported(rooms, path, "stream", symbol=None, interval=None).rows_written == 0


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"symbol": None}, "say whose rows these are with `symbol=`"),
        ({"symbol": "B T C"}, "is no symbol: write it like BTC"),
        ({"symbol": ""}, "is no symbol"),
        ({"interval": "7m"}, "there are no bars of '7m': choose one of 1m, 5m, 15m, 1h, 4h, 1d"),
        ({"interval": "5m"}, "the rows are 1m apart but `interval=` says 5m: use `interval=` 1m"),
    ],
)
def test_questions_that_cannot_be_answered(how: dict[str, Any], says: str, rooms: Rooms, minutes: Path) -> None:
    with pytest.raises(BadInput, match=says):
        imported(rooms, minutes, **how)
    assert rooms.tape.head() == (0, 0)


def exported(rooms: Rooms, path: Path, **how: Any) -> Any:
    given: dict[str, Any] = {"symbol": "BTC", "interval": "1m", "since": MIDNIGHT, "until": MIDNIGHT + 2 * HOUR}
    return export_candles(rooms.tape, rooms.clock, path, **(given | how))


@pytest.mark.parametrize("suffix", [".csv", ".json.gz"])
def test_what_is_exported_can_be_imported(suffix: str, rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    report = exported(rooms, tmp_path / f"out{suffix}")
    assert (report.rows, report.first_ts, report.last_ts) == (90, MIDNIGHT, MIDNIGHT + 89 * MINUTE)
    assert report.result_line().startswith(
        f"{tmp_path}/out{suffix}: 90 bars of BTC every 1m from 2023-07-24T00:00:00.000Z to "
    )
    assert imported(rooms, tmp_path / f"out{suffix}").same_rows == 90
    assert imported(rooms, tmp_path / f"out{suffix}", symbol="COPY").rows_written == 90
    copy = [msgspec.structs.replace(bar, symbol="BTC") for bar in stored(rooms, symbol="COPY")]
    assert copy == stored(rooms)


def test_an_export_in_many_blocks(rooms: Rooms, minutes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported(rooms, minutes)
    monkeypatch.setattr(exporter, "BLOCK_MINUTES", 20)
    seen: list[int] = []
    report = exported(rooms, tmp_path / "out.csv", progress=seen.append)
    assert (report.rows, report.first_ts, report.last_ts) == (90, MIDNIGHT, MIDNIGHT + 89 * MINUTE)
    assert seen == [40, 60, 80, 90]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 91


def test_larger_bars_and_past_moments(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    assert exported(rooms, tmp_path / "then.csv", as_of=MIDNIGHT + HOUR, until=None).rows == 59
    now = exported(rooms, tmp_path / "now.csv", until=None)
    assert (now.rows, now.as_of) == (90, NOW)


def test_a_bar_whose_end_is_not_there_is_not_exported(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    """Ninety minutes are one hour and a half: the second bar is made when its last minute is there, or is settled."""
    imported(rooms, minutes)
    report = exported(rooms, tmp_path / "hours.csv", interval="1h")
    assert (report.rows, report.last_ts) == (1, MIDNIGHT)
    with pytest.raises(BadInput, match="no bars of BTC for 4h"):
        exported(rooms, tmp_path / "four.csv", interval="4h", until=None)
    rooms.tape.commit([Mid("BTC", MIDNIGHT + 2 * HOUR + 5_000, 10**8)], assumed=assumed_known_at)
    assert exported(rooms, tmp_path / "heard.csv", interval="1h").rows == 2


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ({"symbol": "ETH"}, UnknownName, "the tape has nothing of 'ETH'; it has: BTC$"),
        ({"interval": "7m"}, BadInput, "there are no bars of '7m'"),
        ({"until": MIDNIGHT}, BadInput, "the range is empty: it begins at 2023-07-24T00:00:00.000Z and ends at"),
        ({"since": MIDNIGHT - HOUR, "until": MIDNIGHT}, BadInput, "the tape has no bars of BTC for 1m from"),
        ({"as_of": MIDNIGHT + 1_000}, BadInput, "the tape has no bars of BTC"),
        ({"as_of": NOW + 1}, BadInput, "lies in the future: nothing is known after"),
    ],
)
def test_exports_that_cannot_be_made(
    how: dict[str, Any], kind: type[Exception], says: str, rooms: Rooms, minutes: Path, tmp_path: Path
) -> None:
    imported(rooms, minutes)
    with pytest.raises(kind, match=says):
        exported(rooms, tmp_path / "out.csv", **how)
    assert not (tmp_path / "out.csv").exists()


def test_a_file_that_is_there_is_kept(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    imported(rooms, minutes)
    with pytest.raises(BadInput, match="is there already"):
        exported(rooms, minutes)
    assert exported(rooms, minutes, overwrite=True).rows == 90


def test_many_symbols_are_named_in_part(rooms: Rooms, minutes: Path, tmp_path: Path) -> None:
    rooms.tape.commit([Mid(f"S{n:02}", MIDNIGHT, 1) for n in range(25)])
    with pytest.raises(UnknownName, match=r"it has: S00, .*S19 and 5 more$"):
        exported(rooms, tmp_path / "out.csv")
