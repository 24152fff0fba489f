"""What a deployment did lately equals a plain fold of its log, as of any event, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION, TABLES, Posting
from tapebook.book.materializer import (
    Account,
    LastClose,
    Session,
    TradeCause,
    activity_of_session,
    day_start,
    day_start_equity,
    losing_streak,
    settle_fill,
    settle_funding,
)
from tapebook.book.records import QUERIES
from tapebook.book.store import MIGRATIONS, MOST_UNDER_WAY, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.order import Fill, FundingPayment, Order, OrderEnd, OrderEndStatus
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import LONGEST_STREAK, Action, Activity, Verdict
from tapebook.domain.units import DAY, E6, E8, HOUR, MINUTE, floor_to_step
from tapebook.log import Event, Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.book.test_store import run
from tests.db.places import empty_postgres as empty_postgres
from tests.db.places import shared_postgres as shared_postgres
from tests.db.places import sql
from tests.matrix import examples

MONDAY = 20_000 * DAY
DEPOSIT = 10_000 * E6
MARKS = {"BTC": 105 * E8, "kPEPE": 95 * E8}
HOLD = Action("hold", "BTC", None, 0, 1, "market", None, 0, "")
EMPTY = "".join(f"DELETE FROM {table};\n" for table in ("log_events", *TABLES))


# Pure functions


@pytest.mark.parametrize(
    ("nets", "streak"),
    [([], 0), ([5], 0), ([-5], 1), ([-5, -1, 3, -2], 2), ([0, -1], 0), ([-1, 0, -1], 1), ([-1] * 50, 50)],
)
def test_losing_streak(nets: list[int], streak: int) -> None:
    assert losing_streak(nets) == streak


def test_activity_by_hand() -> None:
    session = Session(
        cash_usd_e6=1_080 * E6,
        results_usd_e6=-20 * E6,
        held={"BTC": Position("BTC", 2 * E8, 200 * E6)},
        rejections=("R3_POSITION_CAP",),
        executed=2,
        orders=3,
        nets=(-1, -2, 3),
        closes=(LastClose("BTC", 7, -1), LastClose("ETH", 5, 3)),
    )
    # 1,100 before today's results, and the two bitcoins bought at 100 stood at 105.
    assert day_start_equity(session, MARKS) == 1_110 * E6
    assert activity_of_session(session, MARKS) == Activity(
        rejections=("R3_POSITION_CAP",),
        executed_today=2,
        orders_last_hour=3,
        realised_today_usd_e6=-20 * E6,
        day_start_equity_usd_e6=1_110 * E6,
        losing_streak=2,
        last_close_at={"BTC": 7, "ETH": 5},
        last_loss_at={"BTC": 7},
    )


# The store against a fold of the log


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, on both engines."""
    place = request.getfixturevalue("empty_postgres") if request.param == "postgres" else ":memory:"
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


class Deal(msgspec.Struct, frozen=True):
    """A fill of an order, or of none."""

    symbol: str
    signed_e8: int
    price_e8: int
    client: str | None


class Paid(msgspec.Struct, frozen=True):
    """An hour's funding, where something is held."""

    amount_usd_e6: int


class Deposited(msgspec.Struct, frozen=True):
    """Money paid in."""

    amount_usd_e6: int


class Decided(msgspec.Struct, frozen=True):
    """A decision with a verdict per code, None where it was allowed, and perhaps an order that may have ended.

    One that is `unreadable` was no reply at all.
    """

    codes: tuple[str | None, ...]
    shadow: bool
    ordered: bool
    end: tuple[OrderEndStatus, str] | None
    unreadable: bool = False


SYMBOLS = st.sampled_from(["BTC", "kPEPE"])
DEALS = st.builds(
    Deal,
    SYMBOLS,
    st.integers(-3, 3).filter(bool).map(lambda size: size * E8),
    st.integers(90, 110).map(lambda price: price * E8),
    st.sampled_from([None, "a", "b", "c"]),
)
CODES = st.lists(st.sampled_from([None, "R3_POSITION_CAP", "R6_RATE_LIMIT"]), max_size=3).map(tuple)
ENDS = st.sampled_from(
    [
        None,
        ("cancelled", "nobody wanted it"),
        ("rejected", "insufficient margin"),
        ("rejected", "R7_STALE_DATA at send: the price is old"),
    ]
)
DECISIONS = st.builds(Decided, CODES, st.booleans(), st.booleans(), ENDS) | st.builds(
    Decided, st.just(()), st.booleans(), st.just(False), st.none(), st.just(True)
)
STEPS = DEALS | DEALS | DECISIONS | st.builds(Paid, st.integers(-E6, E6)) | st.builds(Deposited, st.integers(1, E6))
WAITS = st.sampled_from([0, MINUTE, 20 * MINUTE, HOUR, HOUR + 1, 5 * HOUR, DAY])
STORIES = st.lists(st.tuples(WAITS, STEPS), max_size=14)


class Desk:
    """Writes a story into a deployment's stream, one step an append."""

    def __init__(self, db: Database, deployment: str, owner: str = "local") -> None:
        self.book = Book(Log(db, [PROJECTION], clock=VirtualClock(MONDAY)), db, owner=owner)
        self.name, self.now, self.count = deployment, MONDAY + 20 * HOUR, 0
        self.account = Account(0, Portfolio({}, 0), {})
        self.tell(Deposited(DEPOSIT))

    def tell(self, step: Any, *, wait: int = 0) -> None:
        """One more step, some time after the last."""
        self.now, self.count = self.now + wait, self.count + 1
        bodies = self._bodies(step)
        if bodies:
            drafts = [ev.draft_event(self.now, body) for body in bodies]
            seq = self.book.append(self.name, drafts, expected_seq=self.book.head(self.name))[-1].seq
            self.account = msgspec.structs.replace(self.account, seq=seq)

    def _bodies(self, step: Any) -> list[msgspec.Struct]:
        cause = TradeCause("a", 1, None, "why", 2)
        if isinstance(step, Deal):
            client = None if step.client is None else f"{step.symbol} {step.client}"
            name = f"{self.book.owner} {self.name} {self.count}"
            fill = Fill(name, step.symbol, self.now, step.signed_e8, step.price_e8, 1_000, False, client)
            self.account, said = settle_fill(self.account, fill, cause, mark_e8=None)
            return said
        if isinstance(step, Decided):
            return self._decision(step)
        portfolio = self.account.portfolio
        if isinstance(step, Paid):
            if "BTC" not in portfolio.positions:
                return []
            self.account, said = settle_funding(
                self.account, FundingPayment("BTC", self.now, step.amount_usd_e6, 1), cause
            )
            return said
        cash = portfolio.cash_usd_e6 + step.amount_usd_e6
        self.account = msgspec.structs.replace(self.account, portfolio=Portfolio(portfolio.positions, cash))
        return [ev.LedgerPosted("deposit", (Posting("deposit", "", step.amount_usd_e6),), cash)]

    def _decision(self, step: Decided) -> list[msgspec.Struct]:
        name = f"{self.book.owner} {self.name} {self.count}"
        judged = [(HOLD, Verdict(code is None, code, "")) for code in step.codes]
        trigger = "shadow" if step.shadow else "schedule"
        branch = "shadow" if step.shadow else "main"
        place: dict[str, Any] = {"owner": self.book.owner, "deployment": self.name, "as_of": self.now}
        if step.unreadable:
            place |= {"status": "rejected", "error": "that is no JSON"}
        bodies: list[msgspec.Struct] = [ev.RunDecided(run(name, *judged, trigger=trigger, branch=branch, **place))]
        if step.ordered:
            bodies.append(ev.OrderIntended(Order(name, name, "BTC", "buy", E8, "market", None, False, 2, self.now)))
        if step.ordered and step.end:
            bodies.append(ev.OrderEnded(OrderEnd(name, self.now, *step.end)))
        return bodies


class Fold:
    """The same, told by the events of the log alone."""

    def __init__(self, events: list[Event], *, as_of: int) -> None:
        self.events, self.today, self.hour = events, floor_to_step(as_of, DAY), as_of - HOUR

    def bodies(self, kind: type[msgspec.Struct]) -> list[tuple[Event, Any]]:
        """The events of one kind with their bodies."""
        return [(event, ev.event_body(event, kind)) for event in self.events if event.kind == ev.EVENT_KINDS[kind]]

    def activity(self) -> Activity:
        """What happened, one figure after the other."""
        closes = [body.trade for _, body in self.bodies(ev.TradeClosed)]
        nets = [closed.state.net_usd_e6 for closed in closes]
        last = {closed.state.symbol: closed for closed in closes}
        fills = [body.fill for _, body in self.bodies(ev.FillObserved) if body.fill.happened_at >= self.today]
        return Activity(
            rejections=self.rejections(),
            refusals=self.refusals(),
            executed_today=len({fill.client_id for fill in fills} - {None}),
            orders_last_hour=sum(body.order.intended_at > self.hour for _, body in self.bodies(ev.OrderIntended)),
            realised_today_usd_e6=self.posted(today=True, transfers=False),
            day_start_equity_usd_e6=self.start(),
            losing_streak=next((at for at, net in enumerate(reversed(nets)) if net >= 0), len(nets)),
            last_close_at={symbol: closed.exit_tick_at for symbol, closed in last.items()},
            last_loss_at={
                symbol: closed.exit_tick_at for symbol, closed in last.items() if closed.state.net_usd_e6 < 0
            },
        )

    def rejections(self) -> tuple[str, ...]:
        """The codes of the hour."""
        runs = [body.run for _, body in self.bodies(ev.RunDecided)]
        lately = [each for each in runs if each.as_of > self.hour and each.trigger != "shadow"]
        return tuple(verdict.rule for each in lately for verdict in each.verdicts if verdict.rule)

    def refusals(self) -> tuple[str, ...]:
        """All that was refused in the hour, whoever did."""
        found, intended = [], {body.order.client_id: body.order for _, body in self.bodies(ev.OrderIntended)}
        for event in self.events:
            if event.kind == ev.EVENT_KINDS[ev.RunDecided]:
                made = ev.event_body(event, ev.RunDecided).run
                if made.as_of > self.hour and made.trigger != "shadow":
                    found += [verdict.rule for verdict in made.verdicts if verdict.rule]
                    found += ["UNREADABLE_REPLY"] if made.error else []
            if event.kind == ev.EVENT_KINDS[ev.OrderEnded]:
                end = ev.event_body(event, ev.OrderEnded).end
                if end.status == "rejected" and intended[end.client_id].intended_at > self.hour:
                    found.append("R7_STALE_DATA" if "at send" in end.detail else "BROKER_REFUSED")
        return tuple(found)

    def posted(self, *, today: bool, transfers: bool) -> int:
        """The sum of lines before or since midnight, transfers or the rest."""
        return sum(
            line.amount_usd_e6
            for event, body in self.bodies(ev.LedgerPosted)
            for line in body.lines
            if (event.happened_at >= self.today) == today and (line.kind == "deposit") == transfers
        )

    def start(self) -> int:
        """Money of all days but today's results, and what was held at midnight at the marks."""
        money = sum(self.posted(today=day, transfers=True) for day in (False, True))
        held: dict[str, Position] = {}
        for event in self.events:
            if event.happened_at < self.today:
                self._hold(event, held)
        unrealised = sum(each.unrealised_usd_e6(MARKS[symbol]) for symbol, each in held.items())
        return money + self.posted(today=False, transfers=False) + unrealised

    def _hold(self, event: Event, held: dict[str, Position]) -> None:
        kinds: tuple[type[ev.TradeOpened] | type[ev.TradeUpdated], ...] = (ev.TradeOpened, ev.TradeUpdated)
        for kind in kinds:
            if event.kind == ev.EVENT_KINDS[kind]:
                position = ev.event_body(event, kind).position
                held[position.symbol] = position
        if event.kind == ev.EVENT_KINDS[ev.TradeClosed]:
            del held[ev.event_body(event, ev.TradeClosed).trade.state.symbol]


def test_activity_as_of_any_event_is_the_fold_up_to_it(db: Database) -> None:
    log = Log(db, [], clock=VirtualClock(MONDAY))

    @settings(max_examples=examples(60) if "SQLite" in db.description else 15)
    @given(STORIES, STORIES)
    def check(story: list[tuple[int, Any]], other: list[tuple[int, Any]]) -> None:
        db.execute_script(EMPTY)
        desk = Desk(db, "d1")
        for stranger, told in ((Desk(db, "d2"), other), (Desk(db, "d1", "somebody"), story)):
            for wait, step in told:
                stranger.tell(step, wait=wait)
        for wait, step in story:
            desk.tell(step, wait=wait)
        events = list(log.events(desk.book.stream("d1")))
        for seq in range(1, len(events) + 1):
            check_as_of(desk.book, events[:seq])

    check()


def check_as_of(book: Book, events: list[Event]) -> None:
    """The store's answer as of the last of some events, at its moment and a while later, in no order."""
    account = book.account("d1", seq=events[-1].seq)
    last = max(event.happened_at for event in events)
    for as_of in (last + 30 * MINUTE, last, last + 50 * MINUTE, last + DAY):
        session = book.session("d1", account, as_of=as_of)
        found = activity_of_session(session, MARKS)
        assert found == Fold(events, as_of=as_of).activity()
        # Whatever was paid in or out, the day's result is what equity gained over its start.
        unrealised = sum(held.unrealised_usd_e6(MARKS[symbol]) for symbol, held in session.held.items())
        now = account.portfolio.equity_usd_e6(MARKS)
        result = now - found.day_start_equity_usd_e6
        still = sum(held.unrealised_usd_e6(MARKS[symbol]) for symbol, held in account.portfolio.positions.items())
        assert result == found.realised_today_usd_e6 + still - unrealised


def test_orders_under_way_as_of_any_event(db: Database) -> None:
    desk = Desk(db, "d1")
    for ends in (False, True, False):
        desk.tell(Decided((), False, True, ("cancelled", "") if ends else None), wait=MINUTE)
    early = desk.account.seq
    (first, second) = desk.book.orders_under_way("d1", seq=early, as_of=desk.now)
    assert (first.intended_at, second.intended_at) == (desk.now - 2 * MINUTE, desk.now)
    ended = ev.draft_event(desk.now, ev.OrderEnded(OrderEnd(first.client_id, desk.now, "filled")))
    desk.book.append("d1", [ended], expected_seq=early)
    assert desk.book.orders_under_way("d1", seq=early + 1, as_of=desk.now) == (second,)
    assert desk.book.orders_under_way("d1", seq=early, as_of=desk.now) == (first, second)
    assert desk.book.orders_under_way("d2", seq=early, as_of=desk.now) == ()


def test_streak_is_counted_as_far_as_it_is_shown() -> None:
    with closing(connect(":memory:")) as db:
        migrate(db, (LOG, MIGRATIONS))
        desk = Desk(db, "d1")
        for _ in range(LONGEST_STREAK + 5):
            desk.tell(Deal("BTC", E8, 100 * E8, "a"))
            desk.tell(Deal("BTC", -E8, 99 * E8, "a"))
        assert (
            activity_of_session(desk.book.session("d1", desk.account, as_of=desk.now), {}).losing_streak
            == LONGEST_STREAK
        )


# The cost does not follow the table

TIMED = {
    "session_refusals": {"r": "decision_runs_as_of", "o": "orders_intended"},
    "session_intended": {"orders": "orders_intended"},
    "session_results": {"wallet_ledger": "wallet_ledger_happened"},
    "session_fills": {"fills": "fills_happened"},
    "session_nets": {"trade_history": "trade_history_closed"},
    "session_closes": {"t": "trade_history_symbol", "n": "trade_history_symbol"},
    "orders_under_way": {"orders": "orders_intended"},
    "closed_trades": {"t": "trade_history_closed"},
    "order_outcomes": {"orders": "orders_run"},
    "orders_of_run": {"orders": "orders_run"},
    "open_orders_of_run": {"orders": "orders_run"},
    "fills_of_run": {"o": "orders_run"},
    "trades_of_run": {"o": "orders_run", "t": "PRIMARY KEY (id=?)"},
    "has_funding": {"n": "wallet_ledger_happened"},
    "runs_between": {"decision_runs": "decision_runs_id"},
}
TIMES: dict[str, Any] = {"unreadable": "", "seq": 9, "as_of": 9, "hour": 5, "since": 5, "today": 0, "until": 99}
NAMES = {"owner": "o", "deployment": "d", "run_id": "r", "symbol": "s", "first": "a", "beyond": "b"}
WHERE = TIMES | NAMES | {"most": MOST_UNDER_WAY, "partial": 0, "at": 9}


@pytest.mark.parametrize("name", [*TIMED, "open_trades"])
def test_every_table_is_searched_by_its_index(name: str) -> None:
    """No statistics, as in every new home: the plan must not need them."""
    query = getattr(QUERIES, name)
    with closing(connect(":memory:")) as db:
        migrate(db, (LOG, MIGRATIONS))
        plan = [row[3] for row in db.all(_explained(query), **WHERE)]
    tables = {"decision_runs", "decision_actions", "orders", "fills", "wallet_ledger", "trade_history", "positions"}
    scanned = [step for step in plan if step.startswith("SCAN") and step.split()[1] in tables | set("rapnto")]
    assert scanned == [], plan
    # By owner and deployment alone a table is searched for its first symbol, and for nothing else.
    wide = [step for step in plan if step.endswith("(owner=? AND deployment=?)") and "COVERING" not in step]
    assert len(wide) <= 1, plan
    for table, index in TIMED.get(name, {}).items():
        assert any(step.startswith(f"SEARCH {table} USING") and index in step for step in plan), plan


def _explained(query: Any) -> Any:
    text = query.sqlite
    for param in query.params:
        text = text.replace("?", f":{param}", 1)
    return sql(f"EXPLAIN QUERY PLAN {text}")


def test_day_starts_at_midnight_utc() -> None:
    assert [day_start(at) for at in (MONDAY, MONDAY + 1, MONDAY + DAY - 1, MONDAY + DAY)] == [
        *(MONDAY, MONDAY, MONDAY),
        MONDAY + DAY,
    ]
