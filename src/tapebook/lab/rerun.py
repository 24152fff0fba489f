"""Makes a backtest, or one chunk of it, a second time beside the first, and compares every byte that is kept.

A chunk begins with the log as it was at the end of the chunk before: its events are written into an empty book, which
gives the tables and all that was learned, and the chunk's decisions are made anew. The first one is never touched.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tapebook.clock import VirtualClock
from tapebook.config import Config
from tapebook.domain.agent import deployment_id
from tapebook.errors import BadInput
from tapebook.lab.backtest import Progress, Run, Watch, rooms_of, seq_at
from tapebook.lab.backtest_home import BacktestHome
from tapebook.lab.plan import Chunk, Plan
from tapebook.lab.spending import Spending
from tapebook.log import Event, Stream
from tapebook.wiring import Rooms


class Comparison(msgspec.Struct, frozen=True):
    """What was made again, and the fields in which it differs from what is kept; empty when every byte is the same."""

    what: str
    differs: tuple[str, ...]


def run_again(
    parent: Path, config: Config, plan: Plan, *, chunk: str | None, progress: Callable[[Progress], None]
) -> Comparison:
    """The whole backtest from nothing, or one chunk from the checkpoint before it."""
    watch = Watch(progress)
    if chunk is not None:
        return _chunk_again(parent, config, plan, chunk, watch=watch)
    first = BacktestHome.prepare(parent, config, plan)
    plan, kept = first.plan(), first.result()
    if kept is None:
        raise BadInput(f"backtest {plan.id} is not finished: run it to its end first")
    with _beside(parent, config, plan) as home, closing(_run(parent, home, plan, watch)) as run:
        return Comparison("all", _differs(kept, run.finish()))


def _chunk_again(parent: Path, config: Config, plan: Plan, chunk: str, *, watch: Watch) -> Comparison:
    found = next((each for each in plan.chunks if each.name == chunk), None)
    if found is None:
        raise BadInput(f"there is no chunk {chunk!r}; chunks: {', '.join(each.name for each in plan.chunks)}")
    first = BacktestHome.prepare(parent, config, plan)
    plan, kept = first.plan(), first.checkpoint(found)
    if kept is None:
        raise BadInput(f"chunk {chunk} of backtest {plan.id} is not done: run the backtest further first")
    with _beside(parent, config, plan) as home:
        with closing(rooms_of(first, plan, VirtualClock(plan.start))) as rooms:
            _restore(rooms, home, plan, found)
        with closing(_run(parent, home, plan, watch)) as run:
            return Comparison(chunk, _differs(kept.result, run.run_chunk(found)))


def _run(parent: Path, home: BacktestHome, plan: Plan, watch: Watch) -> Run:
    """A second run, to which models say what they said to the first; it may spend nothing."""
    return Run(home, plan, watch, spending=Spending(parent, plan, run_usd_e6=0, failures=True))


@contextmanager
def _beside(parent: Path, config: Config, plan: Plan) -> Iterator[BacktestHome]:
    """A second, empty home of the same plan, gone at the end."""
    # As deep as the first, so that the same paths lead to the tape; not among the backtests, so that nobody lists it.
    place = parent / ".again" / plan.id
    shutil.rmtree(place, ignore_errors=True)
    try:
        yield BacktestHome.prepare(parent, config, plan, folder=place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _restore(source: Rooms, home: BacktestHome, plan: Plan, chunk: Chunk) -> None:
    with closing(rooms_of(home, plan, VirtualClock(plan.start))) as target:
        target.log.restore(_events(source, plan, chunk))


def _events(source: Rooms, plan: Plan, chunk: Chunk) -> Iterator[Event]:
    """The log as it was when a chunk began: of the owner all, for its agent is saved before the first decision."""
    deployment = deployment_id(plan.agent)
    yield from source.log.events(source.book.stream())
    until = seq_at(source, plan, chunk.start)
    yield from source.log.events(Stream(source.book.owner, deployment), until=until)


def _differs(kept: msgspec.Struct, made: msgspec.Struct) -> tuple[str, ...]:
    return tuple(name for name in kept.__struct_fields__ if getattr(kept, name) != getattr(made, name))
