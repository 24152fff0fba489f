"""Runs a backtest: the same tick as live, over the tape, in virtual time.

1. `run_backtest` prepares a home of its own (`BacktestHome`) and opens rooms on it: its book, the parent's tape.
2. Chunk by chunk (`BacktestRun.run_chunk`) it makes every decision whose slot lies in it, many ticks to a commit.
3. At a chunk's end it is measured and stored as a checkpoint; at the end of all, so is the whole.

Models are asked through `BacktestLedger`, which stops a backtest at its limit of money; what was paid for stays.

Where a process was killed, the log says which slots are done: the same plan goes on behind them. A chunk's
measures are functions of the log, so an interrupted backtest ends with the same bytes as any other.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tapebook.backtest.home import BacktestHome, Checkpoint
from tapebook.backtest.measure import measure_all, measure_chunk
from tapebook.backtest.memory import TextArrivals, inherit_memory, inherited_seq, is_learning
from tapebook.backtest.plan import BacktestChunk, BacktestPlan
from tapebook.backtest.result import BacktestResult, ChunkResult
from tapebook.backtest.spending import BacktestLedger, BacktestReplies, SpendingTotals
from tapebook.backtest.summary import summary_text
from tapebook.book.decision_queue import StoredReplies
from tapebook.book.store import Book
from tapebook.clock import Clock, VirtualClock, elapsed_seconds
from tapebook.db import Database
from tapebook.desk.scheduler import bar_wait_ms
from tapebook.domain.agent import Deployment, deployment_id
from tapebook.domain.market import LookbackBars
from tapebook.domain.units import HOUR
from tapebook.errors import SpendLimit
from tapebook.experience.store import LookbackKey
from tapebook.gc_pause import collect_young_garbage, gc_paused
from tapebook.home import exclusive_lock
from tapebook.log import Log
from tapebook.settings.config import Config
from tapebook.tape.bars import decision_moment
from tapebook.tape.view import View
from tapebook.tick.decide import MarketCut, Slot
from tapebook.tick.learn import learn_what_is_due
from tapebook.tick.memory import append_experience_snapshot
from tapebook.tick.prepare import OptionalReads, read_lookback
from tapebook.tick.story import LearnStep, deploy_agent, tick
from tapebook.wiring import PastTerms, Rooms, open_backtest

_LOG = logging.getLogger("tapebook.backtest")

# A commit costs as much as some ticks; a killed process repeats no more than these.
TICKS_PER_COMMIT = 1_000
# No further than the forward tape keeps rows behind, midpoints of five seconds too.
_AHEAD_MS = 4 * HOUR


class BacktestProgress(msgspec.Struct, frozen=True):
    """How far a backtest is: in which chunk, at which moment, how many ticks were made by now, how fast, the cost."""

    chunk: str
    at: int
    done: float
    ticks: int
    ticks_per_second: float
    spent: SpendingTotals = SpendingTotals()


class BacktestCallbacks(msgspec.Struct, frozen=True):
    """Who wants to hear how it goes: at every commit, and at the end of each chunk."""

    progress: Callable[[BacktestProgress], None] = lambda progress: None
    chunk: Callable[[ChunkResult], None] = lambda result: None


def run_backtest(
    parent: Path, config: Config, plan: BacktestPlan, *, watch: BacktestCallbacks, max_usd_e6: int = 0
) -> BacktestResult:
    """Runs a plan, or goes on with it, or gives the result that is there; models may cost so much in all."""
    home = BacktestHome.prepare(parent, config, plan)
    # The same backtest may have been begun when the tape did not reach so far.
    plan = home.plan()
    with exclusive_lock(home.folder):
        done = home.result()
        if done is not None:
            for chunk in done.chunks:
                watch.chunk(chunk)
            return done
        home.save_stop_reason(None)
        spending = BacktestLedger(parent, plan, run_usd_e6=max_usd_e6)
        with closing(BacktestRun(home, plan, watch, spending=spending)) as run, gc_paused():
            _LOG.info("backtest started", extra={"fields": {"backtest": plan.id, "agent": plan.agent.name}})
            try:
                result = run.run_to_end()
            except SpendLimit as limit:
                _LOG.warning("backtest stopped", extra={"fields": {"backtest": plan.id, "text": str(limit)}})
                home.save_stop_reason(str(limit))
                raise
            _LOG.info("backtest ended", extra={"fields": {"backtest": plan.id, "ticks": result.total.ticks}})
            return result


def run_backtest_chunks(parent: Path, config: Config, plan: BacktestPlan) -> None:
    """Makes the decisions of a plan that asks no model, and leaves it to `run_backtest` to sum up the whole."""
    home = BacktestHome.prepare(parent, config, plan)
    with exclusive_lock(home.folder):
        if home.result() is None:
            with closing(BacktestRun(home, home.plan(), BacktestCallbacks())) as run, gc_paused():
                run.run_chunks()


def open_backtest_rooms(
    home: BacktestHome, plan: BacktestPlan, clock: VirtualClock, *, ledger: BacktestLedger | None = None
) -> Rooms:
    """The rooms of a backtest: its own book, its fill rule, and the tape as far as the plan may see it."""

    def with_fill_rule(config: Config) -> Config:
        # The settings of the first build's backtests have no rule of their own.
        return replace(config, paper=replace(config.paper, fill=plan.fill))

    def open_replies(db: Database, owner: str) -> StoredReplies:
        return BacktestReplies(db, owner=owner, has_ledger=lambda: any(rooms.askers(plan.agent)))

    terms = PastTerms(with_fill_rule, plan.tape_seq, ledger, open_replies)
    rooms = open_backtest(home.folder, clock=clock, terms=terms)
    return rooms


class BacktestRun:
    """One attempt at a plan."""

    def __init__(
        self,
        home: BacktestHome,
        plan: BacktestPlan,
        watch: BacktestCallbacks,
        *,
        open_rooms: Callable[..., Rooms] = open_backtest_rooms,
        spending: BacktestLedger | None = None,
    ) -> None:
        self._home, self._plan, self._watch = home, plan, watch
        self._clock = VirtualClock(plan.start)
        # Whoever names none may spend nothing: a backtest lies two folders below its home.
        self._spending = spending or BacktestLedger(home.folder.parent.parent, plan, run_usd_e6=0)
        self._rooms = rooms = open_rooms(home, plan, self._clock, ledger=self._spending)
        self._ticks, self._began = 0, elapsed_seconds()
        self._deployment, self._learn = deploy_plan(self._rooms.book, self._clock, plan), learn_until_frozen(plan)
        inherit_memory(rooms.book, rooms.log, plan, parent=home.folder.parent.parent)
        self._texts = TextArrivals(rooms, plan, parent=home.folder.parent.parent)
        self._limit = bar_wait_ms(self._rooms.config)

    def run_to_end(self) -> BacktestResult:
        """Every chunk that is not done yet, and the whole."""
        result = measure_all(self._rooms, self._deployment, self._plan, self.run_chunks())
        self._home.save_result(result, summary=summary_text(result))
        return result

    def run_chunks(self) -> list[ChunkResult]:
        """The results of all chunks; those that are not done yet are run."""
        results = []
        for chunk in self._plan.chunks:
            kept = self._home.checkpoint(chunk)
            results.append(kept.result if kept else self.run_chunk(chunk))
            self._watch.chunk(results[-1])
        return results

    def run_chunk(self, chunk: BacktestChunk) -> ChunkResult:
        """Every decision of a chunk that is not made yet; then its measures, kept as a checkpoint."""
        for slots in _batches(self.slots_left(chunk), self._slots_per_commit()):
            before, began = self._ticks, elapsed_seconds()
            self.decide_slots(slots)
            self._home.add_speed(self._ticks - before, elapsed_seconds() - began)
            self._report_progress(chunk, slots[-1])
        return self._close_chunk(chunk)

    def decide_slots(self, slots: range) -> None:
        """All decisions of some slots, in one transaction."""
        with self._rooms.log.one_transaction():
            for some in _batches(slots, max(1, _AHEAD_MS // slots.step)):
                # All moments first: in a row they cost a third of what they do before each tick.
                moments = [(at, self._decision_moments(at)) for at in some]
                if "experience" in self._deployment.agent.context.rooms:
                    self._look_ahead([each for _, decided in moments for each in decided])
                for at, decided in moments:
                    self._decide_slot(at, decided)
        collect_young_garbage()

    def close(self) -> None:
        """Ends the connections."""
        self._rooms.close()
        self._spending.close()

    def slots_left(self, chunk: BacktestChunk) -> range:
        """The slots of a chunk behind the newest decision; a commit holds all symbols of a slot or none."""
        cadence = self._deployment.agent.cadence_ms
        seq = self._rooms.book.head(self._deployment.id)
        newest = self._rooms.book.last_run(self._deployment.id, self._plan.symbols[-1], seq=seq)
        first = chunk.start if newest is None else max(chunk.start, newest.scheduled_for + cadence)
        return range(-(-first // cadence) * cadence, chunk.end, cadence)

    def _slots_per_commit(self) -> int:
        """How many slots share a commit: many, but answers that were paid for are not to be lost with a process."""
        paid = self._rooms.engine(self._deployment.agent).identity
        return 1 if paid else TICKS_PER_COMMIT // len(self._plan.symbols) or 1

    def _decide_slot(self, at: int, decided: Sequence[tuple[int, str]]) -> None:
        """All decisions of one slot, each when the newest bar it looks at is finished, as live."""
        look: MarketCut | None = None
        texts = self._texts
        for moment, symbol in decided:
            if look is None or look.as_of != moment:
                self._clock.advance(moment)
                look = MarketCut(moment, self._plan.tape_seq)
                if texts.next_at is not None and texts.next_at <= moment:
                    texts.write_until(moment)
            slot = Slot(self._deployment, symbol, at, trigger="backtest", learns=is_learning(self._plan, moment))
            tick(self._rooms, slot, look=look, learn=self._learn, late=True)
            self._ticks += 1

    def _decision_moments(self, at: int) -> list[tuple[int, str]]:
        """When each symbol of a slot is decided, in the order of time; of equals, in the order of the watchlist."""
        tape, minutes, limit = self._rooms.tape, self._deployment.agent.context.bar_minutes, self._limit
        watermark, found = self._plan.tape_seq, []
        for symbol in self._plan.symbols:
            moment = decision_moment(tape, symbol, minutes=minutes, slot=at, limit=limit, watermark=watermark)
            found.append((moment, symbol))
        if len(found) > 1:
            found.sort(key=itemgetter(0))
        return found

    def _look_ahead(self, moments: Sequence[tuple[int, str]]) -> None:
        """Reads the bars of moments to come, each as they are seen at its own; what fails is left to its decision."""
        found: dict[LookbackKey, LookbackBars] = {}
        OptionalReads().read_or_default("experience", None, self._read_lookbacks, moments, found)
        self._rooms.experience.set_lookbacks_ahead(found)

    def _read_lookbacks(self, moments: Sequence[tuple[int, str]], found: dict[LookbackKey, LookbackBars]) -> None:
        tape, readers, watermark = self._rooms.tape, self._rooms.experience.readers, self._plan.tape_seq
        for moment, symbol in moments:
            bars = read_lookback(tape, symbol, view=View(moment, watermark), cut=readers[symbol].cut)
            found[symbol, moment, watermark] = bars

    def _close_chunk(self, chunk: BacktestChunk) -> ChunkResult:
        """Measures a chunk as of its end, whatever came after it, and keeps that."""
        deployment, plan = self._deployment, self._plan
        since, until = (seq_at(self._rooms.book, self._rooms.log, plan, moment) for moment in (chunk.start, chunk.end))
        if is_learning(plan, chunk.end) and not self._has_snapshot(chunk, until):
            self._clock.advance(max(self._clock.now(), chunk.end - 1))
            span = (chunk.start, chunk.end)
            book, experience = self._rooms.book, self._rooms.experience
            until = append_experience_snapshot(
                book, experience, deployment.id, label=chunk.name, since_seq=since, seq=until, span=span
            )
        result = measure_chunk(self._rooms, deployment, plan, chunk, since_seq=since, seq=until)
        self._home.save_checkpoint(Checkpoint(chunk, until, result.head_hash, result))
        return result

    def _has_snapshot(self, chunk: BacktestChunk, seq: int) -> bool:
        taken = self._rooms.experience.snapshots(self._deployment.id, seq=seq, most=1)
        return bool(taken) and taken[0].chunk == chunk.name

    def _report_progress(self, chunk: BacktestChunk, at: int) -> None:
        plan, seconds = self._plan, elapsed_seconds() - self._began
        share = (at - plan.start) / (plan.end - plan.start)
        speed = self._ticks / max(seconds, 1e-9)
        self._watch.progress(BacktestProgress(chunk.name, at, share, self._ticks, speed, self._spending.totals))


def deploy_plan(book: Book, clock: Clock, plan: BacktestPlan) -> Deployment:
    """The agent of a plan as a deployment of the backtest's own book."""
    book.save_agent(plan.agent, at=plan.start)
    return deploy_agent(book, clock, plan.agent.name)


def seq_at(book: Book, log: Log, plan: BacktestPlan, moment: int) -> int:
    """How far the log had come when a chunk ended, before the first decision of the next.

    A plan begins with the deployment, known at its start, and with the memory it was given; whatever is decided at that
    moment is known after it.
    """
    seq = book.seq_as_of(deployment_id(plan.agent), max(moment - 1, plan.start))
    return max(seq, inherited_seq(book, log, plan))


def learn_until_frozen(plan: BacktestPlan) -> LearnStep:
    """What learns between decisions: everything, nothing, or everything until the memory is frozen."""

    def until_frozen(rooms: Rooms, deployment: Deployment) -> tuple[str, ...]:
        # Its own chunks are summed up at their ends.
        return learn_what_is_due(rooms, deployment, calendar=False) if is_learning(plan, rooms.clock.now()) else ()

    return until_frozen


def _batches(slots: range, size: int) -> Iterator[range]:
    return (slots[start : start + size] for start in range(0, len(slots), size))
