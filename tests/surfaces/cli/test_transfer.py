"""The commands `import` and `export`: what is told, what is refused, and the exit codes."""

import json
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.archive import put_content
from tapebook.tape.recording import Recorder
from tests.history.files import HEADER, lines, write
from tests.surfaces.cli.conftest import Run


@pytest.fixture
def new_home(tmp_path: Path) -> str:
    """A new home."""
    app.init(tmp_path / "home")
    return str(tmp_path / "home")


@pytest.fixture
def minutes(tmp_path: Path) -> str:
    """A file of ninety minutes."""
    return str(write(tmp_path, [HEADER, *lines(90)], "minutes.csv"))


BARS = ("--symbol", "BTC", "--interval", "1m")


def test_an_import_says_what_it_found_and_what_it_wrote(run: Run, new_home: str, minutes: str) -> None:
    code, out, err = run("import", "candles", minutes, *BARS, "--home", new_home)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{minutes}: CSV separated by commas, 90 lines"
    assert out.splitlines()[-1] == "90 rows written, assumed to have been known 2s after the end of their bar"
    code, out, _ = run("import", "candles", minutes, *BARS, "--home", new_home)
    assert (code, out.splitlines()[-1]) == (0, "nothing new: the tape has all of these rows already")


def test_a_dry_run_as_json(run: Run, new_home: str, minutes: str) -> None:
    code, out, _ = run("import", "candles", minutes, *BARS, "--dry-run", "--json", "--home", new_home)
    report = json.loads(out)
    assert (code, report["new_rows"], report["rows_written"], report["dry_run"]) == (0, 90, 0, True)
    assert report["told"]["columns"]["time"] == "timestamp"


def test_bad_lines_are_listed_and_refused(run: Run, new_home: str, tmp_path: Path) -> None:
    path = str(write(tmp_path, [HEADER, *lines(2), "x,1,1,1,1,1"]))
    code, out, err = run("import", "candles", path, *BARS, "--home", new_home)
    assert (code, len(err.splitlines())) == (2, 1)
    assert out.splitlines()[-1].startswith("bad: line 4 time 'x' cannot be read")
    assert err.startswith("error: ") and err.endswith("leave them out with --skip-bad\n")
    code, out, err = run("import", "candles", path, *BARS, "--json", "--home", new_home)
    assert (code, json.loads(out)["problem_count"], len(err.splitlines())) == (2, 1, 1)
    code, out, _ = run("import", "candles", path, *BARS, "--skip-bad", "--home", new_home)
    assert (code, out.splitlines()[-1][:14]) == (0, "2 rows written")


def test_the_other_kinds(run: Run, new_home: str, tmp_path: Path) -> None:
    rates = str(write(tmp_path, ["time,rate", "2023-07-24,0.0001", "2023-07-24T08:00,0.0002"], "rates.csv"))
    marks = str(write(tmp_path, ["time,mark", "2023-07-24,1.5"], "marks.csv"))
    frame = '{"at": 1690156800100, "frame": {"channel": "allMids", "data": {"mids": {"ETH": "5"}}}}\n'
    recorded = str(write(tmp_path, frame, "a.jsonl"))
    home = ("--home", new_home)
    assert run("import", "funding", rates, "--symbol", "BTC", "--interval", "8h", *home)[0] == 0
    assert run("import", "marks", marks, "--symbol", "BTC", *home)[0] == 0
    assert run("import", "stream", recorded, *home)[0] == 0
    code, _, err = run("import", "candles", recorded, *BARS, *home)
    assert code == 2 and "use `tapebook import stream" in err


def test_a_recorded_range_is_written_or_it_is_said_what_there_is(run: Run, new_home: str, tmp_path: Path) -> None:
    words = ("export", "stream", "--from", "2026-01-01", "--home", new_home, "--out", str(tmp_path / "out.log"))
    code, out, err = run(*words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "no payloads were recorded" in err and "raw = true" in err
    with app.open(new_home) as book:
        recorder = Recorder(book._rooms.tape_db, lambda content: put_content(book._rooms.archive, content))
        for n in range(3):
            recorder(1_767_571_200_000 + n * 1_000, b'{"channel":"allMids","data":{"mids":{"ETH":"%d"}}}' % (n + 5))
        recorder.close()
    code, out, _ = run(*words, "--to", "2026-01-05T00:00:02", "--json")
    assert (code, json.loads(out)["lines"]) == (0, 2)
    assert len((tmp_path / "out.log").read_text().splitlines()) == 2
    for more, says in (
        ((), "is there already"),
        (
            ("--overwrite", "--to", "2026-01-02"),
            "there are some from 2026-01-05T00:00:00.000Z to 2026-01-05T00:00:02.000Z",
        ),
        (("--overwrite", "--to", "2025-01-02"), "the range is empty"),
        (("--overwrite", "--to", "soon"), "is not a time"),
    ):
        code, out, err = run(*words, *more)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert says in err
    code, out, _ = run(*words, "--overwrite")
    assert code == 0 and "3 payloads received from" in out
    code, out, _ = run("import", "stream", str(tmp_path / "out.log"), "--home", new_home)
    assert (code, out.splitlines()[-1]) == (0, "1 row written, known when they were received")


def test_an_export_and_its_refusals(run: Run, new_home: str, minutes: str, tmp_path: Path) -> None:
    run("import", "candles", minutes, *BARS, "--home", new_home)
    out_file = str(tmp_path / "out.csv")
    words = ("export", "candles", "--symbol", "BTC", "--interval", "1h", "--from", "2023-07-24", "--home", new_home)
    code, out, _ = run(*words, "--out", out_file)
    assert (code, out.startswith(f"{out_file}: 1 bar of BTC every 1h from")) == (0, True)
    code, out, _ = run(*words, "--out", out_file, "--overwrite", "--to", "2023-07-24T01:00", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 1)
    for more, says in (
        (("--out", out_file), "is there already"),
        (("--out", str(tmp_path / "x.txt")), "has no known ending"),
        (("--out", str(tmp_path / "x.csv"), "--to", "2022-01-01"), "the range is empty"),
        (("--out", str(tmp_path / "x.csv"), "--to", "soon"), "is not a time"),
        (("--out", str(tmp_path / "x.csv"), "--as-of", "2023-07-24T00:30"), "the tape has no bars of BTC"),
    ):
        code, out, err = run(*words, *more)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert says in err
