"""A second decision beside a real one: the same tick told with another context profile, recorded and never traded.

It knows exactly what the real decision knew: the same moment, the same watermarks. It is made when the real one
is finished, so that a killed process writes the same events in the same order when it comes back.
"""

from collections.abc import Callable

import msgspec

from tapebook.context import assemble
from tapebook.decision import Answer, Limits, move_of
from tapebook.domain.agent import AgentProfile
from tapebook.domain.run import DecisionRun
from tapebook.loop.decide import judged
from tapebook.loop.gather import gather
from tapebook.loop.limits import limits_now
from tapebook.loop.optional_reads import OptionalReads
from tapebook.loop.record import record
from tapebook.loop.replies import keep_answer, kept_answer
from tapebook.loop.slot import Opened, Slot
from tapebook.loop.tick import ask
from tapebook.wiring import Rooms

BRANCH = "shadow"


def shadowed(agent: AgentProfile) -> AgentProfile:
    """The agent as its shadow sees the world; an agent without one stays as it is."""
    return agent if agent.shadow is None else msgspec.structs.replace(agent, context=agent.shadow, shadow=None)


def shadow_slot(slot: Slot) -> Slot | None:
    """The decision to make beside this one; None when the agent has no shadow, or this is no decision of its own."""
    if slot.deployment.agent.shadow is None or slot.branch != "main":
        return None
    deployment = msgspec.structs.replace(slot.deployment, agent=shadowed(slot.deployment.agent))
    return Slot(deployment, slot.symbol, slot.scheduled_for, trigger="shadow", branch=BRANCH, turn=slot.turn)


def shadow_tick(
    rooms: Rooms, slot: Slot, main: DecisionRun, *, ask: Callable[[Rooms, Opened], Answer] = ask
) -> DecisionRun | None:
    """Makes the decision beside a real one that was made at `slot`; once, however often it is asked for."""
    beside = shadow_slot(slot)
    if beside is None:
        return None
    opened = open_shadow(rooms, beside, main)
    if isinstance(opened, DecisionRun):
        return opened
    return conclude_shadow(rooms, opened, kept_answer(rooms, opened) or ask(rooms, opened))


def open_shadow(rooms: Rooms, beside: Slot, main: DecisionRun) -> Opened | DecisionRun:
    """What the engine is asked for the shadow of a real decision; or the run, when it was made already."""
    made = rooms.book.run(beside.run_id())
    if made is not None:
        return made
    optional, known = OptionalReads(), main.watermarks
    situation = gather(
        rooms, beside.deployment, beside.symbol, as_of=main.as_of, watermarks=known, optional=optional
    )
    return Opened(beside, situation, assemble(situation), optional.causes)


def conclude_shadow(rooms: Rooms, opened: Opened, answer: Answer) -> DecisionRun:
    """The decision as it is stored from now on; judged by the account the real one was made for, which has moved on."""
    keep_answer(rooms, opened, answer)
    limits = _limits_then(rooms, opened)
    return record(rooms, opened, judged(answer, opened.packet, limits), limits)


def _limits_then(rooms: Rooms, opened: Opened) -> Limits:
    """The limits as they were for the real decision: its holdings and prices, and without the orders it has placed."""
    situation, mid = opened.situation, opened.situation.market.mid
    marks = situation.marks if mid is None else situation.marks | {situation.symbol: mid.price_e8}
    limits = limits_now(rooms, opened.slot)
    return msgspec.structs.replace(
        limits,
        portfolio=situation.portfolio,
        marks=marks,
        data_age_ms=situation.price_age_ms,
        working=tuple(move_of(order, marks.get(order.symbol)) for order in situation.working),
        activity=situation.activity or limits.activity,
        activity_unread=None if situation.activity else limits.activity_unread,
    )
