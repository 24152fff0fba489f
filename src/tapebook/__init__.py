"""Tapebook is the memory of a trading agent: it proves what the agent knew, and when.

    import tapebook
    tb = tapebook.open("home")
    tb.context("btc-5m", "BTC").text

The map, from the ground up:

    domain/     the nouns: money, instants, candles, positions, orders, trades, runs, packets
    clock.py    system and virtual time           errors.py   errors by what the caller must do
    settings/   tapebook.toml, keys, profiles     plug.py     the name in the config is the module
    db/         SQLite and PostgreSQL             log/        hash-chained events and their tables
    tape/       what the market did               book/       what the agent did, and how it ended
    context/    a situation becomes a packet      decision/   engines, the reply, the guard
    broker/     where orders go                   archive/    immutable bytes by content
    lessons/    notes from closed trades          experience/ whom to trust, and what was like this
    horizons/   the day, the week … all time      search/     documents, and where they say it
    llm/        models, asked within a budget     world/      a seeded market, also as a server
    sources/    adapters that watch a market      home.py     the folder all of it lies in
    wiring.py   what stands behind each port      anchors.py  heads of the log, kept outside of it
    tick/       one decision, step by step        library/    documents and their upkeep
    ingest/     the market, committed as it comes history/    files of market data in and out
    desk/       the processes that run agents     backtest/   the same tick over past bars
    lab/        replay, compare, explain          report/     results for terminal, page and JSON
    api/        the façade, a file per noun       surfaces/   the command line, HTTP

Life of a tick: tick/story.py. Everything a decision saw can be rebuilt: lab/replay.py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapebook.api.app import Check, DemoReport, Finding, ReplayReport, Tapebook, demo, init, open
    from tapebook.clock import SystemClock, VirtualClock
    from tapebook.domain.packet import Packet
    from tapebook.domain.run import DecisionRun
    from tapebook.errors import TapebookError

__version__ = "0.1.0"

_HOMES = {
    "Check": "tapebook.api.app",
    "DecisionRun": "tapebook.domain.run",
    "DemoReport": "tapebook.api.app",
    "Finding": "tapebook.api.app",
    "Packet": "tapebook.domain.packet",
    "ReplayReport": "tapebook.api.app",
    "SystemClock": "tapebook.clock",
    "Tapebook": "tapebook.api.app",
    "TapebookError": "tapebook.errors",
    "VirtualClock": "tapebook.clock",
    "demo": "tapebook.api.app",
    "init": "tapebook.api.app",
    "open": "tapebook.api.app",
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
