"""One decision: which one (`Slot`), its answer, its limits, what the answer comes to (`Decision`), and its record.

Answers of models are stored by what was asked (`store_answer`), so that whoever takes a decision over does not pay
again. The key is the packet with the engine's identity (model, parameters, prompt). An engine without an identity
is a pure function of the packet: it is asked again, and neither costs nor stores anything. Both functions use the
database, so they belong to the thread that has its connection; only the engine itself may be asked in another.

Limits are what the guard must know of the account: read when a reply is evaluated (`limits_now`) and once more when
an order leaves (`limits_at_send`).

`record_decision` writes a decision and the orders it intends, in one transaction, before anything leaves. Packet, reply
and a model's reasoning go to the archive, or to the spool until it can be written again. When neither can be written
the run has no key: replay makes the packet again, and a model's reply is in the book already. The orders of a dry run
are written as such and have ended with that: nobody ever finds one to send. Runs that never got a packet are
recorded too, not dropped (`record_unmade_runs`): a slot that expired, or one that could not be prepared.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Literal

import msgspec

from tapebook.archive import SpooledArchive
from tapebook.book.decision_queue import StoredReplies, StoredReply
from tapebook.book.events import (
    OrderDryRun,
    OrderIntended,
    RunDecided,
    decision_run_id,
    draft_event,
    late_event,
    orders_for_actions,
    run_status,
)
from tapebook.book.materializer import day_start
from tapebook.book.store import Book
from tapebook.broker import Broker
from tapebook.context import MarketCache, PacketCaches, PacketDigest, Situation, assemble_packet, packet_digest
from tapebook.decision import (
    Engine,
    EngineAnswer,
    Limits,
    Move,
    ReplyRefusal,
    judge_actions,
    move_of_order,
    parse_reply,
    unexplained_numbers,
)
from tapebook.domain.agent import AgentProfile, Deployment, is_dry_run
from tapebook.domain.canonical import canonical_json, sha256_hex
from tapebook.domain.market import Mid
from tapebook.domain.order import Order
from tapebook.domain.packet import Packet
from tapebook.domain.position import Portfolio
from tapebook.domain.run import Action, Activity, DecisionRun, RunStatus, Trigger, Usage, Verdict, Vote
from tapebook.domain.text import short_line
from tapebook.domain.units import DAY, E6, decimal_text, floor_to_step, iso_text, notional_usd_e6, short_price
from tapebook.errors import Fix
from tapebook.log import Draft
from tapebook.settings.config import Config
from tapebook.tape.store import Tape
from tapebook.tape.view import View
from tapebook.tick.memory import moment_drafts, slot_mark
from tapebook.tick.prepare import (
    OptionalReads,
    account_activity,
    cause_of,
    log_causes,
    safe_causes,
    watermarks_now,
)
from tapebook.tick.quotes import TapeQuotes, position_marks
from tapebook.wiring import Rooms


class Slot(msgspec.Struct, frozen=True):
    """A symbol of a deployment at a moment of its schedule, on a branch."""

    deployment: Deployment
    symbol: str
    scheduled_for: int
    trigger: Trigger = "schedule"
    branch: str = "main"
    # How often the clock had gone back in the deployment's stream: a moment that comes again is another slot.
    turn: int = 0
    # Whether memory takes in what the decision sees: not behind the moment at which a backtest freezes it.
    learns: bool = True

    def run_id(self) -> str:
        """The id of the decision, the same on every attempt."""
        stream = f"{self.deployment.owner}/{self.deployment.id}" + (f"#{self.turn}" if self.turn else "")
        return decision_run_id(
            stream, self.symbol, scheduled_for=self.scheduled_for, trigger=self.trigger, branch=self.branch
        )


def slots_of_pairs(book: Book, pairs: Iterable[tuple[Deployment, str, int]]) -> list[Slot]:
    """The slots of pairs that are due."""
    turns: dict[str, int] = {}
    slots = []
    for deployment, symbol, scheduled_for in pairs:
        if deployment.id not in turns:
            turns[deployment.id] = book.set_back_count(deployment.id)
        slots.append(Slot(deployment, symbol, scheduled_for, turn=turns[deployment.id]))
    return slots


class MarketCut(msgspec.Struct, frozen=True):
    """One look at the market that decisions which are due together share: when, how far, and what was read, if kept."""

    as_of: int
    tape_seq: int
    shelf: MarketCache | None = None


class PreparedDecision(msgspec.Struct, eq=False):
    """A decision about to be made: what is known, why something is missing in it, and the packet made of it.

    `written` is None until the packet is first asked for. An engine that reckons with facts alone is asked without it,
    and a record that waits for others (`book.events.late_event`) only needs its digest, worked out with theirs.
    """

    slot: Slot
    run_id: str
    situation: Situation
    causes: tuple[str, ...] = ()
    caches: PacketCaches | None = None
    written: Packet | None = None

    def packet(self) -> Packet:
        """The packet, whole."""
        if self.written is None:
            self.written = assemble_packet(self.situation, self.caches)
        return self.written

    def digest(self) -> Packet | PacketDigest:
        """What a record says of the packet, which need not be written whole for it."""
        return packet_digest(self.situation, self.caches) if self.written is None else self.written


EngineOfAgent = Callable[[AgentProfile], Engine]
"""Gives the engine of an agent, or raises Fix where it cannot be made."""


def stored_answer(
    opened: PreparedDecision, *, engine_of: EngineOfAgent, replies: StoredReplies, archive: SpooledArchive, now: int
) -> EngineAnswer | None:
    """The answer to give without asking: the one this packet got before, or that the day's money is spent."""
    key = answer_key(opened, engine_of)
    if key is None:
        return None
    kept = replies.stored_reply(key)
    if kept is None:
        return _spend_limit_answer(opened.slot.deployment, replies, now=now)
    answer = _decode_answer(kept.answer_json, archive)
    return answer if kept.run_id == opened.run_id else _without_cost(answer)


def store_answer(rooms: Rooms, opened: PreparedDecision, answer: EngineAnswer) -> None:
    """Keeps an answer that cannot be computed again; one that failed is asked for again."""
    key = answer_key(opened, rooms.engine)
    if key is None or answer.problem is not None:
        return
    text = _encode_answer(answer, rooms.archive if rooms.config.archive.packets else None)
    rooms.replies.store_reply(
        key,
        StoredReply(text, opened.run_id),
        deployment=opened.slot.deployment.id,
        cost_usd_e6=answer.usage.cost_usd_e6 if answer.usage else 0,
        at=rooms.clock.now(),
    )


class _StoredReasoning(msgspec.Struct):
    """What is kept beside an answer: where the archive has what the model reasoned, which may be long."""

    reason_key: str | None = None


def _encode_answer(answer: EngineAnswer, archive: SpooledArchive | None) -> str:
    """An answer as it is stored; what the model reasoned goes to the archive, where one keeps texts."""
    # Half of a surrogate pair has no bytes; written out it is as wrong a reply as before.
    reply, reasoning = (text.encode(errors="backslashreplace").decode() for text in (answer.reply, answer.reasoning))
    key = archive.store_content(reasoning.encode()).key if reasoning and archive else None
    # The text is enough: whoever reads it again parses it.
    here = msgspec.structs.replace(answer, reply=reply, reasoning="" if key else reasoning, actions=None)
    return msgspec.json.encode(msgspec.to_builtins(here) | msgspec.to_builtins(_StoredReasoning(key))).decode()


def _decode_answer(text: str, archive: SpooledArchive) -> EngineAnswer:
    answer, key = (
        msgspec.json.decode(text, type=EngineAnswer),
        msgspec.json.decode(text, type=_StoredReasoning).reason_key,
    )
    reasoning = archive.get(key) if key else None
    return answer if reasoning is None else msgspec.structs.replace(answer, reasoning=reasoning.decode())


def answer_key(opened: PreparedDecision, engine_of: EngineOfAgent) -> str | None:
    """Under which an answer is stored; None of an engine that has no identity."""
    try:
        identity = engine_of(opened.slot.deployment.agent).identity
    except Fix:
        # An engine that cannot be made has kept nothing; whoever asks it next hears why.
        return None
    return sha256_hex(canonical_json([opened.packet().sha256, identity])) if identity else None


def _spend_limit_answer(deployment: Deployment, replies: StoredReplies, *, now: int) -> EngineAnswer | None:
    most = deployment.agent.caps.max_model_usd_e6_per_day
    spent = replies.spent_usd_e6(deployment.id, since=floor_to_step(now, DAY))
    if spent < most:
        return None
    detail = f"${decimal_text(spent, E6, 2)} spent on models today; ${decimal_text(most, E6, 2)} are allowed"
    return EngineAnswer("", problem=f"R11_MODEL_SPEND: {detail}")


def _without_cost(answer: EngineAnswer) -> EngineAnswer:
    """The answer for a second run with the same question, which costs nothing any more."""
    usage = Usage(answer.usage.model, 0, 0, 0, 0) if answer.usage else None
    return msgspec.structs.replace(answer, usage=usage)


def limits_now(rooms: Rooms, slot: Slot, *, before: Situation | None = None, tape_seq: int | None = None) -> Limits:
    """The caps of an agent beside what it holds, what is under way and what it has done lately.

    What was read for the packet is not read again as long as the book has not moved since and the day is the same;
    nor are prices where `tape_seq`, the end of the tape for decisions that are recorded together, says that nothing
    was observed since.
    """
    deployment, book, now, unread = slot.deployment, rooms.book, rooms.clock.now(), None
    seq, activity = book.head(deployment.id), before.activity if before else None
    if (
        before is not None
        and activity is not None
        and before.watermarks.book == seq
        and (before.as_of == now or day_start(before.as_of) == day_start(now))
    ):
        portfolio = before.portfolio
    else:
        account, optional = book.account(deployment.id, seq=seq), OptionalReads()
        portfolio = account.portfolio
        asked = partial(account_activity, book, rooms.tape, deployment.id, account, view=View(now), memory=rooms.memory)
        activity = optional.read_or_default("activity", None, asked)
        unread = None if activity else "; ".join(safe_causes(optional.causes, without_keys=rooms.without_keys))
    seen = before if before and (before.as_of == now or before.watermarks.tape == tape_seq) else None
    mid = seen.market.mid if seen else None
    if seen is None or mid is None or portfolio.positions.keys() - {slot.symbol} - seen.marks.keys():
        mid, marks = _newest_prices(rooms.tape, portfolio, slot.symbol, now=now)
    else:
        marks = {slot.symbol: mid.price_e8}
        for symbol in portfolio.positions.keys() - {slot.symbol}:
            marks[symbol] = seen.marks[symbol]
    working = book.working_orders(deployment.id, seq=seq)
    view = View(now) if tape_seq is None else View(now, tape_seq)
    delisted = rooms.tape.delistings.newest(slot.symbol, view=view)
    return Limits(
        caps=deployment.agent.caps,
        symbol=slot.symbol,
        watchlist=deployment.agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_working_moves(rooms.tape, [order for order, _ in working], marks, now=now) if working else (),
        halted=agent_now(book, deployment)[1],
        activity=activity or Activity(),
        activity_unread=unread,
        settled_at_e8=None if delisted is None else delisted.settlement_e8,
    )


def limits_at_send(
    book: Book, tape: Tape, deployment: Deployment, *, order: Order, others: Iterable[Order], seq: int, now: int
) -> Limits:
    """The limits of an order about to leave, by the agent's newest profile; what it did lately was asked before."""
    agent, halted = agent_now(book, deployment)
    portfolio = book.account(deployment.id, seq=seq).portfolio
    mid, marks = _newest_prices(tape, portfolio, order.symbol, now=now)
    delisted = tape.delistings.newest(order.symbol, view=View(now))
    return Limits(
        caps=agent.caps,
        symbol=order.symbol,
        watchlist=agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_working_moves(tape, others, marks, now=now),
        halted=halted,
        settled_at_e8=None if delisted is None else delisted.settlement_e8,
    )


def agent_now(book: Book, deployment: Deployment) -> tuple[AgentProfile, str | None]:
    """What the agent is by now, and why nothing of it may leave, if so.

    It may have been changed, halted or disabled since the deployment was loaded.
    """
    found, halts = book.agent_record(deployment.agent.name), book.halts()
    agent = found[1] if found else deployment.agent
    if "" in halts:
        return agent, f"the desk is halted: {halts['']}"
    if deployment.id in halts:
        return agent, f"{agent.name} is halted: {halts[deployment.id]}"
    # What was decided before it became dry must not leave any more.
    if agent.mode == "dry_run" and not is_dry_run(deployment.id):
        return agent, f"{agent.name} is in dry run"
    return agent, None if agent.enabled else f"{agent.name} is not enabled"


def _newest_prices(tape: Tape, portfolio: Portfolio, symbol: str, *, now: int) -> tuple[Mid | None, dict[str, int]]:
    """The price last observed of a symbol, and the marks of all that is held."""
    mid = tape.last_price(symbol, view=View(now))
    others = [held for held in portfolio.positions.values() if mid is None or held.symbol != symbol]
    marks = position_marks(tape, others, view=View(now))
    return mid, marks if mid is None else marks | {symbol: mid.price_e8}


def _working_moves(tape: Tape, orders: Iterable[Order], marks: dict[str, int], *, now: int) -> tuple[Move, ...]:
    moves = []
    for order in orders:
        mark = marks.get(order.symbol) or TapeQuotes(tape, View(now)).mark_e8(order.symbol, at=now)
        moves.append(move_of_order(order, mark))
    return tuple(moves)


class Decision(msgspec.Struct, frozen=True):
    """A reply, what it proposed, and what the guard said; `error` when there is none or it was not understood."""

    reply: str
    actions: tuple[Action, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    note: str = ""
    error: str | None = None
    failed: bool = False
    votes: tuple[Vote, ...] = ()
    usage: Usage | None = None
    reasoning: str = ""


def evaluate_reply(answer: EngineAnswer, packet: Callable[[], Packet], limits: Limits) -> Decision:
    """What an answer comes to; the packet is asked for only where the answer refers to it."""
    votes, usage, reasoning = answer.votes, answer.usage, answer.reasoning
    if answer.problem is not None:
        problem = short_line(answer.problem, 300) or "the engine gave no reason"
        return Decision(answer.reply, error=problem, failed=True, votes=votes, usage=usage, reasoning=reasoning)
    actions, note = answer.actions, ""
    if actions is None:
        parsed = parse_reply(answer.reply)
        if isinstance(parsed, ReplyRefusal):
            return Decision(answer.reply, error=parsed.why, votes=votes, usage=usage, reasoning=reasoning)
        actions, note = parsed.actions, parsed.note
    for action in actions:
        if action.cites:
            limits = msgspec.structs.replace(limits, citations=packet().citation_ids)
            break
    verdicts = []
    for action, verdict in zip(actions, judge_actions(actions, limits), strict=True):
        flags = unexplained_numbers(action, packet)
        verdicts.append(msgspec.structs.replace(verdict, flags=flags) if flags else verdict)
    return Decision(answer.reply, actions, tuple(verdicts), note, votes=votes, usage=usage, reasoning=reasoning)


def record_decision(rooms: Rooms, opened: PreparedDecision, decision: Decision, limits: Limits) -> DecisionRun:
    """The run as it is stored from now on; StaleWriter if the account moved since it was judged."""
    slot, agent = opened.slot, opened.slot.deployment.agent
    optional = OptionalReads(causes=list(opened.causes))
    orders: list[Order] = []
    # Most decisions are to hold, which asks for nothing.
    if slot.trigger != "shadow" and set(map(attrgetter("action"), decision.actions)) - {"hold"}:
        orders = _intended_orders(opened, decision, limits, broker=rooms.broker(agent.broker), tape=rooms.tape)
    seen: list[Draft] = []
    if slot.learns and slot.branch == "main":
        opens = agent.mode == "trade" and bool(orders) and not all(order.reduce_only for order in orders)
        # Without it less is learned; the order is worth more than that.
        seen = optional.read_or_default(
            "sighting",
            [],
            moment_drafts,
            rooms.experience,
            opened.run_id,
            opened.situation,
            paper=rooms.config.paper,
            opens=opens,
            seq=limits.seq,
        )
    run = _decision_run(
        opened,
        decision,
        orders=len(orders),
        causes=optional.causes,
        config=rooms.config,
        archive=rooms.archive,
        without_keys=rooms.without_keys,
    )
    decided: Draft
    if opened.written is not None:
        decided = draft_event(run.as_of, RunDecided(run))
    else:
        decided = late_event(run.as_of, RunDecided(run), partial(_run_with_packet, opened))
    drafts = [decided]
    for order in orders:
        body = _dry_run_event(order, limits) if agent.mode == "dry_run" else OrderIntended(order)
        drafts.append(draft_event(limits.at, body))
    appended = rooms.book.append(run.deployment, drafts + seen, expected_seq=limits.seq)
    # Nobody has voted in most decisions, and then no twin moves.
    if run.votes:
        rooms.experience.twins.add_run(run, after=limits.seq, seq=appended[-1].seq)
    if run.degraded_causes:
        log_causes(run.degraded_causes, deployment=run.deployment, symbol=run.symbol, run=run.run_id)
    return run


def archived_texts(packet: Packet, reply: str, reasoning: str) -> list[bytes]:
    """What is kept of a decision in the archive: what the engine was sent, its reply, and what it said beside it."""
    asked = f"{packet.system}\n\n{packet.text}".encode(errors="backslashreplace")
    texts = [asked, reply.encode(errors="backslashreplace")]
    return [*texts, reasoning.encode(errors="backslashreplace")] if reasoning else texts


def _intended_orders(
    opened: PreparedDecision, decision: Decision, limits: Limits, *, broker: Broker, tape: Tape
) -> list[Order]:
    slot, judged = opened.slot, list(zip(decision.actions, decision.verdicts, strict=True))
    listing = TapeQuotes(tape, View(limits.at)).listing(slot.symbol, at=limits.at)
    increments = broker.increments(slot.symbol, listing)
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
    opened: PreparedDecision,
    decision: Decision,
    *,
    orders: int,
    causes: list[str],
    config: Config,
    archive: SpooledArchive,
    without_keys: Callable[[str], str],
) -> DecisionRun:
    slot, situation, packet = opened.slot, opened.situation, opened.written
    deployment, agent, market = slot.deployment, slot.deployment.agent, situation.market
    keys: list[str | None] = [None, None, None]
    if config.archive.packets:
        problem, texts = None, archived_texts(opened.packet(), decision.reply, decision.reasoning)
        for place, each in enumerate(archive.store_contents(texts)):
            keys[place], problem = each.key, problem or each.problem
        # One is enough: all fail for the same reason.
        if problem is not None:
            causes = [*causes, cause_of("archive", problem)]
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
        engine=agent.engine or config.engine.default,
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
        degraded_causes=safe_causes(causes, without_keys=without_keys) if causes else (),
        mark=msgspec.UNSET if mark is None else mark,
    )


def _run_with_packet(opened: PreparedDecision, decided: RunDecided) -> RunDecided:
    """The record of a decision, with what its packet comes to, which is found out now."""
    packet, replace = opened.digest(), msgspec.structs.replace
    hashes = {"inputs_sha256": packet.inputs_sha256, "packet_sha256": packet.sha256}
    return RunDecided(replace(decided.run, tokens=packet.tokens, **hashes))


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
    skipped = _skipped_slot_notes(rooms.book, slots) if status == "expired" else {}
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


def _skipped_slot_notes(book: Book, slots: Sequence[Slot]) -> dict[str, str]:
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
            if between and not any(book.has_run(each.run_id()) for each in ends):
                notes[slot.run_id()] = (
                    f"; the next {len(between):,} slots passed as well, until {iso_text(between[-1])}"
                )
    return notes
