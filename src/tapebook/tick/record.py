"""Writes a decision and the orders it intends, in one transaction, before anything leaves.

Packet, reply and a model's reasoning go to the archive, or to the spool until it can be written again. When neither
can be written the run has no key: replay makes the packet again, and a model's reply is in the book already
(`tick.decide.store_answer`).

The orders of a dry run are written as such and have ended with that: nobody ever finds one to send.

Runs that never got a packet are recorded too, not dropped (`record_unmade_runs`): a slot that expired, or one that
could not be prepared.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from tapebook.book.events import (
    OrderDryRun,
    OrderIntended,
    RunDecided,
    draft_event,
    late_event,
    orders_for_actions,
    run_status,
)
from tapebook.decision import Limits
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun, RunStatus
from tapebook.domain.units import E6, decimal_text, iso_text, notional_usd_e6, short_price
from tapebook.log import Draft
from tapebook.tape.view import View
from tapebook.tick.decide import Decision, PreparedDecision, Slot
from tapebook.tick.memory import moment_drafts
from tapebook.tick.prepare import OptionalReads, log_causes, safe_causes, watermarks_now
from tapebook.tick.quotes import TapeQuotes
from tapebook.tick.trust import slot_mark
from tapebook.wiring import Rooms


def record_decision(rooms: Rooms, opened: PreparedDecision, decision: Decision, limits: Limits) -> DecisionRun:
    """The run as it is stored from now on; StaleWriter if the account moved since it was judged."""
    orders, agent = _intended_orders(rooms, opened, decision, limits), opened.slot.deployment.agent
    optional = OptionalReads(causes=opened.causes)
    seen: list[Draft] = []
    if opened.slot.learns and opened.slot.branch == "main":
        opens = agent.mode == "trade" and bool(orders) and not all(order.reduce_only for order in orders)
        # Without it less is learned; the order is worth more than that.
        seen = optional.read_or_default(
            "sighting", [], moment_drafts, rooms, opened.run_id, opened.situation, opens=opens, seq=limits.seq
        )
    run = _decision_run(rooms, opened, decision, orders=len(orders), optional=optional)
    decided: Draft
    if opened.written is not None:
        decided = draft_event(run.as_of, RunDecided(run))
    else:
        decided = late_event(run.as_of, RunDecided(run), lambda body: RunDecided(_with_packet(body.run, opened.packet)))
    drafts = [decided]
    for order in orders:
        body = _dry_run_event(order, limits) if agent.mode == "dry_run" else OrderIntended(order)
        drafts.append(draft_event(limits.at, body))
    appended = rooms.book.append(run.deployment, drafts + seen, expected_seq=limits.seq)
    rooms.experience.twins.add_run(run, after=limits.seq, seq=appended[-1].seq)
    if run.degraded_causes:
        log_causes(run.degraded_causes, deployment=run.deployment, symbol=run.symbol, run=run.run_id)
    return run


def archived_texts(packet: Packet, reply: str, reasoning: str) -> list[bytes]:
    """What is kept of a decision in the archive: what the engine was sent, its reply, and what it said beside it."""
    asked = f"{packet.system}\n\n{packet.text}".encode(errors="backslashreplace")
    texts = [asked, reply.encode(errors="backslashreplace")]
    return [*texts, reasoning.encode(errors="backslashreplace")] if reasoning else texts


def _intended_orders(rooms: Rooms, opened: PreparedDecision, decision: Decision, limits: Limits) -> list[Order]:
    slot, judged = opened.slot, list(zip(decision.actions, decision.verdicts, strict=True))
    for action in decision.actions:
        if action.action != "hold" and slot.trigger != "shadow":
            break
    else:
        # Most decisions are to hold, which asks for nothing.
        return []
    listing = TapeQuotes(rooms.tape, View(limits.at)).listing(slot.symbol, at=limits.at)
    increments = rooms.broker(slot.deployment.agent.broker).increments(slot.symbol, listing)
    return orders_for_actions(
        opened.run_id, judged, held=limits.position, mark_e8=limits.mark_e8, at=limits.at, increments=increments
    )


def _dry_run_event(order: Order, limits: Limits) -> OrderDryRun:
    """All there ever is of an order that is not sent: nothing is left to place, to ask for or to follow."""
    # An action comes to an order only where there is a mark.
    mark = limits.mark_e8 or 0
    worth, cash = notional_usd_e6(order.size_e8, mark), limits.portfolio.cash_usd_e6
    detail = f"dry run, never sent: {decimal_text(worth, E6, 2)} USD at the mark of {short_price(mark)}"
    return OrderDryRun(order, mark, -worth if order.side == "buy" else worth, cash, detail)


def _decision_run(
    rooms: Rooms, opened: PreparedDecision, decision: Decision, *, orders: int, optional: OptionalReads
) -> DecisionRun:
    slot, situation, packet = opened.slot, opened.situation, opened.written
    deployment, agent, market = slot.deployment, slot.deployment.agent, situation.market
    keys: list[str | None] = [None, None, None]
    if rooms.config.archive.packets:
        problem, texts = None, archived_texts(opened.packet, decision.reply, decision.reasoning)
        for place, each in enumerate(rooms.archive.store_contents(texts)):
            keys[place], problem = each.key, problem or each.problem
        # One is enough: all fail for the same reason.
        if problem is not None:
            optional.add_cause("archive", problem)
    # What values the twins of those who voted; nothing where no price is known, or nothing is learned.
    learns = decision.votes and slot.learns and slot.branch == "main" and market.mid is not None
    mark = slot_mark(market, agent.experience, cost_ppm=situation.cost_ppm) if learns else None
    if decision.failed:
        status: RunStatus = "failed"
    else:
        # Nothing of a dry run is under way once it is written.
        dry = orders and agent.mode == "dry_run"
        status = "done" if dry else run_status(decision.verdicts, orders=orders, error=decision.error)
    return DecisionRun(
        run_id=opened.run_id,
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
        renderer=situation.renderer,
        inputs_sha256=packet.inputs_sha256 if packet else "",
        packet_sha256=packet.sha256 if packet else "",
        tokens=packet.tokens if packet else 0,
        engine=agent.engine or rooms.config.engine.default,
        packet_key=keys[0],
        reply_key=keys[1],
        status=status,
        actions=decision.actions,
        verdicts=decision.verdicts,
        degraded=situation.degraded,
        note=decision.note,
        error=decision.error,
        votes=decision.votes,
        usage=decision.usage,
        reason_key=keys[2],
        degraded_causes=safe_causes(rooms, optional.causes) if optional.causes else (),
        mark=msgspec.UNSET if mark is None else mark,
    )


def _with_packet(run: DecisionRun, packet: Packet) -> DecisionRun:
    return msgspec.structs.replace(
        run, inputs_sha256=packet.inputs_sha256, packet_sha256=packet.sha256, tokens=packet.tokens
    )


_MAX_ERROR_CHARS = 500


def record_unmade_runs(
    rooms: Rooms, slots: Sequence[Slot], *, status: Literal["expired", "failed"], error: str
) -> None:
    """Records decisions of one deployment that will not be made, and why; nothing to record writes nothing.

    After a long absence not every slot that passed has a run of its own: the one before them says how many did.
    """
    if not slots:
        return
    deployment, now = slots[0].deployment, rooms.clock.now()
    known = watermarks_now(rooms, deployment)
    skipped = _skipped_slot_notes(rooms, slots) if status == "expired" else {}
    runs = [
        DecisionRun(
            run_id=slot.run_id(),
            owner=deployment.owner,
            deployment=deployment.id,
            agent=deployment.agent.name,
            agent_version=deployment.version,
            symbol=slot.symbol,
            scheduled_for=slot.scheduled_for,
            trigger=slot.trigger,
            branch=slot.branch,
            as_of=now,
            watermarks=known,
            renderer=0,
            inputs_sha256="",
            packet_sha256="",
            tokens=0,
            engine=deployment.agent.engine or rooms.config.engine.default,
            packet_key=None,
            reply_key=None,
            status=status,
            actions=(),
            verdicts=(),
            error=f"{error}{skipped.get(slot.run_id(), '')}"[:_MAX_ERROR_CHARS],
        )
        for slot in slots
    ]
    rooms.book.append(deployment.id, [draft_event(now, RunDecided(run)) for run in runs], expected_seq=known.book)


def _skipped_slot_notes(rooms: Rooms, slots: Sequence[Slot]) -> dict[str, str]:
    """What is said of slots, by their run, after which others of the pair passed that are not listed one by one."""
    notes: dict[str, str] = {}
    by_pair: dict[tuple[str, str], list[Slot]] = {}
    for slot in slots:
        by_pair.setdefault((slot.symbol, slot.branch), []).append(slot)
    for pair in by_pair.values():
        ordered = sorted(pair, key=lambda slot: slot.scheduled_for)
        for slot, following in pairwise(ordered):
            step = slot.deployment.agent.cadence_ms
            between = range(slot.scheduled_for + step, following.scheduled_for, step)
            ends = [msgspec.structs.replace(slot, scheduled_for=at) for at in (*between[:1], *between[-1:])]
            # Slots that were decided in their time lie between two late ones as well.
            if between and not any(rooms.book.has_run(each.run_id()) for each in ends):
                notes[slot.run_id()] = (
                    f"; the next {len(between):,} slots passed as well, until {iso_text(between[-1])}"
                )
    return notes
