"""The same desk in other surroundings gives the same bytes: hash seeds, time zones and locales are not inputs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replay import storm
from tests.replay.home_fingerprint import fingerprint

# A zone written out works where no zones are installed. The last is Python as it was before it
# preferred UTF-8: text without a named encoding would be ASCII.
SURROUNDINGS = {
    "plain": {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    "east": {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
    "west": {"PYTHONHASHSEED": "random", "TZ": "America/St_Johns", "LC_ALL": "POSIX"},
    "no zones": {"PYTHONHASHSEED": "random", "TZ": "NPT-5:45", "LC_ALL": "C.UTF-8"},
    "ascii": {
        **{"PYTHONHASHSEED": "1", "TZ": "America/St_Johns", "LC_ALL": "C"},
        **{"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONOPTIMIZE": "1"},
    },
}


def run_side_by_side(place: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Each surrounding with what the desk printed in it."""
    waiting = [(name, start(place / name, extra)) for name, extra in SURROUNDINGS.items()]
    for name, child in waiting:
        out, said = child.communicate(timeout=300)
        assert child.returncode == 0, f"{name}: {said}"
        yield name, json.loads(out)


def start(home: Path, surroundings: dict[str, str]) -> "subprocess.Popen[str]":
    """The desk in a process of its own."""
    command, pipe = [sys.executable, "-m", "tests.replay.desk", str(home)], subprocess.PIPE
    environment = storm.environment(**surroundings)
    return subprocess.Popen(command, cwd=storm.ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.proof
def test_surroundings_do_not_matter(recorded: Path, place: Path) -> None:
    here = fingerprint(recorded)
    assert isinstance(here["trades"], int) and here["trades"] >= 5
    found = dict(run_side_by_side(place))
    assert {name: there for name, there in found.items() if there != here} == {}
    assert len(found) == len(SURROUNDINGS)
