"""Progress: a plain line now and then where nobody watches, a bar on a terminal, nothing on stdout."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tapebook.surfaces.cli import output as module
from tapebook.surfaces.cli.output import progress

SOURCE = str(Path(__file__).parents[3] / "src")


def test_plain_lines_come_every_two_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([0.0, *(tick / 2 for tick in range(1, 40))])
    monkeypatch.setattr(module, "elapsed_seconds", lambda: next(seconds))
    with progress("demo") as show:
        for step in range(16):
            show(step / 16, f"rows {step}")
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("rows")[1] for line in err.splitlines()] == [" 3", " 7", " 11", " 15"]
    assert err.splitlines()[0] == "demo  19%  rows 3"


def test_unknown_whole_has_no_share(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.0)
    with progress("replay") as show:
        show(None, "12 runs")
    assert capsys.readouterr().err == "replay  12 runs\n"


def test_a_terminal_gets_a_bar_in_80_columns() -> None:
    script = """
from tapebook.surfaces.cli.output import progress
with progress("demo") as show:
    show(None, "starting")
    show(0.0, "starting")
    show(0.5, "2026-01-05T04:00  rows 123,456  ticks 1,234  trades 123")
print("answer")
"""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "80", "TERM": "xterm"}
    ran = subprocess.run([sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, env=environ, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert ran.stdout == b"answer\n"
    assert "50%" in shown and "trades 123" in shown
