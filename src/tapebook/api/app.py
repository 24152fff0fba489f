"""Defines `Tapebook`, the façade on an open home, for every surface and every program that imports the library.

    tb = tapebook.open("home")
    tb.context("btc-5m", "BTC").text

`as_of` is required inside the rooms; here it defaults to the clock's now.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tapebook import views
from tapebook.anchors import try_anchor_heads
from tapebook.api.backtests import Backtests
from tapebook.api.home_layers import HomeLayers
from tapebook.api.homes import demo, find_damage, ingest, init
from tapebook.api.recall import Recall
from tapebook.backtest.planning import plan_for
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.run import BacktestCallbacks, BacktestProgress, run_backtest
from tapebook.backtest.spending import CostEstimate, cost_sentence, estimate_cost, max_spending
from tapebook.clock import Clock, SystemClock, VirtualClock
from tapebook.context import Preview, assemble_packet, preview_packet
from tapebook.desk import agents, control
from tapebook.desk import demo as demo_loop
from tapebook.desk.agents import RemovedAgent, SavedAgent, deploy_agent, require_agent
from tapebook.desk.control import FlattenReport, HaltReport
from tapebook.desk.demo import DemoProgress
from tapebook.desk.health import Check, health_checks
from tapebook.desk.home_events import HomeEvent, HomeTotals
from tapebook.desk.librarian import clean_archive
from tapebook.desk.roles import RoleProgress
from tapebook.desk.supervisor import HomeObserver, SupervisorProgress, run_desk, serve_role
from tapebook.desk.verify import rebuild_book, verify_home
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.instants import iso_text, parse_instant
from tapebook.domain.money import E6
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.errors import BadInput, UnknownName
from tapebook.history import transfer
from tapebook.history.book_import import FillsReport, import_fills
from tapebook.history.importer import ImportKind
from tapebook.history.transfer import ExportReport, ImportReport, StreamReport
from tapebook.home import exclusive_lock, shared_lock
from tapebook.ingest.live import IngestProgress
from tapebook.ingest.world_process import serve_world
from tapebook.lab.experience import HomeExperience
from tapebook.lab.explain import (
    ShadowReport,
    compare_runs,
    compare_shadow,
    explain_run,
    known_order_view,
    run_record_view,
    trade_times_view,
)
from tapebook.lab.replay import ReplayReport, replay_runs
from tapebook.lab.rerun import RerunComparison, rerun_backtest
from tapebook.library.search import documents_watermark
from tapebook.log import Finding, RebuiltTables, Stream
from tapebook.report.backtest import chunk_lines, summary_lines
from tapebook.report.demo import DemoReport
from tapebook.report.market import market_view
from tapebook.settings import profiles
from tapebook.tape.view import View
from tapebook.tick.decide import Slot
from tapebook.tick.heartbeat import ask_with_heartbeat
from tapebook.tick.memory import HomeSkills, curated_until
from tapebook.tick.prepare import gather_situation, watermarks_now
from tapebook.tick.story import repeated_run, shadow_tick, tick
from tapebook.wiring import Rooms

_ALL = 2**31 - 1

__all__ = [
    "BacktestProgress",
    "BacktestResult",
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
    "HomeEvent",
    "HomeObserver",
    "HomeTotals",
    "ImportReport",
    "IngestProgress",
    "Preview",
    "RemovedAgent",
    "ReplayReport",
    "RerunComparison",
    "RoleProgress",
    "SavedAgent",
    "ShadowReport",
    "StreamReport",
    "SupervisorProgress",
    "Tapebook",
    "chunk_lines",
    "cost_sentence",
    "demo",
    "find_damage",
    "ingest",
    "init",
    "open",
    "run_desk",
    "serve_role",
    "serve_world",
    "summary_lines",
]


class EarlierRun(msgspec.Struct, frozen=True):
    """A decision that was made earlier on a market that stands still, and which demo would move that market on."""

    run: DecisionRun
    demo_seconds: int


class Tapebook:
    """A home, opened. Use it as a context manager, or close it."""

    def __init__(self, home: str | Path, *, clock: Clock | None = None, recall: str | None = None) -> None:
        home = Path(home)
        self._demo_clock = (
            VirtualClock(demo_loop.DEMO_START) if clock is None and demo_loop.is_demo_home(home) else None
        )
        system = SystemClock()
        self._rooms = Rooms(home, clock=clock or self._demo_clock or system, slot=recall)
        self.anchor_problem: str | None = None
        self._closed = False
        # What is done now is done after all that is known, also where a world runs faster than real time.
        system.catch_up(self._rooms.tape.head()[1])
        self._catch_up()

    def agents(self, *, removed: bool = False) -> list[dict[str, Any]]:
        """Every agent with its newest profile; when asked, those too that were removed."""
        book = self._rooms.book
        return [
            views.agent_view(version, profile, removed_at=book.removed_at(profile.name) if removed else None)
            for version, profile in book.agents(removed=removed)
        ]

    def agent(self, name: str, *, version: int | None = None) -> dict[str, Any]:
        """One agent: its newest profile or an older one, where it runs, and how its trades did."""
        deployment = self._deployment(name, version=version)
        book, totals = self._rooms.book, self._rooms.book.trade_totals(deployment.id)
        dry = deployment_id(msgspec.structs.replace(deployment.agent, mode="dry_run"))
        gone = book.removed_at(name) if version is None else None
        return views.agent_view(deployment.version, deployment.agent, removed_at=gone) | {
            "deployment": deployment.id if book.head(deployment.id) else None,
            "closed_trades": totals.count,
            "net_pnl_usd": totals.net_usd_e6 / E6,
            "dry_orders": book.dry_order_count(dry),
        }

    def add_agent(
        self, name: str, settings: Mapping[str, Any] | None = None, *, file: str | Path | None = None
    ) -> SavedAgent:
        """A new agent, by the keys of docs/agents.md, from a TOML file, or both; what is given here wins."""
        return agents.add_agent(self._rooms, name, _settings_from(settings, file))

    def edit_agent(
        self, name: str, settings: Mapping[str, Any] | None = None, *, file: str | Path | None = None
    ) -> SavedAgent:
        """Changes an agent: a new version, unless nothing differs."""
        return agents.edit_agent(self._rooms, name, _settings_from(settings, file))

    def remove_agent(self, name: str, *, reason: str = "by hand") -> RemovedAgent:
        """Ends an agent that holds nothing; its runs, orders, trades and lessons can be read as before."""
        return agents.remove_agent(self._rooms, name, reason=reason)

    def context(self, agent: str, symbol: str, *, as_of: int | str | None = None, version: int | None = None) -> Packet:
        """What an agent would see of a symbol now, or what it would have seen at any past moment.

        Its profile is that of the moment; or a given version, also of a moment at which it did not exist.
        """
        moment = self._moment(as_of)
        then = as_of is not None and version is None
        if as_of is None and version is None:
            require_agent(self._rooms.book, agent)
        deployment = self._deployment_as_of(agent, moment) if then else self._deployment(agent, version=version)
        self._require_symbol(deployment, symbol, as_of=moment if then else None)
        if as_of is None:
            known = watermarks_now(self._rooms, deployment)
        else:
            seq, curated = self._rooms.book.seq_as_of(deployment.id, moment), curated_until(self._rooms, as_of=moment)
            docs = min(documents_watermark(self._rooms), self._rooms.documents.seq_as_of(moment))
            known = Watermarks(self._rooms.tape.head()[0], seq, docs=docs, curated=curated)
        return assemble_packet(gather_situation(self._rooms, deployment, symbol, as_of=moment, watermarks=known))

    def preview(
        self, agent: str, symbol: str, *, as_of: int | str | None = None, version: int | None = None
    ) -> Preview:
        """What that takes: tokens of every part against its cap, rows left out, and warnings at high settings."""
        return preview_packet(self.context(agent, symbol, as_of=as_of, version=version))

    def tick(self, agent: str, symbol: str) -> DecisionRun:
        """Makes one decision now and carries it out.

        On the market of a demo home, which stands still, a decision that was `made_earlier` is given again; what is
        ordered there fills, for the market is moved on until it has.
        """
        earlier = self.made_earlier(agent, symbol)
        if earlier is not None:
            return earlier.run
        deployment = self._deployment(agent)
        if not deployment.agent.enabled:
            raise BadInput(f"{agent} is disabled: enable it with `tapebook agents enable {agent}` first")
        with shared_lock(self._rooms.home), self._rooms.leases.holding(self._rooms.book.stream(deployment.id)):
            self._catch_up()
            slot = Slot(deploy_agent(self._rooms, agent), symbol, self._rooms.clock.now(), trigger="manual")
            run = tick(self._rooms, slot, ask=ask_with_heartbeat)
            shadow_tick(self._rooms, slot, run, ask=ask_with_heartbeat)
        return self._rooms.book.run(run.run_id) or run if self._play_market_on([deployment.id]) else run

    def made_earlier(self, agent: str, symbol: str) -> EarlierRun | None:
        """The decision that a tick would only repeat, on a market that stands still; None where it would decide."""
        require_agent(self._rooms.book, agent)
        deployment = self._deployment(agent)
        self._require_symbol(deployment, symbol)
        if self._demo_clock is None:
            return None
        run = repeated_run(self._rooms, deployment, symbol)
        return None if run is None else EarlierRun(run, demo_loop.demo_seconds_beyond(self._moment(None)))

    def halt(self, agent: str | None = None, *, reason: str = "by hand") -> HaltReport:
        """Stops an agent, or all of them, from sending orders; a running desk obeys within a tick."""
        return control.halt(self._rooms, self._deployment(agent).id if agent else "", reason=reason)

    def resume(self, agent: str | None = None, *, reason: str = "by hand") -> HaltReport:
        """Ends the halt of an agent, or that of the whole desk."""
        return control.resume(self._rooms, self._deployment(agent).id if agent else "", reason=reason)

    def flatten(
        self, agent: str | None = None, *, symbol: str | None = None, reason: str = "by hand"
    ) -> list[FlattenReport]:
        """Cancels the orders and closes the positions of an agent, or of all, in one symbol or in all of them.

        The agent may trade again unless it is halted.
        """
        name = self._deployment(agent).agent.name if agent else ""
        found = [deployment for deployment, _ in self._rooms.book.deployments(name)]
        if symbol is not None:
            control.require_traded(self._rooms, found, symbol)
        self._catch_up()
        flattened = control.flatten(self._rooms, found, reason=reason, symbol=symbol or "")
        return [self._split_closing(each) for each in flattened] if self._play_market_on(found) else flattened

    def runs(self, agent: str | None = None, *, most: int = 20) -> list[dict[str, Any]]:
        """The newest decisions, of one agent or of all."""
        deployment = self._deployment(agent).id if agent else ""
        found = (self._rooms.book.run(run_id) for run_id in self._rooms.book.run_ids(deployment, most=most))
        return [run_record_view(self._rooms, run) for run in found if run is not None]

    def run(self, run_id: str) -> dict[str, Any]:
        """One decision, explained: what was told, said and allowed, and the orders, fills and trades it led to.

        Here and wherever a run is named, the beginning of its id is enough.
        """
        return explain_run(self._rooms, self._rooms.book.find_run(run_id))

    def orders(self, agent: str | None = None, *, working: bool = False, most: int = 20) -> list[dict[str, Any]]:
        """The newest orders, of one agent or of all; when asked, only those that have not ended."""
        deployment = self._deployment(agent).id if agent else ""
        return [known_order_view(known) for known in self._rooms.book.orders(deployment, working=working, most=most)]

    def trades(self, agent: str, *, status: str | None = None, most: int = 50) -> list[dict[str, Any]]:
        """An agent's round trips: open ones by symbol, then closed ones, newest exit first."""
        deployment, book = self._deployment(agent).id, self._rooms.book
        seq = book.head(deployment)
        rows = []
        if status in (None, "open"):
            for trade in book.account(deployment, seq=seq).open_trades.values():
                maker = book.trade_agent(trade.trade_id)
                view = views.open_trade_view(trade, deployment=deployment, maker=maker)
                rows.append(view | trade_times_view(book, trade.trade_id))
        if status in (None, "closed"):
            for closed in book.all_closed_trades(deployment, seq=seq, most=most):
                maker = book.trade_agent(closed.state.trade_id)
                view = views.closed_trade_view(closed, deployment=deployment, maker=maker)
                rows.append(view | trade_times_view(book, closed.state.trade_id))
        return rows[:most]

    def lessons(self, agent: str, *, most: int = 10) -> list[dict[str, Any]]:
        """An agent's notes, the active one and those before it, newest first."""
        kept = self._rooms.notes.reflections(self._deployment(agent).id, most=most)
        return [views.note_view(each) for each in kept]

    def backtest(
        self,
        agent: str,
        *,
        progress: Callable[[BacktestProgress], None] = lambda progress: None,
        chunk: Callable[[ChunkResult], None] = lambda result: None,
        max_usd: float | None = None,
        agree: Callable[[CostEstimate], bool] = lambda estimate: False,
        **wish: Any,
    ) -> BacktestResult:
        """Runs an agent over past bars, or goes on where it stopped, or gives what is there; see `BacktestRequest`.

        Where models are asked, `agree` hears what they may cost before the first question. They may cost `max_usd` in
        all; without it, the estimate, if `agree` says so. At the limit it stops with SpendLimit: nothing is lost.
        """
        require_agent(self._rooms.book, agent)
        plan = plan_for(self._rooms, self._deployment(agent), wish)
        most = max_spending(estimate_cost(self._rooms, plan), max_usd=max_usd, agree=agree)
        return run_backtest(
            self._rooms.home, self._rooms.config, plan, watch=BacktestCallbacks(progress, chunk), max_usd_e6=most
        )

    def backtest_again(
        self,
        agent: str,
        *,
        chunk: str | None = None,
        progress: Callable[[BacktestProgress], None] = lambda progress: None,
        **wish: Any,
    ) -> RerunComparison:
        """Makes a finished backtest, or one chunk of it, a second time and compares what is kept, byte for byte."""
        plan = plan_for(self._rooms, self._deployment(agent), wish)
        return rerun_backtest(self._rooms.home, self._rooms.config, plan, chunk=chunk, progress=progress)

    @property
    def backtests(self) -> Backtests:
        """Those that were made: list, show, compare, export and remove them."""
        return Backtests(self._rooms.home)

    @property
    def recall(self) -> Recall:
        """The documents: search them, sync them, append to them."""
        return Recall(self._rooms)

    @property
    def horizons(self) -> HomeLayers:
        """The layers of all agents: what the day, the week, the year and all time came to."""
        return HomeLayers(self._rooms, moment=self._moment, scope_of=lambda agent: self._deployment(agent).id)

    @property
    def experience(self) -> HomeExperience:
        """What outcomes taught the agents: show, export, import and rebuild it."""
        return HomeExperience(self._rooms, moment=self._moment, find=self._deployment)

    @property
    def skills(self) -> HomeSkills:
        """Lessons that are promoted from one agent to others."""
        return HomeSkills(self._rooms, find=self._deployment)

    def market(self, symbol: str, *, as_of: int | str | None = None) -> dict[str, Any]:
        """What is known of a symbol: price, liquidity, funding, volatility, positioning, gaps."""
        known = self._rooms.tape.symbols()
        if symbol not in known:
            seen = ", ".join(known[:12]) or "none yet; run `tapebook ingest` first"
            raise UnknownName(f"the tape has nothing of {symbol!r}; it has: {seen}{'…' if len(known) > 12 else ''}")
        return market_view(self._rooms.tape, symbol, view=View(self._moment(as_of)))

    def import_file(self, kind: ImportKind, path: str | Path, **options: Any) -> ImportReport:
        """Brings history from a file into the tape, whole or not at all; options as in `transfer.import_file`."""
        with exclusive_lock(self._rooms.home, "tape"):
            return transfer.import_file(self._rooms, kind, Path(path), **options)

    def import_fills(self, path: str | Path, *, agent: str, dry_run: bool = False, **options: Any) -> FillsReport:
        """Books fills of the past for an agent, all of a file or nothing; those it has already are left alone.

        Options as in `history.book_import.import_fills`.
        """
        require_agent(self._rooms.book, agent)
        deployment = self._deployment(agent)
        if dry_run:
            return import_fills(self._rooms, Path(path), deployment, dry_run=True, **options)
        with shared_lock(self._rooms.home), self._rooms.leases.holding(self._rooms.book.stream(deployment.id)):
            return import_fills(self._rooms, Path(path), deploy_agent(self._rooms, agent), **options)

    def export_candles(self, path: str | Path, **options: Any) -> ExportReport:
        """Writes bars of the tape to a file; options as in `history.transfer.export_candles`."""
        return transfer.export_candles(self._rooms, Path(path), **options)

    def export_stream(self, path: str | Path, **options: Any) -> StreamReport:
        """Writes recorded payloads to a file; options as in `history.transfer.export_stream`."""
        return transfer.export_stream(self._rooms, Path(path), **options)

    def replay(self, run_id: str | None = None, *, progress: Callable[[int], None] = lambda done: None) -> ReplayReport:
        """Rebuilds the packet of one run, or of all, and compares it byte for byte."""
        chosen = [self._rooms.book.find_run(run_id).run_id] if run_id else self._rooms.book.run_ids(most=_ALL)
        return replay_runs(self._rooms, chosen, progress=progress)

    def compare_shadow(
        self, agent: str, *, most: int = 500, progress: Callable[[int], None] = lambda done: None
    ) -> ShadowReport:
        """An agent's decisions beside those of its shadow, the newest pairs of them."""
        deployment = self._deployment(agent)
        return compare_shadow(self._rooms, agent, deployment.id, most=most, progress=progress)

    def compare_runs(self, first: str, second: str) -> dict[str, Any]:
        """Two decisions, and what differs between the packets they were made from."""
        return compare_runs(self._rooms, self._rooms.book.find_run(first), self._rooms.book.find_run(second))

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
        return verify_home(self._rooms, tape=tape, archive=archive, progress=progress, notice=notice)

    def rebuild(self, *, progress: Callable[[str], None] = lambda words: None) -> RebuiltTables:
        """Computes tables of the book again that contradict its log, in one transaction; nothing else may run."""
        return rebuild_book(self._rooms, progress=progress)

    def doctor(self, *, fix: bool = False) -> list[Check]:
        """The state of the home, point by point.

        With `fix`, after what waits for the archive was moved there and what killed writers left in it was deleted.
        """
        if fix:
            self._rooms.archive.drain()
            clean_archive(self._rooms, everywhere=True)
        return health_checks(self._rooms)

    def close(self) -> None:
        """Ends all connections; what was written is anchored before, or `anchor_problem` says why it is not."""
        try:
            if not self._closed and (self._rooms.log.written or self._rooms.tape.commits):
                self.anchor_problem = try_anchor_heads(self._rooms)
        finally:
            self._closed = True
            self._rooms.close()

    def __enter__(self) -> "Tapebook":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _catch_up(self) -> None:
        """In a demo home "now" is where its market stopped, and after all that was written since."""
        if self._demo_clock is not None:
            written = max((self._rooms.log.head(stream).known_at for stream in self._streams()), default=0)
            self._demo_clock.advance(max(self._demo_clock.now(), self._rooms.tape.head()[1], written + 1))

    def _streams(self) -> list[Stream]:
        # A folder of documents is thousands of events, which are no reason to be thousands of moments ahead.
        return [stream for stream in self._rooms.log.streams() if stream != self._rooms.documents.stream]

    def _play_market_on(self, deployments: Sequence[str]) -> bool:
        """Moves the market of a demo home on until market orders of deployments have ended; False if none waits."""
        clock, book = self._demo_clock, self._rooms.book

        def is_done() -> bool:
            working = [order for each in deployments for order, _ in book.working_orders(each)]
            return all(order.type != "market" for order in working)

        if clock is None or is_done():
            return False
        asyncio.run(demo_loop.play_until(self._rooms, clock, until=is_done))
        return True

    def _split_closing(self, flattened: FlattenReport) -> FlattenReport:
        """What was to be closed, after the market moved on."""
        working = {order.symbol for order, _ in self._rooms.book.working_orders(flattened.deployment)}
        closed = [symbol for symbol in flattened.closing if symbol not in working]
        still = [symbol for symbol in flattened.closing if symbol in working]
        return msgspec.structs.replace(flattened, closing=still, closed=closed)

    def _moment(self, as_of: int | str | None) -> int:
        # A world that runs faster than real time can be ahead of the machine's clock.
        now = max(self._rooms.clock.now(), self._rooms.tape.head()[1])
        moment = now if as_of is None else parse_instant(as_of) if isinstance(as_of, str) else as_of
        if moment > now:
            raise BadInput(f"{iso_text(moment)} lies in the future: nothing is known after {iso_text(now)}")
        return moment

    def _deployment(self, agent: str, *, version: int | None = None) -> Deployment:
        """An agent's deployment for reading: nothing is opened or written."""
        found = self._rooms.book.agent(agent, version=version)
        if found is None and version is not None and (newest := self._rooms.book.agent(agent)) is not None:
            raise UnknownName(f"{agent} has no version {version}; its newest is {newest[0]}")
        if found is None:
            known = ", ".join(profile.name for _, profile in self._rooms.book.agents()) or "none yet"
            raise UnknownName(f"there is no agent called {agent!r}; agents: {known}")
        version, profile = found
        return Deployment(self._rooms.book.owner, deployment_id(profile), profile, version)

    def _deployment_as_of(self, agent: str, moment: int) -> Deployment:
        """The same with the profile of a past moment."""
        found = self._rooms.book.agent_as_of(agent, as_of=moment)
        if found is None:
            self._deployment(agent)
            gone = self._rooms.book.removed_at(agent)
            if gone is not None and gone <= moment:
                require_agent(self._rooms.book, agent)
            later = [known_at for known_at, _ in self._rooms.book.agent_history(agent) if known_at > moment]
            added = iso_text(later[-1])
            remedy = "--version 1 shows what that version would have been told"
            raise UnknownName(f"{agent} did not exist at {iso_text(moment)}: it was added at {added}; {remedy}")
        version, profile = found
        return Deployment(self._rooms.book.owner, deployment_id(profile), profile, version)

    def _require_symbol(self, deployment: Deployment, symbol: str, *, as_of: int | None = None) -> None:
        if symbol in deployment.agent.watchlist:
            return
        name, watched = deployment.agent.name, ", ".join(deployment.agent.watchlist)
        if as_of is None:
            raise UnknownName(f"{name} does not watch {symbol!r}; it watches: {watched}")
        raise UnknownName(f"{name} did not watch {symbol!r} at {iso_text(as_of)}; it watched: {watched}")


def open(home: str | Path, *, clock: Clock | None = None, recall: str | None = None) -> Tapebook:
    """Opens a home; `recall` names another slot than its settings do."""
    return Tapebook(home, clock=clock, recall=recall)


def _settings_from(settings: Mapping[str, Any] | None, file: str | Path | None) -> dict[str, Any]:
    return (profiles.settings_from_file(Path(file)) if file else {}) | profiles.settings_from_mapping(settings or {})
