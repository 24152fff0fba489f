"""A sole writer's memory against the tables: every answer it gives is asked of both."""

from pathlib import Path
from typing import Any

import msgspec

from tapebook.backtest.home import BacktestHome
from tapebook.backtest.plan import BacktestPlan
from tapebook.backtest.planning import BacktestRequest, make_plan
from tapebook.backtest.run import BacktestCallbacks, BacktestRun, open_backtest_rooms
from tapebook.book import events as ev
from tapebook.book.single_writer import SingleWriterBook
from tapebook.book.store import Book
from tapebook.clock import SystemClock, VirtualClock
from tapebook.log import Event
from tapebook.log.single_writer import SingleWriterLog
from tapebook.wiring import Rooms
from tests.backtest.bars import make_home

ANSWERS = (
    *("account", "closed_trades", "closed_after", "closed_count_since", "last_run", "working_orders"),
    *("orders_under_way", "has_exposure", "newest_snapshot", "session", "agent_record", "halts", "flatten_due"),
    *("run", "order_reason", "day_results", "order_outcomes", "fill"),
)


class Doubting:
    """A book that asks the tables the same, and counts how often it did."""

    def __init__(self, swift: SingleWriterBook, plain: Book) -> None:
        self._swift, self._plain = swift, plain
        self.asked: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        swift = getattr(self._swift, name)
        if name not in ANSWERS:
            return swift

        def ask(*args: Any, **options: Any) -> Any:
            answer = swift(*args, **options)
            assert answer == getattr(self._plain, name)(*args, **options), (name, args, options)
            self.asked[name] = self.asked.get(name, 0) + 1
            return answer

        return ask


def test_what_is_remembered_is_what_is_written(tmp_path: Path) -> None:
    home = make_home(tmp_path, days=3, symbols=("BTC", "ETH"), reflection_trades="3")
    plan = plan_of(home)
    doubting: list[Doubting] = []
    kinds: set[str] = set()

    def written_as_meant(event: Event) -> None:
        if not event.hash:
            # Its body is late: it comes again when it is stored.
            return
        for kind in [body for body, name in ev.EVENT_KINDS.items() if name == event.kind]:
            assert msgspec.json.decode(event.body, type=kind) == ev.event_body(event, kind)
            kinds.add(event.kind)

    def doubtful_rooms(place: BacktestHome, plan: BacktestPlan, clock: VirtualClock, **terms: Any) -> Rooms:
        rooms = open_backtest_rooms(place, plan, clock, **terms)
        assert isinstance(rooms.log, SingleWriterLog)
        rooms.log.add_follower(written_as_meant, finished=written_as_meant)
        doubting.append(Doubting(rooms.book, Book(rooms.log, rooms.book_db, owner=rooms.book.owner)))  # type: ignore[arg-type]
        rooms.book = doubting[0]  # type: ignore[assignment, misc]
        return rooms

    config = Rooms(home, clock=SystemClock()).config
    run = BacktestRun(BacktestHome.prepare(home, config, plan), plan, BacktestCallbacks(), open_rooms=doubtful_rooms)
    result = run.run_chunk(plan.chunks[0])
    assert result.trades >= 5 and set(doubting[0].asked) == set(ANSWERS) and len(kinds) >= 10


def plan_of(home: Path, **wish: Any) -> BacktestPlan:
    """The plan of the test's agent over all there is."""
    rooms = Rooms(home, clock=SystemClock())
    found = rooms.book.agent("tester")
    assert found is not None
    plan = make_plan(
        rooms.tape, rooms.config, found[1], version=found[0], wish=BacktestRequest(**({"chunks": "none"} | wish))
    )
    rooms.close()
    return plan


def test_dry_orders_are_remembered_as_they_are_written(tmp_path: Path) -> None:
    """A backtest of an agent in dry run: its orders are noted, nothing is held, and memory and tables agree."""
    home = make_home(tmp_path, days=1, mode="dry_run")
    plan, doubting = plan_of(home), list[Doubting]()

    def doubtful_rooms(place: BacktestHome, plan: BacktestPlan, clock: VirtualClock, **terms: Any) -> Rooms:
        rooms = open_backtest_rooms(place, plan, clock, **terms)
        assert isinstance(rooms.log, SingleWriterLog)
        doubting.append(Doubting(rooms.book, Book(rooms.log, rooms.book_db, owner=rooms.book.owner)))  # type: ignore[arg-type]
        rooms.book = doubting[0]  # type: ignore[assignment, misc]
        return rooms

    config = Rooms(home, clock=SystemClock()).config
    run = BacktestRun(BacktestHome.prepare(home, config, plan), plan, BacktestCallbacks(), open_rooms=doubtful_rooms)
    result = run.run_chunk(plan.chunks[0])
    book = Rooms(BacktestHome.prepare(home, config, plan).folder, clock=SystemClock()).book
    orders = book.orders(working=False, most=1_000)
    assert orders and {(each.status, each.dry, each.deployment) for each in orders} == {
        ("dry", True, "tester.paper-dry")
    }
    assert result.trades == 0 and book.cash_differences() == []
