"""What came of a run, and pairs of runs, read on SQLite and on PostgreSQL; only by their owner."""

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION
from tapebook.book.materializer import TradeCause, settle_fill
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.order import Fill, Order, OrderEnd, Side
from tapebook.domain.position import ClosedTrade, TradeState
from tapebook.domain.run import DecisionRun, Watermarks
from tapebook.domain.units import E6, E8, HOUR
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.context.situations import run as some_run
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres

NOON = 500_000 * HOUR
MOST = 1_000


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


def book_of(db: Database, owner: str = "local") -> Book:
    """The book of an owner."""
    return Book(Log(db, [PROJECTION], clock=VirtualClock(NOON)), db, owner=owner)


def write(book: Book, *bodies: msgspec.Struct) -> None:
    """Appends bodies to the deployment `d`."""
    book.append("d", [ev.draft_event(NOON, body) for body in bodies], expected_seq=book.head("d"))


def decided(run_id: str, **changes: object) -> DecisionRun:
    """A decision of `d`."""
    plain = msgspec.structs.replace(some_run(), run_id=run_id, deployment="d", as_of=NOON)
    return msgspec.structs.replace(plain, **changes)


def traded(book: Book, run_id: str, signed_e8: int, *, fills: int = 1) -> None:
    """A run with one order, filled in equal parts."""
    side: Side = "buy" if signed_e8 > 0 else "sell"
    order = Order(f"o-{run_id}", run_id, "BTC", side, abs(signed_e8), "market", None, False, 2, NOON)
    write(book, ev.RunDecided(decided(run_id)), ev.OrderIntended(order), ev.OrderPlaced(order.client_id))
    for part in range(fills):
        fill = Fill(f"f-{run_id}-{part}", "BTC", NOON, signed_e8 // fills, 100 * E8, E6, part == 1, order.client_id)
        account = book.account("d", seq=book.head("d"))
        write(book, *settle_fill(account, fill, TradeCause("a", 1, run_id, "why", 2), mark_e8=None)[1])
    write(book, ev.OrderEnded(OrderEnd(order.client_id, NOON, "filled", "all of it")))


def test_what_came_of_each_run(db: Database) -> None:
    """Open, add, take a part off, turn round, close: every run has its own orders, fills and trades."""
    book = book_of(db)
    for run_id, size, fills in (("open", 4, 2), ("add", 2, 1), ("part", -3, 1), ("turn", -5, 1), ("close", 2, 2)):
        traded(book, run_id, size * E8, fills=fills)
    write(book, ev.RunDecided(decided("hold")))
    found = {name: book.trades_of_run(name) for name in ("open", "add", "part", "turn", "close", "hold")}
    (first,), (second,) = found["open"], found["close"]
    assert found["add"] == found["part"] == found["open"] and found["turn"] == [first, second] and not found["hold"]
    assert isinstance(first.trade, ClosedTrade) and isinstance(second.trade, ClosedTrade)
    assert (first.trade.state.entry_run_id, first.trade.exit_run_id) == ("open", "turn")
    assert (second.trade.state.entry_run_id, second.trade.exit_run_id) == ("turn", "close")
    assert [first.trade, second.trade] == book.closed_trades("d", seq=MOST, most=MOST)[::-1]
    assert (first.deployment, first.agent, first.agent_version) == ("d", "a", 1)
    assert [fill.fill_id for fill in book.fills_of_run("open")] == ["f-open-0", "f-open-1"]
    assert [fill.maker for fill in book.fills_of_run("open")] == [False, True]
    (known,) = book.orders_of_run("open")
    assert (known.order.client_id, known.status, known.detail, known.deployment) == (
        "o-open",
        "filled",
        "all of it",
        "d",
    )
    assert book.orders_of_run("hold") == [] == book.fills_of_run("hold")


def test_an_open_trade_has_its_newest_totals(db: Database) -> None:
    book = book_of(db)
    traded(book, "open", 4 * E8)
    traded(book, "add", 2 * E8)
    (known,) = book.trades_of_run("open")
    assert isinstance(known.trade, TradeState)
    assert known.trade == book.account("d", seq=book.head("d")).open_trades["BTC"]
    assert known.trade.entered_e8 == 6 * E8


def test_orders_and_fills_are_found_by_their_owner_alone(db: Database) -> None:
    book, stranger = book_of(db), book_of(db, "stranger")
    traded(book, "open", 4 * E8)
    order = Order("o-2", "later", "BTC", "sell", E8, "limit", 200 * E8, True, 2, NOON + 1)
    write(book, ev.RunDecided(decided("later")), ev.OrderIntended(order))
    assert [known.order.client_id for known in book.orders(working=False, most=MOST)] == ["o-2", "o-open"]
    assert [known.order for known in book.orders("d", working=True, most=MOST)] == [order]
    assert len(book.orders("d", working=False, most=1)) == 1 and book.orders("e", working=False, most=MOST) == []
    assert (book.newest_fill_at("d"), book.newest_fill_at("e")) == (NOON, None)
    fill = book.fill("d", "f-open-0")
    assert fill is not None and (fill.signed_size_e8, fill.maker) == (4 * E8, False)
    assert book.fill("e", "f-open-0") is None
    assert stranger.orders(working=False, most=MOST) == [] == stranger.trades_of_run("open")
    assert (stranger.fill("d", "f-open-0"), stranger.newest_fill_at("d")) == (None, None)


def test_shadows_are_paired_with_the_decision_of_their_tick(db: Database) -> None:
    book = book_of(db)
    known = Watermarks(7, 0)
    write(book, ev.RunDecided(decided("main-1", watermarks=known)))
    write(book, ev.RunDecided(decided("eth-1", symbol="ETH", watermarks=known)))
    beside = {"trigger": "shadow", "branch": "shadow"}
    write(book, ev.RunDecided(decided("shadow-1", watermarks=known, **beside)))
    late = Watermarks(9, book.head("d"))
    write(book, ev.RunDecided(decided("main-2", watermarks=late, as_of=NOON + 5)))
    write(book, ev.RunDecided(decided("shadow-2", watermarks=late, as_of=NOON + 5, **beside)))
    write(book, ev.RunDecided(decided("shadow-3", watermarks=late, as_of=NOON + 6, **beside)))
    pairs = [("shadow-3", None), ("shadow-2", "main-2"), ("shadow-1", "main-1")]
    assert book.shadow_pairs("d", most=MOST) == pairs
    assert book.shadow_pairs("d", most=2) == pairs[:2]
    assert book_of(db, "stranger").shadow_pairs("d", most=MOST) == []
    last = book.last_run("d", "BTC", seq=book.head("d"))
    assert last is not None and last.run_id == "main-2"
