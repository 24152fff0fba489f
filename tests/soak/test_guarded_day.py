"""A day of a desk with clocks that jump, bad ticks and restarts: no fill outside the market, nothing of the future."""

import random
from collections.abc import Callable
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.instants import DAY, HOUR, MINUTE, SECOND
from tapebook.domain.market import Mid, Observation
from tapebook.home import make_home
from tapebook.lab.replay import replay
from tapebook.log import verify_log
from tapebook.loop.gather import gather
from tapebook.loop.health import checks
from tapebook.loop.ingest import Ingester, Intake
from tapebook.loop.listen import keep_of
from tapebook.loop.services import VirtualDesk
from tapebook.wiring import BOOK_PACKAGES, Rooms
from tapebook.world.market import World
from tests.loop.test_clock_jumps import JumpingClock, as_stamped, later_than
from tests.replay import desk

pytestmark = pytest.mark.soak


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


@pytest.mark.parametrize(("seed", "length"), [(1, 3 * HOUR), (2, DAY)])
def test_a_guarded_day(seed: int, length: int, tmp_path: Path) -> None:
    home, clock = tmp_path / "home", JumpingClock()
    make_home(home)
    end = desk.START + length
    weather = Weather.of(seed, start=desk.START, end=end)
    prices: dict[str, list[int]] = {symbol: [] for symbol in desk.SYMBOLS}
    rooms = Rooms(home, clock=clock)
    ingester, intake, virtual = _begun(rooms, clock)
    world = World(desk.SEED, start=desk.START, symbols=desk.SYMBOLS)
    for step in takewhile(lambda step: step.at <= end, world.steps()):
        clock.market, ahead = step.at, weather.ahead(step.at)
        goes_back, clock.ahead = ahead < clock.ahead, ahead
        if goes_back or step.at in weather.starts:
            rooms.close()
            rooms = Rooms(home, clock=clock)
            ingester, intake, virtual = _begun(rooms, clock)
        for seen in step.observations:
            if isinstance(seen, Mid):
                prices[seen.symbol].append(seen.price_e8)
        intake.take([as_stamped(weather.hurt(seen, step.at), clock) for seen in step.observations])
        assert ingester.flush() is None
        ingester.keep_up()
        virtual.work()
    with closing(rooms):
        _check(rooms, weather, prices)


def _begun(rooms: Rooms, clock: JumpingClock) -> tuple[Ingester, Intake, VirtualDesk]:
    intake = Intake()
    ingester = Ingester(rooms, intake, keep=keep_of(rooms.config))
    return ingester, intake, VirtualDesk(rooms, desk.deployments(rooms), cast("VirtualClock", clock))


def _check(rooms: Rooms, weather: Weather, prices: dict[str, list[int]]) -> None:
    runs = [run for run in map(rooms.book.run, rooms.book.run_ids(most=10**6)) if run is not None]
    deployments = {each.id: each for each in desk.deployments(rooms)}
    fills = [fill for run in runs for fill in rooms.book.fills_of_run(run.run_id)]
    assert fills
    for fill in fills:
        low, high = min(prices[fill.symbol]), max(prices[fill.symbol])
        assert low * 95 // 100 <= fill.price_e8 <= high * 105 // 100, fill
    for run in runs:
        deployment = deployments[run.deployment]
        situation = gather(rooms, deployment, run.symbol, as_of=run.as_of, watermarks=run.watermarks)
        assert later_than(situation) == [], run
    refused = rooms.tape.quarantined(since=0)
    assert len(refused) > len(weather.bad) // 2
    said = " ".join(check.detail for check in checks(rooms) if not check.ok)
    assert "set back" in said
    named = {each.problem.subject for each in rooms.tape.problems(since=0)}
    assert {f"{each.channel} {each.symbol}" for each in refused} <= named
    assert verify_log(rooms.log, rooms.book_db, packages=BOOK_PACKAGES, anchors={}) == []
    assert rooms.book.cash_differences() == []
    assert replay(rooms, [run.run_id for run in runs]).different == []
