"""Runs the small desk on from a base, killed by the system before its N-th act, and lets the next process finish.

`python -m tests.replay.crash_runner BASE UNTIL COUNT HANDS SERVER` does so for COUNT acts, evenly spread, and prints
one line of JSON for the undisturbed run and one for each wreck. It is a program of its own
because a process should fork only while it has one thread.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.replay import desk
from tests.replay.faults import Fuse, die, lit
from tests.replay.home_fingerprint import fingerprint
from tests.replay.stage import Stage


def undisturbed(base: Path, stage: Stage, *, until: int, hands: desk.Hands) -> tuple[dict[str, object], int]:
    """What the desk leaves when nothing happens, and how many acts that takes."""
    fuse = Fuse()
    home = stage.copy(base, "whole")
    with lit(fuse):
        desk.trade(home, until=until, hands=hands)
    left = fingerprint(home)
    stage.remove(home)
    return left, len(fuse.acts)


def wrecked(base: Path, stage: Stage, *, until: int, hands: desk.Hands, at: int) -> dict[str, object]:
    """What it leaves when it was killed before an act and started again."""
    home = stage.copy(base, "wreck")
    child = os.fork()
    if child == 0:
        try:
            with lit(Fuse(at, die)):
                desk.trade(home, until=until, hands=hands)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise SystemExit(f"act {at} was never reached: the child left with status {status}")
    desk.trade(home, until=until, hands=hands)
    left = fingerprint(home)
    stage.remove(home)
    return left


def main(base: Path, *, until: int, count: int, hands: desk.Hands, dsn: str) -> None:
    """Prints the undisturbed run, then the wrecks."""
    stage = Stage(base.parent, dsn)
    whole, acts = undisturbed(base, stage, until=until, hands=hands)
    print(json.dumps(whole))
    for number in range(count):
        print(json.dumps(wrecked(base, stage, until=until, hands=hands, at=1 + number * acts // count)))


if __name__ == "__main__":
    _, place, moment, times, crew_or_desk, server = sys.argv
    role: desk.Hands = "crew" if crew_or_desk == "crew" else "desk"
    main(Path(place), until=int(moment), count=int(times), hands=role, dsn=server)
