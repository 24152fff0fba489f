"""Lets a server's world run in real time, or so many times faster.

The clock and the wait are arguments: a room reads no clock of its own.
"""

from collections.abc import Awaitable, Callable

from tapebook.world.cadence import STEP
from tapebook.world.server.service import WorldServer


async def pace(
    server: WorldServer,
    *,
    speed: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    until: int | None = None,
) -> None:
    """Advances step by step, each when its time has come, until the world reaches `until` or this is cancelled.

    A world that has fallen behind catches up step by step and leaves none out.
    """
    if speed <= 0:
        raise ValueError(f"a world cannot run {speed} times as fast: give a speed above 0")
    server.speed = speed
    began, now = monotonic(), server.now
    at = now
    while until is None or at <= until:
        ahead = (at - now) / 1_000 / speed - (monotonic() - began)
        if ahead > 0:
            await sleep(ahead)
        await server.advance(at)
        at += STEP
