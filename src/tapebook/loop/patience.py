"""Waits for something outside of a worker, and keeps the leases in hand alive meanwhile."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from tapebook.decision import Answer
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms

_BETWEEN_SIGNS_SECONDS = 0.5

T = TypeVar("T")


def patiently(rooms: Rooms, opened: Opened) -> Answer:
    """The engine's answer."""
    engine = rooms.engine(opened.slot.deployment.agent)
    return waited_for(rooms, lambda: engine.decide(opened.packet))


def waited_for(rooms: Rooms, call: Callable[[], T]) -> T:
    """What a call gives that may take long and touches no database; the leases in hand get their signs of life."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(call)
        while not wait([asked], timeout=_BETWEEN_SIGNS_SECONDS).done:
            rooms.leases.beat_if_due()
    return asked.result()
