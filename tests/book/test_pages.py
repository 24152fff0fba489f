"""Pages of the book: walking them meets every row once, and as of a moment they are what a fold of the log gives."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapebook.book import events as ev
from tapebook.book.events import PROJECTION
from tapebook.book.materializer import TradeCause, settle_fill
from tapebook.book.pages import BookPages, RunAsOf, TradeAsOf
from tapebook.book.records import ActionRecord, OrderRecord, RunRecord
from tapebook.book.store import MIGRATIONS, Book
from tapebook.clock import VirtualClock
from tapebook.db import Database, connect, migrate
from tapebook.domain.order import Fill, Order, OrderEnd
from tapebook.domain.position import ClosedTrade
from tapebook.domain.run import Action, DecisionRun, Verdict
from tapebook.domain.units import E6, E8, HOUR
from tapebook.errors import BadInput
from tapebook.log import Log
from tapebook.log.store import MIGRATIONS as LOG
from tests.context.situations import run as some_run
from tests.db.places import module_postgres as module_postgres
from tests.db.places import shared_postgres as shared_postgres

NOON = 500_000 * HOUR
DEPLOYMENTS = ("a.paper", "b.paper")
SYMBOLS = ("BTC", "ETH")
_OWNERS = itertools.count()

Step = tuple[str, str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("hold", "refuse", "order", "order", "doubt", "place", "end", "buy", "sell", "lack")),
        st.sampled_from(DEPLOYMENTS),
        st.sampled_from(SYMBOLS),
        st.integers(0, 3),
    ),
    min_size=8,
    max_size=40,
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A database with the tables of log and book, for owners of any number."""
    place = ":memory:"
    if request.param == "postgres":
        place = str(request.getfixturevalue("module_postgres"))
    with closing(connect(place, durable=False)) as opened:
        migrate(opened, (LOG, MIGRATIONS))
        yield opened


class Desk:
    """A book of an owner of its own, in which steps are written one by one, each at a later moment."""

    def __init__(self, db: Database) -> None:
        self.owner = f"owner-{next(_OWNERS)}"
        self.clock = VirtualClock(NOON)
        self.log = Log(db, [PROJECTION], clock=self.clock)
        self.book = Book(self.log, db, owner=self.owner)
        self.pages = BookPages(self.book, self.log, db)
        self.orders: dict[str, list[Order]] = {name: [] for name in DEPLOYMENTS}
        self.steps = 0

    def write(self, deployment: str, *bodies: msgspec.Struct) -> None:
        """One append."""
        drafts = [ev.draft_event(self.clock.now(), body) for body in bodies]
        self.book.append(deployment, drafts, expected_seq=self.book.head(deployment))

    def take_step(self, step: Step) -> None:
        """Writes what a step says, if there is anything it could be about."""
        kind, deployment, symbol, number = step
        self.steps += 1
        self.clock.advance(self.clock.now() + 1 + number)
        if kind in ("hold", "refuse", "order"):
            self._decide(kind, deployment, symbol, late=number)
        elif kind in ("doubt", "place", "end"):
            self._follow_order(kind, deployment, number)
        else:
            self._trade(kind, deployment, symbol)

    def _decide(self, kind: str, deployment: str, symbol: str, *, late: int) -> None:
        # Slots, so that several decide as of one moment, of one deployment and of both.
        run_id, at = f"{self.owner}-r{self.steps}", self.clock.now() - self.clock.now() % 8
        action = Action("hold" if kind == "hold" else "open", symbol, "long", 100 * E6, 2, "market", None, 6_000, "why")
        run = msgspec.structs.replace(
            some_run(),
            run_id=run_id,
            owner=self.owner,
            deployment=deployment,
            symbol=symbol,
            as_of=at,
            # A slot that expired has no packet.
            packet_sha256="" if late == 3 else "f" * 64,
            status="placed" if kind == "order" else "held",
            actions=(action,),
            verdicts=(Verdict(kind != "refuse", None if kind != "refuse" else "R3_POSITION_CAP"),),
        )
        order = Order(f"{self.owner}-o{self.steps}", run_id, symbol, "buy", E8, "market", None, False, 2, at)
        if kind == "order":
            self.orders[deployment].append(order)
        self.write(deployment, ev.RunDecided(run), *([ev.OrderIntended(order)] if kind == "order" else []))

    def _follow_order(self, kind: str, deployment: str, number: int) -> None:
        working = {order.client_id: placed for order, placed in self.book.working_orders(deployment)}
        if not working:
            return
        client_id = list(working)[number % len(working)]
        run_id = client_id.replace("-o", "-r")
        if kind == "doubt" and not working[client_id]:
            self.write(deployment, ev.OrderUnanswered(client_id, f"lost {self.steps}"))
        elif kind == "place" and not working[client_id]:
            self.write(deployment, ev.OrderPlaced(client_id))
        elif kind == "end":
            end = OrderEnd(client_id, self.clock.now(), "filled", "all of it")
            self.write(deployment, ev.OrderEnded(end), ev.RunEnded(run_id, "done"))

    def _trade(self, kind: str, deployment: str, symbol: str) -> None:
        account = self.book.account(deployment, seq=self.book.head(deployment))
        if kind == "lack":
            if symbol in account.open_trades:
                self.write(deployment, ev.TradeMarkedIncomplete(account.open_trades[symbol].trade_id, ("path",)))
            return
        size = E8 if kind == "buy" else -E8
        fill = Fill(f"{self.owner}-f{self.steps}", symbol, self.clock.now(), size, 100 * E8, E6, False, None)
        cause = TradeCause("a", 1, "run", "why", 2, stream=f"{self.owner}/{deployment}")
        self.write(deployment, *settle_fill(account, fill, cause, mark_e8=None)[1])


class Folded:
    """What the events that were known at a moment say, one after the other."""

    def __init__(self, desk: Desk, as_of: int) -> None:
        self.runs: dict[str, tuple[Any, ...]] = {}
        self.ended: dict[str, tuple[str, int]] = {}
        self.orders: dict[str, tuple[int, OrderRecord]] = {}
        self.trades: dict[str, TradeAsOf] = {}
        self.exits: dict[str, int] = {}
        self.owners: dict[str, str] = {}
        for name in DEPLOYMENTS:
            for event in desk.log.events(desk.book.stream(name)):
                if event.known_at <= as_of:
                    self._apply(name, event.seq, event.known_at, event)

    def _apply(self, name: str, seq: int, at: int, event: Any) -> None:
        kinds = {kind: body for body, kind in ev.EVENT_KINDS.items()}
        body = ev.event_body(event, kinds[event.kind])
        if isinstance(body, ev.RunDecided):
            self.runs[body.run.run_id] = (seq, at, body.run)
        elif isinstance(body, ev.RunEnded):
            self.ended[body.run_id] = (body.status, at)
        elif isinstance(body, ev.OrderIntended):
            self.orders[body.order.client_id] = seq, OrderRecord(body.order, name, "intended", "", at, at)
        elif isinstance(body, ev.OrderUnanswered):
            self._order(body.client_id, detail=body.detail, updated_at=at)
        elif isinstance(body, ev.OrderPlaced):
            self._order(body.client_id, status="placed", detail="", updated_at=at)
        elif isinstance(body, ev.OrderEnded):
            self._order(body.end.client_id, status=body.end.status, detail=body.end.detail, updated_at=at)
        elif isinstance(body, ev.TradeOpened):
            self.owners[body.trade.trade_id] = name
            self.trades[body.trade.trade_id] = TradeAsOf(body.trade, body.agent, body.agent_version, at, at, ())
        elif isinstance(body, ev.TradeUpdated):
            self._trade(body.trade.trade_id, trade=body.trade)
        elif isinstance(body, ev.TradeMarkedIncomplete):
            self._trade(body.trade_id, lacks=body.lacks)
        elif isinstance(body, ev.TradeClosed):
            self.exits[body.trade.state.trade_id] = seq
            self._trade(body.trade.state.trade_id, trade=body.trade, updated_at=at)

    def _order(self, client_id: str, **changes: Any) -> None:
        seq, record = self.orders[client_id]
        self.orders[client_id] = seq, msgspec.structs.replace(record, **changes)

    def _trade(self, trade_id: str, **changes: Any) -> None:
        self.trades[trade_id] = msgspec.structs.replace(self.trades[trade_id], **changes)

    def run_list(self) -> list[RunAsOf]:
        """Decisions as they stood, in the order of a list."""
        rows = sorted(self.runs.values(), key=lambda row: (-row[2].as_of, row[2].deployment, -row[0]))
        return [self._run(at, run) for _, at, run in rows]

    def _run(self, created: int, run: DecisionRun) -> RunAsOf:
        status, updated = self.ended.get(run.run_id, (run.status, created))
        orders = {
            record.order.symbol: record for _, record in self.orders.values() if record.order.run_id == run.run_id
        }
        actions = []
        for action, verdict in zip(run.actions, run.verdicts, strict=True):
            order = orders.get(action.symbol)
            if order is not None:
                actions.append(ActionRecord(order.status, order.order.client_id, order.order.size_e8))
            else:
                actions.append(ActionRecord("held" if verdict.allowed else "refused", None, None))
        started, completed = run.as_of if run.packet_sha256 else None, None if status == "placed" else updated
        record = RunRecord(started, completed, created, updated, tuple(actions))
        return RunAsOf(msgspec.structs.replace(run, status=status), record)

    def order_list(self, *, working: bool) -> list[OrderRecord]:
        """Orders as they stood, in the order of a list."""
        rows = sorted(self.orders.values(), key=lambda row: (-row[1].order.intended_at, row[1].deployment, -row[0]))
        return [record for _, record in rows if not working or record.status in ("intended", "placed")]

    def trade_list(self, deployment: str) -> list[TradeAsOf]:
        """Round trips of a deployment as they stood, in the order of a list."""
        own = [each for name, each in self.trades.items() if self.owners[name] == deployment]
        still = sorted((each for each in own if not isinstance(each.trade, ClosedTrade)), key=_symbol)
        closed = [each for each in own if isinstance(each.trade, ClosedTrade)]
        return [*still, *sorted(closed, key=lambda each: -self.exits[_trade_id(each)])]


def _symbol(known: TradeAsOf) -> str:
    assert not isinstance(known.trade, ClosedTrade)
    return known.trade.symbol


def _trade_id(known: TradeAsOf) -> str:
    return known.trade.state.trade_id if isinstance(known.trade, ClosedTrade) else known.trade.trade_id


def walk(page: Callable[[str | None], list[Any]], name: Callable[[Any], str]) -> list[Any]:
    """All rows, page by page, each behind the last row of the page before."""
    found: list[Any] = []
    last: str | None = None
    while rows := page(last):
        found += rows
        assert len(found) < 1_000, "a page gives rows again"
        last = name(rows[-1])
    return found


@settings(max_examples=30, deadline=None)
@given(steps=STEPS, most=st.integers(1, 5), data=st.data())
def test_lists_as_of_a_moment_are_what_was_known_then(
    db: Database, steps: list[Step], most: int, data: st.DataObject
) -> None:
    desk, moments = Desk(db), [NOON]
    for step in steps:
        desk.take_step(step)
        moments.append(desk.clock.now())
    as_of = data.draw(st.sampled_from([*moments, None]))
    folded = Folded(desk, as_of or moments[-1])
    until = desk.pages.until(as_of)
    runs = walk(lambda last: desk.pages.runs("", until=until, before=last, most=most), lambda known: known.run.run_id)
    assert runs == folded.run_list()
    for working in (False, True):
        orders = walk(
            lambda last, w=working: desk.pages.orders("", until=until, before=last, working=w, most=most),  # type: ignore[misc]
            lambda known: known.order.client_id,
        )
        assert orders == folded.order_list(working=working)
    for name in DEPLOYMENTS:
        seq = desk.book.head(name) if as_of is None else desk.book.seq_as_of(name, as_of)
        trades = walk(
            lambda last, n=name, s=seq: desk.pages.trades(n, seq=s, before=last, status=None, most=most),  # type: ignore[misc]
            _trade_id,
        )
        assert trades == folded.trade_list(name)


@settings(max_examples=20, deadline=None)
@given(first=STEPS, later=STEPS, most=st.integers(1, 4))
def test_a_walk_meets_every_row_once_while_others_write(
    db: Database, first: list[Step], later: list[Step], most: int
) -> None:
    """What was there when the walk began is met once, and nothing is met twice."""
    desk = Desk(db)
    for step in first:
        desk.take_step(step)
    begun, pending = Folded(desk, desk.clock.now()), list(later)
    until, head = desk.pages.until(None), {name: desk.book.head(name) for name in DEPLOYMENTS}

    def with_writes(page: list[Any]) -> list[Any]:
        for _ in range(3):
            if pending:
                desk.take_step(pending.pop(0))
        return page

    runs = walk(
        lambda last: with_writes(desk.pages.runs("", until=until, before=last, most=most)),
        lambda known: known.run.run_id,
    )
    names = [known.run.run_id for known in runs]
    assert len(names) == len(set(names)) and {known.run.run_id for known in begun.run_list()} <= set(names)
    orders = walk(
        lambda last: with_writes(desk.pages.orders("", until=until, before=last, working=False, most=most)),
        lambda known: known.order.client_id,
    )
    names = [known.order.client_id for known in orders]
    assert len(names) == len(set(names)) and {k.order.client_id for k in begun.order_list(working=False)} <= set(names)
    for name in DEPLOYMENTS:
        trades = walk(
            lambda last, n=name: with_writes(  # type: ignore[misc]
                desk.pages.trades(n, seq=head[n], before=last, status=None, most=most)
            ),
            _trade_id,
        )
        # Trades are walked as of the first page, so that one that ends meanwhile is not met again.
        assert trades == begun.trade_list(name)


def test_a_place_that_is_not_there_is_refused(db: Database) -> None:
    desk = Desk(db)
    for step in (("order", "a.paper", "BTC", 0), ("buy", "a.paper", "BTC", 0)):
        desk.take_step(step)
    until = desk.pages.until(None)
    stranger = Desk(db)
    own = desk.pages.runs("", until=until, before=None, most=1)[0].run.run_id
    (trade,) = desk.pages.trades("a.paper", seq=desk.book.head("a.paper"), before=None, status="open", most=9)
    with pytest.raises(BadInput, match="no run 'x'"):
        desk.pages.runs("", until=until, before="x", most=1)
    with pytest.raises(BadInput, match="no run"):
        stranger.pages.runs("", until=until, before=own, most=1)
    with pytest.raises(BadInput, match="no order"):
        desk.pages.orders("", until=until, before=own, working=False, most=1)
    with pytest.raises(BadInput, match="no trade"):
        desk.pages.trades("b.paper", seq=99, before=_trade_id(trade), status=None, most=1)
