"""What needs no open home and runs for a while: makes a home (`init`), follows a market (`ingest`), plays the demo."""

import asyncio
import getpass
import logging
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import Template
from typing import Any, TypedDict

from tapebook.anchors import anchor_heads
from tapebook.api.market import ALL_SOURCES
from tapebook.backtest.home import backtest_homes
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.planning import plan_for
from tapebook.backtest.run import BacktestCallbacks, BacktestProgress, run_backtest
from tapebook.clock import SystemClock, VirtualClock, elapsed_seconds
from tapebook.database_wait import when_database_answers
from tapebook.desk import agents
from tapebook.desk import demo as demo_loop
from tapebook.desk.aging import DemoProgress
from tapebook.desk.supervisor import await_role
from tapebook.domain.units import DAY
from tapebook.errors import HomeError, RoleLost
from tapebook.home import DEMO_START, exclusive_lock, is_home, make_home, require_home, write_once
from tapebook.ingest.live import IngestProgress, clock_address, ingest_live
from tapebook.ingest.tape_recovery import recover_lost_tape
from tapebook.ingest.world_process import clock_of_source
from tapebook.report.demo import DemoReport, demo_report
from tapebook.settings import profiles
from tapebook.settings.config import load_config
from tapebook.settings.logs import log_problems
from tapebook.wiring import Rooms

_LOG = logging.getLogger("tapebook.ingest")

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


SERVICES_FOLDER = "deploy"
"""Where in a home the files are that run it as services: units of systemd, a Dockerfile, compose files, secrets."""

_SERVICE_TEMPLATES = resources.files("tapebook.settings").joinpath("services")


class _WaitTerms(TypedDict):
    """How long a process waits for a database or for its role, and whom it tells."""

    until: float | None
    stopped: Callable[[], bool]
    report: Callable[[str], None]


async def ingest(
    home: str | Path, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Listens to the market and keeps it in the tape until `seconds` have passed, or for ever."""
    home = Path(home)
    require_home(home)
    end = None if seconds is None else elapsed_seconds() + seconds
    clock = await clock_of_source(clock_address(load_config(home), url))

    def report_wait(line: str) -> None:
        report(IngestProgress(clock.now(), {}, 0, line))

    # Nothing else runs in this loop yet, so it may stand still for as long as a wait lasts.
    wait: _WaitTerms = {"until": end, "stopped": lambda: False, "report": report_wait}

    async def ingest_until_lost() -> bool:
        rooms = when_database_answers(lambda: Rooms(home, clock=clock), **wait)
        try:
            if await_role(rooms.tape_db, "ingest", owner=rooms.config.owner, **wait):
                recover_lost_tape(rooms)
                left = None if end is None else max(0.0, end - elapsed_seconds())
                await ingest_live(rooms, url=url, seconds=left, report=log_problems(_LOG, report))
        except RoleLost:
            return True
        finally:
            rooms.close()
        return False

    with exclusive_lock(home, "tape"):
        while await ingest_until_lost():
            report_wait("another ingest has taken over: standing by")


def init(home: str | Path) -> list[str]:
    """Makes a new home with commented settings and its first agents; says what was made."""
    home = Path(home)
    if is_home(home):
        raise HomeError(f"{home} is a tapebook home already: edit its tapebook.toml, or choose another `home=`")
    make_home(home, sources=ALL_SOURCES)
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


def init_production(home: str | Path) -> list[str]:
    """Makes a home unless there is one, and writes the files that run it as services; says what was made."""
    home = Path(home)
    lines = [] if is_home(home) else init(home)
    folder = home / SERVICES_FOLDER
    for name, text in service_files(home).items():
        is_new = not (folder / name).exists()
        write_once(folder / name, text)
        lines.append(f"{folder / name}   {'written' if is_new else 'was there, and stays as it is'}")
    lines.append(f"next: put keys into {folder / 'tapebook.env'}, and see docs/operations.md#services")
    return lines


def service_files(home: Path) -> dict[str, str]:
    """The text of each file by its name."""
    words = {
        "home": str(home.absolute()),
        "user": getpass.getuser(),
        # A container reads the home as its owner: nobody else may.
        "owner": f"{home.stat().st_uid}:{home.stat().st_gid}",
        "program": _program(),
        "version": _installed_version(),
    }
    texts = {entry.name: entry.read_text("utf-8") for entry in _SERVICE_TEMPLATES.iterdir()}
    return {name: Template(text).substitute(words) for name, text in sorted(texts.items())}


def _program() -> str:
    """The command in full: systemd has no search path of its own for virtual environments."""
    beside = Path(sys.executable).parent / "tapebook"
    return str(beside) if beside.is_file() else f"{sys.executable} -m tapebook"


def _installed_version() -> str:
    try:
        return version("tapebook")
    except PackageNotFoundError:
        return "from source"


def demo(
    home: str | Path,
    *,
    seconds: float = 30,
    seed: int = 7,
    weeks: float = 0,
    paced: bool = False,
    progress: Callable[[DemoProgress], None] = lambda progress: None,
) -> DemoReport:
    """Runs the seeded world for `seconds` times twenty minutes of market, and reports; a home goes on where it was.

    Of a new home, `weeks` are lived through before that: its agents begin with what they learned from them. One of
    them is backtested over that time, with its memory and without.
    """
    demo_loop.prepare_demo_home(Path(home), seed=seed, weeks=weeks)
    demo_loop.age_demo(Path(home), progress=progress)
    _backtest_past(Path(home), progress=progress)
    clock = VirtualClock(DEMO_START)
    rooms = Rooms(Path(home), clock=clock)
    try:
        asyncio.run(demo_loop.run_demo(rooms, clock, seconds=seconds, paced=paced, progress=progress))
        return demo_report(rooms, seed=seed)
    finally:
        rooms.close()


def _backtest_past(home: Path, *, progress: Callable[[DemoProgress], None]) -> None:
    """Makes the backtests of a demo, or goes on with them; one whose market has gone on stays as it is."""
    with closing(Rooms(home, clock=VirtualClock(DEMO_START))) as rooms:
        span = demo_loop.backtested_span(rooms.tape, rooms.home)
        if span is None:
            return
        past = rooms.book.find_agent(demo_loop.BACKTESTED_AGENT, version=1)
        # A plan that is stored is not made again: it may have seen a tape that a killed process has written to since.
        stored = {plan.memory: plan for each in backtest_homes(home) if (plan := each.plan()).agent_version == 1}
        chunks = "week" if span[1] - span[0] > 13 * DAY else "none"
        wish = {"start": span[0], "end": span[1], "chunks": chunks}
        plans = [stored.get(memory) or plan_for(rooms, past, {**wish, "memory": memory}) for memory in ("on", "off")]
        config, rows, trades = rooms.config, rooms.tape.rows_written(), rooms.book.closed_trade_count()
    width = (demo_loop.BACKTESTED_SHARE - demo_loop.AGED_SHARE) / len(plans)
    for number, plan in enumerate(plans):

        def report(step: BacktestProgress, number: int = number, plan: BacktestPlan = plan) -> None:
            done = demo_loop.AGED_SHARE + width * (number + step.done)
            progress(DemoProgress(done, step.at, rows, step.ticks, trades, f"backtest with memory {plan.memory}"))

        run_backtest(home, config, plan, watch=BacktestCallbacks(report))
