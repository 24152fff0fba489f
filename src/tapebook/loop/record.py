"""Writes a decision and the orders it intends, in one transaction, before anything leaves.

Packet, reply and what a model reasoned beside it are kept in the archive, or in the spool until it can be written
again. When neither can be written the run has no key: the packet is what replay makes, and a model's reply is in the
book already (`loop.replies`).

The orders of a dry run are written as what they are and have ended with that: nobody ever finds one to send.
"""

from tapebook.book.events import OrderDryRun, OrderIntended, RunDecided, draft
from tapebook.book.orders import orders_for
from tapebook.book.runs import status_of
from tapebook.decision import Limits
from tapebook.domain.agent import Mode
from tapebook.domain.money import E6, decimal_text, notional_usd_e6, short_price
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, RunStatus
from tapebook.loop.decide import Decision
from tapebook.loop.experience import sighting
from tapebook.loop.optional_reads import OptionalReads, log_causes, safe_causes
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms


def record(rooms: Rooms, opened: Opened, decision: Decision, limits: Limits) -> DecisionRun:
    """The run as it is stored from now on; StaleWriter if the account moved since it was judged."""
    orders, agent = _orders(opened, decision, limits), opened.slot.deployment.agent
    optional = OptionalReads(causes=opened.causes)
    seen = None
    if agent.mode == "trade" and orders and not all(order.reduce_only for order in orders):
        # Without it the outcome teaches less; the order is worth more than that.
        seen = optional.read("sighting", None, sighting, opened.slot.run_id(), opened.situation)
    run = _run(rooms, opened, decision, orders=len(orders), optional=optional)
    written = [_dry_run(order, limits) if agent.mode == "dry_run" else OrderIntended(order) for order in orders]
    drafts = [draft(run.as_of, RunDecided(run)), *[draft(limits.at, body) for body in written]]
    if seen is not None:
        drafts.append(seen)
    rooms.book.append(run.deployment, drafts, expected_seq=limits.seq)
    if run.degraded_causes:
        log_causes(f"{run.deployment}, run {run.run_id}", run.degraded_causes)
    return run


def texts_of(packet: Packet, reply: str, reasoning: str) -> list[bytes]:
    """What is kept of a decision in the archive: what the engine was sent, its reply, and what it said beside it."""
    texts = [f"{packet.system}\n\n{packet.text}", reply, *filter(None, [reasoning])]
    return [text.encode(errors="backslashreplace") for text in texts]


def _orders(opened: Opened, decision: Decision, limits: Limits) -> list[Order]:
    # Most decisions are to hold, which asks for nothing.
    if opened.slot.trigger == "shadow" or all([action.action == "hold" for action in decision.actions]):
        return []
    judged = list(zip(decision.actions, decision.verdicts, strict=True))
    return orders_for(opened.slot.run_id(), judged, held=limits.held, mark_e8=limits.mark_e8, at=limits.at)


def _dry_run(order: Order, limits: Limits) -> OrderDryRun:
    """All there ever is of an order that is not sent: nothing is left to place, to ask for or to follow."""
    # An action comes to an order only where there is a mark.
    mark = limits.mark_e8 or 0
    worth, cash = notional_usd_e6(order.size_e8, mark), limits.portfolio.cash_usd_e6
    detail = f"dry run, never sent: {decimal_text(worth, E6, 2)} USD at the mark of {short_price(mark)}"
    return OrderDryRun(order, mark, -worth if order.side == "buy" else worth, cash, detail)


def _run(
    rooms: Rooms, opened: Opened, decision: Decision, *, orders: int, optional: OptionalReads
) -> DecisionRun:
    slot, situation, packet = opened.slot, opened.situation, opened.packet
    deployment, agent = slot.deployment, slot.deployment.agent
    packet_key, reply_key, reason_key = None, None, None
    if rooms.config.archive.packets:
        kept = rooms.archive.keep_all(texts_of(packet, decision.reply, decision.reasoning))
        packet_key, reply_key, reason_key = (*(each.key for each in kept), None)[:3]
        # One is enough: both fail for the same reason.
        for problem in [each.problem for each in kept if each.problem is not None][:1]:
            optional.add_cause("archive", problem)
    return DecisionRun(
        run_id=slot.run_id(),
        owner=deployment.owner,
        deployment=deployment.id,
        agent=agent.name,
        agent_version=deployment.version,
        symbol=slot.symbol,
        scheduled_for=slot.scheduled_for,
        trigger=slot.trigger,
        branch=slot.branch,
        as_of=situation.as_of,
        watermarks=situation.watermarks,
        renderer=packet.renderer,
        inputs_sha256=packet.inputs_sha256,
        packet_sha256=packet.sha256,
        tokens=packet.tokens,
        engine=agent.engine or rooms.config.engine.default,
        packet_key=packet_key,
        reply_key=reply_key,
        status=_status(decision, orders, agent.mode),
        actions=decision.actions,
        verdicts=decision.verdicts,
        degraded=situation.degraded,
        note=decision.note,
        error=decision.error,
        votes=decision.votes,
        usage=decision.usage,
        reason_key=reason_key,
        degraded_causes=safe_causes(rooms, optional.causes) if optional.causes else (),
    )


def _status(decision: Decision, orders: int, mode: Mode) -> RunStatus:
    if decision.failed:
        return "failed"
    # Nothing of a dry run is under way once it is written.
    return "done" if orders and mode == "dry_run" else status_of(decision.verdicts, orders=orders, error=decision.error)
