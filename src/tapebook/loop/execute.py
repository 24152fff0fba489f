"""Hands intended orders to the broker, each through a second gate on fresh data.

An order that is in the book but not placed is placed now, whoever intended it and whenever: that
is all a restart after a kill has to do. The client id makes a second handing-over harmless. What
the desk wants flat comes first, so that it is done by whoever works on the deployment.
"""

import msgspec

from tapebook.book.activity import AT_SEND
from tapebook.book.events import OrderEnded, OrderPlaced, RunEnded, draft
from tapebook.decision import gate
from tapebook.domain.agent import Deployment
from tapebook.domain.order import Order, OrderEnd
from tapebook.domain.run import RunStatus, Verdict
from tapebook.loop.flatten import flatten_if_due
from tapebook.loop.limits import limits_at_send
from tapebook.tape.store import View
from tapebook.wiring import Rooms


def execute(rooms: Rooms, deployment: Deployment) -> None:
    """Places every intended order of a deployment that the broker does not have yet, or says why not."""
    flatten_if_due(rooms, deployment)
    if not rooms.book.working_orders(deployment.id):
        return
    # Read behind the head, so that whoever else places them is noticed.
    seq, found = rooms.book.head(deployment.id), rooms.book.working_orders(deployment.id)
    working = [order for order, placed in found if placed]
    bodies: list[msgspec.Struct] = []
    for order in (order for order, placed in found if not placed):
        verdict = _gated(rooms, deployment, order, others=working, seq=seq)
        if verdict.allowed:
            rooms.broker(deployment.agent.broker).place(order)
            working.append(order)
        bodies += [OrderPlaced(order.client_id)] if verdict.allowed else _refused(rooms, order, verdict)
    if bodies:
        now = rooms.clock.now()
        rooms.book.append(deployment.id, [draft(now, body) for body in bodies], expected_seq=seq)


def _gated(rooms: Rooms, deployment: Deployment, order: Order, *, others: list[Order], seq: int) -> Verdict:
    limits = limits_at_send(rooms, deployment, order, others=others, seq=seq)
    decided = rooms.tape.last_price(order.symbol, view=View(order.intended_at))
    return gate(
        order,
        limits,
        decided_mark_e8=None if decided is None else decided.price_e8,
        most_ms=deployment.agent.cadence_ms,
    )


def _refused(rooms: Rooms, order: Order, verdict: Verdict) -> list[msgspec.Struct]:
    end = OrderEnd(order.client_id, rooms.clock.now(), "rejected", f"{verdict.rule}{AT_SEND}{verdict.detail}")
    status: RunStatus = "expired" if verdict.rule == "R17_EXPIRED" else "rejected"
    last = rooms.book.open_orders_of(order.run_id) == 1
    return [OrderEnded(end), RunEnded(order.run_id, status)] if last else [OrderEnded(end)]
