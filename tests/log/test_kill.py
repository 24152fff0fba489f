"""A process that is killed at any moment loses nothing it said was committed, and leaves nothing half."""

import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tapebook.db import connect
from tapebook.log import verify_log
from tests.log.journal import PACKAGES, STREAMS, open_journal

ROOT = Path(__file__).parents[2]
KILLS = 10


def killed_after(seconds: float, path: str) -> list[int]:
    """Lets an appender run, kills it, and gives the numbers it had printed."""
    command = [sys.executable, "-m", "tests.log.appender", path]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as appender:
        assert appender.stdout
        # From its first word on, so that the time it takes to start does not count.
        first = appender.stdout.readline()
        time.sleep(seconds)
        appender.kill()
        lines = [first, *appender.stdout]
    assert appender.returncode == -9
    # The last line can be cut in the middle: what is not a whole line was not said.
    return [int(line) for line in lines if line.endswith("\n")]


def test_killed_writer_loses_nothing_it_printed(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    moments = random.Random(7)
    said: list[int] = []
    for _ in range(KILLS):
        said += killed_after(moments.uniform(0, 0.15), path)
        with closing(connect(path, create=False)) as db:
            log = open_journal(db)
            there = [event.seq for event in log.events(STREAMS[0])]
            assert set(said) <= set(there)
            assert there == list(range(1, len(there) + 1)) and len(there) % 3 == 0
            assert verify_log(log, db, packages=PACKAGES, anchors={}) == []
    # Each went on where the one before had ended.
    assert said == sorted(set(said)) and len(said) >= 3 * KILLS
