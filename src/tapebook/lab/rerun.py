"""Runs a backtest, or one chunk of it, a second time beside the first, and compares every byte that is stored.

A chunk begins with the log as it was at the end of the chunk before: its events are written into an empty book, which
gives the tables and all that was learned, and the chunk's decisions are made anew. The first one is never touched.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tapebook.backtest.home import BacktestHome
from tapebook.backtest.plan import BacktestChunk, BacktestPlan
from tapebook.backtest.run import BacktestCallbacks, BacktestProgress, BacktestRun, open_backtest_rooms, seq_at
from tapebook.backtest.spending import BacktestLedger
from tapebook.book.store import Book
from tapebook.clock import VirtualClock
from tapebook.domain.agent import deployment_id
from tapebook.errors import BadInput
from tapebook.log import Event, Log, Stream
from tapebook.search.documents import Documents
from tapebook.settings.config import Config


class RerunComparison(msgspec.Struct, frozen=True):
    """What was made again, and the fields in which it differs from what is kept; empty when every byte is the same."""

    what: str
    differs: tuple[str, ...]


def rerun_backtest(
    parent: Path, config: Config, plan: BacktestPlan, *, chunk: str | None, progress: Callable[[BacktestProgress], None]
) -> RerunComparison:
    """The whole backtest from nothing, or one chunk from the checkpoint before it."""
    watch = BacktestCallbacks(progress)
    if chunk is not None:
        return _rerun_chunk(parent, config, plan, chunk, watch=watch)
    first = BacktestHome.prepare(parent, config, plan)
    plan, kept = first.plan(), first.result()
    if kept is None:
        raise BadInput(f"backtest {plan.id} is not finished: run it to its end first")
    with _second_home(parent, config, plan) as home, closing(_second_run(parent, home, plan, watch)) as run:
        return RerunComparison("all", _differing_fields(kept, run.run_to_end()))


def _rerun_chunk(
    parent: Path, config: Config, plan: BacktestPlan, chunk: str, *, watch: BacktestCallbacks
) -> RerunComparison:
    found = next((each for each in plan.chunks if each.name == chunk), None)
    if found is None:
        raise BadInput(f"there is no chunk {chunk!r}; chunks: {', '.join(each.name for each in plan.chunks)}")
    first = BacktestHome.prepare(parent, config, plan)
    plan, kept = first.plan(), first.checkpoint(found)
    if kept is None:
        raise BadInput(f"chunk {chunk} of backtest {plan.id} is not done: run the backtest further first")
    with _second_home(parent, config, plan) as home:
        with closing(open_backtest_rooms(first, plan, VirtualClock(plan.start))) as rooms:
            _restore_log(rooms.book, home, plan, found, documents=rooms.documents, log=rooms.log)
        with closing(_second_run(parent, home, plan, watch)) as run:
            return RerunComparison(chunk, _differing_fields(kept.result, run.run_chunk(found)))


def _second_run(parent: Path, home: BacktestHome, plan: BacktestPlan, watch: BacktestCallbacks) -> BacktestRun:
    """A second run, to which models say what they said to the first; it may spend nothing."""
    return BacktestRun(home, plan, watch, spending=BacktestLedger(parent, plan, run_usd_e6=0, failures=True))


@contextmanager
def _second_home(parent: Path, config: Config, plan: BacktestPlan) -> Iterator[BacktestHome]:
    """A second, empty home of the same plan, gone at the end."""
    # As deep as the first, so that the same paths lead to the tape; not among the backtests, so that nobody lists it.
    place = parent / ".again" / plan.id
    shutil.rmtree(place, ignore_errors=True)
    try:
        yield BacktestHome.prepare(parent, config, plan, folder=place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _restore_log(
    book: Book, home: BacktestHome, plan: BacktestPlan, chunk: BacktestChunk, *, documents: Documents, log: Log
) -> None:
    with closing(open_backtest_rooms(home, plan, VirtualClock(plan.start))) as target:
        target.log.restore_events(_events_before(book, documents, plan, chunk, log=log))


def _events_before(
    book: Book, documents: Documents, plan: BacktestPlan, chunk: BacktestChunk, *, log: Log
) -> Iterator[Event]:
    """The log as it was when a chunk began; the agent is saved, and the first texts are known, at the plan's start."""
    deployment, known_by = deployment_id(plan.agent), max(chunk.start - 1, plan.start)
    for stream in (book.stream(), documents.stream):
        yield from log.events(stream, until=log.seq_as_of(stream, known_by))
    until = seq_at(book, log, plan, chunk.start)
    yield from log.events(Stream(book.owner, deployment), until=until)


def _differing_fields(kept: msgspec.Struct, made: msgspec.Struct) -> tuple[str, ...]:
    return tuple(name for name in kept.__struct_fields__ if getattr(kept, name) != getattr(made, name))
