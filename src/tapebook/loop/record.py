"""Writes a decision and the orders it intends, in one transaction, before anything leaves."""

import msgspec

from tapebook.archive import put_content
from tapebook.book.events import OrderIntended, RunDecided, draft
from tapebook.book.orders import orders_for
from tapebook.book.runs import status_of
from tapebook.context import Situation
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, Trigger
from tapebook.loop.decide import Decision
from tapebook.wiring import Rooms


def record(
    rooms: Rooms,
    situation: Situation,
    packet: Packet,
    decision: Decision,
    *,
    run_id: str,
    scheduled_for: int,
    trigger: Trigger,
    branch: str,
) -> DecisionRun:
    """The run as it is stored from now on."""
    orders = _orders(run_id, situation, decision)
    run = DecisionRun(
        run_id=run_id,
        owner=rooms.book.owner,
        deployment=situation.deployment.id,
        agent=situation.deployment.agent.name,
        agent_version=situation.deployment.version,
        symbol=situation.symbol,
        scheduled_for=scheduled_for,
        trigger=trigger,
        branch=branch,
        as_of=situation.as_of,
        watermarks=situation.watermarks,
        renderer=packet.renderer,
        inputs_sha256=packet.inputs_sha256,
        packet_sha256=packet.sha256,
        tokens=packet.tokens,
        engine=situation.deployment.agent.engine or rooms.config.engine.default,
        packet_key=_keep(rooms, f"{packet.system}\n\n{packet.text}"),
        reply_key=_keep(rooms, decision.reply),
        status=status_of(decision.actions, decision.verdicts, orders=len(orders), error=decision.error),
        actions=decision.actions,
        verdicts=decision.verdicts,
        degraded=situation.degraded,
        note=decision.note,
        error=decision.error,
    )
    bodies: list[msgspec.Struct] = [RunDecided(run), *(OrderIntended(order) for order in orders)]
    drafts = [draft(situation.as_of, body) for body in bodies]
    rooms.book.append(situation.deployment.id, drafts, expected_seq=situation.watermarks.book)
    return run


def _orders(run_id: str, situation: Situation, decision: Decision) -> list[Order]:
    judged = list(zip(decision.actions, decision.verdicts, strict=True))
    held = situation.portfolio.positions.get(situation.symbol)
    mark = situation.mid.price_e8 if situation.mid else None
    return orders_for(run_id, judged, held=held, mark_e8=mark, at=situation.as_of)


def _keep(rooms: Rooms, text: str) -> str | None:
    return put_content(rooms.archive, text.encode(errors="backslashreplace")) if rooms.config.archive.packets else None
