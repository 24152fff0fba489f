"""One tick, from what is known to what is done, and the shadow decision beside it.

1. `prepare_decision` finishes what an earlier attempt may have left (`execute_orders`, `reconcile_account`), learns
   what is due (`learn_what_is_due`), reads every room as of now (`gather_situation`) and makes the packet
   (`PreparedDecision.packet`): a killed process loses nothing;
2. the engine answers, once, with no transaction open (`answer_of`); a stored answer is not asked for again;
3. `conclude_decision` parses the answer, evaluates it against the account as it is now, and records the decision
   with its intended orders before anything leaves;
4. `execute_orders` hands the orders over, `reconcile_account` books what came of them.

A worker calls the same four with many decisions in flight; a backtest and `tapebook tick` call them in a row. A
backtest has packets `late`, hashed for many decisions together: rules need only the facts (`answer_of`).

A shadow (`shadow_tick`) is a second decision on the same tick with another context profile, recorded and never
traded. It knows exactly what the real decision knew: the same moment, the same watermarks. It is made when the real
one is finished, so that a killed process writes the same events in the same order when it comes back.
"""

import operator
from collections.abc import Callable

import msgspec

from tapebook.book.decision_queue import KnownAsOf
from tapebook.book.events import DeploymentOpened, LedgerPosted, Posting, draft_event
from tapebook.book.store import Book
from tapebook.clock import Clock
from tapebook.context import assemble_packet, packet_of_facts
from tapebook.decision import EngineAnswer, Limits, move_of_order, reads_facts_alone
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.packet import Packet
from tapebook.domain.run import DecisionRun
from tapebook.tick.decide import (
    MarketCut,
    PreparedDecision,
    Slot,
    answer_key,
    evaluate_reply,
    limits_now,
    record_decision,
    store_answer,
    stored_answer,
)
from tapebook.tick.execute import execute_orders, reconcile_account
from tapebook.tick.learn import learn_what_is_due
from tapebook.tick.prepare import LEARNING, OptionalReads, gather_situation, watermarks_now
from tapebook.wiring import Rooms


def deploy_agent(book: Book, clock: Clock, name: str) -> Deployment:
    """The deployment of an agent's newest version, opened if it is new, moved on if the version is.

    The first event of its stream names the version, and the ledger gets its opening deposit.
    """
    deployment = book.find_agent(name)
    seq, now, agent = book.head(deployment.id), clock.now(), deployment.agent
    if book.deployed_version(deployment.id, seq=seq) != deployment.version:
        drafts = [draft_event(now, DeploymentOpened(agent.name, deployment.version, agent.broker))]
        if seq == 0:
            deposit = Posting("deposit", "", agent.starting_cash_usd_e6)
            drafts.append(draft_event(now, LedgerPosted("opening", (deposit,), agent.starting_cash_usd_e6)))
        book.append(deployment.id, drafts, expected_seq=seq)
    return deployment


LearnStep = Callable[[Rooms, Deployment], tuple[str, ...]]
"""Learns what is due, and says why where it could not."""


AskEngine = Callable[[Callable[[Packet], EngineAnswer], Packet], EngineAnswer]
"""Has an engine decide about a packet: just so, or with signs of life meanwhile (`Leases.call_with_heartbeat`)."""


def answer_of(rooms: Rooms, opened: PreparedDecision, ask: AskEngine = operator.call) -> EngineAnswer:
    """The answer to a decision: the stored one, or what the engine says now, kept if it cannot be computed again.

    An engine that needs no more is told the facts alone, as long as the packet is not written.
    """
    is_kept, answer = answer_key(opened, rooms.engine) is not None, None
    if is_kept:
        answer = stored_answer(
            opened, engine_of=rooms.engine, replies=rooms.replies, archive=rooms.archive, now=rooms.clock.now()
        )
    if answer is None:
        engine = rooms.engine(opened.slot.deployment.agent)
        if opened.written is None and reads_facts_alone(engine):
            packet = packet_of_facts(opened.situation, opened.caches)
        else:
            packet = opened.packet()
        answer = ask(engine.decide, packet)
        if is_kept:
            store_answer(rooms, opened, answer)
    return answer


def tick(
    rooms: Rooms,
    slot: Slot,
    *,
    look: MarketCut | None = None,
    ask: AskEngine = operator.call,
    learn: LearnStep = learn_what_is_due,
    late: bool = False,
) -> DecisionRun:
    """Decides once; the same tick again changes nothing and gives the run that is already there.

    A `late` packet is written when somebody reads it; what it comes to is found out with the record of its decision.
    """
    opened = prepare_decision(rooms, slot, look=look, learn=learn, late=late)
    if isinstance(opened, DecisionRun):
        return opened
    run = conclude_decision(rooms, opened, answer_of(rooms, opened, ask))
    # What is held was followed up to this moment before the decision.
    if rooms.book.working_orders(slot.deployment.id):
        execute_orders(rooms, slot.deployment)
        reconcile_account(rooms, slot.deployment)
    return run


def prepare_decision(
    rooms: Rooms,
    slot: Slot,
    *,
    known: KnownAsOf | None = None,
    look: MarketCut | None = None,
    learn: LearnStep = learn_what_is_due,
    decided: bool | None = None,
    followed: bool = False,
    late: bool = False,
) -> PreparedDecision | DecisionRun:
    """What the engine is to be asked; or the run, when the decision was made already.

    `known` is what an earlier attempt was allowed to know; the first attempt knows all there is, or what was
    looked at for several decisions. `learn` says what is learned before it: a frozen memory learns nothing.
    `decided` says whether there is a run, for whoever has read that under the lease; `followed`, that the account
    has caught up with the broker for another decision in this moment; `late`, that the packet can be written later.
    """
    deployment, book, run = slot.deployment, rooms.book, slot.run_id()
    book.record_set_back(deployment.id)
    made = None if decided is False else book.run(run)
    # A decision that is made may only finish its orders: what the next tick books, a restart must not book before it.
    is_due = book.has_exposure(deployment.id) if made is None else book.working_orders(deployment.id)
    if is_due and not followed:
        execute_orders(rooms, deployment)
        reconcile_account(rooms, deployment)
        made = made and book.run(run)
    if made is not None:
        return made
    unlearned = learn(rooms, deployment)
    optional = OptionalReads([LEARNING] if unlearned else [], list(unlearned))
    look = look or MarketCut(rooms.clock.now(), rooms.tape.head()[0])
    known = known or KnownAsOf(look.as_of, watermarks_now(rooms, deployment, tape=look.tape_seq, optional=optional))
    rooms.sync_tape(known.watermarks.tape)
    situation = gather_situation(
        rooms,
        deployment,
        slot.symbol,
        as_of=known.as_of,
        watermarks=known.watermarks,
        shelf=look.shelf,
        optional=optional,
    )
    caches = rooms.memory.packets
    written = None if late else assemble_packet(situation, caches)
    return PreparedDecision(slot, run, situation, tuple(optional.causes), caches, written)


def conclude_decision(
    rooms: Rooms, opened: PreparedDecision, answer: EngineAnswer, *, tape_seq: int | None = None
) -> DecisionRun:
    """The decision as it is stored from now on, with the orders it intends; `tape_seq` is where the tape ends now."""
    limits = limits_now(rooms, opened.slot, before=opened.situation, tape_seq=tape_seq)
    return record_decision(rooms, opened, evaluate_reply(answer, opened.packet, limits), limits)


# What a decision leaves in the stream of its deployment: behind these alone, the next one is told nothing new.
_DECISION_KINDS = frozenset(
    ("run.decided", "run.ended", "situation.seen", "moment.noted", "moment.fitted", "marks.observed")
)


def repeated_run(rooms: Rooms, deployment: Deployment, symbol: str) -> DecisionRun | None:
    """The newest decision, if it was made by hand and nothing a decision is told has changed since."""
    book, log = rooms.book, rooms.log
    run = book.last_run(deployment.id, symbol, seq=book.head(deployment.id))
    if run is None or run.trigger != "manual":
        return None
    known = watermarks_now(rooms, deployment)
    changed_by_hand = log.head(book.stream()).known_at >= run.as_of
    if changed_by_hand or (known.tape, known.docs) != (run.watermarks.tape, run.watermarks.docs):
        return None
    since = [kind for kind, seq in log.newest_of_kinds(book.stream(deployment.id)).items() if seq > run.watermarks.book]
    return run if all(kind in _DECISION_KINDS or kind.startswith("order.") for kind in since) else None


SHADOW_BRANCH = "shadow"


def shadow_profile(agent: AgentProfile) -> AgentProfile:
    """The agent as its shadow sees the world; an agent without one stays as it is."""
    return agent if agent.shadow is None else msgspec.structs.replace(agent, context=agent.shadow, shadow=None)


def shadow_slot(slot: Slot) -> Slot | None:
    """The decision to make beside this one; None when the agent has no shadow, or this is no decision of its own."""
    if slot.deployment.agent.shadow is None or slot.branch != "main":
        return None
    deployment = msgspec.structs.replace(slot.deployment, agent=shadow_profile(slot.deployment.agent))
    return Slot(deployment, slot.symbol, slot.scheduled_for, trigger="shadow", branch=SHADOW_BRANCH, turn=slot.turn)


def shadow_tick(rooms: Rooms, slot: Slot, main: DecisionRun, *, ask: AskEngine = operator.call) -> DecisionRun | None:
    """Makes the decision beside a real one that was made at `slot`; once, however often it is asked for."""
    beside = shadow_slot(slot)
    if beside is None:
        return None
    opened = prepare_shadow(rooms, beside, main)
    if isinstance(opened, DecisionRun):
        return opened
    return conclude_shadow(rooms, opened, answer_of(rooms, opened, ask))


def prepare_shadow(rooms: Rooms, beside: Slot, main: DecisionRun) -> PreparedDecision | DecisionRun:
    """What the engine is asked for the shadow of a real decision; or the run, when it was made already."""
    run, optional, known = beside.run_id(), OptionalReads(), main.watermarks
    made = rooms.book.run(run)
    if made is not None:
        return made
    situation = gather_situation(
        rooms, beside.deployment, beside.symbol, as_of=main.as_of, watermarks=known, optional=optional
    )
    caches = rooms.memory.packets
    written = assemble_packet(situation, caches)
    return PreparedDecision(beside, run, situation, tuple(optional.causes), caches, written)


def conclude_shadow(
    rooms: Rooms, opened: PreparedDecision, answer: EngineAnswer, *, tape_seq: int | None = None
) -> DecisionRun:
    """The decision as it is stored from now on; judged by the account the real one was made for, which has moved on."""
    limits = _limits_of_main_run(rooms, opened, tape_seq=tape_seq)
    return record_decision(rooms, opened, evaluate_reply(answer, opened.packet, limits), limits)


def _limits_of_main_run(rooms: Rooms, opened: PreparedDecision, *, tape_seq: int | None) -> Limits:
    """The limits as they were for the real decision: its holdings and prices, and without the orders it has placed."""
    situation, mid = opened.situation, opened.situation.market.mid
    marks = situation.marks if mid is None else situation.marks | {situation.symbol: mid.price_e8}
    limits = limits_now(rooms, opened.slot, tape_seq=tape_seq)
    return msgspec.structs.replace(
        limits,
        portfolio=situation.portfolio,
        marks=marks,
        data_age_ms=situation.price_age_ms,
        working=tuple(move_of_order(order, marks.get(order.symbol)) for order in situation.working),
        activity=situation.activity or limits.activity,
        activity_unread=None if situation.activity else limits.activity_unread,
    )
