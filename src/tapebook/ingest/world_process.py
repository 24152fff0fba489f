"""The simulated world as a server process, in real time or faster, and the clock to follow it with."""

import asyncio
from collections.abc import Callable

import msgspec

from tapebook.clock import Clock, ScaledClock, SystemClock, elapsed_seconds
from tapebook.domain.units import HOUR, floor_to_step
from tapebook.errors import HomeError
from tapebook.world.market import World

WORLD_HISTORY_MS = 48 * HOUR
_LOOPBACK = ("http://127.0.0.1", "http://localhost", "http://[::1]")


def is_world(url: str | None) -> bool:
    """Whether an address is on this machine: a world there has the servers of all sources."""
    return url is not None and url.startswith(_LOOPBACK)


class _WorldTime(msgspec.Struct):
    now: int
    speed: float


async def serve_world(*, seed: int, port: int, speed: float, storm: bool, on_ready: Callable[[str], None]) -> None:
    """Serves a seeded market whose present is the machine's, with two days of history, until cancelled."""
    # Loaded by those who serve: HTTP takes longer to load than all else together.
    from tapebook.world.server import Faults, WorldServer
    from tapebook.world.server.service import advance_in_real_time

    now = SystemClock().now()
    world = World(seed, start=floor_to_step(now, HOUR) - WORLD_HISTORY_MS)
    faults = Faults.storm(seed) if storm else Faults()
    server = WorldServer(world, faults=faults, history_ms=now - world.start - now % 5_000)
    try:
        url = await server.start(port=port)
    except OSError as error:
        raise HomeError(f"port {port} cannot be used ({error.strerror}): choose another with `port=`") from error
    on_ready(url)
    try:
        await advance_in_real_time(server, speed=speed, monotonic=elapsed_seconds, sleep=asyncio.sleep)
    finally:
        await server.stop()


async def clock_of_source(url: str) -> Clock:
    """The clock of a source: the machine's, or that of a world on this machine which runs faster."""
    if not is_world(url):
        return SystemClock()
    import aiohttp

    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            answer = await session.post(f"{url.rstrip('/')}/info", json={"type": "worldClock"})
            content = await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise HomeError(f"nothing answers at {url}: start it with `tapebook world`, or give another `url=`") from error
    try:
        world = msgspec.json.decode(content, type=_WorldTime)
    except msgspec.DecodeError:
        return SystemClock()
    return ScaledClock(world.now, speed=world.speed)
