"""The commands about the market: bad input in one line, and problems of ingestion said once while they last."""

from pathlib import Path

import pytest

from tapebook import app
from tapebook.loop.listen import IngestProgress
from tapebook.surfaces.cli.market import _Reporter
from tests.surfaces.cli.conftest import Run


def progress(problem: str | None, rows: int = 0) -> IngestProgress:
    return IngestProgress(1_767_571_200_000, {"mids": rows}, 2, problem)


def test_a_problem_is_said_when_it_begins_and_not_while_it_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    told = _Reporter(lambda done, text: None)
    for problem in ("no room (3 facts are waiting)", "no room (9 facts are waiting)", None, None, "no room (1 …)", "x"):
        told(progress(problem, 5))
    assert capsys.readouterr().err.splitlines() == [
        "warning: no room (3 facts are waiting)",
        "warning: no room (1 …)",
        "warning: x",
    ]
    assert told.lines() == ["mids         5 rows", "2 open gaps"]


def test_nothing_received_is_said() -> None:
    assert _Reporter(lambda done, text: None).lines() == ["nothing was received"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("market", "NOPE"), "the tape has nothing of 'NOPE'"),
        (("market", "BTC", "--as-of", "2026-13-45"), "is not a time"),
        (("ingest", "--url", "nonsense", "--seconds", "1"), "'nonsense' is no address"),
        (("ingest", "--url", "http://127.0.0.1:9", "--seconds", "1"), "nothing answers at http://127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str, run: Run, tmp_path: Path) -> None:
    app.init(tmp_path / "home")
    code, out, err = run(*words, "--home", str(tmp_path / "home"))
    assert (code, out) == (2, "") and says in err
    # On a terminal that is none, progress is a line of its own.
    assert [line for line in err.splitlines() if not line.startswith("ingest ")] == [err.splitlines()[-1]]
