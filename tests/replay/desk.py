"""A small desk that trades early: three agents on one-minute bars of two lively symbols, from one seed.

Within two hours it opens, turns and closes positions and pays funding, so that a test need not
wait for the demo's five-minute bars. `python -m tests.replay.desk HOME` runs it whole and prints
what became of it as one line of JSON.
"""

import json
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path

from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment
from tapebook.domain.instants import MINUTE, parse_instant
from tapebook.home import make_home
from tapebook.loop.deploy import deploy
from tapebook.loop.services import VirtualDesk
from tapebook.wiring import Rooms
from tapebook.world.market import Step, World
from tests.replay.remains import fingerprint

START = parse_instant("2026-01-05T00:00:00Z")
END = START + 125 * MINUTE
SEED = 4
SYMBOLS = ("HYPE", "kPEPE")

_BARS = ContextProfile(bar_minutes=1, bar_count=60)
AGENTS = (
    AgentProfile("quick-2m", SYMBOLS, engine="trend", cadence_ms=2 * MINUTE, context=_BARS),
    AgentProfile("turner-10m", ("kPEPE",), engine="trend", cadence_ms=10 * MINUTE, context=_BARS),
    # Its ticks miss the full hour, so funding waits for the tick after it.
    AgentProfile("slow-40m", SYMBOLS, engine="trend", cadence_ms=40 * MINUTE, context=_BARS),
)


@contextmanager
def opened(home: Path) -> Iterator[tuple[Rooms, VirtualClock]]:
    """A home with its clock where its tape ends."""
    clock = VirtualClock(START)
    rooms = Rooms(home, clock=clock)
    try:
        clock.advance(max(rooms.tape.head()[1], START))
        yield rooms, clock
    finally:
        rooms.close()


def deployments(rooms: Rooms) -> list[Deployment]:
    """The desk's agents, deployed."""
    for profile in AGENTS:
        rooms.book.save_agent(profile, at=rooms.clock.now())
    return [deploy(rooms, profile.name) for profile in AGENTS]


def trade(home: Path, *, until: int = END) -> None:
    """Runs the desk up to a moment; a home that is there already goes on from where it came."""
    make_home(home)
    with opened(home) as (rooms, clock):
        desk = VirtualDesk(rooms, deployments(rooms), clock)
        desk.run(steps_after(rooms.tape.head()[1]), until=until, after_step=lambda: None)


def steps_after(moment: int) -> list[Step]:
    """What the market still has to tell; invented once per process."""
    steps = _steps()
    return steps[bisect_right(steps, moment, key=lambda step: step.at) :]


@cache
def _steps() -> list[Step]:
    story = World(SEED, start=START, symbols=SYMBOLS).steps()
    return list(takewhile(lambda step: step.at <= END, story))


if __name__ == "__main__":
    trade(Path(sys.argv[1]))
    print(json.dumps(fingerprint(Path(sys.argv[1]))))
