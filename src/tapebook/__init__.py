"""Tapebook is the memory of a trading agent: it proves what the agent knew, and when.

    import tapebook
    tb = tapebook.open("home")
    tb.context("btc-5m", "BTC").text

The map, from the ground up:

    domain/    the nouns: money, instants, candles, positions, orders, trades, runs, packets
    clock.py   system and virtual time          config.py   tapebook.toml and the environment
    errors.py  errors by what the caller must do plug.py     the name in the config is the module
    db/        SQLite and PostgreSQL            log/        hash-chained events and their tables
    tape/      what the market did              book/       what the agent did, and how it ended
    context/   a situation becomes a packet     decision/   engines, the parser, the guard
    broker/    where orders go                  archive/    immutable bytes by content
    lessons/   notes from closed trades         experience/ whom to trust, and what was like this
    horizons/  the day, the week … all time     recall/     documents, and where they say it
    llm/       models, asked within a budget
    loop/      one tick, told by calling        lab/        replay, compare, explain
    world/     a seeded market, also as a server surfaces/  the command line
    home.py    the folder all of it lies in     views.py    stored values as surfaces show them
    wiring.py  what stands behind each port     app.py      the façade: Tapebook

Life of a tick: loop/tick.py. Everything a decision saw can be rebuilt: lab/replay.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapebook.app import Check, DemoReport, Finding, ReplayReport, Tapebook, demo, init, open
    from tapebook.clock import SystemClock, VirtualClock
    from tapebook.domain.packet import Packet
    from tapebook.domain.run import DecisionRun
    from tapebook.errors import TapebookError

__version__ = "0.1.0"

_HOMES = {
    "Check": "tapebook.app",
    "DecisionRun": "tapebook.domain.run",
    "DemoReport": "tapebook.app",
    "Finding": "tapebook.app",
    "Packet": "tapebook.domain.packet",
    "ReplayReport": "tapebook.app",
    "SystemClock": "tapebook.clock",
    "Tapebook": "tapebook.app",
    "TapebookError": "tapebook.errors",
    "VirtualClock": "tapebook.clock",
    "demo": "tapebook.app",
    "init": "tapebook.app",
    "open": "tapebook.app",
}

__all__ = [
    "Check",
    "DecisionRun",
    "DemoReport",
    "Finding",
    "Packet",
    "ReplayReport",
    "SystemClock",
    "Tapebook",
    "TapebookError",
    "VirtualClock",
    "demo",
    "init",
    "open",
]


def __getattr__(name: str) -> Any:
    # Names are loaded when first used, so that `tapebook --help` opens no database driver.
    if name not in _HOMES:
        raise AttributeError(f"module 'tapebook' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
