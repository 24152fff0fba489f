"""Hands intended orders to the broker, each through a second gate on fresh data.

An order that is in the book and not placed may have left all the same: its process was killed before it could write
that, or the broker's answer was lost. So the broker is asked for its client id before anything is concluded
(`execute`):

1. it has the order: that is written, and nothing is sent;
2. it refused the order: order and run end as rejected;
3. it has never seen it: the order goes through the gate and is placed, under the same client id as ever;
4. nobody can say: the order stays intended, the book says why (`OrderUnanswered`), and the next turn asks again.

What the desk wants flat comes first, so that it is done by whoever works on the deployment.
"""

import msgspec

from tapebook.book.activity import AT_SEND
from tapebook.book.events import OrderEnded, OrderPlaced, OrderUnanswered, RunEnded, draft
from tapebook.broker import OrderState
from tapebook.decision import gate
from tapebook.domain.agent import Deployment
from tapebook.domain.order import Order, OrderEnd
from tapebook.domain.run import RunStatus, Verdict
from tapebook.domain.text import short_line
from tapebook.loop.flatten import flatten_if_due
from tapebook.loop.limits import limits_at_send
from tapebook.tape.store import View
from tapebook.wiring import Rooms

_MOST_DETAIL = 300


def execute(rooms: Rooms, deployment: Deployment) -> None:
    """Places every intended order of a deployment that the broker does not have yet, or says why not."""
    flatten_if_due(rooms, deployment)
    if not rooms.book.working_orders(deployment.id):
        return
    # Read behind the head, so that whoever else places them is noticed.
    seq, found = rooms.book.head(deployment.id), rooms.book.working_orders(deployment.id)
    working = [order for order, placed in found if placed]
    broker = rooms.broker(deployment.agent.broker)
    bodies: list[msgspec.Struct] = []
    for order in (order for order, placed in found if not placed):
        state = broker.order_state(order.client_id)
        if state.status == "never seen":
            verdict = _gated(rooms, deployment, order, others=working, seq=seq)
            if not verdict.allowed:
                bodies += _refused(rooms, order, verdict)
                continue
            state = broker.place(order)
        bodies += _answered(rooms, deployment, order, state)
        if state.status != "rejected":
            # One that may have left counts against the caps as if it had.
            working.append(order)
    if bodies:
        now = rooms.clock.now()
        rooms.book.append(deployment.id, [draft(now, body) for body in bodies], expected_seq=seq)


def _answered(rooms: Rooms, deployment: Deployment, order: Order, state: OrderState) -> list[msgspec.Struct]:
    """What is written of a broker's answer."""
    if state.status == "placed":
        return [OrderPlaced(order.client_id)]
    why = short_line(state.detail, _MOST_DETAIL) or "it gave no reason"
    if state.status == "rejected":
        return _ended(rooms, order, f"the broker refused it: {why}", "rejected")
    doubt = f"whether the broker has it is not known, it is asked at every turn: {why}"
    known = {each.order.client_id: each.detail for each in rooms.book.unanswered_orders(deployment.id)}
    # Written once, not at every turn that asks in vain.
    return [] if known.get(order.client_id) else [OrderUnanswered(order.client_id, doubt)]


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
    status: RunStatus = "expired" if verdict.rule == "R17_EXPIRED" else "rejected"
    return _ended(rooms, order, f"{verdict.rule}{AT_SEND}{verdict.detail}", status)


def _ended(rooms: Rooms, order: Order, why: str, status: RunStatus) -> list[msgspec.Struct]:
    """An order that will never work, and the end of its run if it was the last of it."""
    end = OrderEnd(order.client_id, rooms.clock.now(), "rejected", why)
    last = bool(order.run_id) and rooms.book.open_orders_of(order.run_id) == 1
    return [OrderEnded(end), RunEnded(order.run_id, status)] if last else [OrderEnded(end)]
