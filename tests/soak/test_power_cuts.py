"""Twenty power cuts of a desk with retention: real processes on a fast world, cut at any moment and started again."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tapebook.api import app
from tapebook.settings.config import FILE
from tests.db.places import sql
from tests.replay.power import CUTS, Disk, Recorder, compiler, survivors
from tests.replay.storm import ROOT, environment

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(compiler() is None, reason="a power cut needs a C compiler (cc) to be recorded"),
]

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "power.json"
TIMES = 20
SPEED = 300
# An hour of the market, at whose beginning old rows leave, is twelve seconds.
LIFE_SECONDS = (8.0, 14.0)
SEED = 14


@pytest.fixture
def world() -> Iterator[str]:
    """The address of an invented market that goes on while the desk is down."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tapebook", "world", "--port", str(port), "--speed", str(SPEED)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    assert server.stdout and "serving" in server.stdout.readline()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.communicate()


def make_desk(home: Path) -> None:
    """A home whose agents decide every minute, and whose rows leave within the hour."""
    app.init(home)
    with app.open(home) as book:
        book.edit_agent("btc-5m", {"every_minutes": "1"})
    text = (home / FILE).read_text("utf-8")
    # A lease that was held at a cut is waited for; the lives here are short.
    for name, value in (("mids_hours", 0.2), ("candles_hours", 0.2), ("features_hours", 0.2), ("lease_seconds", 1.0)):
        text, changed = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert changed == 1
    (home / FILE).write_text(text, "utf-8")


def live_and_die(home: Path, recorder: Recorder, *, world: str, seconds: float) -> None:
    """Runs the desk, everything it does to its files noted, and ends all its processes."""
    command = [sys.executable, "-m", "tapebook", "up", "--with-ingest", "--url", world, "--home", str(home)]
    noted = environment(**recorder.environment())
    desk = subprocess.Popen(command, cwd=ROOT, env=noted, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(seconds)
    assert desk.poll() is None, desk.communicate()[1]
    # It would start its children again.
    desk.send_signal(signal.SIGSTOP)
    children = psutil.Process(desk.pid).children(recursive=True)
    for process in (*children, desk):
        process.kill()
    desk.communicate()
    psutil.wait_procs(children)


def test_twenty_cuts_leave_nothing_dangling(tmp_path: Path, world: str) -> None:
    home, chance = tmp_path / "home", random.Random(SEED)
    make_desk(home)
    figures: list[dict[str, Any]] = []
    for number in range(TIMES):
        disk, recorder, cut = Disk(home), Recorder(home, tmp_path), CUTS[number % len(CUTS)]
        live_and_die(home, recorder, world=world, seconds=chance.uniform(*LIFE_SECONDS))
        acts = recorder.acts()
        kept = chance.randint(len(acts) // 2, len(acts))
        disk.play(acts[:kept])
        unsynced = disk.unsynced()
        disk.after_cut("kept", seed=number)
        seen = survivors(home)
        disk.after_cut(cut, seed=number)
        left = survivors(home)
        # What its own commit was about to sync may be lost; one batch of a worker is one commit.
        found = {"cut": cut, "acts": kept, "unsynced": unsynced, "decisions": left.runs, "keys": left.references}
        figures.append(found | {"unfinished_decisions": seen.runs - left.runs, "wrong": left.wrong})
        print(f"cut {number + 1}: {figures[-1]}", flush=True)
        assert seen.wrong == [] and left.wrong == []
    with app.open(home) as book:
        moved = book._rooms.tape_db.all(sql("SELECT COUNT(*), SUM(rows_moved) FROM tape_archived"))[0]
    outcome = {
        "cuts": dict(Counter(each["cut"] for each in figures)),
        "decisions_replayed_after_the_last_cut": figures[-1]["decisions"],
        "decisions_replayed_in_all": sum(each["decisions"] for each in figures),
        "keys_found_whole_in_all": sum(each["keys"] for each in figures),
        "names_and_files_unsynced_at_the_cuts": [each["unsynced"] for each in figures],
        "chunks_and_rows_that_left_the_tape": list(moved),
        "decisions_whose_commit_was_cut": sum(each["unfinished_decisions"] for each in figures),
        "missing_altered_or_different": sum(len(each["wrong"]) for each in figures),
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(outcome, indent=2, sort_keys=True) + "\n", "utf-8")
    assert figures[-1]["decisions"] > 100 and moved[0] > 10
