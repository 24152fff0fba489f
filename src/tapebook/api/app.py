"""Defines `Tapebook`, the façade on an open home, for every surface and every program that imports the library.

    tb = tapebook.open("home")
    tb.context("btc-5m", "BTC").text

One habit: each noun is a class in a file of its own that borrows rooms from the `OpenHome` it was made with, so any
thread may call it. Plurals give lists with the newest first, singulars one thing by its name (`runs`,
`run`). What has many verbs of its own is a property (`recall`). `as_of` is required inside the
rooms; here it defaults to the clock's now.
"""

from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tapebook.api.agents import Agents
from tapebook.api.backtests import BacktestRuns, Backtests
from tapebook.api.bots import BotDecision, Bots
from tapebook.api.changes import ChangeFeed, HomeChanges, MovedStream
from tapebook.api.experience import HomeExperience
from tapebook.api.homes import HomeHealth, find_damage, restore
from tapebook.api.horizons import HomeLayers
from tapebook.api.lessons import LessonTrials
from tapebook.api.market import MarketHistory
from tapebook.api.open_home import AsOf, OpenHome
from tapebook.api.portfolio import Portfolios
from tapebook.api.recall import Recall
from tapebook.api.runs import EarlierRun, Runs
from tapebook.api.trades import HomeSkills, LessonNotes, MemoryClient, Trades
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.run import BacktestProgress
from tapebook.backtest.spending import CostEstimate, cost_sentence
from tapebook.backtest.sweep import SweepCase, SweepRow, read_sweep
from tapebook.clock import Clock
from tapebook.context import Preview
from tapebook.desk.agents import RemovedAgent, SavedAgent
from tapebook.desk.backup import BackupReport, RestoreReport, RestoreTerms
from tapebook.desk.control import FlattenReport, HaltReport
from tapebook.lab.explain import ShadowReport
from tapebook.lab.replay import ReplayReport
from tapebook.lab.rerun import RerunComparison
from tapebook.log import Finding, KeyedWrite
from tapebook.report.backtest import chunk_lines, summary_lines
from tapebook.wiring import Rooms

if TYPE_CHECKING:
    from tapebook.api.processes import demo, ingest, init, init_production
    from tapebook.desk.demo import DemoProgress
    from tapebook.desk.health import Check
    from tapebook.desk.home_events import HomeEvent, HomeTotals
    from tapebook.desk.roles import RoleProgress
    from tapebook.desk.supervisor import HomeObserver, SupervisorProgress, run_desk, serve_role
    from tapebook.history.book_import import FillsReport
    from tapebook.history.transfer import ExportReport, ImportReport, StreamReport
    from tapebook.ingest.live import IngestProgress
    from tapebook.ingest.world_process import serve_world
    from tapebook.report.demo import DemoReport

# What runs processes or reads files brings an event loop, sources and the desk; no read of a home needs them.
_LOADED_LATER = {
    **dict.fromkeys(("demo", "ingest", "init", "init_production"), "tapebook.api.processes"),
    **{"Check": "tapebook.desk.health", "DemoProgress": "tapebook.desk.demo", "DemoReport": "tapebook.report.demo"},
    **dict.fromkeys(("HomeEvent", "HomeTotals"), "tapebook.desk.home_events"),
    **{"IngestProgress": "tapebook.ingest.live", "RoleProgress": "tapebook.desk.roles"},
    **dict.fromkeys(("HomeObserver", "SupervisorProgress", "run_desk", "serve_role"), "tapebook.desk.supervisor"),
    **dict.fromkeys(("ExportReport", "ImportReport", "StreamReport"), "tapebook.history.transfer"),
    **{"FillsReport": "tapebook.history.book_import", "serve_world": "tapebook.ingest.world_process"},
}

__all__ = [
    "BacktestProgress",
    "BacktestResult",
    "BackupReport",
    "BotDecision",
    "Check",
    "ChunkResult",
    "CostEstimate",
    "DemoProgress",
    "DemoReport",
    "EarlierRun",
    "ExportReport",
    "FillsReport",
    "Finding",
    "FlattenReport",
    "HaltReport",
    "HomeChanges",
    "HomeEvent",
    "HomeObserver",
    "HomeTotals",
    "ImportReport",
    "IngestProgress",
    "MemoryClient",
    "MovedStream",
    "Preview",
    "RemovedAgent",
    "ReplayReport",
    "RerunComparison",
    "RestoreReport",
    "RestoreTerms",
    "RoleProgress",
    "SavedAgent",
    "ShadowReport",
    "StreamReport",
    "SupervisorProgress",
    "SweepCase",
    "SweepRow",
    "Tapebook",
    "chunk_lines",
    "cost_sentence",
    "demo",
    "find_damage",
    "ingest",
    "init",
    "init_production",
    "open",
    "read_sweep",
    "restore",
    "run_desk",
    "serve_role",
    "serve_world",
    "summary_lines",
]


class Tapebook(
    Agents,
    Runs,
    Trades,
    Portfolios,
    LessonNotes,
    LessonTrials,
    MarketHistory,
    BacktestRuns,
    HomeHealth,
    ChangeFeed,
    Bots,
):
    """A home, opened. Use it as a context manager, or close it."""

    def __init__(self, home: str | Path, *, clock: Clock | None = None, recall: str | None = None) -> None:
        super().__init__(OpenHome.at(Path(home), clock=clock, recall=recall))

    @property
    def folder(self) -> Path:
        """The folder of the home."""
        return self._home.writer.home

    @property
    def owner(self) -> str:
        """Whose rows these are: the `owner` of the settings."""
        return self._home.writer.config.owner

    @property
    def backtests(self) -> Backtests:
        """Those that were made: list, show, compare, export and remove them."""
        return Backtests(self._home.writer.home)

    @property
    def recall(self) -> Recall:
        """The documents: search them, sync them, append to them."""
        return Recall(self._home)

    @property
    def horizons(self) -> HomeLayers:
        """The layers of all agents: what the day, the week, the year and all time came to."""
        return HomeLayers(self._home)

    @property
    def experience(self) -> HomeExperience:
        """What outcomes taught the agents: show, export, import and rebuild it."""
        return HomeExperience(self._home)

    @property
    def skills(self) -> HomeSkills:
        """Lessons that are promoted from one agent to others."""
        return HomeSkills(self._home)

    def memory(self, agent: str, *, as_of: AsOf = None) -> MemoryClient:
        """What an agent is given of its past: trades that ended, trades that are open, the lessons that stand."""
        return MemoryClient(self._home, agent, as_of=as_of)

    def keyed_write(self, write_id: str) -> AbstractContextManager[KeyedWrite]:
        """Notes what this thread writes inside under an id, for whoever makes the same write again after a crash."""
        return self._home.keyed_write(write_id)

    @property
    def anchor_problem(self) -> str | None:
        """Why the heads of the log could not be anchored when the home was closed, if they could not."""
        return self._home.anchor_problem

    @property
    def _rooms(self) -> Rooms:
        return self._home.writer

    def close(self) -> None:
        """Ends all connections; what was written is anchored before, or `anchor_problem` says why it is not."""
        self._home.close()

    def __enter__(self) -> "Tapebook":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(home: str | Path, *, clock: Clock | None = None, recall: str | None = None) -> Tapebook:
    """Opens a home; `recall` names another slot than its settings do."""
    return Tapebook(home, clock=clock, recall=recall)


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_LATER[name]), name)
