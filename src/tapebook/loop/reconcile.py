"""Books what the broker says: fills and funding one by one, through ledger and materializer, in one transaction."""

import msgspec

from tapebook.book.events import OrderEnded, RunEnded, draft
from tapebook.book.settle import Account, Cause, settle_fill, settle_funding, settle_marks
from tapebook.broker import Exposure
from tapebook.domain.agent import Deployment
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment
from tapebook.log import Draft
from tapebook.loop.gather import marks, regime
from tapebook.loop.quotes import TapeQuotes
from tapebook.tape.store import View
from tapebook.wiring import Rooms


def reconcile(rooms: Rooms, deployment: Deployment) -> None:
    """Catches up with the broker to this moment; nothing new writes nothing."""
    account = rooms.book.account(deployment.id, seq=rooms.book.head(deployment.id))
    orders = [order for order, placed in rooms.book.working_orders(deployment.id) if placed]
    exposures = [
        Exposure(symbol, held.size_e8, account.open_trades[symbol].funded_until)
        for symbol, held in account.portfolio.positions.items()
    ]
    if not orders and not exposures:
        return
    now = rooms.clock.now()
    broker = rooms.broker(deployment.agent.broker)
    said = broker.activity(orders, exposures, quotes=TapeQuotes(rooms.tape, View(now)), until=now)
    working = {order.client_id: order.run_id for order in orders}
    drafts: list[Draft] = []
    for event in said:
        account, bodies = _settle(rooms, deployment, account, event, working=working)
        drafts += [draft(event.happened_at, body) for body in bodies]
    if drafts:
        rooms.book.append(deployment.id, drafts, expected_seq=account.seq)


def mark_to_market(rooms: Rooms, deployment: Deployment) -> None:
    """Values the open positions at this moment, once per moment."""
    account = rooms.book.account(deployment.id, seq=rooms.book.head(deployment.id))
    now = rooms.clock.now()
    newest = rooms.book.newest_snapshot(deployment.id, seq=account.seq)
    if not account.portfolio.positions or (newest is not None and newest[0] == now):
        return
    seen = marks(rooms.tape, account.portfolio.positions, view=View(now))
    _, bodies = settle_marks(account, seen, _cause(deployment), at=now)
    rooms.book.append(deployment.id, [draft(now, body) for body in bodies], expected_seq=account.seq)


def _settle(
    rooms: Rooms, deployment: Deployment, account: Account, event: BrokerEvent, *, working: dict[str, str]
) -> tuple[Account, list[msgspec.Struct]]:
    if isinstance(event, Fill):
        view = View(rooms.clock.now())
        mark = TapeQuotes(rooms.tape, view).mark_e8(event.symbol, at=event.happened_at)
        return settle_fill(account, event, _fill_cause(rooms, deployment, event), mark_e8=mark)
    if isinstance(event, FundingPayment):
        return settle_funding(account, event, _cause(deployment))
    run = working.pop(event.client_id)
    ended: list[msgspec.Struct] = [OrderEnded(event)]
    return account, ended if run in working.values() else [*ended, RunEnded(run, "done")]


def _cause(deployment: Deployment) -> Cause:
    return Cause(deployment.agent.name, deployment.version)


def _fill_cause(rooms: Rooms, deployment: Deployment, fill: Fill) -> Cause:
    """The run that placed the order gives the reason; the bars before the fill give the regime."""
    placed = rooms.book.order_reason(fill.client_id) if fill.client_id else None
    tag = regime(rooms.tape, deployment, fill.symbol, view=View(fill.happened_at))
    if placed is None:
        return msgspec.structs.replace(_cause(deployment), regime=tag)
    run, reason, leverage = placed
    return Cause(deployment.agent.name, deployment.version, run, reason, leverage, tag)
