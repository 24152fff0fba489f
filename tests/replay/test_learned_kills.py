"""What an ensemble learned of its members and of similar moments survives kills, on SQLite and PostgreSQL.

A desk decides once an hour. It is killed anywhere, and the next process does the hour again in which the last one died.
What it knows in the end is what one knows that was never killed.
"""

import os
import random
import signal
from contextlib import closing
from pathlib import Path

import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, ContextProfile, ReflectionSettings
from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import DAY, HOUR, MINUTE
from tapebook.experience.events import MomentNoted
from tapebook.experience.rebuild import rebuild_and_compare
from tapebook.experience.twins import TwinsBySymbol
from tapebook.home import make_home
from tapebook.tick.decide import Slot
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.memory import runs_of
from tapebook.tick.story import deploy_agent, tick
from tapebook.wiring import Rooms
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.desk.desks import START
from tests.experience.test_moments import walk
from tests.replay.faults import Fuse, die, lit

HOURS = 26
HISTORY = 2 * DAY
BEGIN = START - START % DAY
PROFILE = AgentProfile(
    *("a", ("BTC",)),
    cadence_ms=HOUR,
    engine="ensemble",
    context=ContextProfile(bar_minutes=30, bar_count=24),
    reflection=ReflectionSettings("off"),
)
Learned = tuple[TwinsBySymbol, list[MomentNoted], int]


def market() -> list[Candle]:
    """Quarters of an hour: what is known when the desk begins, and what it lives through."""
    return walk(random.Random(31), start=BEGIN - HISTORY, count=4 * 96, spread=0.003)


def live_through(home: Path, *, since: int = 0) -> None:
    """Decides hour after hour; what was done already is done again, and changes nothing."""
    clock, bars = VirtualClock(BEGIN + since * HOUR), market()
    with closing(Rooms(home, clock=clock)) as rooms:
        rooms.book.save_agent(PROFILE, at=clock.now())
        agent = deploy_agent(rooms.book, rooms.clock, "a")
        for hour in range(since, HOURS):
            now = BEGIN + (hour + 1) * HOUR
            clock.advance(max(clock.now(), now))
            known = [bar for bar in bars if bar.end <= now and (hour == since or bar.end > now - HOUR)]
            rooms.tape.commit([*known, Mid("BTC", now, known[-1].close_e8)])
            clock.advance(now + MINUTE)
            tick(rooms, Slot(agent, "BTC", now))
            clock.advance(now + 2 * MINUTE)
            execute_orders(rooms, agent)
            reconcile_account(rooms, agent)


def learned(home: Path) -> Learned:
    """What a new process knows, which is whole and what the log says."""
    with closing(Rooms(home, clock=VirtualClock(BEGIN + 9 * DAY))) as rooms:
        name = "a.paper"
        seq, runs = rooms.book.head(name), runs_of(rooms.book, rooms.log, name)
        assert rebuild_and_compare(rooms.experience, name, seq=seq, runs=runs).differences == ()
        notes = [note for _, note in rooms.experience.moments.noted_between(name, after=0, until=seq)]
        return rooms.experience.twins.as_of(name, seq=seq, runs=runs), notes, len(rooms.book.run_ids(most=999))


def decided_hours(home: Path) -> int:
    with closing(Rooms(home, clock=VirtualClock(BEGIN + 9 * DAY))) as rooms:
        return len(rooms.book.run_ids(most=999))


def live_and_die(home: Path, *, since: int, acts: int) -> bool:
    """Lives on in a process of its own that is killed just before so many acts; whether it was."""
    child = os.fork()
    if not child:
        try:
            with lit(Fuse(acts, die)):
                live_through(home, since=since)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """What is known by who was never killed."""
    home = tmp_path_factory.mktemp("untouched") / "home"
    make_home(home)
    live_through(home)
    return learned(home)


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def test_twins_and_moments_survive_kills(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, untouched: Learned
) -> None:
    home, rng = tmp_path / "home", random.Random(7)
    make_home(home)
    if engine == "postgres":
        url = request.getfixturevalue("empty_postgres")
        (home / "tapebook.toml").write_text(f'[store]\nbook = "{url}"\ntape = "{url}"\n', "utf-8")
    kills = 0
    since = 0
    while live_and_die(home, since=since, acts=rng.randrange(500, 1_500)):
        kills, since = kills + 1, max(0, decided_hours(home) - 1)
        assert kills < 200
    assert kills >= 3
    twins, notes, runs = learned(home)
    assert runs == HOURS and len(notes) >= HOURS - 2
    assert (twins, notes) == untouched[:2]
    assert twins["BTC"].slots == HOURS - 1
