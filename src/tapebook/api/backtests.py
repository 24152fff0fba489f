"""Backtests: run one, make it again, and list, show, compare, export and remove those that were made.

    tb.backtest("btc-5m", start="2025-01-01", chunks="month")
    tb.backtests.show("1f0c")["total"]["sharpe"]

A backtest is named by its id, or by the beginning of it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Required, TypedDict, Unpack, cast

from msgspec.structs import replace

from tapebook.api.open_home import HomePart
from tapebook.backtest.home import BacktestHome, backtest_home, backtest_homes
from tapebook.backtest.identity import PlanFingerprints
from tapebook.backtest.likeness import BacktestLikeness, likeness_of
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.planning import BacktestOptions, plan_for
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.run import BacktestCallbacks, BacktestProgress, run_backtest
from tapebook.backtest.spending import CostEstimate, SpendingTotals, estimate_cost, max_spending, spending_of
from tapebook.backtest.summary import spending_text, stale_sentences
from tapebook.backtest.sweep import SweepCase, SweepJob, SweepRow, run_sweep
from tapebook.clock import VirtualClock
from tapebook.domain.units import E6, iso_text
from tapebook.errors import BadInput, Damaged
from tapebook.home import exclusive_lock
from tapebook.lab.rerun import RerunComparison, rerun_backtest
from tapebook.report.backtest import chunk_lines, chunk_view, result_view, spending_view, summary_lines
from tapebook.settings.profiles import apply_settings, settings_from_mapping
from tapebook.wiring import Rooms

if TYPE_CHECKING:
    from tapebook.api.app import Tapebook
    from tapebook.report.comparison import BacktestComparison


class BacktestRuns(HomePart):
    """Runs an agent of a home over past bars. Options are those of `BacktestOptions`."""

    def backtest(
        self,
        agent: str,
        *,
        progress: Callable[[BacktestProgress], None] = lambda progress: None,
        chunk_done: Callable[[ChunkResult], None] = lambda result: None,
        max_usd: float | None = None,
        agree: Callable[[CostEstimate], bool] = lambda estimate: False,
        **options: Unpack[BacktestOptions],
    ) -> BacktestResult:
        """Runs an agent over past bars, or goes on where it stopped, or gives what is there.

        Where models are asked, `agree` hears what they may cost before the first question. They may cost `max_usd` in
        all; without it, the estimate, if `agree` says so. At the limit it stops with SpendLimit: nothing is lost.
        """
        with self._home.read() as rooms:
            plan = plan_for(rooms, rooms.book.find_agent(agent), options)
            estimate, home, config = estimate_cost(rooms, plan), rooms.home, rooms.config
        most = max_spending(estimate, max_usd=max_usd, agree=agree)
        return run_backtest(home, config, plan, watch=BacktestCallbacks(progress, chunk_done), max_usd_e6=most)

    def backtest_again(
        self,
        agent: str,
        *,
        chunk: str | None = None,
        progress: Callable[[BacktestProgress], None] = lambda progress: None,
        **options: Unpack[BacktestOptions],
    ) -> RerunComparison:
        """Makes a finished backtest, or one chunk of it, a second time and compares what is kept, byte for byte."""
        with self._home.read() as rooms:
            plan = plan_for(rooms, rooms.book.find_agent(agent, removed=True), options)
            home, config = rooms.home, rooms.config
        return rerun_backtest(home, config, plan, chunk=chunk, progress=progress)

    def sweep(
        self,
        cases: Sequence[SweepCase],
        *,
        workers: int = 1,
        cluster: str | None = None,
        max_usd: float | None = None,
        done: Callable[[int], None] = lambda count: None,
    ) -> list[SweepRow]:
        """Runs many backtests, on processes of this machine or on a Dask cluster, and gives them in their order.

        Models may cost `max_usd` in each of them.
        """
        with self._home.read() as rooms:
            jobs = [_sweep_job(rooms, case, max_usd=max_usd) for case in cases]
            home = rooms.home
        results = run_sweep(home, jobs, workers=workers, cluster=cluster, done=done)
        return [SweepRow(case, result) for case, result in zip(cases, results, strict=True)]


def _sweep_job(rooms: Rooms, case: SweepCase, *, max_usd: float | None) -> SweepJob:
    deployment = rooms.book.find_agent(case.agent)
    changed = apply_settings(deployment.agent, settings_from_mapping(case.profile))
    plan = plan_for(rooms, replace(deployment, agent=changed), case.options)
    most = max_spending(estimate_cost(rooms, plan), max_usd=max_usd, agree=lambda estimate: False)
    return SweepJob(plan, most)


class BacktestView(TypedDict):
    """A backtest in the list; what cannot be read of a damaged one is null, `stale` names inputs that have changed."""

    id: str
    status: str
    agent: str | None
    agent_version: int | None
    start: str | None
    end: str | None
    memory: str | None
    chunks_done: int | None
    chunks_planned: int | None
    trades: int | None
    change_usd: float | None
    spent: dict[str, Any] | None
    stopped: str | None
    fill: str | None
    stale: list[str]


class SimilarBacktest(TypedDict):
    """A backtest that is like another: how much, in which parts, what differs, and what it came to."""

    id: str
    agent: str
    start: str
    end: str
    memory: str
    likeness: float
    parts: dict[str, float]
    differs: list[str]
    trades: int
    change_usd: float
    sharpe: float | None


class MeasureView(TypedDict):
    """A rate or a mean with its interval, and how many observations it rests on."""

    value: float
    low: float
    high: float
    n: int


class ResultTrendView(TypedDict):
    """How a mean result differs from that of all chunks before."""

    direction: str
    change_bps: MeasureView
    earlier_n: int
    chance: float


class ResultRowView(TypedDict):
    """How a provider, a regime or an asset did in a backtest."""

    name: str
    n: int
    won: int
    net_usd: float
    win_rate: MeasureView
    mean_bps: MeasureView | None
    trend: ResultTrendView | None
    weight: float | None
    weight_before: float | None
    sharpe: MeasureView | None


class ChunkPnlView(TypedDict):
    """What the trades that ended in a chunk came to, and what else moved equity."""

    gross_usd: float
    fees_usd: float
    funding_usd: float
    net_usd: float
    open_usd: float


class ChunkEquityView(TypedDict):
    """Equity at either end of a chunk."""

    start_usd: float
    end_usd: float


class DrawdownView(TypedDict):
    """The deepest fall of equity."""

    usd: float
    share: float


class ChunkView(TypedDict):
    """The measures of a stretch of a backtest; `daily` are pairs of a moment and the equity then."""

    name: str
    start: str
    end: str
    ticks: int
    trades: int
    won: int
    pnl: ChunkPnlView
    equity: ChunkEquityView
    sharpe: MeasureView | None
    drawdown: DrawdownView
    win_rate: MeasureView
    exposure: float
    parts: dict[str, float]
    providers: list[ResultRowView]
    regimes: list[ResultRowView]
    assets: list[ResultRowView]
    lessons_hash: str
    lessons: Sequence[str]
    snapshots: Sequence[str]
    situations: int
    daily: list[list[Any]]
    packets_sha256: str
    head_seq: int
    head_hash: str
    insurance_usd: float


class LuckView(TypedDict):
    """The trades replicated at random moments: the share of replications that the real ones beat."""

    replications: int
    beaten: MeasureView
    beaten_by_chunk: Sequence[MeasureView | None]
    low_usd: float
    high_usd: float


class BaselineView(TypedDict):
    """What somebody who knows nothing would have had."""

    name: str
    trades: int
    net_usd: float
    sharpe: MeasureView | None
    drawdown: float | None
    chunks_usd: list[float]
    daily_usd: list[float]
    luck: NotRequired[LuckView]


class BacktestReportView(TypedDict, total=False):
    """A backtest with its chunks; `total` and `baselines` are null until the last is done.

    What follows them is there of a backtest that is under way, or of one that is done.
    """

    id: Required[str]
    status: Required[str]
    agent: Required[str | None]
    agent_version: Required[int | None]
    start: Required[str | None]
    end: Required[str | None]
    memory: Required[str | None]
    fill: Required[str | None]
    stale: Required[list[str]]
    spent: Required[dict[str, Any] | None]
    stopped: Required[str | None]
    ticks_per_second: Required[float | None]
    chunks: Required[list[ChunkView]]
    total: Required[ChunkView | None]
    baselines: Required[list[BaselineView] | None]
    chunks_done: int | None
    chunks_planned: int | None
    trades: int | None
    change_usd: float | None
    engine: str
    strategy: str
    symbols: Sequence[str]
    chunk_kind: str
    freeze_at: str | None
    notes: Sequence[str]
    packets_sha256: str
    exposures_usd: dict[str, float]
    inputs: dict[str, Any] | None
    rooms: Sequence[dict[str, Any]]
    memory_from: dict[str, Any] | None
    texts: dict[str, Any] | None
    bound_usd_e6: int


class Backtests:
    """All backtests below one home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def all(self) -> list[BacktestView]:
        """Every backtest with how far it has come and what it came to, by the beginning of its range.

        `stale` names the inputs that are others by now; it is empty for one that is current.
        """
        homes = backtest_homes(self._home)
        if not homes:
            return []
        with self._fingerprints() as fingerprints:
            rows = [self._row(home, fingerprints) for home in homes]
        return sorted(rows, key=lambda row: (row["start"] or "", row["agent"] or "", row["id"]))

    def show(self, name: str) -> BacktestReportView:
        """A backtest with all its chunks; `total` and `baselines` are null until the last is done."""
        home = backtest_home(self._home, name)
        result, pace = home.result(), home.speed().ticks_per_second
        if result is not None:
            stale, spent = self._stale(home), self._spending(home)
            shown = result_view(result, ticks_per_second=pace, stale=stale, spent=spent) | {"status": "done"}
            return cast(BacktestReportView, shown)
        chunks = [chunk_view(chunk) for chunk in _finished_chunks(home)]
        with self._fingerprints() as fingerprints:
            row = self._row(home, fingerprints)
        more = {"ticks_per_second": pace, "chunks": chunks, "total": None, "baselines": None}
        return cast(BacktestReportView, {**row, **more})

    def open(self, name: str) -> "Tapebook":
        """The home of a backtest, opened at its end: its decisions, trades and lessons; whoever opens it closes it."""
        from tapebook.api.app import Tapebook

        home = backtest_home(self._home, name)
        return Tapebook(home.folder, clock=VirtualClock(home.plan().end))

    def lines(self, name: str, *, chunks: bool = False) -> list[str]:
        """The result as lines for people; with `chunks`, what each chunk taught."""
        home = backtest_home(self._home, name)
        result, done = home.result(), _finished_chunks(home)
        stale, agent = self._stale(home), home.plan().agent.name
        each = [f"STALE: {sentence}" for sentence in stale_sentences(agent, stale)]
        each += [line for chunk in done for line in (*chunk_lines(chunk), "")]
        if result is not None:
            return [*(each if chunks else []), *summary_lines(result, stale=stale, spent=self._spending(home))]
        then = "begins another: its inputs are no longer the same" if stale else "goes on with it"
        paid = [f"  models  {said}" for said in filter(None, [spending_text(self._spending(home))])]
        stopped = [f"  stopped: {reason}" for reason in filter(None, [home.stop_reason()])]
        so_far = f"{home.id}: {_progress_text(home.plan(), done)}; the same `tapebook backtest` again {then}"
        return [*each, so_far, *paid, *stopped]

    def spending(self, name: str) -> SpendingTotals:
        """What the models of a backtest cost by now."""
        return self._spending(backtest_home(self._home, name))

    def compare(self, first: str, second: str) -> "BacktestComparison":
        """Two finished backtests side by side."""
        # It brings numpy, which a list of backtests has no use for.
        from tapebook.report.comparison import compare_backtests

        both = [self._finished_home(name) for name in (first, second)]
        stale = {home.id: self._stale(home) for home, _ in both}
        return compare_backtests(both[0][1], both[1][1], stale=stale)

    def similar(self, name: str, *, most: int = 10) -> list[SimilarBacktest]:
        """The finished backtests that are most like one, the most similar first; `differs` names other settings."""
        if most < 1:
            raise BadInput(f"`most=` {most} asks for nothing: give 1 or more")
        home, result = self._finished_home(name)
        plan, rows = home.plan(), list[SimilarBacktest]()
        for other in backtest_homes(self._home):
            found = None if other.id == home.id else _readable(other)
            if found is not None:
                rows.append(_similar_row(likeness_of(plan, result, other=found[0], other_result=found[1]), *found))
        return sorted(rows, key=lambda row: (-row["likeness"], row["id"]))[:most]

    def export(
        self,
        name: str,
        *,
        csv: str | Path | None = None,
        html: str | Path | None = None,
        json: str | Path | None = None,
        overwrite: bool = False,
    ) -> list[str]:
        """Writes a finished backtest as CSV files (a folder, or a .zip), as a page, as JSON; says what it wrote."""
        from tapebook.report.export import csv_files, json_bytes, market_bars, report_data, write_csv, write_text
        from tapebook.report.html_page import report_html

        home, result = self._finished_home(name)
        if csv is html is json is None:
            raise BadInput("say what to write, and where: csv, html or json")
        if json is not None:
            view = result_view(
                result,
                ticks_per_second=home.speed().ticks_per_second,
                stale=self._stale(home),
                spent=self._spending(home),
            )
            write_text(Path(json), json_bytes(view), overwrite=overwrite)
        if csv is not None or html is not None:
            plan = home.plan()
            with closing(Rooms(home.folder, clock=VirtualClock(plan.end))) as rooms:
                told = report_data(
                    rooms.book, rooms.book_db, plan, result, stale=self._stale(home), spent=self._spending(home)
                )
                if csv is not None:
                    write_csv(Path(csv), csv_files(told), overwrite=overwrite)
                if html is not None:
                    page = report_html(told, market_bars(rooms.tape, plan))
                    write_text(Path(html), page.encode(), overwrite=overwrite)
        return [str(place) for place in (csv, html, json) if place is not None]

    def remove(self, name: str) -> str:
        """Deletes a backtest that nobody is running, and gives its id; the same plan can be run again."""
        home = backtest_home(self._home, name)
        with exclusive_lock(home.folder):
            # Without its plan it is no backtest any more, however far the rest gets.
            (home.folder / "plan.json").unlink()
            shutil.rmtree(home.folder)
        return home.id

    def _spending(self, home: BacktestHome) -> SpendingTotals:
        return spending_of(self._home, home.id)

    def _row(self, home: BacktestHome, fingerprints: PlanFingerprints) -> BacktestView:
        """A line of the list; what is damaged is listed too, so that it can be removed."""
        try:
            plan, done, finished, stopped = home.plan(), _finished_chunks(home), home.result(), home.stop_reason()
        except Damaged:
            unknown = dict.fromkeys(BacktestView.__annotations__)
            return cast(BacktestView, unknown | {"id": home.id, "status": "damaged", "stale": []})
        progress = f"stopped at its limit, {_progress_text(plan, done)}" if stopped else _progress_text(plan, done)
        return {
            "id": home.id,
            "status": "done" if finished else progress,
            "agent": plan.agent.name,
            "agent_version": plan.agent_version,
            "start": iso_text(plan.start),
            "end": iso_text(plan.end),
            "memory": plan.memory,
            "chunks_done": len(done),
            "chunks_planned": len(plan.chunks),
            "trades": sum(chunk.trades for chunk in done),
            "change_usd": sum(chunk.change_usd_e6 for chunk in done) / E6,
            "spent": spending_view(self._spending(home)),
            "stopped": stopped,
            "fill": plan.fill,
            "stale": list(fingerprints.changed_inputs(plan)),
        }

    def _stale(self, home: BacktestHome) -> tuple[str, ...]:
        """The inputs of a backtest that are others by now."""
        with self._fingerprints() as fingerprints:
            return fingerprints.changed_inputs(home.plan())

    @contextmanager
    def _fingerprints(self) -> Iterator[PlanFingerprints]:
        """What the inputs of backtests are now, in the home they were asked for in."""
        with closing(Rooms(self._home, clock=VirtualClock(0))) as rooms:
            yield PlanFingerprints(rooms.tape, rooms.config, rooms.engine)

    def _finished_home(self, name: str) -> tuple[BacktestHome, BacktestResult]:
        home = backtest_home(self._home, name)
        result = home.result()
        if result is None:
            said = _progress_text(home.plan(), _finished_chunks(home))
            raise BadInput(f"backtest {home.id} is not finished ({said}): run the same `tapebook backtest` again")
        return home, result


def _readable(home: BacktestHome) -> tuple[BacktestPlan, BacktestResult] | None:
    """A backtest that is finished and whole; the list says of the others what they are."""
    try:
        plan, result = home.plan(), home.result()
    except Damaged:
        return None
    return None if result is None else (plan, result)


def _similar_row(like: BacktestLikeness, plan: BacktestPlan, result: BacktestResult) -> SimilarBacktest:
    total = result.total
    return {
        "id": like.id,
        "agent": plan.agent.name,
        "start": iso_text(plan.start),
        "end": iso_text(plan.end),
        "memory": plan.memory,
        "likeness": like.likeness,
        "parts": like.parts,
        "differs": [f"{name}: {here} here, {there} there" for name, here, there in like.differs],
        "trades": total.trades,
        "change_usd": total.change_usd_e6 / E6,
        "sharpe": total.sharpe.value if total.sharpe else None,
    }


def _finished_chunks(home: BacktestHome) -> list[ChunkResult]:
    """The chunks that are done, in order."""
    kept = (home.checkpoint(chunk) for chunk in home.plan().chunks)
    return [checkpoint.result for checkpoint in kept if checkpoint is not None]


def _progress_text(plan: BacktestPlan, done: list[ChunkResult]) -> str:
    return f"{len(done)} of {len(plan.chunks)} chunks done"
