"""Writes a decision and the orders it intends, in one transaction, before anything leaves.

Packet and reply are kept in the archive, or in the spool until it can be written again. When neither can be written
the run has no key: the packet is what replay makes, and a model's reply is in the book already (`loop.replies`).
"""

from tapebook.book.events import OrderIntended, RunDecided, draft
from tapebook.book.orders import orders_for
from tapebook.book.runs import status_of
from tapebook.decision import Limits
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
    orders = _orders(opened, decision, limits)
    optional = OptionalReads(causes=opened.causes)
    seen = None
    if orders and not all(order.reduce_only for order in orders):
        # Without it the outcome teaches less; the order is worth more than that.
        seen = optional.read("sighting", None, sighting, opened.slot.run_id(), opened.situation)
    run = _run(rooms, opened, decision, orders=len(orders), optional=optional)
    drafts = [draft(run.as_of, RunDecided(run)), *[draft(limits.at, OrderIntended(order)) for order in orders]]
    if seen is not None:
        drafts.append(seen)
    rooms.book.append(run.deployment, drafts, expected_seq=limits.seq)
    if run.degraded_causes:
        log_causes(f"{run.deployment}, run {run.run_id}", run.degraded_causes)
    return run


def texts_of(packet: Packet, reply: str) -> tuple[bytes, bytes]:
    """What is kept of a decision in the archive: what the engine was sent, and what it answered."""
    asked = f"{packet.system}\n\n{packet.text}"
    return asked.encode(errors="backslashreplace"), reply.encode(errors="backslashreplace")


def _orders(opened: Opened, decision: Decision, limits: Limits) -> list[Order]:
    # Most decisions are to hold, which asks for nothing.
    if opened.slot.trigger == "shadow" or all([action.action == "hold" for action in decision.actions]):
        return []
    judged = list(zip(decision.actions, decision.verdicts, strict=True))
    return orders_for(opened.slot.run_id(), judged, held=limits.held, mark_e8=limits.mark_e8, at=limits.at)


def _run(
    rooms: Rooms, opened: Opened, decision: Decision, *, orders: int, optional: OptionalReads
) -> DecisionRun:
    slot, situation, packet = opened.slot, opened.situation, opened.packet
    deployment, agent = slot.deployment, slot.deployment.agent
    packet_key, reply_key = None, None
    if rooms.config.archive.packets:
        kept = rooms.archive.keep_all(texts_of(packet, decision.reply))
        packet_key, reply_key = (each.key for each in kept)
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
        status=_status(decision, orders),
        actions=decision.actions,
        verdicts=decision.verdicts,
        degraded=situation.degraded,
        note=decision.note,
        error=decision.error,
        votes=decision.votes,
        usage=decision.usage,
        degraded_causes=safe_causes(rooms, optional.causes) if optional.causes else (),
    )


def _status(decision: Decision, orders: int) -> RunStatus:
    if decision.failed:
        return "failed"
    return status_of(decision.verdicts, orders=orders, error=decision.error)
