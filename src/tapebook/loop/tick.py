"""One tick, from what is known to what is done.

1. `begin` finishes what an earlier attempt may have left (`execute`, `reconcile`), reflects if it is time to
   (`learn`), reads every room as of now (`gather`) and makes the packet (`assemble`): a killed process loses nothing;
2. the engine answers, once, with no transaction open; an answer that was kept is not asked for again;
3. `conclude` parses and judges the answer against the account as it is now, and records the decision with its
   intended orders before anything leaves;
4. `execute` hands the orders over, `reconcile` books what came of them.

A worker calls the same four with many decisions in flight; a backtest and `tapebook tick` call them in a row.
"""

from collections.abc import Callable

from tapebook.book.work import Known
from tapebook.context import assemble
from tapebook.decision import Answer
from tapebook.domain.agent import Deployment
from tapebook.domain.run import DecisionRun
from tapebook.loop.decide import judged
from tapebook.loop.execute import execute
from tapebook.loop.gather import gather, watermarks_now
from tapebook.loop.learn import learn
from tapebook.loop.limits import limits_now
from tapebook.loop.optional_reads import LEARNING, OptionalReads
from tapebook.loop.reconcile import reconcile
from tapebook.loop.record import record
from tapebook.loop.replies import keep_answer, kept_answer
from tapebook.loop.slot import Look, Opened, Slot
from tapebook.wiring import Rooms

Learn = Callable[[Rooms, Deployment], tuple[str, ...]]
"""Learns what is due, and says why where it could not."""


def ask(rooms: Rooms, opened: Opened) -> Answer:
    """The engine's answer."""
    return rooms.engine(opened.slot.deployment.agent).decide(opened.packet)


def tick(
    rooms: Rooms,
    slot: Slot,
    *,
    look: Look | None = None,
    ask: Callable[[Rooms, Opened], Answer] = ask,
    learn: Learn = learn,
) -> DecisionRun:
    """Decides once; the same tick again changes nothing and gives the run that is already there."""
    opened = begin(rooms, slot, look=look, learn=learn)
    if isinstance(opened, DecisionRun):
        return opened
    answer = kept_answer(rooms, opened) or ask(rooms, opened)
    run = conclude(rooms, opened, answer)
    # What is held was followed up to this moment before the decision.
    if rooms.book.working_orders(slot.deployment.id):
        execute(rooms, slot.deployment)
        reconcile(rooms, slot.deployment)
    return run


def begin(
    rooms: Rooms, slot: Slot, *, known: Known | None = None, look: Look | None = None, learn: Learn = learn
) -> Opened | DecisionRun:
    """What the engine is to be asked; or the run, when the decision was made already.

    `known` is what an earlier attempt was allowed to know; the first attempt knows all there is, or what was
    looked at for several decisions. `learn` says what is learned before it: a frozen memory learns nothing.
    """
    deployment, run = slot.deployment, slot.run_id()
    rooms.book.note_set_back(deployment.id)
    # A decision that is made may only finish its orders: what the next tick books, a restart must not book before it.
    decided = rooms.book.has_run(run)
    if rooms.book.stirs(deployment.id) and (not decided or rooms.book.working_orders(deployment.id)):
        execute(rooms, deployment)
        reconcile(rooms, deployment)
    made = rooms.book.run(run) if decided else None
    if made is not None:
        return made
    unlearned = learn(rooms, deployment)
    optional = OptionalReads((LEARNING,) if unlearned else (), causes=unlearned)
    look = look or Look(rooms.clock.now(), rooms.tape.head()[0])
    known = known or Known(look.as_of, watermarks_now(rooms, deployment, tape=look.tape_seq, optional=optional))
    rooms.sync_tape(known.watermarks.tape)
    situation = gather(
        rooms,
        deployment,
        slot.symbol,
        as_of=known.as_of,
        watermarks=known.watermarks,
        shelf=look.shelf,
        optional=optional,
    )
    return Opened(slot, situation, assemble(situation), optional.causes)


def conclude(rooms: Rooms, opened: Opened, answer: Answer) -> DecisionRun:
    """The decision as it is stored from now on, with the orders it intends."""
    keep_answer(rooms, opened, answer)
    limits = limits_now(rooms, opened.slot, before=opened.situation)
    return record(rooms, opened, judged(answer, opened.packet, limits), limits)


# What a decision leaves in the stream of its deployment: behind these alone, the next one is told nothing new.
_OF_A_DECISION = frozenset(("run.decided", "run.ended", "situation.seen", "marks.observed"))


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
    return run if all(kind in _OF_A_DECISION or kind.startswith("order.") for kind in since) else None
