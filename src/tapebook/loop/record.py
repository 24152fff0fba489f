"""Writes a decision and the orders it intends, in one transaction, before anything leaves."""

from tapebook.archive import put_content
from tapebook.book.events import OrderIntended, RunDecided, draft
from tapebook.book.orders import orders_for
from tapebook.book.runs import status_of
from tapebook.decision import Limits
from tapebook.domain.order import Order
from tapebook.domain.run import DecisionRun, RunStatus
from tapebook.loop.decide import Decision
from tapebook.loop.experience import sighting
from tapebook.loop.slot import Opened
from tapebook.wiring import Rooms


def record(rooms: Rooms, opened: Opened, decision: Decision, limits: Limits) -> DecisionRun:
    """The run as it is stored from now on; StaleWriter if the account moved since it was judged."""
    orders = _orders(opened, decision, limits)
    run = _run(rooms, opened, decision, orders=len(orders))
    drafts = [draft(run.as_of, RunDecided(run))]
    if orders:
        drafts += [draft(limits.at, OrderIntended(order)) for order in orders]
        if not all(order.reduce_only for order in orders):
            drafts.append(sighting(run.run_id, opened.situation))
    rooms.book.append(run.deployment, drafts, expected_seq=limits.seq)
    return run


def _orders(opened: Opened, decision: Decision, limits: Limits) -> list[Order]:
    # Most decisions are to hold, which asks for nothing.
    if opened.slot.trigger == "shadow" or all([action.action == "hold" for action in decision.actions]):
        return []
    judged = list(zip(decision.actions, decision.verdicts, strict=True))
    return orders_for(opened.slot.run_id(), judged, held=limits.held, mark_e8=limits.mark_e8, at=limits.at)


def _run(rooms: Rooms, opened: Opened, decision: Decision, *, orders: int) -> DecisionRun:
    slot, situation, packet = opened.slot, opened.situation, opened.packet
    deployment, agent = slot.deployment, slot.deployment.agent
    packet_key, reply_key = _kept(rooms, opened, decision) if rooms.config.archive.packets else (None, None)
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
    )


def _status(decision: Decision, orders: int) -> RunStatus:
    if decision.failed:
        return "failed"
    return status_of(decision.verdicts, orders=orders, error=decision.error)


def _kept(rooms: Rooms, opened: Opened, decision: Decision) -> tuple[str, str]:
    """Where the archive has the packet and the reply from now on."""
    asked = f"{opened.packet.system}\n\n{opened.packet.text}"
    packet, reply = [put_content(rooms.archive, t.encode(errors="backslashreplace")) for t in (asked, decision.reply)]
    return packet, reply
