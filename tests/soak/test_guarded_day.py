"""A day of a desk with clocks that jump, bad ticks, kills and restarts: no fill off the market, nothing of the future.

The day goes on in a process of its own (`python -m tests.soak.test_guarded_day HOME SEED MS`), which is killed again
and again, as its database is, and begins where it was.
"""

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import takewhile
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.desk.demo import VirtualDesk
from tapebook.desk.health import health_checks
from tapebook.domain.files import write_whole
from tapebook.domain.market import Mid, Observation
from tapebook.domain.units import DAY, HOUR, MINUTE, SECOND
from tapebook.errors import DatabaseAway
from tapebook.home import make_home
from tapebook.ingest.compaction import retention_by_channel
from tapebook.ingest.ingester import FactBuffer, Ingester
from tapebook.lab.replay import replay_runs
from tapebook.log import verify_log
from tapebook.settings.config import FILE
from tapebook.tick.prepare import gather_situation
from tapebook.wiring import BOOK_PACKAGES, Rooms
from tapebook.world.market import World
from tests.db.servers import Server, Shutdown, own_server
from tests.desk.test_clock_jumps import JumpingClock, as_stamped, later_than
from tests.replay import desk
from tests.replay.storm import ROOT, environment

pytestmark = pytest.mark.soak

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "guarded_day.json"
AWAY = 75
"""How the process ends when its database has gone."""


class Weather(msgspec.Struct, frozen=True):
    """When the clock is ahead and by how much, when prices are bad and how, and when the process starts again."""

    jumps: list[tuple[int, int, int]]
    bad: list[tuple[int, int, float, str]]
    starts: set[int]

    @classmethod
    def of(cls, seed: int, *, start: int, end: int) -> "Weather":
        """What a seed brings."""
        chance, calm = random.Random(seed), start + 30 * MINUTE
        hours = max(1, (end - start) // HOUR)

        def moment() -> int:
            return chance.randrange(calm, end - 30 * MINUTE, 5 * SECOND)

        jumps = [(at, at + chance.randrange(1, 20) * MINUTE, chance.randrange(1, 30) * HOUR) for at in _some(moment, 8)]
        bad = [
            (at, at + 9 * SECOND, chance.choice((1_000.0, 0.001, 3.0)), chance.choice(desk.SYMBOLS))
            for at in _some(moment, 4 * hours)
        ]
        return cls(jumps, bad, set(_some(moment, 2 * hours)))

    def ahead(self, at: int) -> int:
        """How far ahead the clock is."""
        return max([by for begins, ends, by in self.jumps if begins <= at < ends], default=0)

    def hurt(self, seen: Observation, at: int) -> Observation:
        """An observation as it comes."""
        for begins, ends, factor, symbol in self.bad:
            if isinstance(seen, Mid) and seen.symbol == symbol and begins <= at < ends:
                return msgspec.structs.replace(seen, price_e8=max(1, int(seen.price_e8 * factor)))
        return seen


def _some(moment: Callable[[], int], count: int) -> list[int]:
    return sorted({moment() for _ in range(count)})


def live(home: Path, weather: Weather, end: int) -> None:
    """Lives the day from the step that was not finished, which may have been begun."""
    done, clock = home / "steps-done", JumpingClock()
    first = int(done.read_text("utf-8")) + 1 if done.exists() else 0
    world = World(desk.SEED, start=desk.START, symbols=desk.SYMBOLS)
    parts: tuple[Rooms, Ingester, FactBuffer, VirtualDesk] | None = None
    for step in takewhile(lambda step: step.at <= end, world.steps()):
        if step.at < first:
            continue
        clock.market, ahead = step.at, weather.ahead(step.at)
        goes_back, clock.ahead = ahead < clock.ahead, ahead
        if parts is None or goes_back or step.at in weather.starts:
            if parts is None:
                print("begun", flush=True)
            else:
                parts[0].close()
            parts = _begun(Rooms(home, clock=clock), clock)
        _, ingester, intake, virtual = parts
        intake.add_observations([as_stamped(weather.hurt(seen, step.at), clock) for seen in step.observations])
        if (problem := ingester.flush()) is not None:
            raise DatabaseAway(problem)
        ingester.do_due_work()
        virtual.do_due_work()
        write_whole(done, str(step.at).encode(), durable=False)
    if parts is not None:
        parts[0].close()


@pytest.mark.parametrize("store", ["SQLite", "PostgreSQL"])
@pytest.mark.parametrize(("seed", "length"), [(1, 3 * HOUR), (2, DAY)])
def test_a_guarded_day(seed: int, length: int, store: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    chance, count = random.Random(seed), Counter[str]()
    with ExitStack() as stack:
        server = stack.enter_context(own_server()) if store == "PostgreSQL" else None
        if server is not None:
            (home / FILE).write_text(f'[store]\nbook = "{server.url}"\ntape = "{server.url}"\n', "utf-8")
        while _lived(home, seed, length, chance=chance, server=server, count=count) != 0:
            pass
        end = desk.START + length
        prices: dict[str, list[int]] = {symbol: [] for symbol in desk.SYMBOLS}
        world = World(desk.SEED, start=desk.START, symbols=desk.SYMBOLS)
        for step in takewhile(lambda step: step.at <= end, world.steps()):
            for seen in step.observations:
                if isinstance(seen, Mid):
                    prices[seen.symbol].append(seen.price_e8)
        clock = JumpingClock()
        clock.market = end
        with closing(Rooms(home, clock=clock)) as rooms:
            desk.deployments(rooms)
            count.update(_check(rooms, Weather.of(seed, start=desk.START, end=end), prices))
    assert count["killed"] >= 3 and (server is None or count["database restarted"] >= 2), count
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    figures[f"{store}, {length // HOUR} h"] = dict(count)
    FIGURES.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n", "utf-8")


def _lived(
    home: Path, seed: int, length: int, *, chance: random.Random, server: Server | None, count: Counter[str]
) -> int:
    """One life of the process: to the end, or until it is killed or its database is; how it ended."""
    words = [sys.executable, "-m", "tests.soak.test_guarded_day", str(home), str(seed), str(length)]
    pipe = subprocess.PIPE
    child = subprocess.Popen(words, cwd=ROOT, env=environment(), stdout=pipe, stderr=pipe, text=True)
    assert child.stdout
    child.stdout.readline()
    # Fewer and fewer: whoever is killed too often never arrives.
    patience = chance.random() * 2 ** min(count.total(), 8) * length / DAY
    try:
        _, said = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        # In turn, so that a short day has its share of both.
        if server is not None and count["database restarted"] < count["killed"]:
            how: Shutdown = chance.choice(("fast", "immediate", "kill"))
            server.stop(how)
            _, said = child.communicate()
            server.start()
            count["database restarted"] += 1
        else:
            child.kill()
            _, said = child.communicate()
            count["killed"] += 1
    assert child.returncode in (0, AWAY, -signal.SIGKILL), said
    return child.returncode


def _begun(rooms: Rooms, clock: JumpingClock) -> tuple[Rooms, Ingester, FactBuffer, VirtualDesk]:
    intake = FactBuffer()
    ingester = Ingester(rooms, intake, keep=retention_by_channel(rooms.config))
    return rooms, ingester, intake, VirtualDesk(rooms, desk.deployments(rooms), cast("VirtualClock", clock))


def _check(rooms: Rooms, weather: Weather, prices: dict[str, list[int]]) -> dict[str, int]:
    """Holds everything the day left against the market; gives what it counted."""
    runs = [run for run in map(rooms.book.run, rooms.book.run_ids(most=10**6)) if run is not None]
    deployments = {each.id: each for each in desk.deployments(rooms)}
    fills = [fill for run in runs for fill in rooms.book.fills_of_run(run.run_id)]
    assert fills
    for fill in fills:
        low, high = min(prices[fill.symbol]), max(prices[fill.symbol])
        assert low * 95 // 100 <= fill.price_e8 <= high * 105 // 100, fill
    for run in runs:
        deployment = deployments[run.deployment]
        situation = gather_situation(rooms, deployment, run.symbol, as_of=run.as_of, watermarks=run.watermarks)
        assert later_than(situation) == [], run
    refused = rooms.tape.quarantined_observations(since=0)
    assert len(refused) > len(weather.bad) // 2
    said = " ".join(check.detail for check in health_checks(rooms) if not check.ok)
    assert "set back" in said
    named = {each.problem.subject for each in rooms.tape.problems(since=0)}
    assert {f"{each.channel} {each.symbol}" for each in refused} <= named
    assert verify_log(rooms.log, rooms.book_db, packages=BOOK_PACKAGES, anchors={}) == []
    assert rooms.book.cash_differences() == []
    assert replay_runs(rooms, [run.run_id for run in runs]).different == []
    # A moment that comes again is decided again: so is a slot whose time was still running when the clock went back.
    for (name, _, slot), times in Counter((run.deployment, run.symbol, run.scheduled_for) for run in runs).items():
        cadence = deployments[name].agent.cadence_ms
        assert times <= 1 + sum(begins - cadence <= slot <= ends + by for begins, ends, by in weather.jumps)
    return {"runs": len(runs), "fills": len(fills), "rows refused": len(refused), "clock jumps": len(weather.jumps)}


if __name__ == "__main__":
    place, seed, length = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        live(place, Weather.of(seed, start=desk.START, end=desk.START + length), desk.START + length)
    except DatabaseAway:
        sys.exit(AWAY)
