"""Small desks that trade early: agents on one-minute bars of two lively symbols, from one seed.

Within two hours the desk of trends opens, turns and closes positions and pays funding, so that a
test need not wait for the demo's five-minute bars. Two more stories have orders that wait for
their price, and a crash that liquidates. Each can be told by the desk of virtual time or by a
crew of scheduler, worker and executor. `python -m tests.replay.desk HOME` runs the first whole
and prints what became of it as one line of JSON.
"""

import json
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec

from tapebook.clock import VirtualClock
from tapebook.decision import Engine
from tapebook.desk.demo import VirtualDesk
from tapebook.domain.agent import AgentProfile, ContextProfile, Deployment, ReflectionSettings, RiskCaps
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.units import E6, MINUTE, parse_instant
from tapebook.home import make_home
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tapebook.world.market import World, WorldStep
from tests.replay.crew import Crew
from tests.replay.engines import ENGINES
from tests.replay.home_fingerprint import fingerprint

START = parse_instant("2026-01-05T00:00:00Z")
END = START + 125 * MINUTE
SEED = 4
SYMBOLS = ("HYPE", "kPEPE")

_BARS = ContextProfile(bar_minutes=1, bar_count=60)
AGENTS = (
    # Reflects after every trade, so that a kill can meet it while it learns.
    AgentProfile(
        "quick-2m",
        SYMBOLS,
        engine="trend",
        cadence_ms=2 * MINUTE,
        context=_BARS,
        reflection=ReflectionSettings(every_n_trades=1),
    ),
    AgentProfile("turner-10m", ("kPEPE",), engine="trend", cadence_ms=10 * MINUTE, context=_BARS),
    # Its ticks miss the full hour, so funding waits for the tick after it.
    AgentProfile("slow-40m", SYMBOLS, engine="trend", cadence_ms=40 * MINUTE, context=_BARS),
)

_PATIENT = AgentProfile("patient-2m", SYMBOLS, engine="patient", cadence_ms=2 * MINUTE, context=_BARS)
_BRAVE = AgentProfile(
    "brave-2m",
    ("kPEPE",),
    engine="brave",
    cadence_ms=2 * MINUTE,
    context=_BARS,
    caps=RiskCaps(max_leverage=10, max_daily_loss_usd_e6=10_000 * E6),
    starting_cash_usd_e6=100 * E6,
)


class Story(msgspec.Struct, frozen=True):
    """Who trades, and what happens to the market: a fall to so many percent at a moment."""

    agents: tuple[AgentProfile, ...]
    falls_at: int = 0
    falls_to_percent: int = 100


StoryName = Literal["trends", "limits", "crash"]
STORIES: dict[StoryName, Story] = {
    "trends": Story(AGENTS),
    "limits": Story((_PATIENT,)),
    "crash": Story((_BRAVE,), START + 31 * MINUTE, 88),
}
Hands = Literal["desk", "crew"]


@contextmanager
def opened(home: Path) -> Iterator[tuple[Rooms, VirtualClock]]:
    """A home with its clock where its tape ends."""
    clock = VirtualClock(START)
    rooms = Rooms(home, clock=clock)
    known = rooms.engine

    def engine(agent: AgentProfile) -> Engine:
        return ENGINES[agent.engine] if agent.engine in ENGINES else known(agent)

    rooms.engine = engine  # type: ignore[method-assign]
    try:
        clock.advance(max(rooms.tape.head()[1], START))
        yield rooms, clock
    finally:
        rooms.close()


def deployments(rooms: Rooms, story: StoryName = "trends") -> list[Deployment]:
    """The desk's agents, deployed."""
    for profile in STORIES[story].agents:
        rooms.book.save_agent(profile, at=rooms.clock.now())
    return [deploy_agent(rooms.book, rooms.clock, profile.name) for profile in STORIES[story].agents]


def trade(home: Path, *, until: int = END, story: StoryName = "trends", hands: Hands = "desk") -> None:
    """Runs the desk up to a moment; a home that is there already goes on from where it came."""
    make_home(home)
    with opened(home) as (rooms, clock):
        steps = steps_after(rooms.tape.head()[1], story)
        if hands == "desk":
            desk = VirtualDesk(rooms, deployments(rooms, story), clock)
            desk.run_steps(steps, until=until, after_step=lambda: None)
        else:
            Crew(rooms, clock, STORIES[story].agents).run(steps, until=until)


def steps_after(moment: int, story: StoryName = "trends") -> list[WorldStep]:
    """What the market still has to tell; invented once per process."""
    steps = _steps(story)
    return steps[bisect_right(steps, moment, key=lambda step: step.at) :]


@cache
def _steps(story: StoryName) -> list[WorldStep]:
    told = World(SEED, start=START, symbols=SYMBOLS).steps()
    return [_fallen(step, STORIES[story]) for step in takewhile(lambda step: step.at <= END, told)]


def _fallen(step: WorldStep, story: Story) -> WorldStep:
    if not story.falls_at or step.at < story.falls_at:
        return step
    return WorldStep(step.at, tuple(_cheaper(each, story) for each in step.observations))


def _cheaper(seen: Observation, story: Story) -> Observation:
    percent = story.falls_to_percent
    if isinstance(seen, Mid):
        return msgspec.structs.replace(seen, price_e8=seen.price_e8 * percent // 100)
    if isinstance(seen, Candle) and seen.bucket_ts >= story.falls_at:
        names = ("open_e8", "high_e8", "low_e8", "close_e8")
        return msgspec.structs.replace(seen, **{name: getattr(seen, name) * percent // 100 for name in names})
    return seen


if __name__ == "__main__":
    trade(Path(sys.argv[1]))
    print(json.dumps(fingerprint(Path(sys.argv[1]))))
