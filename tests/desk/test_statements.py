"""How many statements a decision to hold takes: on a server each is a round trip, and they are most of its time."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tapebook.clock import VirtualClock
from tapebook.db.database import Query
from tapebook.db.postgres import PostgresDatabase
from tapebook.db.sqlite import SqliteDatabase
from tapebook.domain.agent import AgentProfile
from tapebook.domain.market import AssetContext, Candle, FeatureRow, Liquidity, Mid, Observation
from tapebook.domain.units import MINUTE
from tapebook.tape.view import View
from tapebook.tick.prepare import FEATURE_FAMILIES
from tests.desk.worker_harness import START, Asked, Shop, buys, holds, shops, work
from tests.replay.stage import Stage

SYMBOLS = tuple(f"S{number}" for number in range(8))
AGENTS = 3
# Of a decision by itself the market is most: its bars, prices, book and features, which others on its symbol share.
MOST_TOGETHER, MOST_ALONE_IN_BOOK = 8, 12
# One account with a position in each symbol, and nobody to share its markets with.
MOST_WITH_POSITIONS = 30


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A home with book and tape in each store."""
    dsn = str(request.getfixturevalue("postgres_dsn")) if request.param == "PostgreSQL" else ""
    stage = Stage(tmp_path, dsn)
    yield stage.make("home")
    stage.clear()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts statements by their name, on both databases; the beginning and the end of a transaction are two.

    Those of the tape begin with its name. What is sent together is one: it takes one round trip.
    """
    found: Counter[str] = Counter()
    for adapter in (SqliteDatabase, PostgresDatabase):
        for method in ("all", "one", "execute_row", "many"):
            _count_calls(monkeypatch, adapter, method, found)
        _count_transactions(monkeypatch, adapter, found)
        _count_pipelines(monkeypatch, adapter, found)
    return found


def _count_calls(monkeypatch: pytest.MonkeyPatch, adapter: Any, method: str, found: Counter[str]) -> None:
    real: Callable[..., Any] = getattr(adapter, method)

    def counted(self: Any, query: Query, *args: Any, **params: Any) -> Any:
        is_tape = any(table.startswith(("tape_", "hyperliquid_")) for table in query.tables)
        found[f"tape {query.name}" if is_tape else query.name] += 1
        return real(self, query, *args, **params)

    monkeypatch.setattr(adapter, method, counted)


def _count_transactions(monkeypatch: pytest.MonkeyPatch, adapter: Any, found: Counter[str]) -> None:
    real = adapter.transaction

    @contextmanager
    def transaction(self: Any) -> Iterator[None]:
        found["transaction"] += 2
        with real(self):
            yield

    monkeypatch.setattr(adapter, "transaction", transaction)


def _count_pipelines(monkeypatch: pytest.MonkeyPatch, adapter: Any, found: Counter[str]) -> None:
    real = adapter.many_together

    def many_together(self: Any, together: Any) -> None:
        before = Counter(found)
        real(self, together)
        # On SQLite each of them was counted on its way.
        found.clear()
        found.update(before + Counter(["together"]))

    monkeypatch.setattr(adapter, "many_together", many_together)


def observe(shop: Shop, symbols: tuple[str, ...], *, minutes: int = 5) -> None:
    """Some minutes of a market, as its source would tell them."""
    now, price = shop.clock.now(), 10**10
    seen: list[Observation] = []
    for symbol in symbols:
        bars = range(now - minutes * MINUTE, now, MINUTE)
        seen += [Candle(symbol, 60, at, price, price + 10, price - 10, price, 1.0, 100.0, 1) for at in bars]
        seen += [FeatureRow(symbol, now, "{}", family) for family in FEATURE_FAMILIES.values()]
        seen += [Mid(symbol, now, price), Liquidity(symbol, now, price, 1.2, 1e6, 4e6, 9e6, 0.1)]
        seen.append(AssetContext(symbol, now, 12_500_000, 0, 1e5, price, price))
    shop.rooms.tape.commit(seen)


def decide_slots(shop: Shop, clock: VirtualClock, symbols: tuple[str, ...], *, slots: int) -> None:
    """The next slots of all agents, one after the other."""
    for _ in range(slots):
        clock.advance(clock.now() + 5 * MINUTE)
        observe(shop, symbols)
        shop.list_due()
        work(shop.worker())


def test_holds_made_together_take_eight_statements_each_at_most(home: Path, statements: Counter[str]) -> None:
    with shops(home, 1) as (shop,):
        shop.hire(*[AgentProfile(f"a{number}", SYMBOLS, engine="hold") for number in range(AGENTS)])
        observe(shop, SYMBOLS, minutes=300)
        decide_slots(shop, shop.clock, SYMBOLS, slots=2)
        made = len(shop.runs())
        shop.clock.advance(shop.clock.now() + 5 * MINUTE)
        observe(shop, SYMBOLS)
        shop.list_due()
        statements.clear()
        work(shop.worker())
        counted = Counter(statements)
        assert len(shop.runs()) - made == AGENTS * len(SYMBOLS)
    assert sum(counted.values()) <= MOST_TOGETHER * AGENTS * len(SYMBOLS), counted.most_common()


def test_holds_of_an_account_with_positions_do_not_read_every_position_again(
    home: Path, statements: Counter[str]
) -> None:
    with shops(home, 1, buys) as (shop,):
        shop.hire(AgentProfile("a", SYMBOLS, engine="hold"))
        observe(shop, SYMBOLS, minutes=300)
        decide_slots(shop, shop.clock, SYMBOLS, slots=2)
        shop.engine = Asked(holds)
        decide_slots(shop, shop.clock, SYMBOLS, slots=1)
        shop.clock.advance(shop.clock.now() + 5 * MINUTE)
        observe(shop, SYMBOLS)
        shop.list_due()
        statements.clear()
        work(shop.worker())
        counted = Counter(statements)
        account = shop.rooms.book.account("a.paper", seq=shop.rooms.book.head("a.paper"))
    assert account.portfolio.positions.keys() == set(SYMBOLS)
    assert sum(counted.values()) <= MOST_WITH_POSITIONS * len(SYMBOLS), counted.most_common()


def test_hold_by_itself_asks_the_book_twelve_times_at_most(home: Path, statements: Counter[str]) -> None:
    with shops(home, 1) as (shop,):
        shop.hire(AgentProfile("a", SYMBOLS[:1], engine="hold"))
        observe(shop, SYMBOLS[:1], minutes=300)
        decide_slots(shop, shop.clock, SYMBOLS[:1], slots=2)
        shop.clock.advance(shop.clock.now() + 5 * MINUTE)
        observe(shop, SYMBOLS[:1])
        shop.list_due()
        worker = shop.worker()
        worker._take_tasks()
        statements.clear()
        worker._begin()
        worker._conclude(0)
        assert worker.made == 1 and shop.clock.now() == START + 15 * MINUTE
    counted = Counter({name: times for name, times in statements.items() if not name.startswith("tape ")})
    assert sum(counted.values()) <= MOST_ALONE_IN_BOOK, counted.most_common()


def test_what_the_tape_does_not_have_is_found_missing_by_two_statements(home: Path, statements: Counter[str]) -> None:
    with shops(home, 1) as (shop,):
        shop.quote(*SYMBOLS[:1])
        view = View(shop.clock.now())
        # The numbers of symbols are read once.
        assert shop.rooms.tape.newest(Mid, SYMBOLS[0], view=view)
        statements.clear()
        for family in FEATURE_FAMILIES.values():
            assert shop.rooms.tape.newest(family, SYMBOLS[0], view=view) is None
    assert sum(statements.values()) == 2 * len(FEATURE_FAMILIES), statements
