"""The executor: what is in the market is followed between decisions, by one process at a time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapebook.api import app
from tapebook.decision import EngineAnswer
from tapebook.decision.reply import make_answer
from tapebook.desk import worker
from tapebook.desk.executor import Executor
from tapebook.domain.agent import AgentProfile
from tapebook.domain.packet import Packet
from tapebook.domain.units import MINUTE, SECOND
from tapebook.errors import StoreFailed
from tapebook.tick.execute import execute_orders
from tests.db.places import sql
from tests.desk.worker_harness import START, Shop, buys, shops, work
from tests.replay.stage import Stage

AGENT = AgentProfile("a", ("BTC",), cadence_ms=30 * MINUTE)


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty home with its book in each store."""
    dsn = str(request.getfixturevalue("postgres_dsn")) if request.param == "PostgreSQL" else ""
    stage = Stage(tmp_path, dsn)
    yield stage.make("home")
    stage.clear()


def bids(packet: Packet) -> EngineAnswer:
    """A limit order below the market."""
    wants = {"side": "long", "order_type": "limit"}
    return make_answer(packet, "open", reason="cheaper", confidence=0.5, notional_usd=100.0, limit_price=99.0, **wants)


def decided(shop: Shop) -> None:
    """One decision at the start of the half hour."""
    shop.hire(AGENT)
    shop.quote("BTC")
    shop.list_due()
    work(shop.worker())


def statuses(shop: Shop) -> list[str]:
    """Orders by status."""
    return [row[0] for row in shop.rooms.book_db.all(sql("SELECT status FROM orders"))]


def snapshots(shop: Shop) -> int:
    """How often the account was valued."""
    return int(shop.rooms.book_db.all(sql("SELECT COUNT(*) FROM portfolio_snapshots"))[0][0])


def move(shop: Shop, ms: int, price_e8: int = 10**10) -> None:
    """Time passes and the market says something."""
    shop.clock.advance(shop.clock.now() + ms)
    shop.quote("BTC", price_e8=price_e8)


def test_fills_come_in_between_decisions(home: Path) -> None:
    with shops(home, 1, says=buys) as (one,):
        decided(one)
        executor = Executor(one.rooms)
        assert statuses(one) == ["placed"]
        move(one, 5 * SECOND)
        assert not executor.turn()
        assert (statuses(one), executor.served) == (["filled"], 1)


def test_order_that_was_intended_and_not_placed_is_placed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shops(home, 1, says=buys) as (one,):
        with monkeypatch.context() as patch:
            patch.setattr(worker, "execute_and_reconcile", lambda rooms, deployment: None)
            decided(one)
        assert statuses(one) == ["intended"]
        Executor(one.rooms).turn()
        assert statuses(one) == ["placed"]


def test_order_that_waits_is_looked_at_every_turn_and_a_position_every_minute(home: Path) -> None:
    with shops(home, 1, says=bids) as (one,):
        decided(one)
        executor = Executor(one.rooms)
        for _ in range(3):
            move(one, 5 * SECOND)
            executor.turn()
        assert (statuses(one), executor.served) == (["placed"], 3)
        move(one, 5 * SECOND, 98 * 10**8)
        executor.turn()
        assert statuses(one) == ["filled"]
        before = snapshots(one)
        for _ in range(24):
            move(one, 5 * SECOND)
            executor.turn()
            # Another executor beside it finds nothing to do at the same moment.
            Executor(one.rooms).turn()
        assert snapshots(one) - before == 2


def test_what_a_worker_holds_is_left_to_it(home: Path) -> None:
    with shops(home, says=buys) as (one, other):
        decided(one)
        move(one, 5 * SECOND)
        (lease,) = other.rooms.leases.acquire([one.rooms.book.stream("a.paper")], most=1)
        executor = Executor(one.rooms)
        executor.turn()
        assert (statuses(one), executor.served) == (["placed"], 0)
        other.rooms.leases.release([lease])
        executor.turn()
        assert (statuses(one), executor.served) == (["filled"], 1)
        assert one.rooms.book_db.all(sql("SELECT holder FROM leases")) == [("",)]


def test_dead_executor_is_taken_over(home: Path) -> None:
    with shops(home, says=buys) as (one, other):
        decided(one)
        move(one, 5 * SECOND)
        assert one.rooms.leases.acquire([one.rooms.book.stream("a.paper")], most=1)
        executor = Executor(other.rooms)
        executor.turn()
        assert statuses(one) == ["placed"]
        other.wait()
        executor.turn()
        assert statuses(one) == ["filled"]


def test_wish_to_be_flat_is_heard_at_once(home: Path) -> None:
    with shops(home, 1, says=buys) as (one,):
        decided(one)
        executor = Executor(one.rooms)
        move(one, 5 * SECOND)
        executor.turn()
        move(one, 1 * SECOND)
        with app.open(home, clock=one.clock) as book:
            book.flatten("a", reason="enough")
        executor.turn()
        move(one, 5 * SECOND)
        executor.turn()
        assert one.rooms.work.deployments_with_orders() == [] and not one.rooms.book.has_exposure("a.paper")


def test_trouble_with_one_account_is_told_and_the_others_are_served(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shops(home, 1, says=buys) as (one,):
        one.hire(*(AgentProfile(name, ("BTC",), cadence_ms=30 * MINUTE) for name in ("a", "b", "c")))
        one.quote("BTC")
        one.list_due()
        work(one.worker())
        move(one, 5 * SECOND)

        def breaks(rooms: object, deployment: object) -> None:
            if getattr(deployment, "id", "") == "a.paper":
                raise LookupError("nobody expected this")
            execute_orders(rooms, deployment)  # type: ignore[arg-type]

        monkeypatch.setattr(worker, "execute_orders", breaks)
        executor = Executor(one.rooms)
        executor.turn()
        assert executor.problem == "a.paper: LookupError: nobody expected this"
        assert sorted(statuses(one)) == ["filled", "filled", "placed"]

        def refuses(*_: object) -> None:
            raise StoreFailed("no room")

        monkeypatch.setattr(worker, "execute_orders", refuses)
        with pytest.raises(StoreFailed):
            executor.turn()
        assert one.rooms.book_db.all(sql("SELECT COUNT(*) FROM leases WHERE holder <> ''")) == [(0,)]
        assert one.clock.now() > START
