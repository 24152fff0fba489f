"""Hands intended orders to the broker, each through a second gate on fresh data.

An order that is in the book but not placed is placed now, whoever intended it and whenever: that
is all a restart after a kill has to do. The client id makes a second handing-over harmless.
"""

import msgspec

from tapebook.book.events import OrderEnded, OrderPlaced, RunEnded, draft
from tapebook.decision import too_old
from tapebook.domain.agent import Deployment
from tapebook.domain.market import Mid
from tapebook.domain.order import Order, OrderEnd
from tapebook.tape.store import View
from tapebook.wiring import Rooms


def execute(rooms: Rooms, deployment: Deployment) -> None:
    """Places every intended order of a deployment that the broker does not have yet."""
    seq = rooms.book.head(deployment.id)
    waiting = [order for order, placed in rooms.book.working_orders(deployment.id) if not placed]
    if not waiting:
        return
    now = rooms.clock.now()
    bodies = [body for order in waiting for body in _place(rooms, deployment, order, now)]
    rooms.book.append(deployment.id, [draft(now, body) for body in bodies], expected_seq=seq)


def _place(rooms: Rooms, deployment: Deployment, order: Order, now: int) -> list[msgspec.Struct]:
    newest = rooms.tape.newest(Mid, order.symbol, view=View(now))
    age = None if newest is None else now - newest.bucket_ts
    objection = too_old(age, deployment.agent.caps)
    if objection:
        refused = OrderEnd(order.client_id, now, "rejected", f"R7_STALE_DATA at send: {objection}")
        ended: list[msgspec.Struct] = [OrderEnded(refused)]
        return ended + ([RunEnded(order.run_id, "done")] if rooms.book.open_orders_of(order.run_id) == 1 else [])
    rooms.broker(deployment.agent.broker).place(order)
    return [OrderPlaced(order.client_id)]
