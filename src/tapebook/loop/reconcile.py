"""Books what the broker says, in one transaction (`reconcile`).

1. the account and its working orders are read; with neither positions nor orders that is all;
2. the broker says what happened up to now (`_standing` is what it is told);
3. fills, funding, insurance and ends of orders go one by one through ledger and materializer (`_settle`), a fill with
   the prices observed of what it changes since that was last valued (`price_path`);
4. what is still held is valued, once per moment (`_marked`): equity by the marks, extremes by the prices observed up to
   now, and how far margin was checked.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tapebook.book.events import OrderEnded, RunEnded, draft
from tapebook.book.settle import Account, Cause, settle_fill, settle_funding, settle_insurance, settle_marks
from tapebook.book.store import Snapshot
from tapebook.broker import Account as Standing
from tapebook.broker import Exposure
from tapebook.domain.agent import Deployment
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, InsurancePayment, Order
from tapebook.lessons import NO_LESSONS
from tapebook.log import Draft
from tapebook.loop.gather import not_later, regime
from tapebook.loop.optional_reads import OptionalReads, log_causes, safe_causes
from tapebook.loop.price_path import PricePath
from tapebook.loop.quotes import TapeQuotes, marks_of
from tapebook.loop.skills import lessons_of
from tapebook.tape.store import View
from tapebook.wiring import Rooms

Bodies = list[msgspec.Struct]


def reconcile(rooms: Rooms, deployment: Deployment) -> None:
    """Catches up with the broker to this moment; asked again at the same moment it writes nothing."""
    seq = rooms.book.head(deployment.id)
    found = rooms.book.working_orders(deployment.id)
    orders = [order for order, placed in found if placed] if found else []
    account = rooms.book.account(deployment.id, seq=seq)
    if not orders and not account.portfolio.positions:
        return
    now, newest = rooms.clock.now(), rooms.book.newest_snapshot(deployment.id, seq=seq)
    if newest is not None and newest.happened_at > now:
        # The clock was ahead: what it has dated counts as of now, and everything is followed from here.
        account, newest = not_later(account, now), _not_later_than(newest, now)
        orders = [msgspec.structs.replace(order, intended_at=min(order.intended_at, now)) for order in orders]
    quotes = TapeQuotes(rooms.tape, View(now))
    broker = rooms.broker(deployment.agent.broker)
    said = broker.activity(_standing(account, deployment, newest), orders, quotes=quotes, until=now)
    path = PricePath(quotes, now=now, valued_at=newest.happened_at if newest else 0)
    drafts: list[Draft] = []
    if said.events:
        account, drafts = _settled(rooms, deployment, account, said.events, orders=orders, path=path)
    if drafts or newest is None or newest.happened_at < now or newest.walked_until < said.walked_until:
        marked = _marked(account, deployment, newest, quotes=quotes, path=path, at=now, walked_until=said.walked_until)
        drafts += [draft(now, body) for body in marked]
    if drafts:
        rooms.book.append(deployment.id, drafts, expected_seq=seq)


def _not_later_than(newest: Snapshot, now: int) -> Snapshot:
    # One millisecond before, so that what is held is valued at this moment as well.
    return msgspec.structs.replace(newest, happened_at=now - 1, walked_until=min(newest.walked_until, now))


def _standing(account: Account, deployment: Deployment, newest: Snapshot | None) -> Standing:
    """The account as a broker must know it."""
    exposures = []
    for symbol, held in sorted(account.portfolio.positions.items()):
        trade = account.open_trades[symbol]
        # Positions from before a move was noted have moved at their entry, as far as anybody knows.
        since = held if held.moved_at else msgspec.structs.replace(held, moved_at=trade.entry_tick_at)
        exposures.append(Exposure(since, trade.funded_until))
    walked = newest.walked_until if newest else 0
    return Standing(account.portfolio.cash_usd_e6, tuple(exposures), deployment.agent.margin, walked)


def _settled(
    rooms: Rooms,
    deployment: Deployment,
    account: Account,
    events: Sequence[BrokerEvent],
    *,
    orders: Iterable[Order],
    path: PricePath,
) -> tuple[Account, list[Draft]]:
    """The account after all that happened, and what is to be written of it."""
    working = {order.client_id: order for order in orders}
    drafts: list[Draft] = []
    for event in events:
        account, bodies = _settle(rooms, deployment, account, event, working=working, path=path)
        drafts += [draft(event.happened_at, body) for body in bodies]
    return account, drafts


def _settle(
    rooms: Rooms,
    deployment: Deployment,
    account: Account,
    event: BrokerEvent,
    *,
    working: dict[str, Order],
    path: PricePath,
) -> tuple[Account, Bodies]:
    if isinstance(event, Fill):
        mark = TapeQuotes(rooms.tape, View(rooms.clock.now())).mark_e8(event.symbol, at=event.happened_at)
        order = working[event.client_id] if event.client_id else None
        cause, seen = _fill_cause(rooms, deployment, event, order), path.before(event, account)
        return settle_fill(account, event, cause, mark_e8=mark, path=seen)
    if isinstance(event, FundingPayment):
        return settle_funding(account, event, _cause(deployment))
    if isinstance(event, InsurancePayment):
        return settle_insurance(account, event)
    run = working.pop(event.client_id).run_id
    ended: Bodies = [OrderEnded(event)]
    going_on = not run or any(order.run_id == run for order in working.values())
    return account, ended if going_on else [*ended, RunEnded(run, "rejected" if event.status == "rejected" else "done")]


def _marked(
    account: Account,
    deployment: Deployment,
    newest: Snapshot | None,
    *,
    quotes: TapeQuotes,
    path: PricePath,
    at: int,
    walked_until: int,
) -> Bodies:
    """The value of what is held; nothing held needs none."""
    held = account.portfolio.positions
    if not held:
        return []
    marks = marks_of(quotes, held.values(), at=at, before=newest.marks if newest else None)
    seen = path.until_now(account)
    return settle_marks(account, marks, _cause(deployment), path=seen, at=at, walked_until=walked_until)[1]


def _cause(deployment: Deployment) -> Cause:
    return Cause(deployment.agent.name, deployment.version, stream=deployment.stream)


def _fill_cause(rooms: Rooms, deployment: Deployment, fill: Fill, order: Order | None) -> Cause:
    """The run that placed the order gives the reason; the bars before the fill give the regime."""
    tag = regime(rooms.tape, deployment, fill.symbol, view=View(fill.happened_at))
    cause = msgspec.structs.replace(_cause(deployment), regime=tag)
    if order is None:
        return cause
    if not order.run_id:
        # No decision asked for it: somebody at the desk did.
        return msgspec.structs.replace(cause, leverage=order.leverage, exit_label="external_flatten")
    placed = rooms.book.order_reason(order.client_id)
    if placed is None:
        return msgspec.structs.replace(cause, run_id=order.run_id, leverage=order.leverage)
    _, reason, book_seq = placed
    return msgspec.structs.replace(
        cause,
        run_id=order.run_id,
        reason=reason,
        leverage=order.leverage,
        lessons_hash=_lessons_hash(rooms, deployment, seq=book_seq),
    )


def _lessons_hash(rooms: Rooms, deployment: Deployment, *, seq: int) -> str | None:
    """The hash of what a run was told; unknown when that cannot be read, which must not stop the booking."""
    if not deployment.agent.context.memory:
        return NO_LESSONS
    optional = OptionalReads()
    lessons = optional.read("lessons", None, lessons_of, rooms, deployment, seq=seq)
    if optional.causes:
        log_causes(f"{deployment.id}, a fill of an order as of {seq}", safe_causes(rooms, optional.causes))
    return lessons.content_hash if lessons else None
