"""A paced world keeps to the clock it is given."""

import asyncio

import pytest

from tapebook.domain.units import HOUR
from tapebook.world.cadence import STEP
from tapebook.world.market import World
from tapebook.world.server import WorldServer
from tapebook.world.server.service import advance_in_real_time
from tests.world.exchange_client import START, run


class Stopwatch:
    """Time that passes only while someone sleeps, and a little with every look."""

    def __init__(self, look: float = 0.0) -> None:
        self.elapsed = 0.0
        self.look = look

    def monotonic(self) -> float:
        self.elapsed += self.look
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        await asyncio.sleep(0)


@pytest.mark.parametrize(("speed", "seconds"), [(1.0, 3_600.0), (60.0, 60.0), (3_600.0, 1.0)])
def test_an_hour_takes_an_hour_divided_by_the_speed(speed: float, seconds: float) -> None:
    async def scenario() -> None:
        server, watch = WorldServer(World(7, start=START, symbols=("BTC",))), Stopwatch()
        await advance_in_real_time(
            server, speed=speed, monotonic=watch.monotonic, sleep=watch.sleep, until=START + HOUR
        )
        assert (server.now, server.speed) == (START + HOUR, speed)
        assert watch.elapsed == pytest.approx(seconds)

    run(scenario())


def test_a_world_that_fell_behind_does_not_sleep() -> None:
    async def scenario() -> None:
        server, watch = WorldServer(World(7, start=START, symbols=("BTC",))), Stopwatch(look=6.0)
        await advance_in_real_time(
            server, speed=1.0, monotonic=watch.monotonic, sleep=watch.sleep, until=START + 10 * STEP
        )
        assert server.now == START + 10 * STEP
        assert watch.elapsed == pytest.approx(6.0 * 12)

    run(scenario())


def test_a_world_cannot_stand_still() -> None:
    async def scenario() -> None:
        server, watch = WorldServer(World(7, start=START, symbols=("BTC",))), Stopwatch()
        with pytest.raises(ValueError, match="above 0"):
            await advance_in_real_time(server, speed=0.0, monotonic=watch.monotonic, sleep=watch.sleep)

    run(scenario())
