"""Runs the small desk on from a base, killed by the system before its N-th act, and lets the next process finish.

`python -m tests.replay.wrecks BASE UNTIL COUNT` does so for COUNT acts, evenly spread, and prints
one line of JSON for the undisturbed run and one for each wreck. It is a program of its own
because a process should fork only while it has one thread.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from tests.replay import desk
from tests.replay.faults import Fuse, die, lit
from tests.replay.remains import fingerprint


def undisturbed(base: Path, *, until: int) -> tuple[dict[str, object], int]:
    """What the desk leaves when nothing happens, and how many acts that takes."""
    fuse = Fuse()
    home = shutil.copytree(base, base.with_name("whole"))
    with lit(fuse):
        desk.trade(home, until=until)
    return fingerprint(home), len(fuse.acts)


def wrecked(base: Path, *, until: int, at: int) -> dict[str, object]:
    """What it leaves when it was killed before an act and started again."""
    home = shutil.copytree(base, base.with_name("wreck"))
    child = os.fork()
    if child == 0:
        try:
            with lit(Fuse(at, die)):
                desk.trade(home, until=until)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit(f"act {at} was never reached: the child left with status {status}")
    desk.trade(home, until=until)
    left = fingerprint(home)
    shutil.rmtree(home)
    return left


def main(base: Path, *, until: int, count: int) -> None:
    """Prints the undisturbed run, then the wrecks."""
    whole, acts = undisturbed(base, until=until)
    print(json.dumps(whole))
    for number in range(count):
        print(json.dumps(wrecked(base, until=until, at=1 + number * acts // count)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), until=int(sys.argv[2]), count=int(sys.argv[3]))
