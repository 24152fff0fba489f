"""Sums that go on where they ended: the same as from the first row on, and no row is read twice."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tapebook.book.events import PROJECTION
from tapebook.book.store import MIGRATIONS, Book
from tapebook.book.totals import TradeTotals
from tapebook.clock import VirtualClock
from tapebook.db import Database, Query, connect, migrate
from tapebook.domain.units import E6, E8
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.book.test_store import NOON, Deal, Teller
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


def book_of(db: Database) -> Book:
    """A book that has summed nothing yet."""
    return Book(Log(db, [PROJECTION], clock=VirtualClock(NOON)), db, owner="local")


def round_trips(teller: Teller, *prices: int) -> None:
    """Trades entered at 100 and left at some prices, a dollar of fees each."""
    for price in prices:
        teller.batch([Deal("BTC", E8, 100 * E8, 0), Deal("BTC", -E8, price * E8, E6)])


def test_sums_as_of_every_number_in_any_order_are_those_from_scratch(db: Database) -> None:
    book = book_of(db)
    round_trips(Teller(book, "d1"), 110, 90, 120, 80, 101)
    numbers = range(book.head("d1") + 2)
    fresh = [book_of(db).trade_totals("d1", seq=seq) for seq in numbers]
    assert fresh[-1] == TradeTotals(5, 2, 1 * E6, 5 * E6, 0)
    for order in (list(numbers), list(reversed(numbers)), [9, 3, 12, 5]):
        assert [book.trade_totals("d1", seq=seq) for seq in order] == [fresh[seq] for seq in order]
    assert book.trade_totals("d1") == fresh[-1] and book.trade_totals("d2") == TradeTotals(0, 0, 0, 0, 0)


def test_rows_that_were_summed_are_not_read_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    book, teller = book_of(db), Teller(book_of(db), "d1")
    round_trips(teller, 110, 90)
    read: dict[str, list[int]] = {}
    real = type(db).all

    def noted(self: Any, query: Query, **params: Any) -> Any:
        if query.name.endswith("_after"):
            read.setdefault(query.name, []).append(params["after"])
        return real(self, query, **params)

    monkeypatch.setattr(type(db), "all", noted)
    for count, prices in ((2, ()), (3, (120,)), (3, ())):
        round_trips(teller, *prices)
        assert book.trade_totals("d1", seq=book.head("d1")).count == count
        assert book.cash_differences(from_scratch=False) == []
    assert read.keys() == {"trade_totals_after", "ledger_sum_after"}
    for begins in read.values():
        assert begins[0] == 0 < begins[1] < begins[2]


def test_a_line_of_the_ledger_that_does_not_add_up_is_named_by_both_ways(db: Database) -> None:
    book = book_of(db)
    round_trips(Teller(book, "d1"), 110)
    assert book.cash_differences(from_scratch=False) == book.cash_differences() == []
    round_trips(Teller(book, "d2"), 110)
    db.execute(sql("UPDATE wallet_ledger SET amount_usd_e6 = amount_usd_e6 + 1 WHERE deployment = 'd2'"))
    assert book.cash_differences(from_scratch=False) == book.cash_differences() != []
