"""Homes: starts them, checks and repairs them, and runs what needs no open home (`init`, `ingest`, `demo`)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapebook.anchors import anchor_heads
from tapebook.api.open_home import HomePart
from tapebook.clock import SystemClock, VirtualClock, elapsed_seconds
from tapebook.desk import agents
from tapebook.desk import demo as demo_loop
from tapebook.desk.demo import DemoProgress
from tapebook.desk.health import Check, health_checks
from tapebook.desk.librarian import clean_archive
from tapebook.desk.supervisor import claim_role
from tapebook.desk.verify import rebuild_book, verify_home
from tapebook.errors import HomeError
from tapebook.home import exclusive_lock, is_home, make_home, require_home
from tapebook.ingest.live import IngestProgress, ingest_live
from tapebook.ingest.world_process import clock_of_source
from tapebook.log import Finding, RebuiltTables
from tapebook.report.demo import DemoReport, demo_report
from tapebook.settings import profiles
from tapebook.settings.config import load_config
from tapebook.tick.heartbeat import when_database_answers
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
    clock = await clock_of_source(url or load_config(home).hyperliquid.url)

    def report_wait(line: str) -> None:
        report(IngestProgress(clock.now(), {}, 0, line))

    with exclusive_lock(home, "tape"):
        # Nothing else runs in this loop yet, so it may stand still for as long as the wait lasts.
        rooms = when_database_answers(
            lambda: Rooms(home, clock=clock), until=end, stopped=lambda: False, report=report_wait
        )
        try:
            claim_role(rooms.tape_db, "ingest", owner=rooms.config.owner)
            left = None if end is None else max(0.0, end - elapsed_seconds())
            await ingest_live(rooms, url=url, seconds=left, report=report)
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
            agents.add_agent(rooms, name, profiles.settings_from_mapping(settings))
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


class HomeHealth(HomePart):
    """Whether a home is whole."""

    def verify(
        self,
        *,
        tape: bool = False,
        archive: bool = False,
        progress: Callable[[str], None] = lambda words: None,
        notice: Callable[[str], None] = lambda words: None,
    ) -> list[Finding]:
        """Everything that contradicts itself; empty when all is whole.

        `tape` compares every row of the tape with its checksum, `archive` reads every object.
        `progress` is told how far it has come; `notice` what cannot be checked, such as rows older than checksums.
        """
        with self._home.read() as rooms:
            return verify_home(rooms, tape=tape, archive=archive, progress=progress, notice=notice)

    def rebuild(self, *, progress: Callable[[str], None] = lambda words: None) -> RebuiltTables:
        """Computes tables of the book again that contradict its log, in one transaction; nothing else may run."""
        with self._home.write() as rooms:
            try:
                return rebuild_book(rooms, progress=progress)
            finally:
                self._home.discard_readers()

    def doctor(self, *, fix: bool = False) -> list[Check]:
        """The state of the home, point by point.

        With `fix`, after what waits for the archive was moved there and what killed writers left in it was deleted.
        """
        if fix:
            with self._home.write() as rooms:
                rooms.archive.drain()
                clean_archive(rooms, everywhere=True)
        with self._home.read() as rooms:
            return health_checks(rooms)


def find_damage(home: str | Path, *, archive: bool = False) -> list[Finding]:
    """What `Tapebook.verify` finds in a home that may be too damaged to be opened; every row of the tape is read."""
    rooms = Rooms(Path(home), clock=SystemClock())
    try:
        return verify_home(rooms, tape=True, archive=archive, progress=_ignore_words, notice=_ignore_words)
    finally:
        rooms.close()


def _ignore_words(words: str) -> None:
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
    demo_loop.prepare_demo_home(Path(home), seed=seed)
    clock = VirtualClock(demo_loop.DEMO_START)
    rooms = Rooms(Path(home), clock=clock)
    try:
        asyncio.run(demo_loop.run_demo(rooms, clock, seconds=seconds, seed=seed, paced=paced, progress=progress))
        return demo_report(rooms, seed=seed)
    finally:
        rooms.close()
