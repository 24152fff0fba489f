"""Carries out the wish to be flat, in one symbol or in all: what had begun when it was uttered is cancelled or closed.

The wish is an event of the owner; whoever works on a deployment finds it there and acts, so it
needs no hold on a running desk. It is done when nothing of before it is left, so a close that found
no price is tried again and a second call finds nothing to do.
"""

import msgspec

from tapebook.book.events import OrderEnded, OrderIntended, RunEnded, draft
from tapebook.book.orders import flattening
from tapebook.domain.agent import Deployment
from tapebook.domain.order import Order, OrderEnd
from tapebook.loop.reconcile import reconcile
from tapebook.wiring import Rooms


def flatten_if_due(rooms: Rooms, deployment: Deployment) -> None:
    """Cancels orders and intends closes, if somebody wants symbols of this deployment flat and they are not."""
    if not rooms.book.flatten_due(deployment.id):
        return
    # What was filled by now is a position, not an order that could be cancelled.
    reconcile(rooms, deployment)
    asked = rooms.book.flatten_due(deployment.id)
    if not asked:
        return
    seq, now = rooms.book.head(deployment.id), rooms.clock.now()
    found = rooms.book.working_orders(deployment.id)
    bodies: list[msgspec.Struct] = []
    for order, placed in found:
        began = bool(order.run_id) and order.intended_at <= asked.get(order.symbol, 0)
        if began and (placed or _is_here(rooms, deployment, order)):
            bodies += _cancelled(order, now)
    closing = {order.symbol for order, _ in found if not order.run_id}
    account = rooms.book.account(deployment.id, seq=seq)
    stream = f"{deployment.owner}/{deployment.id}"
    for symbol, trade in sorted(account.open_trades.items()):
        if trade.entry_tick_at <= asked.get(symbol, 0) and symbol not in closing:
            bodies.append(OrderIntended(flattening(stream, account.portfolio.positions[symbol], at=now)))
    if bodies:
        rooms.book.append(deployment.id, [draft(now, body) for body in bodies], expected_seq=seq)


def _is_here(rooms: Rooms, deployment: Deployment, order: Order) -> bool:
    """Whether an order that is not placed has certainly not left; one that may have is asked for first (`execute`)."""
    state = rooms.broker(deployment.agent.broker).order_state(order.client_id)
    return state.status in ("never seen", "rejected")


def _cancelled(order: Order, now: int) -> list[msgspec.Struct]:
    # A run has one order (R13_ONE_ORDER), so it ends with it.
    return [OrderEnded(OrderEnd(order.client_id, now, "cancelled", "flattened")), RunEnded(order.run_id, "done")]
