"""One decision: which one (`Slot`), the stored answer, the limits, and what the answer comes to (`Decision`).

Answers of models are stored by what was asked (`store_answer`), so that whoever takes a decision over does not pay
again. The key is the packet with the engine's identity (model, parameters, prompt). An engine without an identity
is a pure function of the packet: it is asked again, and neither costs nor stores anything. Both functions use the
database, so they belong to the thread that has its connection; only the engine itself may be asked in another.

Limits are what the guard must know of the account: read when a reply is evaluated (`limits_now`) and once more when
an order leaves (`limits_at_send`).
"""

from collections.abc import Callable, Iterable

import msgspec

from tapebook.book.decision_queue import StoredReply
from tapebook.book.events import decision_run_id
from tapebook.book.materializer import day_start
from tapebook.context import MarketCache, PacketCaches, Situation, assemble_packet
from tapebook.decision import (
    EngineAnswer,
    Limits,
    Move,
    ReplyRefusal,
    claimed_figures,
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
from tapebook.domain.run import Action, Activity, Trigger, Usage, Verdict, Vote
from tapebook.domain.text import short_line
from tapebook.domain.units import DAY, E6, decimal_text, floor_to_step
from tapebook.errors import Fix
from tapebook.tape.view import View
from tapebook.tick.prepare import OptionalReads, safe_causes
from tapebook.tick.quotes import TapeQuotes, account_activity, position_marks
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


def slots_of_pairs(rooms: Rooms, pairs: Iterable[tuple[Deployment, str, int]]) -> list[Slot]:
    """The slots of pairs that are due."""
    turns: dict[str, int] = {}
    slots = []
    for deployment, symbol, scheduled_for in pairs:
        if deployment.id not in turns:
            turns[deployment.id] = rooms.book.set_back_count(deployment.id)
        slots.append(Slot(deployment, symbol, scheduled_for, turn=turns[deployment.id]))
    return slots


class MarketCut(msgspec.Struct, frozen=True):
    """One look at the market that decisions which are due together share: when, how far, and what was read, if kept."""

    as_of: int
    tape_seq: int
    shelf: MarketCache | None = None


class PreparedDecision:
    """A decision about to be made: what is known, why something is missing in it, and the packet made of it.

    A `late` packet is made when it is first read: `written` is None until then. An engine that reckons with facts
    alone is asked without it, and a record that waits for others (`book.events.late_event`) has it made with those of
    other decisions.
    """

    __slots__ = ("_caches", "causes", "run_id", "situation", "slot", "written")

    def __init__(
        self,
        slot: Slot,
        situation: Situation,
        causes: Iterable[str] = (),
        *,
        run_id: str = "",
        late: bool = False,
        caches: PacketCaches | None = None,
    ) -> None:
        self.slot = slot
        self.run_id = run_id or slot.run_id()
        self.situation = situation
        self.causes = tuple(causes)
        self._caches = caches
        self.written: Packet | None = None if late else assemble_packet(situation, caches)

    @property
    def packet(self) -> Packet:
        """The packet, whole."""
        if self.written is None:
            self.written = assemble_packet(self.situation, self._caches)
        return self.written


def stored_answer(rooms: Rooms, opened: PreparedDecision) -> EngineAnswer | None:
    """The answer to give without asking: the one this packet got before, or that the day's money is spent."""
    key = _answer_key(rooms, opened)
    if key is None:
        return None
    kept = rooms.replies.stored_reply(key)
    if kept is None:
        return _spend_limit_answer(rooms, opened)
    answer = _decode_answer(rooms, kept.answer_json)
    return answer if kept.run_id == opened.run_id else _without_cost(answer)


def store_answer(rooms: Rooms, opened: PreparedDecision, answer: EngineAnswer) -> None:
    """Keeps an answer that cannot be computed again; one that failed is asked for again."""
    key = _answer_key(rooms, opened)
    if key is None or answer.problem is not None:
        return
    rooms.replies.store_reply(
        key,
        StoredReply(_encode_answer(rooms, answer), opened.run_id),
        deployment=opened.slot.deployment.id,
        cost_usd_e6=answer.usage.cost_usd_e6 if answer.usage else 0,
        at=rooms.clock.now(),
    )


class _StoredReasoning(msgspec.Struct):
    """What is kept beside an answer: where the archive has what the model reasoned, which may be long."""

    reason_key: str | None = None


def _encode_answer(rooms: Rooms, answer: EngineAnswer) -> str:
    # Half of a surrogate pair has no bytes; written out it is as wrong a reply as before.
    reply, reasoning = (text.encode(errors="backslashreplace").decode() for text in (answer.reply, answer.reasoning))
    key = rooms.archive.store_content(reasoning.encode()).key if reasoning and rooms.config.archive.packets else None
    # The text is enough: whoever reads it again parses it.
    here = msgspec.structs.replace(answer, reply=reply, reasoning="" if key else reasoning, actions=None)
    return msgspec.json.encode(msgspec.to_builtins(here) | msgspec.to_builtins(_StoredReasoning(key))).decode()


def _decode_answer(rooms: Rooms, text: str) -> EngineAnswer:
    answer, key = (
        msgspec.json.decode(text, type=EngineAnswer),
        msgspec.json.decode(text, type=_StoredReasoning).reason_key,
    )
    reasoning = rooms.archive.get(key) if key else None
    return answer if reasoning is None else msgspec.structs.replace(answer, reasoning=reasoning.decode())


def _answer_key(rooms: Rooms, opened: PreparedDecision) -> str | None:
    try:
        identity = rooms.engine(opened.slot.deployment.agent).identity
    except Fix:
        # An engine that cannot be made has kept nothing; whoever asks it next hears why.
        return None
    return sha256_hex(canonical_json([opened.packet.sha256, identity])) if identity else None


def _spend_limit_answer(rooms: Rooms, opened: PreparedDecision) -> EngineAnswer | None:
    most = opened.slot.deployment.agent.caps.max_model_usd_e6_per_day
    today = floor_to_step(rooms.clock.now(), DAY)
    spent = rooms.replies.spent_usd_e6(opened.slot.deployment.id, since=today)
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
    deployment, now, unread = slot.deployment, rooms.clock.now(), None
    seq, activity = rooms.book.head(deployment.id), before.activity if before else None
    if (
        before is not None
        and activity is not None
        and before.watermarks.book == seq
        and (before.as_of == now or day_start(before.as_of) == day_start(now))
    ):
        portfolio = before.portfolio
    else:
        account, optional = rooms.book.account(deployment.id, seq=seq), OptionalReads()
        portfolio, read = account.portfolio, optional.read_or_default
        activity = read("activity", None, account_activity, rooms, deployment, account, view=View(now))
        unread = None if activity else "; ".join(safe_causes(rooms, optional.causes))
    seen = before if before and (before.as_of == now or before.watermarks.tape == tape_seq) else None
    mid = seen.market.mid if seen else None
    if seen is None or mid is None or portfolio.positions.keys() - {slot.symbol} - seen.marks.keys():
        mid, marks = _newest_prices(rooms, portfolio, slot.symbol, now=now)
    else:
        marks = {slot.symbol: mid.price_e8}
        for symbol in portfolio.positions.keys() - {slot.symbol}:
            marks[symbol] = seen.marks[symbol]
    working = rooms.book.working_orders(deployment.id)
    view = View(now) if tape_seq is None else View(now, tape_seq)
    delisted = rooms.tape.delisting(slot.symbol, view=view)
    return Limits(
        caps=deployment.agent.caps,
        symbol=slot.symbol,
        watchlist=deployment.agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_working_moves(rooms, [order for order, _ in working], marks, now=now) if working else (),
        halted=halt_reason(rooms, deployment, newest_profile(rooms, deployment)),
        activity=activity or Activity(),
        activity_unread=unread,
        settled_at_e8=None if delisted is None else delisted.settlement_e8,
    )


def limits_at_send(rooms: Rooms, deployment: Deployment, order: Order, *, others: Iterable[Order], seq: int) -> Limits:
    """The limits of an order about to leave, by the agent's newest profile; what it did lately was asked before."""
    now, agent = rooms.clock.now(), newest_profile(rooms, deployment)
    portfolio = rooms.book.account(deployment.id, seq=seq).portfolio
    mid, marks = _newest_prices(rooms, portfolio, order.symbol, now=now)
    delisted = rooms.tape.delisting(order.symbol, view=View(now))
    return Limits(
        caps=agent.caps,
        symbol=order.symbol,
        watchlist=agent.watchlist,
        at=now,
        seq=seq,
        portfolio=portfolio,
        marks=marks,
        data_age_ms=None if mid is None else now - mid.bucket_ts,
        working=_working_moves(rooms, others, marks, now=now),
        halted=halt_reason(rooms, deployment, agent),
        settled_at_e8=None if delisted is None else delisted.settlement_e8,
    )


def newest_profile(rooms: Rooms, deployment: Deployment) -> AgentProfile:
    """What the agent is by now: it may have been changed or disabled since the deployment was loaded."""
    found = rooms.book.agent(deployment.agent.name)
    return found[1] if found else deployment.agent


def halt_reason(rooms: Rooms, deployment: Deployment, agent: AgentProfile) -> str | None:
    """Why nothing may leave now, or None."""
    halts = rooms.book.halts()
    if "" in halts:
        return f"the desk is halted: {halts['']}"
    if deployment.id in halts:
        return f"{agent.name} is halted: {halts[deployment.id]}"
    # What was decided before it became dry must not leave any more.
    if agent.mode == "dry_run" and not is_dry_run(deployment.id):
        return f"{agent.name} is in dry run"
    return None if agent.enabled else f"{agent.name} is not enabled"


def _newest_prices(rooms: Rooms, portfolio: Portfolio, symbol: str, *, now: int) -> tuple[Mid | None, dict[str, int]]:
    """The price last observed of a symbol, and the marks of all that is held."""
    mid = rooms.tape.last_price(symbol, view=View(now))
    others = [held for held in portfolio.positions.values() if mid is None or held.symbol != symbol]
    marks = position_marks(TapeQuotes(rooms.tape, View(now)), others, at=now)
    return mid, marks if mid is None else marks | {symbol: mid.price_e8}


def _working_moves(rooms: Rooms, orders: Iterable[Order], marks: dict[str, int], *, now: int) -> tuple[Move, ...]:
    moves = []
    for order in orders:
        mark = marks.get(order.symbol) or TapeQuotes(rooms.tape, View(now)).mark_e8(order.symbol, at=now)
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
        claimed = claimed_figures(action)
        flags = unexplained_numbers(action, packet(), claimed) if claimed else ()
        verdicts.append(msgspec.structs.replace(verdict, flags=flags) if flags else verdict)
    return Decision(answer.reply, actions, tuple(verdicts), note, votes=votes, usage=usage, reasoning=reasoning)
