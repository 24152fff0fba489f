"""Moves old decisions to the archive, killed by the system before random acts, and looks at what each kill leaves.

`python -m tests.replay.movers FOLDER COUNT SEED SERVER` does so for COUNT acts that leave another disk (0 for all of
them) and prints one line of JSON for the undisturbed run and one for each kill. After a kill the home must verify and
replay as it is; then it is killed once more on the way, and finished. It is a program of its own because a process
should fork only while it has one thread.
"""

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from unittest import mock

from tapebook.api import app
from tapebook.clock import VirtualClock
from tapebook.desk import librarian
from tapebook.desk.librarian import OldRunArchiver
from tapebook.domain.units import DAY, MINUTE
from tapebook.wiring import Rooms
from tests.desk.desks import START, Desk, reply
from tests.replay.faults import Fuse, die, lit
from tests.replay.home_fingerprint import Remains
from tests.replay.moments import every_other_disk
from tests.replay.stage import Stage

EVENTS_PER_STEP = 8


def lived(stage: Stage) -> tuple[Path, int]:
    """A home with decisions of a winter, most of them to hold, and when that was over."""
    base, clock = stage.make("base"), VirtualClock(START)
    with closing(Rooms(base, clock=clock)) as rooms:
        floor = Desk(rooms, clock)
        agent = floor.hire()
        for number in range(15):
            trades = number % 9 == 4
            for said in (reply("open", "long", 500), reply("close")) if trades else (reply("hold"),):
                floor.quote(BTC=100 + number % 7, ETH=10)
                floor.say(agent, said)
                floor.later(5 * MINUTE, BTC=100 + number % 7, ETH=10)
                floor.work(agent)
            floor.later(5 * DAY)
    return base, clock.now()


def move(home: Path, now: int, fuse: Fuse) -> int:
    """Moves all that is old enough, and says how many events that were."""
    with lit(fuse), closing(Rooms(home, clock=VirtualClock(now))) as rooms:
        mover = OldRunArchiver(rooms.archive, rooms.log, rooms.clock, config=rooms.config)
        while mover.archive_step():
            pass
        return mover.left


def killed(home: Path, now: int, *, at: int) -> bool:
    """Moves in another process that is killed before an act; False when it was done before."""
    child = os.fork()
    if child == 0:
        try:
            move(home, now, Fuse(at, die))
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def state(home: Path, now: int) -> dict[str, object]:
    """What is wrong with a home: nothing, if a kill did no harm."""
    with app.open(home, clock=VirtualClock(now)) as book:
        found = [f"{each.where}: {each.problem}" for each in book.verify(tape=True, archive=True)]
        report = book.replay()
    return {"findings": found, "different": report.different, "replayed": report.checked}


def main(place: Path, *, count: int, seed: int, dsn: str) -> None:
    """Prints the undisturbed move, then what each kill left."""
    stage, chance = Stage(place, dsn), Random(seed)
    base, now = lived(stage)
    fuse, whole = Fuse(), stage.copy(base, "whole")
    left = move(whole, now, fuse)
    expected, points = Remains.of(whole), every_other_disk(fuse.acts)
    print(json.dumps(state(whole, now) | {"left": left, "points": len(points)}))
    for point in sorted(chance.sample(points, count) if count else points):
        home = stage.copy(base, "wreck")
        was = {"act": fuse.acts[point - 1], "killed": killed(home, now, at=point)} | state(home, now)
        again = killed(home, now, at=chance.choice(points))
        was |= {"then": state(home, now), "again": again}
        move(home, now, Fuse())
        expected.assert_same_in(home)
        print(json.dumps(was))
        stage.remove(home)
    stage.clear()


if __name__ == "__main__":
    _, folder, times, number, server = sys.argv
    with mock.patch.object(librarian, "EVENTS_PER_STEP", EVENTS_PER_STEP):
        main(Path(folder), count=int(times), seed=int(number), dsn=server)
