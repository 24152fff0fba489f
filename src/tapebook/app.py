"""Tapebook, the façade: what every surface and every program that imports the library calls.

    tb = tapebook.open("home")
    tb.context("btc-5m", "BTC").text

`as_of` is required inside the rooms; here it defaults to the clock's now.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tapebook import views
from tapebook.clock import Clock, SystemClock, VirtualClock
from tapebook.config import load
from tapebook.context import assemble
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.instants import iso, parse_instant
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.errors import BadInput, HomeError, UnknownName
from tapebook.home import is_home, make_home, require_home, sole_writer
from tapebook.lab.demo_report import DemoReport, demo_report
from tapebook.lab.market_view import market_view
from tapebook.lab.replay import ReplayReport, replay
from tapebook.log import Finding, verify_log
from tapebook.loop import demo as demo_loop
from tapebook.loop import transfer
from tapebook.loop.demo import DemoProgress
from tapebook.loop.deploy import deploy, deployment_id
from tapebook.loop.gather import gather
from tapebook.loop.health import Check, checks
from tapebook.loop.listen import IngestProgress, listen
from tapebook.loop.maintain import anchors
from tapebook.loop.stage import clock_for, serve_world
from tapebook.loop.tick import tick
from tapebook.loop.transfer import ExportReport, ImportReport
from tapebook.tape.importer import Kind
from tapebook.tape.store import View
from tapebook.wiring import BOOK_PACKAGES, Rooms

_ALL = 2**31 - 1

__all__ = [
    "Check",
    "DemoProgress",
    "DemoReport",
    "ExportReport",
    "Finding",
    "ImportReport",
    "IngestProgress",
    "ReplayReport",
    "Tapebook",
    "demo",
    "ingest",
    "init",
    "open",
    "serve_world",
]


class Tapebook:
    """A home, opened. Use it as a context manager, or close it."""

    def __init__(self, home: str | Path, *, clock: Clock | None = None) -> None:
        home = Path(home)
        virtual = VirtualClock(demo_loop.START) if clock is None and demo_loop.is_demo(home) else None
        self._rooms = Rooms(home, clock=clock or virtual or SystemClock())
        if virtual:
            # In a demo home "now" is where its market stopped.
            virtual.advance(max(virtual.now(), self._rooms.tape.head()[1]))

    def agents(self) -> list[dict[str, Any]]:
        """Every agent with its newest profile."""
        return [views.agent_view(version, profile) for version, profile in self._rooms.book.agents()]

    def context(self, agent: str, symbol: str, *, as_of: int | str | None = None) -> Packet:
        """What an agent would see of a symbol now, or what it would have seen at any past moment."""
        deployment = self._deployment(agent)
        self._require_symbol(deployment, symbol)
        moment = self._moment(as_of)
        known = Watermarks(self._rooms.tape.head()[0], self._rooms.book.seq_as_of(deployment.id, moment))
        return assemble(gather(self._rooms, deployment, symbol, as_of=moment, watermarks=known))

    def tick(self, agent: str, symbol: str) -> DecisionRun:
        """Makes one decision now and carries it out."""
        self._require_symbol(self._deployment(agent), symbol)
        with sole_writer(self._rooms.home):
            return tick(
                self._rooms, deploy(self._rooms, agent), symbol, scheduled_for=self._rooms.clock.now(), trigger="manual"
            )

    def runs(self, agent: str | None = None, *, most: int = 20) -> list[dict[str, Any]]:
        """The newest decisions, of one agent or of all."""
        deployment = self._deployment(agent).id if agent else ""
        found = (self._rooms.book.run(run_id) for run_id in self._rooms.book.run_ids(deployment, most=most))
        return [views.run_view(run) for run in found if run is not None]

    def run(self, run_id: str) -> dict[str, Any]:
        """One decision."""
        return views.run_view(self._require_run(run_id))

    def trades(self, agent: str, *, status: str | None = None, most: int = 50) -> list[dict[str, Any]]:
        """An agent's round trips: open ones by symbol, then closed ones, newest exit first."""
        deployment, book = self._deployment(agent).id, self._rooms.book
        seq = book.head(deployment)
        rows = []
        if status in (None, "open"):
            for trade in book.account(deployment, seq=seq).open_trades.values():
                maker = book.trade_maker(trade.trade_id)
                rows.append(views.open_trade_view(trade, deployment=deployment, maker=maker))
        if status in (None, "closed"):
            for closed in book.closed_trades(deployment, seq=seq, most=most):
                maker = book.trade_maker(closed.state.trade_id)
                rows.append(views.closed_trade_view(closed, deployment=deployment, maker=maker))
        return rows[:most]

    def market(self, symbol: str, *, as_of: int | str | None = None) -> dict[str, Any]:
        """What is known of a symbol: price, liquidity, funding, volatility, positioning, gaps."""
        known = self._rooms.tape.symbols()
        if symbol not in known:
            seen = ", ".join(known[:12]) or "none yet; run `tapebook ingest` first"
            raise UnknownName(f"the tape has nothing of {symbol!r}; it has: {seen}{'…' if len(known) > 12 else ''}")
        return market_view(self._rooms.tape, symbol, view=View(self._moment(as_of)))

    def import_file(self, kind: Kind, path: str | Path, **options: Any) -> ImportReport:
        """Brings history from a file into the tape, whole or not at all; options as in `loop.transfer.import_file`."""
        with sole_writer(self._rooms.home, "tape"):
            return transfer.import_file(self._rooms, kind, Path(path), **options)

    def export_candles(self, path: str | Path, **options: Any) -> ExportReport:
        """Writes bars of the tape to a file; options as in `loop.transfer.export_candles`."""
        return transfer.export_candles(self._rooms, Path(path), **options)

    def replay(self, run_id: str | None = None, *, progress: Callable[[int], None] = lambda done: None) -> ReplayReport:
        """Rebuilds the packet of one run, or of all, and compares it byte for byte."""
        chosen = [self._require_run(run_id).run_id] if run_id else self._rooms.book.run_ids(most=_ALL)
        return replay(self._rooms, chosen, progress=progress)

    def verify(self) -> list[Finding]:
        """Everything in the book that contradicts itself; empty when it is whole."""
        rooms = self._rooms
        found = verify_log(rooms.log, rooms.book_db, packages=BOOK_PACKAGES, anchors=anchors(rooms))
        return found + [Finding("wallet_ledger", difference) for difference in rooms.book.cash_differences()]

    def doctor(self) -> list[Check]:
        """The state of the home, point by point."""
        return checks(self._rooms)

    def close(self) -> None:
        """Ends all connections."""
        self._rooms.close()

    def __enter__(self) -> "Tapebook":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _moment(self, as_of: int | str | None) -> int:
        # A world that runs faster than real time can be ahead of the machine's clock.
        now = max(self._rooms.clock.now(), self._rooms.tape.head()[1])
        moment = now if as_of is None else parse_instant(as_of) if isinstance(as_of, str) else as_of
        if moment > now:
            raise BadInput(f"{iso(moment)} lies in the future: nothing is known after {iso(now)}")
        return moment

    def _deployment(self, agent: str) -> Deployment:
        """An agent's deployment for reading: nothing is opened or written."""
        found = self._rooms.book.agent(agent)
        if found is None:
            known = ", ".join(profile.name for _, profile in self._rooms.book.agents()) or "none yet"
            raise UnknownName(f"there is no agent called {agent!r}; agents: {known}")
        version, profile = found
        return Deployment(self._rooms.book.owner, deployment_id(profile), profile, version)

    def _require_symbol(self, deployment: Deployment, symbol: str) -> None:
        if symbol not in deployment.agent.watchlist:
            watched = ", ".join(deployment.agent.watchlist)
            raise UnknownName(f"{deployment.agent.name} does not watch {symbol!r}; it watches: {watched}")

    def _require_run(self, run_id: str) -> DecisionRun:
        run = self._rooms.book.run(run_id)
        if run is None:
            raise UnknownName(f"there is no run {run_id!r}; `tapebook runs` lists them")
        return run


def open(home: str | Path, *, clock: Clock | None = None) -> Tapebook:
    """Opens a home."""
    return Tapebook(home, clock=clock)


async def ingest(
    home: str | Path, *, url: str | None, seconds: float | None, report: Callable[[IngestProgress], None]
) -> None:
    """Listens to the market and keeps it in the tape until `seconds` have passed, or for ever."""
    require_home(Path(home))
    clock = await clock_for(url or load(Path(home)).hyperliquid.url)
    rooms = Rooms(Path(home), clock=clock)
    try:
        with sole_writer(rooms.home, "tape"):
            await listen(rooms, url=url, seconds=seconds, report=report)
    finally:
        rooms.close()


def init(home: str | Path) -> list[str]:
    """Makes a new home with commented settings and one agent that holds; says what was made."""
    home = Path(home)
    if is_home(home):
        raise HomeError(f"{home} is a tapebook home already: edit its tapebook.toml, or choose another --home")
    make_home(home)
    rooms = Rooms(home, clock=SystemClock())
    agent = AgentProfile("btc-5m", ("BTC",), strategy="Hold until a strategy is written.")
    rooms.book.save_agent(agent, at=rooms.clock.now())
    rooms.close()
    return [
        f"{home}/tapebook.toml   settings, each with a comment",
        f"{home}/book.db         the log and what is computed from it",
        f"{home}/tape.db         the market, empty",
        "agent btc-5m (engine: the default of the settings) watches BTC",
    ]


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
