"""How a home begins and what is run in one without opening it: `init`, `ingest`, `demo`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapebook import profiles
from tapebook.clock import SystemClock, VirtualClock, elapsed_seconds
from tapebook.config import load
from tapebook.errors import HomeError
from tapebook.home import is_home, make_home, require_home, sole_writer
from tapebook.lab.demo_report import DemoReport, demo_report
from tapebook.log import Finding
from tapebook.loop import demo as demo_loop
from tapebook.loop import enlist
from tapebook.loop.demo import DemoProgress
from tapebook.loop.desk import claim_role
from tapebook.loop.listen import IngestProgress, listen
from tapebook.loop.maintain import anchor_heads
from tapebook.loop.patience import when_database_answers
from tapebook.loop.stage import clock_for
from tapebook.loop.verify import verify_home
from tapebook.wiring import Rooms

FIRST_AGENTS: dict[str, dict[str, Any]] = {
    "btc-5m": {"watch": "BTC", "strategy": "Hold until a strategy is written."},
    "demo-ensemble": {
        "watch": "BTC, ETH",
        "engine": "ensemble",
        "members": "trend, reversion, breakout, carry",
        "strategy": "Go with the weighted majority of the rule engines.",
    },
}
"""The agents of a new home, as their owner would write them."""


async def ingest(
    home: str | Path, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Listens to the market and keeps it in the tape until `seconds` have passed, or for ever."""
    home = Path(home)
    require_home(home)
    end = None if seconds is None else elapsed_seconds() + seconds
    clock = await clock_for(url or load(home).hyperliquid.url)

    def say(line: str) -> None:
        report(IngestProgress(clock.now(), {}, 0, line))

    with sole_writer(home, "tape"):
        # Nothing else runs in this loop yet, so it may stand still for as long as the wait lasts.
        rooms = when_database_answers(lambda: Rooms(home, clock=clock), until=end, stopped=lambda: False, say=say)
        try:
            claim_role(rooms.tape_db, "ingest", owner=rooms.config.owner)
            left = None if end is None else max(0.0, end - elapsed_seconds())
            await listen(rooms, url=url, seconds=left, report=report)
        finally:
            rooms.close()


def init(home: str | Path) -> list[str]:
    """Makes a new home with commented settings and its first agents; says what was made."""
    home = Path(home)
    if is_home(home):
        raise HomeError(f"{home} is a tapebook home already: edit its tapebook.toml, or choose another --home")
    make_home(home)
    rooms = Rooms(home, clock=SystemClock())
    try:
        for name, settings in FIRST_AGENTS.items():
            enlist.add(rooms, name, profiles.from_words(settings))
        anchor_heads(rooms)
    finally:
        rooms.close()
    return [
        f"{home}/tapebook.toml   settings, each with a comment",
        f"{home}/book.db         the log and what is computed from it",
        f"{home}/tape.db         the market, empty",
        "agent btc-5m (engine: the default of the settings) watches BTC",
        "agent demo-ensemble (engine: ensemble of the rule engines) watches BTC, ETH",
    ]


def find_damage(home: str | Path, *, archive: bool = False) -> list[Finding]:
    """What `Tapebook.verify` finds in a home that may be too damaged to be opened; every row of the tape is read."""
    rooms = Rooms(Path(home), clock=SystemClock())
    try:
        return verify_home(rooms, tape=True, archive=archive, progress=_silent, notice=_silent)
    finally:
        rooms.close()


def _silent(words: str) -> None:
    """Nobody is told."""


def demo(
    home: str | Path,
    *,
    seconds: float = 30,
    seed: int = 7,
    paced: bool = False,
    progress: Callable[[DemoProgress], None] = lambda progress: None,
) -> DemoReport:
    """Runs the seeded world for `seconds` times twenty minutes of market, and reports; a home goes on where it was."""
    demo_loop.prepare(Path(home), seed=seed)
    clock = VirtualClock(demo_loop.START)
    rooms = Rooms(Path(home), clock=clock)
    try:
        asyncio.run(demo_loop.run(rooms, clock, seconds=seconds, seed=seed, paced=paced, progress=progress))
        return demo_report(rooms, seed=seed)
    finally:
        rooms.close()
