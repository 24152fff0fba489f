"""An invented market for the examples: minutes pass when they are asked for, so that all runs offline and at once."""

import math
from collections.abc import Iterator
from pathlib import Path

import tapebook
from tapebook import VirtualClock

START = 1_767_571_200_000
MINUTE = 60_000


def price_at(minute: int) -> float:
    """A market that swings, slowly and quickly."""
    return round(65_000 * (1 + 0.02 * math.sin(minute / 90) + 0.003 * math.sin(minute / 11)), 2)


def bar_of(minute: int) -> dict[str, float]:
    """The bar of a minute, as exchanges give it."""
    first, last = price_at(minute), price_at(minute + 1)
    bar = {"time": START + minute * MINUTE, "open": first, "close": last, "volume": 3.0}
    return bar | {"high": max(first, last) + 2, "low": min(first, last) - 2}


def minutes(clock: VirtualClock, count: int, *, since: int = START) -> Iterator[tuple[int, dict[str, float]]]:
    """Bars with their numbers; the clock is where a bar has just ended. A live bot waits for its exchange instead.

    Whoever starts again goes on with the last minute that was seen (`since`): a turn that was cut is done again.
    """
    for minute in range(max(0, (since - START) // MINUTE - 1), count):
        clock.advance(START + (minute + 1) * MINUTE + 500)
        yield minute, bar_of(minute)


def open_home(home: str, agent: str, *, clock: VirtualClock | None = None) -> tapebook.Tapebook:
    """A home with the agent of a bot; after a restart both are there. A live bot leaves the clock out."""
    if not (Path(home) / "tapebook.toml").exists():
        tapebook.init(home)
    tb = tapebook.open(home, clock=clock)
    if agent not in [each["name"] for each in tb.agents()]:
        tb.add_agent(agent, {"watch": "BTC", "broker": "external"})
    return tb
