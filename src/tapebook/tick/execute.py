"""Hands intended orders to the broker (`execute_orders`) and books what it says (`reconcile_account`).

An order that is in the book and not placed may have left all the same: its process was killed before it could write
that, or the broker's answer was lost. So `execute_orders` asks the broker for its client id first:

1. it has the order: that is written, and nothing is sent;
2. it refused the order: order and run end as rejected;
3. it has never seen it: the order goes through a second gate on fresh data and is placed, under the same client id;
4. nobody can say: the order stays intended, the book says why (`OrderUnanswered`), and the next turn asks again.

A request to be flat comes first (`flatten_symbols`). It is an event of the owner; whoever works on a deployment
finds it there, has the broker cancel orders and intends closes of what had begun when it was made. It is done when
nothing of before it is left, so a cancellation whose answer was lost is sent again, as is a close that found no
price, and a second call finds nothing to do.

`reconcile_account` writes one transaction:

1. the account and its working orders are read; with neither positions nor orders that is all;
2. the broker says what happened up to now (`_booked_account` is what it is given); what is booked already, because
   an exchange was asked for a time twice, is left out (`_is_booked`);
3. fills, funding, insurance and ends of orders go one by one through ledger and materializer (`_settle_event`), a
   fill with the prices observed of what it changes since that was last valued (`PricePath`);
4. what is still held is valued, once per moment: equity by the marks, extremes by the prices
   observed up to now, and how far margin was checked.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from tapebook.book.events import (
    OrderEnded,
    OrderIntended,
    OrderPlaced,
    OrderUnanswered,
    RunEnded,
    draft_event,
    flatten_order,
)
from tapebook.book.materializer import (
    AT_SEND,
    Account,
    TradeCause,
    settle_fill,
    settle_funding,
    settle_insurance,
    settle_marks,
)
from tapebook.book.store import AccountSnapshot, Book
from tapebook.broker import BookedAccount, Broker, BrokerAccount, Exposure, OrderState
from tapebook.clock import Clock
from tapebook.decision import gate_order
from tapebook.domain.agent import Deployment
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, InsurancePayment, Order, OrderEnd
from tapebook.domain.position import PriceRange
from tapebook.domain.run import RunStatus, Verdict
from tapebook.domain.text import short_line
from tapebook.domain.units import E8, decimal_text
from tapebook.lessons import NO_LESSONS
from tapebook.lessons.notes import Notes
from tapebook.log import Draft
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.decide import limits_at_send
from tapebook.tick.memory import lessons_for
from tapebook.tick.prepare import OptionalReads, account_not_after, log_causes, regime_at, safe_causes
from tapebook.tick.quotes import PricePath, TapeQuotes, position_marks
from tapebook.wiring import Rooms

EventBodies = list[msgspec.Struct]


def reconcile_account(rooms: Rooms, deployment: Deployment, *, told: Sequence[BrokerEvent] = ()) -> None:
    """Catches up with the broker to this moment; asked again at the same moment it writes nothing.

    `told` is what a bot says that trades elsewhere; what is booked already is left alone.
    """
    seq = rooms.book.head(deployment.id)
    found = rooms.book.working_orders(deployment.id, seq=seq)
    account = rooms.book.account(deployment.id, seq=seq)
    if not told and not account.portfolio.positions and not any(placed for _, placed in found):
        return
    now, newest = rooms.clock.now(), rooms.book.newest_snapshot(deployment.id, seq=seq)
    if newest is not None and newest.happened_at > now:
        # The clock was ahead: what it has dated counts as of now, and everything is followed from here.
        account, newest = account_not_after(account, now), _snapshot_not_after(newest, now)
        found = [
            (msgspec.structs.replace(order, intended_at=min(order.intended_at, now)), placed) for order, placed in found
        ]
    quotes = TapeQuotes(rooms.tape, View(now))
    booked = _booked_account(account, deployment, newest, orders=found, quotes=quotes, until=now)
    activity = rooms.broker(deployment.agent.broker).activity_since(booked)
    path = PricePath(quotes, now, newest.happened_at if newest else 0)
    cause = TradeCause(deployment.agent.name, deployment.version, stream=rooms.book.stream(deployment.id).name)
    drafts: list[Draft] = []
    events = (*told, *activity.events)
    if events:
        settling = _Settling(
            rooms.book,
            rooms.tape,
            deployment,
            path,
            partial(_lessons_hash, rooms.notes, deployment, rooms.without_keys),
        )
        account, drafts = _settle_events(settling, account, events, cause=cause, orders=found)
    held, walked = account.portfolio.positions, activity.walked_until
    # What is held is valued; nothing held needs no value.
    if held and (drafts or newest is None or newest.happened_at < now or newest.walked_until < walked):
        marks = position_marks(rooms.tape, held.values(), view=quotes.view, before=newest.marks if newest else None)
        seen: dict[str, PriceRange] = {}
        for symbol in held:
            prices = path.observed_range(account, symbol)
            if prices is not None:
                seen[symbol] = prices
        for body in settle_marks(account, marks, cause, path=seen, at=now, walked_until=walked)[1]:
            drafts.append(draft_event(now, body))
    if drafts:
        rooms.book.append(deployment.id, drafts, expected_seq=seq)


def _snapshot_not_after(newest: AccountSnapshot, now: int) -> AccountSnapshot:
    # One millisecond before, so that what is held is valued at this moment as well.
    return msgspec.structs.replace(newest, happened_at=now - 1, walked_until=min(newest.walked_until, now))


def _booked_account(
    account: Account,
    deployment: Deployment,
    newest: AccountSnapshot | None,
    *,
    orders: Sequence[tuple[Order, bool]],
    quotes: TapeQuotes,
    until: int,
) -> BookedAccount:
    """The account as a broker must know it; `orders` are all that have not ended, each with whether it is placed."""
    exposures = []
    for symbol, held in sorted(account.portfolio.positions.items()):
        trade = account.open_trades[symbol]
        # Positions from before a move was noted have moved at their entry, as far as anybody knows.
        since = held if held.moved_at else msgspec.structs.replace(held, moved_at=trade.entry_tick_at)
        exposures.append(Exposure(since, trade.funded_until))
    walked = newest.walked_until if newest else 0
    standing = BrokerAccount(account.portfolio.cash_usd_e6, tuple(exposures), deployment.agent.margin, walked)
    # An account that holds something is valued whenever it is booked; an order may have been filled ever since it left.
    since_any = [newest.happened_at] if newest is not None and exposures else []
    placed: list[Order] = []
    for order, is_placed in orders:
        since_any.append(order.intended_at)
        if is_placed:
            placed.append(order)
    return BookedAccount(standing, tuple(placed), quotes, until, min(since_any, default=0))


def _booked_now(book: Book, tape: Tape, deployment: Deployment, *, seq: int, now: int) -> BookedAccount:
    """The account as a broker must know it at this moment."""
    account, newest = book.account(deployment.id, seq=seq), book.newest_snapshot(deployment.id, seq=seq)
    orders, quotes = book.working_orders(deployment.id, seq=seq), TapeQuotes(tape, View(now))
    return _booked_account(account, deployment, newest, orders=orders, quotes=quotes, until=now)


def account_differences(book: Book, tape: Tape, deployment: Deployment, *, broker: Broker, clock: Clock) -> list[str]:
    """Where the broker's account is not what the book will have when everything is booked; BrokerAway if unknown.

    Sizes are compared, and which orders are open; the broker may hold what nobody here has ordered.
    """
    seq = book.head(deployment.id)
    # Behind the head: what somebody books meanwhile is not in this account, and the broker tells of it.
    booked = _booked_now(book, tape, deployment, seq=seq, now=clock.now())
    account, working = book.account(deployment.id, seq=seq), {order.client_id: order for order in booked.orders}
    sizes = {symbol: held.size_e8 for symbol, held in account.portfolio.positions.items()}
    for event in broker.activity_since(booked).events:
        if _is_booked(book, deployment, account, event=event, working=working):
            continue
        if isinstance(event, Fill):
            sizes[event.symbol] = sizes.get(event.symbol, 0) + event.signed_size_e8
        elif isinstance(event, OrderEnd):
            del working[event.client_id]
    held = {symbol: each.size_e8 for symbol, each in broker.account_state(booked).positions.items()}
    texts = [
        f"{symbol}: the broker holds {_size_text(held.get(symbol, 0))}, the book {_size_text(sizes.get(symbol, 0))}"
        for symbol in sorted(held.keys() | sizes.keys())
        if held.get(symbol, 0) != sizes.get(symbol, 0)
    ]
    opened = {order.client_id: order.symbol for order in broker.open_orders(booked)}
    foreign = [symbol for client_id, symbol in opened.items() if client_id not in working]
    texts += [f"{symbol}: the broker has an open order that the book does not have" for symbol in sorted(foreign)]
    gone = [order for client_id, order in working.items() if client_id not in opened]
    return texts + [f"{order.symbol}: the broker does not have the open order {order.client_id}" for order in gone]


def _size_text(size_e8: int) -> str:
    return decimal_text(size_e8, E8, 8)


class _Settling(msgspec.Struct, frozen=True, eq=False):
    """What the events of one reconciliation are settled with: `lessons_hash` says what a run of a moment was told."""

    book: Book
    tape: Tape
    deployment: Deployment
    path: PricePath
    lessons_hash: Callable[[int], str | None]


def _settle_events(
    settling: _Settling,
    account: Account,
    events: Sequence[BrokerEvent],
    *,
    cause: TradeCause,
    orders: Sequence[tuple[Order, bool]],
) -> tuple[Account, list[Draft]]:
    """The account after all that happened, and what is to be written of it; `orders` say whether they are placed."""
    working = {order.client_id: order for order, _ in orders}
    unplaced = {order.client_id for order, placed in orders if not placed}
    drafts: list[Draft] = []
    for event in events:
        if _is_booked(settling.book, settling.deployment, account, event=event, working=working):
            continue
        if isinstance(event, Fill | OrderEnd) and event.client_id in unplaced:
            # A fill may come before the answer to its order, or instead of one that was lost.
            unplaced.remove(event.client_id)
            drafts.append(draft_event(event.happened_at, OrderPlaced(event.client_id)))
        account, bodies = _settle_event(settling, account, event, cause=cause, working=working)
        drafts += [draft_event(event.happened_at, body) for body in bodies]
    return account, drafts


def _is_booked(
    book: Book, deployment: Deployment, account: Account, *, event: BrokerEvent, working: Mapping[str, Order]
) -> bool:
    """Whether a broker tells again what the book has; an exchange that is asked from a moment on may."""
    if isinstance(event, Fill):
        return book.fill(deployment.id, event.fill_id) is not None
    if isinstance(event, FundingPayment):
        trade = account.open_trades.get(event.symbol)
        if trade is not None and trade.funded_until < event.happened_at:
            return False
        # It is told again, or late: of a position that has been closed by now.
        return book.has_funding(deployment.id, event.symbol, at=event.happened_at)
    return isinstance(event, OrderEnd) and event.client_id not in working


def _settle_event(
    settling: _Settling, account: Account, event: BrokerEvent, *, cause: TradeCause, working: dict[str, Order]
) -> tuple[Account, EventBodies]:
    if isinstance(event, Fill):
        path = settling.path
        mark = path.quotes.mark_e8(event.symbol, at=event.happened_at)
        cause = _fill_cause(settling, event, cause, working=working)
        seen = path.observed_range(account, event.symbol, before=event)
        return settle_fill(account, event, cause, mark_e8=mark, path=seen)
    if isinstance(event, FundingPayment):
        return settle_funding(account, event, cause)
    if isinstance(event, InsurancePayment):
        return settle_insurance(account, event)
    run = working.pop(event.client_id).run_id
    ended: EventBodies = [OrderEnded(event)]
    going_on = not run or any(order.run_id == run for order in working.values())
    return account, ended if going_on else [*ended, RunEnded(run, "rejected" if event.status == "rejected" else "done")]


def _fill_cause(settling: _Settling, fill: Fill, cause: TradeCause, *, working: Mapping[str, Order]) -> TradeCause:
    """The cause with what is known of a fill: the run of its order gives the reason, the bars before it the regime."""
    book = settling.book
    tag = regime_at(settling.tape, settling.deployment, fill.symbol, view=View(fill.happened_at))
    cause = msgspec.structs.replace(cause, regime=tag)
    if fill.client_id is None:
        return cause
    # A fill may be told after the end of its order: a part that was executed just before the rest was cancelled.
    order = working.get(fill.client_id) or book.order(fill.client_id)
    if order is None:
        # An order of somebody else on this account.
        return msgspec.structs.replace(cause, exit_label="external_flatten")
    if not order.run_id:
        # No decision asked for it: somebody at the desk did.
        return msgspec.structs.replace(cause, leverage=order.leverage, exit_label="external_flatten")
    placed = book.order_reason(order.client_id)
    if placed is None:
        return msgspec.structs.replace(cause, run_id=order.run_id, leverage=order.leverage)
    _, reason, book_seq = placed
    return msgspec.structs.replace(
        cause,
        run_id=order.run_id,
        reason=reason,
        leverage=order.leverage,
        lessons_hash=settling.lessons_hash(book_seq),
    )


def _lessons_hash(notes: Notes, deployment: Deployment, without_keys: Callable[[str], str], seq: int) -> str | None:
    """The hash of what a run was told; unknown when that cannot be read, which must not stop the booking."""
    if "lessons" not in deployment.agent.context.rooms:
        return NO_LESSONS
    optional = OptionalReads()
    lessons = optional.read_or_default("lessons", None, lessons_for, notes, deployment, seq=seq)
    if optional.causes:
        causes = safe_causes(optional.causes, without_keys=without_keys)
        log_causes(causes, deployment=deployment.id, fill_as_of=seq)
    return lessons.content_hash if lessons else None


def flatten_symbols(rooms: Rooms, deployment: Deployment) -> None:
    """Cancels orders and intends closes of symbols that somebody wants flat and that are not."""
    # What was filled by now is a position, not an order that could be cancelled.
    reconcile_account(rooms, deployment)
    asked = rooms.book.flatten_due(deployment.id)
    if not asked:
        return
    cancelled = _cancel_at_broker(
        rooms.book,
        rooms.tape,
        deployment,
        asked=asked,
        broker=rooms.broker(deployment.agent.broker),
        now=rooms.clock.now(),
    )
    if cancelled:
        # What was filled before the broker let go is booked before the closes are sized.
        reconcile_account(rooms, deployment)
    seq, now = rooms.book.head(deployment.id), rooms.clock.now()
    found = rooms.book.working_orders(deployment.id)
    bodies: list[msgspec.Struct] = []
    for order, _ in found:
        if order.client_id in cancelled:
            bodies += _cancel_events(order, now)
    closing = {order.symbol for order, _ in found if not order.run_id}
    account = rooms.book.account(deployment.id, seq=seq)
    stream = f"{deployment.owner}/{deployment.id}"
    for symbol, trade in sorted(account.open_trades.items()):
        if trade.entry_tick_at <= asked.get(symbol, 0) and symbol not in closing:
            bodies.append(OrderIntended(flatten_order(stream, account.portfolio.positions[symbol], at=now)))
    if bodies:
        rooms.book.append(deployment.id, [draft_event(now, body) for body in bodies], expected_seq=seq)


def _cancel_at_broker(
    book: Book, tape: Tape, deployment: Deployment, *, asked: Mapping[str, int], broker: Broker, now: int
) -> set[str]:
    """Client ids of decisions' orders that had begun when somebody wanted them gone, and certainly will not fill.

    One the broker has filled, or of which nobody can say, is left to the next turn. One that is not placed and was
    never seen has not left.
    """
    found = [(order, placed) for order, placed in book.working_orders(deployment.id) if order.run_id]
    begun = [(order, placed) for order, placed in found if order.intended_at <= asked.get(order.symbol, 0)]
    if not begun:
        return set()
    booked = _booked_now(book, tape, deployment, seq=book.head(deployment.id), now=now)
    gone = set()
    for order, placed in begun:
        status = broker.cancel(order.client_id, booked).status
        if status in ("cancelled", "rejected") or (status == "never seen" and not placed):
            gone.add(order.client_id)
    return gone


def _cancel_events(order: Order, now: int) -> list[msgspec.Struct]:
    # A run has one order (R13_ONE_ORDER), so it ends with it.
    return [OrderEnded(OrderEnd(order.client_id, now, "cancelled", "flattened")), RunEnded(order.run_id, "done")]


_MAX_DETAIL_CHARS = 300


def execute_orders(rooms: Rooms, deployment: Deployment) -> None:
    """Places every intended order of a deployment that the broker does not have yet, or says why not."""
    if rooms.book.flatten_due(deployment.id):
        flatten_symbols(rooms, deployment)
    # Read behind the head, so that whoever else places them is noticed.
    seq = rooms.book.head(deployment.id)
    found = rooms.book.working_orders(deployment.id, seq=seq)
    if not found:
        return
    working = [order for order, placed in found if placed]
    intended = [order for order, placed in found if not placed]
    if not intended:
        return
    book, tape, broker = rooms.book, rooms.tape, rooms.broker(deployment.agent.broker)
    booked = _booked_now(book, tape, deployment, seq=seq, now=rooms.clock.now())
    bodies: list[msgspec.Struct] = []
    for order in intended:
        state = broker.order_state(order.client_id, booked)
        if state.status == "never seen":
            now = rooms.clock.now()
            verdict = _gate_verdict(book, tape, deployment, order=order, others=working, seq=seq, now=now)
            if not verdict.allowed:
                status: RunStatus = "expired" if verdict.rule == "R17_EXPIRED" else "rejected"
                why = f"{verdict.rule}{AT_SEND}{verdict.detail}"
                bodies += _order_end_events(book, order, why, status=status, now=now)
                continue
            state = broker.place(order)
        bodies += _broker_answer_events(book, deployment, order, state=state, now=rooms.clock.now())
        if state.status != "rejected":
            # One that may have left counts against the caps as if it had.
            working.append(order)
    if bodies:
        now = rooms.clock.now()
        rooms.book.append(deployment.id, [draft_event(now, body) for body in bodies], expected_seq=seq)


def _broker_answer_events(
    book: Book, deployment: Deployment, order: Order, *, state: OrderState, now: int
) -> list[msgspec.Struct]:
    """What is written of a broker's answer."""
    if state.has_arrived:
        return [OrderPlaced(order.client_id)]
    why = short_line(state.detail, _MAX_DETAIL_CHARS) or "it gave no reason"
    if state.status == "rejected":
        return _order_end_events(book, order, f"the broker refused it: {why}", status="rejected", now=now)
    doubt = f"whether the broker has it is not known, it is asked at every turn: {why}"
    known = {each.order.client_id: each.detail for each in book.unanswered_orders(deployment.id)}
    # Written once, not at every turn that asks in vain.
    return [] if known.get(order.client_id) else [OrderUnanswered(order.client_id, doubt)]


def _gate_verdict(
    book: Book, tape: Tape, deployment: Deployment, *, order: Order, others: list[Order], seq: int, now: int
) -> Verdict:
    limits = limits_at_send(book, tape, deployment, order=order, others=others, seq=seq, now=now)
    decided = tape.last_price(order.symbol, view=View(order.intended_at))
    return gate_order(
        order,
        limits,
        decided_mark_e8=None if decided is None else decided.price_e8,
        most_ms=deployment.agent.cadence_ms,
    )


def _order_end_events(book: Book, order: Order, why: str, *, status: RunStatus, now: int) -> list[msgspec.Struct]:
    """An order that will never work, and the end of its run if it was the last of it."""
    end = OrderEnd(order.client_id, now, "rejected", why)
    last = bool(order.run_id) and book.open_order_count(order.run_id) == 1
    return [OrderEnded(end), RunEnded(order.run_id, status)] if last else [OrderEnded(end)]
