"""Two owners in one database: every read of the one, asked about the other's things by name, gives nothing."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tapebook.book.decision_queue import DecisionQueue, QueuedDecision, StoredReplies, StoredReply
from tapebook.book.events import LedgerPosted, Posting, SpotFillObserved, draft_event
from tapebook.book.materializer import Account
from tapebook.book.store import Book
from tapebook.decision import EngineAnswer
from tapebook.desk import control
from tapebook.domain.agent import Deployment
from tapebook.domain.order import SpotFill
from tapebook.domain.position import Portfolio
from tapebook.domain.run import DecisionRun
from tapebook.domain.units import MINUTE
from tapebook.errors import UnknownName
from tapebook.tick.decide import Slot
from tapebook.tick.story import tick
from tests.db.places import sql
from tests.desk.desks import BRIEF, Desk, desk, reply

ALL = 2**31 - 1
GONE = "gone"
# What writes, and what names a stream without reading it.
NO_READS = {"record_set_back", "append", "remove_agent", "save_agent", "stream"}


class Theirs:
    """An owner who has done everything once, and the names of what came of it."""

    def __init__(self, floor: Desk) -> None:
        self.floor = floor
        self.book = floor.rooms.book
        self.dry = _note_dry(floor)
        self.agent = _trade(floor)
        self.run = self.book.run_ids(most=ALL)[0]
        self.seq, self.now = self.book.head(self.agent.id), floor.clock.now()
        self.traded = self.book.closed_trades(self.agent.id, seq=self.seq, most=1)[0]
        self.order = next(each.order for each in self.book.orders(working=False, most=ALL) if each.status == "filled")
        self.fill_id = floor.rooms.book_db.all(sql("SELECT fill_id FROM fills"))[0][0]
        self.account = self.book.account(self.agent.id, seq=self.seq)


def _note_dry(floor: Desk) -> Deployment:
    """An order of a dry run."""
    agent = floor.hire(msgspec.structs.replace(BRIEF, name="dry", mode="dry_run"))
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 100))
    return agent


def _trade(floor: Desk) -> Deployment:
    """A round trip, an open position, a working order, a shadow, a halt, a wish, a kept reply and something to do."""
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    for text in (reply("open", "long", 500), reply("close"), reply("open", "short", 500), reply("hold", cites=["c9"])):
        floor.say(agent, text)
        floor.later(MINUTE, BTC=100, ETH=10)
        floor.work(agent)
    shadow = Slot(agent, "BTC", floor.clock.now(), trigger="shadow", branch="shadow")
    floor.say(agent, reply("hold"))
    tick(floor.rooms, shadow, ask=lambda _decide, _packet: EngineAnswer(reply("hold")))
    floor.say(agent, reply("open", "long", 100, symbol="ETH", order_type="limit", limit_price=9.9), symbol="ETH")
    floor.halt("", reason="mine")
    control.flatten(floor.rooms, ["elsewhere.paper", ""], reason="mine")
    floor.rooms.replies.store_reply(
        "k", StoredReply("{}", "r"), deployment=agent.id, cost_usd_e6=7, at=floor.clock.now()
    )
    floor.rooms.work.enqueue([QueuedDecision("r9", agent.id, "BTC", 1)])
    return agent


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    with desk(tmp_path / "home") as floor:
        yield Theirs(floor)


Read = Callable[[Book, Theirs], Any]
READS: dict[str, Read] = {
    "head": lambda book, it: book.head(it.agent.id) or book.head(),
    "seq_as_of": lambda book, it: book.seq_as_of(it.agent.id, it.now),
    "agents": lambda book, it: book.agents(),
    "agent": lambda book, it: book.agent(it.agent.agent.name) or book.agent(it.agent.agent.name, version=1),
    "agent_record": lambda book, it: book.agent_record(it.agent.agent.name),
    "find_agent": lambda book, it: _found_agent(book, it.agent.agent.name),
    "agent_as_of": lambda book, it: book.agent_as_of(it.agent.agent.name, as_of=it.now),
    "removed_at": lambda book, it: book.removed_at(GONE),
    "agent_history": lambda book, it: book.agent_history(it.agent.agent.name),
    "deployed_version": lambda book, it: book.deployed_version(it.agent.id, seq=it.seq),
    "halts": lambda book, it: book.halts(),
    "flatten_due": lambda book, it: book.flatten_due(it.agent.id),
    "deployments": lambda book, it: book.deployments() + book.deployments(it.agent.agent.name),
    "account": lambda book, it: _something(book.account(it.agent.id, seq=it.seq)),
    "set_back_count": lambda book, it: book.set_back_count(it.agent.id),
    "set_back_after": lambda book, it: book.set_back_after(it.agent.id, seq=it.seq, as_of=it.now),
    "closed_trades_until": lambda book, it: book.closed_trades_until(it.agent.id, seq=it.seq, most=ALL, until=it.now),
    "last_run_until": lambda book, it: book.last_run_until(it.agent.id, "BTC", seq=it.seq, until=it.now),
    "closed_trades": lambda book, it: book.closed_trades(it.agent.id, seq=it.seq, most=ALL),
    "agent_names": lambda book, it: book.agent_names(),
    "trade_end_seq": lambda book, it: book.trade_end_seq(it.traded.state.trade_id),
    "trade_lacks": lambda book, it: book.trade_lacks(it.traded.state.trade_id),
    "has_funding": lambda book, it: book.has_funding(it.agent.id, "BTC", at=1),
    "has_spot_fill": lambda book, it: book.has_spot_fill(it.agent.id, "s1"),
    "trade_totals": lambda book, it: book.trade_totals(it.agent.id).count,
    "closed_after": lambda book, it: book.closed_after(it.agent.id, after=0, seq=it.seq),
    "day_results": lambda book, it: book.day_results(it.agent.id, seq=it.seq, as_of=it.now).trades,
    "trades_closed_between": lambda book, it: book.trades_closed_between(
        it.agent.id, since=0, until=it.now + 1, seq=it.seq
    ),
    "results_posted_between": lambda book, it: book.results_posted_between(
        it.agent.id, since=0, until=it.now + 1, seq=it.seq
    ),
    "days_changed": lambda book, it: book.days_changed(it.agent.id, after=0, seq=it.seq),
    "closed_count_since": lambda book, it: book.closed_count_since(it.agent.id, after=0, seq=it.seq)[0],
    "closed_trade_count": lambda book, it: book.closed_trade_count(),
    "last_run": lambda book, it: book.last_run(it.agent.id, "BTC", seq=it.seq),
    "has_run": lambda book, it: book.has_run(it.run),
    "run": lambda book, it: book.run(it.run),
    "find_run": lambda book, it: _found(book, it.run),
    "run_record": lambda book, it: book.run_record(it.run),
    "trade_times": lambda book, it: _times(book, it.traded.state.trade_id),
    "dry_order_count": lambda book, it: book.dry_order_count(it.dry.id),
    "run_ids": lambda book, it: book.run_ids(most=ALL) + book.run_ids(it.agent.id, most=ALL),
    "degraded_runs": lambda book, it: book.degraded_runs(since=0),
    "run_counts": lambda book, it: book.run_counts(),
    "action_counts": lambda book, it: book.action_counts(),
    "working_orders": lambda book, it: book.working_orders(it.agent.id),
    "unanswered_orders": lambda book, it: book.unanswered_orders() + book.unanswered_orders(it.agent.id),
    "has_exposure": lambda book, it: book.has_exposure(it.agent.id),
    "order_reason": lambda book, it: book.order_reason(it.order.client_id),
    "open_order_count": lambda book, it: sum(
        book.open_order_count(run) for run in it.book.run_ids(most=ALL) if it.book.open_order_count(run)
    ),
    "newest_snapshot": lambda book, it: book.newest_snapshot(it.agent.id, seq=it.seq),
    "cash_differences": lambda book, it: book.cash_differences(),
    "orders": lambda book, it: book.orders(working=False, most=ALL) + book.orders(it.agent.id, working=False, most=ALL),
    "order": lambda book, it: book.order(it.order.client_id),
    "orders_of_run": lambda book, it: book.orders_of_run(it.order.run_id),
    "order_outcomes": lambda book, it: book.order_outcomes(it.order.run_id, seq=it.seq),
    "fills_of_run": lambda book, it: book.fills_of_run(it.order.run_id),
    "trades_of_run": lambda book, it: book.trades_of_run(it.order.run_id),
    "shadow_pairs": lambda book, it: book.shadow_pairs(it.agent.id, most=ALL),
    "newest_fill_at": lambda book, it: book.newest_fill_at(it.agent.id),
    "fill": lambda book, it: book.fill(it.agent.id, it.fill_id),
    "orders_under_way": lambda book, it: book.orders_under_way(it.agent.id, seq=it.seq, as_of=it.now),
    "session": lambda book, it: _done(book, it),
}


def _something(account: Account) -> bool:
    return bool(account.portfolio.positions or account.portfolio.cash_usd_e6 or account.open_trades)


def _found_agent(book: Book, name: str) -> Deployment | None:
    try:
        return book.find_agent(name)
    except UnknownName:
        return None


def _found(book: Book, run: str) -> DecisionRun | None:
    try:
        return book.find_run(run)
    except UnknownName:
        return None


def _times(book: Book, trade: str) -> tuple[int, int] | None:
    try:
        return book.trade_times(trade)
    except UnknownName:
        return None


def _done(book: Book, it: Theirs) -> bool:
    """Whether a session says anything; the account is handed over empty, as the other owner's own is."""
    account = it.account if book is it.book else Account(it.seq, Portfolio({}), {})
    found = book.session(it.agent.id, account, as_of=it.now)
    return bool(found.orders or found.executed or found.nets or found.closes or found.rejections or found.held)


def test_every_read_of_the_book_is_in_the_table() -> None:
    public = {name for name, _ in inspect.getmembers(Book, inspect.isfunction) if not name.startswith("_")}
    assert public - NO_READS == set(READS)


@pytest.fixture
def spoilt(theirs: Theirs) -> Theirs:
    """With wrong cash, runs and trades that lacked something, an order nobody answered, a spot fill, funding, an
    agent removed, a clock set back.

    So every read has something.
    """
    wrong = "UPDATE wallet_ledger SET amount_usd_e6 = amount_usd_e6 + 1 WHERE kind = 'deposit'"
    lost = "UPDATE orders SET placed_seq = NULL, detail = 'not known' WHERE ended_seq IS NULL"
    backs = "SELECT owner, deployment, 1, 1, 4000000000000, 1 FROM log_events GROUP BY owner, deployment"
    theirs.floor.rooms.book_db.execute(sql(f"INSERT INTO log_set_backs {backs}"))
    theirs.floor.rooms.book_db.execute(sql(wrong))
    theirs.floor.rooms.book_db.execute(sql("UPDATE decision_runs SET degraded_causes_json = '[\"lessons: KeyError\"]'"))
    theirs.floor.rooms.book_db.execute(sql(lost))
    theirs.floor.rooms.book_db.execute(sql("UPDATE trade_history SET lacks = 'path'"))
    spot = draft_event(1, SpotFillObserved(SpotFill("s1", "@1", 1, 1, 1, 1, "HYPE")))
    paid = draft_event(1, LedgerPosted("funding 1", (Posting("funding", "BTC", -1),), 0))
    theirs.book.append(theirs.agent.id, [spot, paid], expected_seq=theirs.book.head(theirs.agent.id))
    theirs.book.save_agent(msgspec.structs.replace(BRIEF, name=GONE), at=1)
    theirs.book.remove_agent(GONE, at=2, reason="mine")
    # Rows changed behind the log's back are seen by whoever comes new.
    rooms = theirs.floor.rooms
    theirs.book = Book(rooms.log, rooms.book_db, owner=rooms.book.owner)
    return theirs


def test_owner_sees_their_own_and_another_sees_nothing(spoilt: Theirs) -> None:
    rooms = spoilt.floor.rooms
    other = Book(rooms.log, rooms.book_db, owner="somebody else")
    assert [name for name, read in READS.items() if not read(spoilt.book, spoilt)] == []
    assert {name: found for name, read in READS.items() if (found := read(other, spoilt))} == {}


def test_kept_replies_and_work_of_another_are_not_seen(theirs: Theirs) -> None:
    rooms, name = theirs.floor.rooms, theirs.agent.id
    other = StoredReplies(rooms.book_db, owner="somebody else")
    assert rooms.replies.stored_reply("k") and rooms.replies.spent_usd_e6(name, since=0) == 7
    assert (other.stored_reply("k"), other.spent_usd_e6(name, since=0)) == (None, 0)
    work = DecisionQueue(rooms.book_db, owner="somebody else", leases=rooms.leases)
    assert rooms.work.waiting_deployments(most=9) and rooms.work.queued_for(name) and rooms.work.counts_by_state()
    assert (work.waiting_deployments(most=9), work.queued_for(name), work.counts_by_state()) == ({}, [], {})
    assert (
        rooms.work.deployments_with_positions(before=ALL * ALL)
        and rooms.work.deployments_with_orders()
        and rooms.work.deployed_agent(name)
    )
    assert (
        work.deployments_with_positions(before=ALL * ALL),
        work.deployments_with_orders(),
        work.deployed_agent(name),
    ) == ([], [], None)
