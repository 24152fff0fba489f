"""Asks an engine outside of a worker, and keeps the leases in hand alive while it thinks."""

from concurrent.futures import ThreadPoolExecutor, wait

from tapebook.decision import Answer
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms

_BETWEEN_SIGNS_SECONDS = 0.5


def patiently(rooms: Rooms, opened: Opened) -> Answer:
    """The engine's answer; meanwhile the leases in hand get their signs of life."""
    engine = rooms.engine(opened.slot.deployment.agent)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(engine.decide, opened.packet)
        while not wait([asked], timeout=_BETWEEN_SIGNS_SECONDS).done:
            rooms.leases.beat_if_due()
    return asked.result()
