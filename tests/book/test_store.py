"""The book's reads as of any sequence number equal a plain fold of its log, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION, TABLES, Posting, order_client_id
from tapebook.book.materializer import Account, TradeCause, settle_fill, settle_funding, settle_marks
from tapebook.book.store import MIGRATIONS, AccountSnapshot, Book
from tapebook.book.totals import TradeTotals
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.agent import AgentProfile
from tapebook.domain.order import Fill, FundingPayment, Order, OrderEnd
from tapebook.domain.position import ClosedTrade, Portfolio, Position, PriceRange, TradeState
from tapebook.domain.run import Action, DecisionRun, Verdict, Watermarks
from tapebook.domain.units import E6, E8, HOUR, MINUTE
from tapebook.errors import StaleWriter, UnknownName
from tapebook.log import Event, Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql
from tests.matrix import examples

NOON = 500_000 * HOUR
DEPOSIT = 1_000 * E6
MOST = 2**31 - 1
EMPTY = "".join(f"DELETE FROM {table};\n" for table in ("log_events", *TABLES))


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


@pytest.fixture
def book(db: Database) -> Book:
    """An empty book."""
    return book_of(db)


def book_of(db: Database, owner: str = "local") -> Book:
    """The book of an owner."""
    return Book(Log(db, [PROJECTION], clock=VirtualClock(NOON)), db, owner=owner)


def write(book: Book, deployment: str, *bodies: msgspec.Struct, at: int = NOON) -> int:
    """Appends bodies in one transaction; returns where the stream ends."""
    drafts = [ev.draft_event(at, body) for body in bodies]
    return book.append(deployment, drafts, expected_seq=book.head(deployment))[-1].seq


# The account as of any sequence number


class Deal(msgspec.Struct, frozen=True):
    """A fill."""

    symbol: str
    signed_e8: int
    price_e8: int
    fee_usd_e6: int


class Paid(msgspec.Struct, frozen=True):
    """An hour's funding, where something is held."""

    symbol: str
    amount_usd_e6: int


class Marked(msgspec.Struct, frozen=True):
    """New marks for all that is held."""

    price_e8: int


SYMBOLS = st.sampled_from(["BTC", "kPEPE"])
PRICES = st.integers(90, 110).map(lambda price: price * E8)
SIZES = st.integers(-3, 3).filter(bool).map(lambda size: size * E8)
DEALS = st.builds(Deal, SYMBOLS, SIZES, PRICES, st.integers(0, E6))
STEPS = DEALS | DEALS | st.builds(Paid, SYMBOLS, st.integers(-E6, E6)) | st.builds(Marked, PRICES)
BATCHES = st.lists(st.lists(STEPS, min_size=1, max_size=3), max_size=8)


class Teller:
    """Settles steps for one deployment and writes them, batch by batch."""

    def __init__(self, book: Book, deployment: str) -> None:
        self.book = book
        self.deployment = deployment
        self.count = 0
        deposit = ev.LedgerPosted("opening", (Posting("deposit", "", DEPOSIT),), DEPOSIT)
        seq = write(book, deployment, ev.DeploymentOpened("a", 1, "paper"), deposit)
        self.account = Account(seq, Portfolio({}, DEPOSIT), {})

    def batch(self, steps: list[Deal | Paid | Marked]) -> None:
        """One reconciliation: what several words of the broker write, in one transaction."""
        bodies: list[msgspec.Struct] = []
        for step in steps:
            self.account, said = self._settle(step)
            bodies += said
        if bodies:
            seq = write(self.book, self.deployment, *bodies)
            self.account = msgspec.structs.replace(self.account, seq=seq)

    def _settle(self, step: Deal | Paid | Marked) -> tuple[Account, list[msgspec.Struct]]:
        self.count += 1
        at, cause = (
            NOON + self.count * MINUTE,
            TradeCause("a", 1, f"r{self.count}", f"why {self.count}", 2, "chop_lowvol"),
        )
        if isinstance(step, Deal):
            name = f"{self.book.owner} {self.deployment} {self.count}"
            fill = Fill(name, step.symbol, at, step.signed_e8, step.price_e8, step.fee_usd_e6, False, "c")
            return settle_fill(self.account, fill, cause, mark_e8=None)
        if isinstance(step, Marked):
            marks = dict.fromkeys(self.account.portfolio.positions, step.price_e8)
            seen = {symbol: PriceRange(price, price) for symbol, price in marks.items()}
            return settle_marks(self.account, marks, cause, path=seen, at=at, walked_until=at - MINUTE)
        if step.symbol not in self.account.portfolio.positions:
            return self.account, []
        return settle_funding(self.account, FundingPayment(step.symbol, at, step.amount_usd_e6, 1), cause)


class Fold:
    """What a stream's events say, one after the other, in plain dictionaries."""

    def __init__(self) -> None:
        self.cash = 0
        self.positions: dict[str, Position] = {}
        self.trades: dict[str, TradeState] = {}
        self.closed: list[ClosedTrade] = []
        self.snapshot: AccountSnapshot | None = None

    def see(self, event: Event) -> None:
        """Takes one event in."""
        if event.kind == "ledger.posted":
            self.cash += sum(line.amount_usd_e6 for line in ev.event_body(event, ev.LedgerPosted).lines)
        elif event.kind == "trade.opened":
            self._hold(ev.event_body(event, ev.TradeOpened))
        elif event.kind == "trade.updated":
            self._hold(ev.event_body(event, ev.TradeUpdated))
        elif event.kind == "trade.closed":
            ended = ev.event_body(event, ev.TradeClosed).trade
            del self.positions[ended.state.symbol], self.trades[ended.state.symbol]
            self.closed.insert(0, ended)
        elif event.kind == "marks.observed":
            marks = ev.event_body(event, ev.MarksObserved)
            worth = (marks.cash_usd_e6, marks.equity_usd_e6)
            self.snapshot = AccountSnapshot(event.happened_at, *worth, marks.walked_until, marks.marks)

    def _hold(self, body: ev.TradeOpened | ev.TradeUpdated) -> None:
        self.positions[body.trade.symbol] = body.position
        self.trades[body.trade.symbol] = body.trade

    def account(self, seq: int) -> Account:
        """The account so far."""
        return Account(seq, Portfolio(dict(self.positions), self.cash), dict(self.trades))


def test_every_version_of_the_account(db: Database) -> None:
    @settings(max_examples=examples(50) if "SQLite" in db.description else 15)
    @given(BATCHES, BATCHES)
    def check(batches: list[list[Any]], others: list[list[Any]]) -> None:
        db.execute_script(EMPTY)
        # A second deployment, and one of another owner under the same name, write between.
        mine = Teller(book_of(db), "d1")
        theirs = [Teller(book_of(db), "d2"), Teller(book_of(db, "somebody"), "d1")]
        for number in range(max(len(batches), len(others))):
            for batch in batches[number : number + 1]:
                mine.batch(batch)
                assert mine.book.account("d1", seq=mine.account.seq) == mine.account
            for teller in theirs:
                teller.batch(others[number] if number < len(others) else [])
        check_every_version(mine.book, "d1", db)
        assert mine.book.cash_differences() == []

    check()


def check_every_version(book: Book, deployment: str, db: Database) -> None:
    """Reads as of each sequence number, past and future included, against the fold up to it."""
    fold, log = Fold(), Log(db, [], clock=VirtualClock(NOON))
    assert book.account(deployment, seq=0) == fold.account(0)
    for event in log.events(book.stream(deployment)):
        fold.see(event)
        assert book.account(deployment, seq=event.seq) == fold.account(event.seq)
        assert book.closed_trades(deployment, seq=event.seq, most=2) == fold.closed[:2]
        assert book.newest_snapshot(deployment, seq=event.seq) == fold.snapshot
    end = book.head(deployment) + 1_000
    assert book.account(deployment, seq=end) == fold.account(end)
    assert book.closed_trades(deployment, seq=end, most=MOST) == fold.closed
    nets = [ended.state.net_usd_e6 for ended in fold.closed]
    totals = book.trade_totals(deployment)
    assert (totals.count, totals.won, totals.net_usd_e6) == (len(nets), sum(net > 0 for net in nets), sum(nets))


def test_empty_book(book: Book) -> None:
    assert book.account("d1", seq=9) == Account(9, Portfolio({}, 0), {})
    assert (book.closed_trades("d1", seq=9, most=9), book.working_orders("d1"), book.run_ids(most=9)) == ([], [], [])
    assert (book.agents(), book.agent("a"), book.run("r"), book.last_run("d1", "BTC", seq=9)) == ([], None, None, None)
    assert (book.trade_totals("d1"), book.closed_trade_count()) == (TradeTotals(0, 0, 0, 0, 0), 0)
    assert (book.newest_snapshot("d1", seq=9), book.order_reason("c"), book.open_order_count("r")) == (None, None, 0)
    assert (book.head("d1"), book.seq_as_of("d1", NOON), book.deployed_version("d1", seq=9)) == (0, 0, None)
    assert (book.run_counts(), book.action_counts(), book.cash_differences()) == ({}, [], [])


def test_totals_over_deployments(book: Book) -> None:
    for name in ("d1", "d2"):
        teller = Teller(book, name)
        for price, fee in ((110, 1), (90, 1)):
            teller.batch([Deal("BTC", E8, 100 * E8, 0), Deal("BTC", -E8, price * E8, fee * E6)])
    assert book.trade_totals("d1") == TradeTotals(2, 1, 0, 2 * E6, 0)
    assert book.closed_trade_count() == 4
    with pytest.raises(UnknownName, match="there is no trade 'none'"):
        book.trade_times("none")


def test_cash_that_is_not_the_ledgers_sum_is_named(book: Book, db: Database) -> None:
    Teller(book, "d1").batch([Deal("BTC", E8, 100 * E8, E6)])
    assert book.cash_differences() == []
    db.execute(sql("UPDATE wallet_ledger SET amount_usd_e6 = amount_usd_e6 + 1 WHERE kind = 'fee'"))
    assert book.cash_differences() == [f"local/d1: cash {DEPOSIT - E6} but the ledger sums to {DEPOSIT - E6 + 1}"]


def test_stale_writer_writes_nothing(book: Book) -> None:
    teller = Teller(book, "d1")
    before = book.account("d1", seq=MOST)
    _, bodies = settle_fill(
        teller.account, Fill("f", "BTC", NOON, E8, E8, 0, False, "c"), TradeCause("a", 1), mark_e8=None
    )
    with pytest.raises(StaleWriter, match="read it again before writing"):
        book.append("d1", [ev.draft_event(NOON, body) for body in bodies], expected_seq=1)
    assert (book.head("d1"), book.account("d1", seq=MOST)) == (2, before)


def test_second_open_trade_in_a_symbol_is_refused(book: Book, db: Database) -> None:
    teller = Teller(book, "d1")
    teller.batch([Deal("BTC", E8, 100 * E8, 0)])
    flat = Account(teller.account.seq, Portfolio({}, DEPOSIT), {})
    _, bodies = settle_fill(flat, Fill("other", "BTC", NOON, E8, E8, 0, False, "c"), TradeCause("a", 1), mark_e8=None)
    # The drivers' own errors: this is a bug of the caller, which no caller should answer.
    with pytest.raises(Exception, match=r"(?i)unique"):
        write(book, "d1", *bodies)
    assert book.account("d1", seq=MOST).portfolio == teller.account.portfolio


# Agents and deployments


def test_agents_have_versions(book: Book) -> None:
    first, second = AgentProfile("btc-5m", ("BTC",)), AgentProfile("btc-5m", ("BTC", "ETH"), avoid=("über",))
    assert [book.save_agent(each, at=NOON) for each in (first, first, second, second, first)] == [1, 1, 2, 2, 3]
    assert book.save_agent(AgentProfile("a", ()), at=NOON) == 1
    assert book.agent("btc-5m") == (3, first)
    assert [book.agent("btc-5m", version=version) for version in (1, 2, 4)] == [(1, first), (2, second), None]
    assert [(version, profile.name) for version, profile in book.agents()] == [(1, "a"), (3, "btc-5m")]


def test_version_of_a_deployment_as_of_any_moment(book: Book) -> None:
    write(book, "d1", ev.DeploymentOpened("a", 1, "paper"))
    write(book, "d1", ev.OrderPlaced("none"), ev.DeploymentOpened("a", 4, "paper"))
    assert [book.deployed_version("d1", seq=seq) for seq in range(5)] == [None, 1, 1, 4, 4]


def test_owners_do_not_see_each_other(db: Database) -> None:
    mine, theirs = book_of(db), book_of(db, "somebody")
    mine.save_agent(AgentProfile("a", ("BTC",)), at=NOON)
    Teller(mine, "d1").batch([Deal("BTC", E8, 100 * E8, 0), Deal("BTC", -E8, 110 * E8, 0), Deal("BTC", E8, E8, 0)])
    write(mine, "d1", ev.RunDecided(run("r1")), ev.OrderIntended(order("r1", 0)))
    trade = mine.closed_trades("d1", seq=MOST, most=1)[0].state.trade_id
    assert (theirs.agents(), theirs.agent("a"), theirs.run("r1"), theirs.run_ids(most=9)) == ([], None, None, [])
    assert theirs.account("d1", seq=MOST).portfolio == Portfolio({}, 0)
    assert (theirs.closed_trades("d1", seq=MOST, most=9), theirs.working_orders("d1")) == ([], [])
    assert (theirs.closed_trade_count(), theirs.run_counts(), theirs.action_counts()) == (0, {}, [])
    assert theirs.last_run("d1", "BTC", seq=MOST) is None
    with pytest.raises(UnknownName):
        theirs.trade_times(trade)


# Runs and orders

HOLD = Action("hold", "BTC", None, 0, 1, "market", None, 0, "wait and see")
OPEN = Action("open", "BTC", "long", 250 * E6, 2, "limit", 65_000 * E8, 6_400, "breakout → 日本", ("c1", "c2"))
REFUSED = Verdict(False, "R3_POSITION_CAP", "too large")


def run(name: str, *judged: tuple[Action, Verdict], **changes: Any) -> DecisionRun:
    """A decision."""
    plain = DecisionRun(
        run_id=name,
        owner="local",
        deployment="d1",
        agent="a",
        agent_version=1,
        symbol="BTC",
        scheduled_for=NOON,
        trigger="schedule",
        branch="main",
        as_of=NOON + 1,
        watermarks=Watermarks(7, 8, 9, 10),
        renderer=1,
        inputs_sha256="i" * 64,
        packet_sha256="p" * 64,
        tokens=1234,
        engine="hold",
        packet_key="sha256/ab/abc",
        reply_key=None,
        status="held",
        actions=tuple(action for action, _ in judged),
        verdicts=tuple(verdict for _, verdict in judged),
    )
    return msgspec.structs.replace(plain, **changes)


def order(run_id: str, index: int, **changes: Any) -> Order:
    """The order of an action of a run."""
    plain = Order(order_client_id(run_id, index), run_id, "BTC", "buy", E8, "limit", 65_000 * E8, False, 2, NOON)
    return msgspec.structs.replace(plain, **changes)


@pytest.mark.parametrize(
    "decided",
    [
        run("r1", (HOLD, Verdict(True)), (OPEN, REFUSED), note="a note"),
        run("r1", error="not the JSON that was asked for", status="rejected", degraded=("market", "bars")),
        run("r1", degraded=("lessons",), degraded_causes=("lessons: KeyError: 'x'", "archive: OSError: → full")),
        run("r1", (OPEN, Verdict(True)), packet_key=None, reply_key="k", trigger="shadow", branch="arm-b"),
    ],
    ids=["actions", "an error", "causes", "a shadow"],
)
def test_run_comes_back_as_it_went_in(book: Book, decided: DecisionRun) -> None:
    assert not book.has_run("r1")
    write(book, "d1", ev.RunDecided(decided))
    assert book.run("r1") == decided
    assert book.has_run("r1")


def test_last_run_on_a_symbol_as_of_any_moment(book: Book) -> None:
    for name, symbol in [("r1", "BTC"), ("r2", "ETH"), ("r3", "BTC")]:
        write(book, "d1", ev.RunDecided(run(name, symbol=symbol)))
    write(book, "d2", ev.RunDecided(run("r4", deployment="d2")))

    def last(symbol: str, seq: int) -> str | None:
        found = book.last_run("d1", symbol, seq=seq)
        return None if found is None else found.run_id

    assert [last("BTC", seq) for seq in range(5)] == [None, "r1", "r1", "r3", "r3"]
    assert [last("ETH", seq) for seq in range(4)] == [None, None, "r2", "r2"]


def test_newest_runs_first(book: Book) -> None:
    for name, deployment, minutes in [("r1", "d1", 0), ("r2", "d2", 5), ("r3", "d1", 10), ("r4", "d1", 10)]:
        write(book, deployment, ev.RunDecided(run(name, deployment=deployment, as_of=NOON + minutes * MINUTE)))
    assert book.run_ids(most=9) == ["r4", "r3", "r2", "r1"]
    assert book.run_ids("d1", most=2) == ["r4", "r3"]
    assert book.run_ids("d2", most=9) == ["r2"]


def test_counts(book: Book) -> None:
    write(book, "d1", ev.RunDecided(run("r1", (HOLD, Verdict(True)))))
    write(book, "d1", ev.RunDecided(run("r2", (OPEN, REFUSED), (OPEN, REFUSED), status="rejected")))
    write(book, "d1", ev.RunDecided(run("r3", (OPEN, Verdict(True)), (HOLD, Verdict(True)), status="placed")))
    assert book.run_counts() == {"held": 1, "placed": 1, "rejected": 1}
    assert book.action_counts() == [("hold", "", 2), ("open", "", 1), ("open", "R3_POSITION_CAP", 2)]
    write(book, "d1", ev.RunEnded("r3", "done"))
    assert book.run_counts() == {"done": 1, "held": 1, "rejected": 1}


def test_orders_from_intent_to_end(book: Book) -> None:
    placing = run("r1", (HOLD, Verdict(True)), (OPEN, Verdict(True)), status="placed")
    first, second = order("r1", 1), order("r2", 0, type="market", limit_price_e8=None, reduce_only=True, side="sell")
    write(book, "d1", ev.RunDecided(placing), ev.OrderIntended(first))
    write(book, "d1", ev.RunDecided(run("r2", (OPEN, Verdict(True)))), ev.OrderIntended(second))
    assert book.working_orders("d1") == [(first, False), (second, False)]
    assert book.working_orders("d2") == []
    write(book, "d1", ev.OrderPlaced(first.client_id))
    assert book.working_orders("d1") == [(first, True), (second, False)]
    assert (book.open_order_count("r1"), book.open_order_count("r2")) == (1, 1)
    write(book, "d1", ev.OrderEnded(OrderEnd(first.client_id, NOON, "filled")), ev.RunEnded("r1", "done"))
    assert book.working_orders("d1") == [(second, False)]
    assert (book.open_order_count("r1"), book.open_order_count("r2")) == (0, 1)
    ended = book.run("r1")
    assert ended is not None and ended.status == "done"


def test_reason_of_an_order_is_that_of_the_action_that_placed_it(book: Book) -> None:
    judged = [(HOLD, Verdict(True)), (msgspec.structs.replace(OPEN, reason="refused"), REFUSED), (OPEN, Verdict(True))]
    placed = order("r1", 2, leverage=3)
    write(book, "d1", ev.RunDecided(run("r1", *judged)), ev.OrderIntended(placed))
    assert book.order_reason(placed.client_id) == ("r1", "breakout → 日本", 8)
    assert book.order_reason("none") is None


def test_watermark_of_a_moment(db: Database) -> None:
    clock = VirtualClock(NOON)
    book = Book(Log(db, [PROJECTION], clock=clock), db, owner="local")
    write(book, "d1", ev.DeploymentOpened("a", 1, "paper"), ev.OrderPlaced("none"))
    write(book, "d1", ev.OrderPlaced("none"))
    clock.advance(NOON + MINUTE)
    write(book, "d1", ev.OrderPlaced("none"))
    moments = (NOON - 1, NOON, NOON + 1, NOON + MINUTE - 1, NOON + MINUTE)
    assert [book.seq_as_of("d1", moment) for moment in moments] == [0, 2, 3, 3, 4]


def test_a_run_is_found_by_the_beginning_of_its_id(book: Book) -> None:
    for name in ("a1b0", "a1b0ff", "a2", "b"):
        write(book, "d1", ev.RunDecided(run(name)))
    assert [book.find_run(text).run_id for text in ("a1b0", "a1b0f", "a2", "B")] == ["a1b0", "a1b0ff", "a2", "b"]
    with pytest.raises(UnknownName, match=r"^'a1' begins the ids of 2 runs: a1b0 \(.*, a1b0ff \(.*; write more of it$"):
        book.find_run("a1")
    for text in ("", "c", "a3", "%"):
        with pytest.raises(UnknownName, match=f"there is no run {text!r}"):
            book.find_run(text)
    with pytest.raises(UnknownName):
        Book(book._log, book._db, owner="stranger").find_run("a2")


def test_an_agent_ends_and_comes_back_as_versions(book: Book) -> None:
    profile = AgentProfile("a", ("BTC",))
    book.save_agent(profile, at=NOON)
    assert (book.removed_at("a"), book.removed_at("b")) == (None, None)
    assert book.remove_agent("a", at=NOON, reason="enough") == 2
    last = msgspec.structs.replace(profile, enabled=False)
    removed_at = book.removed_at("a")
    assert removed_at is not None and book.agents() == []
    assert (book.agents(removed=True), book.agent("a")) == ([(2, last)], (2, last))
    assert book.agent("a", version=1) == (1, profile)
    assert book.agent_as_of("a", as_of=removed_at) is None
    assert book.agent_as_of("a", as_of=removed_at - 1) == (1, profile)
    with pytest.raises(UnknownName):
        book.remove_agent("a", at=NOON, reason="again")
    # Also the profile it ended with is a new version.
    assert book.save_agent(last, at=NOON) == 3
    assert (book.agents(), book.removed_at("a")) == ([(3, last)], None)
