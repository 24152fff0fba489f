"""Every kind of event in the book with its body and the rows it writes, and the ids of runs and orders.

The log sees kinds and bytes; here they get their meaning. Ids are a function of what asked for a run or an order, so
that a retry cannot make either twice. `may_be_archived` says which events may leave the book when they are old.

The book's tables follow from its events (`PROJECTION`): nothing that writes a row reads a table or a clock.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, TypeVar

import msgspec

from tapebook.db import Queries, Query, Row
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import canonical_json, short_id
from tapebook.domain.order import (
    Fill,
    FundingPayment,
    Increments,
    Order,
    OrderEnd,
    SpotFill,
    round_price,
    round_size,
)
from tapebook.domain.position import ClosedTrade, MissingFact, Position, TradeState, only_reduces, signed_size_e8
from tapebook.domain.run import Action, DecisionRun, RunStatus, Trigger, Verdict
from tapebook.log import Draft, Event, LateDraft, Projection, Write

EntryKind = Literal["deposit", "realised_pnl", "fee", "funding", "insurance"]


class Posting(msgspec.Struct, frozen=True):
    """One line of the ledger; cash is the sum of all of them."""

    kind: EntryKind
    symbol: str
    amount_usd_e6: int


Body = TypeVar("Body", bound=msgspec.Struct)


class AgentSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """In the owner's stream: a new version of an agent's profile, and why, if anybody said."""

    version: int
    profile: AgentProfile
    reason: str = ""


class AgentRemoved(msgspec.Struct, frozen=True):
    """In the owner's stream: an agent ends, with the profile it had last, disabled; it may be saved again."""

    version: int
    profile: AgentProfile
    reason: str = ""


class DeploymentOpened(msgspec.Struct, frozen=True):
    """An agent version begins to run against a broker, or goes on with a newer version."""

    agent: str
    version: int
    broker: str


class DeskHalted(msgspec.Struct, frozen=True):
    """In the owner's stream: a deployment, or (empty) every one, may not trade from now on."""

    subject: str
    reason: str


class DeskResumed(msgspec.Struct, frozen=True):
    """In the owner's stream: a halt is over."""

    subject: str
    reason: str


class DeskFlattened(msgspec.Struct, frozen=True):
    """In the owner's stream: what a deployment, or (empty) every one, has begun by now is to be closed or cancelled.

    `symbol` is the one it is about; empty is all of them.
    """

    subject: str
    reason: str
    symbol: str = ""


class LedgerPosted(msgspec.Struct, frozen=True):
    """Money moved; `balance` is cash after the last line."""

    ref: str
    lines: tuple[Posting, ...]
    balance_usd_e6: int


class RunDecided(msgspec.Struct, frozen=True):
    """A tick's decision, complete, before any order leaves."""

    run: DecisionRun


class RunEnded(msgspec.Struct, frozen=True):
    """All orders of a run have ended."""

    run_id: str
    status: RunStatus


class OrderIntended(msgspec.Struct, frozen=True):
    """An order that will be placed; written before it leaves."""

    order: Order


class OrderDryRun(msgspec.Struct, frozen=True):
    """An order of a dry run, guarded like any other: it never leaves, and this is all that is ever said of it.

    `amount` is what it would have cost (negative) or brought at the mark, as the ledger counts; `balance` is cash,
    which it does not move.
    """

    order: Order
    mark_e8: int
    amount_usd_e6: int
    balance_usd_e6: int
    detail: str


class OrderPlaced(msgspec.Struct, frozen=True):
    """The broker has the order."""

    client_id: str


class OrderUnanswered(msgspec.Struct, frozen=True):
    """Nobody knows whether the broker has the order, and why; it is asked for by its client id until that is known."""

    client_id: str
    detail: str


class OrderEnded(msgspec.Struct, frozen=True):
    """The broker's last word on an order."""

    end: OrderEnd


class FillObserved(msgspec.Struct, frozen=True):
    """A part of an order was executed, or the exchange liquidated."""

    fill: Fill


class FundingObserved(msgspec.Struct, frozen=True):
    """An hour's funding on an open position."""

    payment: FundingPayment


class MarksObserved(msgspec.Struct, frozen=True):
    """What the open positions were worth at a moment, and up to where their margin was checked by then."""

    marks: dict[str, int]
    cash_usd_e6: int
    equity_usd_e6: int
    walked_until: int = 0


class SpotFillObserved(msgspec.Struct, frozen=True):
    """A spot fill of the past was imported; it moves neither cash nor a position."""

    fill: SpotFill


class TokenFeeObserved(msgspec.Struct, frozen=True):
    """A fill's fee was paid in a token that is no dollar, so it is not part of the ledger."""

    fill_id: str
    token: str
    amount_e8: int


class FillBridged(msgspec.Struct, frozen=True):
    """The fill before this event is an adjustment: fills are missing between what was held and what is known next."""

    fill_id: str
    symbol: str
    held_e8: int
    expected_e8: int


class TradeMarkedIncomplete(msgspec.Struct, frozen=True):
    """What is not known of a trade, all of it."""

    trade_id: str
    lacks: tuple[MissingFact, ...]


class TradeOpened(msgspec.Struct, frozen=True):
    """A round trip began."""

    agent: str
    agent_version: int
    trade: TradeState
    position: Position


class TradeUpdated(msgspec.Struct, frozen=True):
    """An open round trip has new totals or extremes."""

    trade: TradeState
    position: Position


class TradeClosed(msgspec.Struct, frozen=True):
    """A round trip ended."""

    trade: ClosedTrade


EVENT_KINDS: dict[type[msgspec.Struct], str] = {
    AgentSaved: "agent.saved",
    AgentRemoved: "agent.removed",
    DeploymentOpened: "deployment.opened",
    DeskHalted: "desk.halted",
    DeskResumed: "desk.resumed",
    DeskFlattened: "desk.flattened",
    LedgerPosted: "ledger.posted",
    RunDecided: "run.decided",
    RunEnded: "run.ended",
    OrderIntended: "order.intended",
    OrderDryRun: "order.dry_run",
    OrderPlaced: "order.placed",
    OrderUnanswered: "order.unanswered",
    OrderEnded: "order.ended",
    FillObserved: "fill.observed",
    FundingObserved: "funding.observed",
    MarksObserved: "marks.observed",
    SpotFillObserved: "spot_fill.observed",
    TokenFeeObserved: "token_fee.observed",
    FillBridged: "fill.bridged",
    TradeMarkedIncomplete: "trade.marked",
    TradeOpened: "trade.opened",
    TradeUpdated: "trade.updated",
    TradeClosed: "trade.closed",
}


_DECODERS: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in EVENT_KINDS
}
# Of every kind the body that was read or written last: tables and whoever follows the log want it right after.
_last_bodies: dict[type[msgspec.Struct], tuple[str, Any]] = {}


def draft_event(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    kind, text = type(body), canonical_json(body).decode()
    _last_bodies[kind] = text, body
    return Draft(EVENT_KINDS[kind], happened_at, text)


class _StandIn(str):
    """The text of an event whose body is late, with the body as far as it is known."""

    __slots__ = ("known",)

    known: msgspec.Struct


def late_event(happened_at: int, body: Body, finish: Callable[[Body], Body]) -> LateDraft:
    """An event about to be appended whose body is not all worked out: `finish` does that when it is chained."""
    kind, stand_in = type(body), _StandIn("late")
    stand_in.known = body

    def finished_text() -> str:
        whole = finish(body)
        text = canonical_json(whole).decode()
        _last_bodies[kind] = text, whole
        return text

    return LateDraft(EVENT_KINDS[kind], happened_at, stand_in, finish=finished_text)


def event_body(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    kept, text = _last_bodies.get(kind), event.body
    if kept is None or kept[0] is not text:
        known = text.known if isinstance(text, _StandIn) else _DECODERS[kind].decode(text)
        kept = _last_bodies[kind] = text, known
    body: Body = kept[1]
    return body


_PLACED_NOTHING: frozenset[RunStatus] = frozenset({"held", "rejected", "failed", "expired"})


def decision_run_id(stream: str, symbol: str, *, scheduled_for: int, trigger: Trigger, branch: str) -> str:
    """The id of a decision: equal on every attempt, so that it cannot be made twice."""
    return short_id("run", stream, symbol, scheduled_for, trigger, branch)


def run_status(verdicts: Sequence[Verdict], *, orders: int, error: str | None) -> RunStatus:
    """What became of a decision at the moment it was made."""
    if error is not None:
        return "rejected"
    if orders:
        return "placed"
    for verdict in verdicts:
        if verdict.allowed:
            return "held"
    return "rejected" if verdicts else "held"


def may_be_archived(event: Event) -> bool:
    """Whether an event may leave for the archive: a decision that placed nothing, or what an account was worth.

    Orders, fills, postings and trades stay, with the decisions they came from.
    """
    if event.kind == EVENT_KINDS[MarksObserved]:
        return True
    return event.kind == EVENT_KINDS[RunDecided] and event_body(event, RunDecided).run.status in _PLACED_NOTHING


def order_client_id(run_id: str, index: int) -> str:
    """The id under which a broker knows the order of a run's action, on every attempt."""
    return short_id("order", run_id, index)


def orders_for_actions(
    run_id: str,
    actions: Sequence[tuple[Action, Verdict]],
    *,
    held: Position | None,
    mark_e8: int | None,
    at: int,
    increments: Increments | None = None,
) -> list[Order]:
    """The orders that allowed actions ask for; a hold, or a size of nothing or of less than a lot, asks for none.

    `increments` are the steps of the symbol that is traded, so that the book has the order as the broker gets it.
    """
    orders = []
    for index, (action, verdict) in enumerate(actions):
        size = signed_size_e8(action, held, mark_e8) if verdict.allowed and mark_e8 else 0
        if increments is not None:
            size = round_size(size, increments, held_e8=held.size_e8 if held else 0)
        if size:
            order = _order_of_action(action, size, held, client=order_client_id(run_id, index), run_id=run_id, at=at)
            orders.append(order if increments is None else _with_price_on_grid(order, increments))
    return orders


def _with_price_on_grid(order: Order, increments: Increments) -> Order:
    if order.limit_price_e8 is None:
        return order
    price = round_price(order.limit_price_e8, increments, buying=order.side == "buy")
    return msgspec.structs.replace(order, limit_price_e8=price)


def flatten_order(stream: str, held: Position, *, at: int) -> Order:
    """The order of a person who wants a position gone; it belongs to no run."""
    return Order(
        client_id=short_id("flatten", stream, held.symbol, at),
        run_id="",
        symbol=held.symbol,
        side="sell" if held.size_e8 > 0 else "buy",
        size_e8=abs(held.size_e8),
        type="market",
        limit_price_e8=None,
        reduce_only=True,
        leverage=held.leverage,
        intended_at=at,
    )


def _order_of_action(action: Action, size: int, held: Position | None, *, client: str, run_id: str, at: int) -> Order:
    return Order(
        client_id=client,
        run_id=run_id,
        symbol=action.symbol,
        side="buy" if size > 0 else "sell",
        size_e8=abs(size),
        type=action.order_type,
        limit_price_e8=action.limit_price_e8,
        reduce_only=only_reduces(size, held),
        leverage=action.leverage,
        intended_at=at,
    )


_QUERIES = Queries.load("tapebook.book", "projections.sql")

TABLES = (
    "agent_versions",
    "deployments",
    "desk_controls",
    "desk_flattenings",
    "decision_runs",
    "decision_actions",
    "orders",
    "fills",
    "spot_fills",
    "wallet_ledger",
    "positions",
    "portfolio_snapshots",
    "trade_history",
)


# A run that asked no model.
_NO_USAGE: Row = ("", 0, 0, 0, 0)


class _SavedProfile(msgspec.Struct):
    profile: msgspec.Raw


def _agent_saved(event: Event) -> list[Write]:
    return [_agent_version(event, event_body(event, AgentSaved), removed=0)]


def _agent_removed(event: Event) -> list[Write]:
    return [_agent_version(event, event_body(event, AgentRemoved), removed=1)]


def _agent_version(event: Event, body: AgentSaved | AgentRemoved, *, removed: int) -> Write:
    # The profile as it was written: a field that profiles get later must not change the row of an old one.
    written = msgspec.json.decode(event.body, type=_SavedProfile)
    profile = bytes(written.profile).decode()
    row = {"agent": body.profile.name, "version": body.version, "profile_json": profile, "removed": removed}
    return Write(_QUERIES.agent_version, event.columns() | row)


def _deployment_opened(event: Event) -> list[Write]:
    body = event_body(event, DeploymentOpened)
    return [
        Write(_QUERIES.deployment, event.columns() | msgspec.structs.asdict(body) | {"opened_at": event.happened_at})
    ]


def _desk_halted(event: Event) -> list[Write]:
    return [_desk_control(event, event_body(event, DeskHalted), halted=1)]


def _desk_resumed(event: Event) -> list[Write]:
    return [_desk_control(event, event_body(event, DeskResumed), halted=0)]


def _desk_control(event: Event, body: DeskHalted | DeskResumed, *, halted: int) -> Write:
    row = msgspec.structs.asdict(body) | {"halted": halted, "known_at": event.known_at}
    return Write(_QUERIES.control, event.columns() | row)


def _desk_flattened(event: Event) -> list[Write]:
    body = event_body(event, DeskFlattened)
    row = msgspec.structs.asdict(body) | {"known_at": event.known_at}
    return [Write(_QUERIES.flattening, event.columns() | row)]


def _ledger_posted(event: Event) -> list[Write]:
    body = event_body(event, LedgerPosted)
    balance = body.balance_usd_e6 - sum(line.amount_usd_e6 for line in body.lines)
    writes = []
    for number, line in enumerate(body.lines):
        balance += line.amount_usd_e6
        row = msgspec.structs.asdict(line) | {
            "line": number,
            "balance_usd_e6": balance,
            "happened_at": event.happened_at,
        }
        writes.append(Write(_QUERIES.ledger_line, event.columns() | row))
    return writes


def _run_decided(event: Event) -> list[Write]:
    run = event_body(event, RunDecided).run
    place = (event.stream.owner, event.stream.deployment, event.seq)
    lacked = (_json_texts(run.degraded), _json_texts(run.degraded_causes))
    optional_values = (*lacked, *(msgspec.structs.astuple(run.usage) if run.usage else _NO_USAGE))
    writes = [Write(_QUERIES.run, (*place, event.known_at, *optional_values, *_run_values(run)))]
    if run.trigger != "backtest":
        # No table of ours, but the desk's to-do list, which no backtest has: a decision leaves it with its run.
        writes.append(Write(_QUERIES.done, (run.run_id,)))
    for number, (action, verdict) in enumerate(zip(run.actions, run.verdicts, strict=True)):
        verdict_values = (int(verdict.allowed), verdict.rule, verdict.detail, _json_texts(verdict.flags))
        row = (*place, number, run.run_id, _json_texts(action.cites), *verdict_values, *_action_values(action))
        writes.append(Write(_QUERIES.action, row))
    return writes


def _values_of(query: Query, *, first: str, **paths: str) -> Callable[[object], Row]:
    """What reads a statement's values off a struct, from one column on; `paths` are of columns with another name."""
    names = query.params[query.params.index(first) :]
    return attrgetter(*[paths.get(name, name) for name in names])


_run_values = _values_of(
    _QUERIES.run,
    first="run_id",
    run_trigger="trigger",
    tape_seq="watermarks.tape",
    book_seq="watermarks.book",
    docs_seq="watermarks.docs",
    curated_seq="watermarks.curated",
)
_action_values = _values_of(_QUERIES.action, first="action")


@lru_cache(maxsize=1_024)
def _json_texts(texts: tuple[str, ...]) -> str:
    """Cached, since it is none of them as a rule."""
    return canonical_json(texts).decode()


def _run_ended(event: Event) -> list[Write]:
    body = event_body(event, RunEnded)
    return [Write(_QUERIES.end_run, {"run_id": body.run_id, "status": body.status} | event.columns())]


def _order_intended(event: Event) -> list[Write]:
    return [Write(_QUERIES.order, _order_row(event_body(event, OrderIntended).order) | event.columns())]


def _order_dry_run(event: Event) -> list[Write]:
    body = event_body(event, OrderDryRun)
    row = _order_row(body.order) | msgspec.structs.asdict(body) | event.columns() | {"happened_at": event.happened_at}
    return [Write(_QUERIES.dry_order, row), Write(_QUERIES.dry_ledger_line, row)]


def _order_row(order: Order) -> dict[str, Any]:
    return msgspec.structs.asdict(order) | {"order_type": order.type, "reduce_only": int(order.reduce_only)}


def _order_placed(event: Event) -> list[Write]:
    body = event_body(event, OrderPlaced)
    return [Write(_QUERIES.place_order, {"client_id": body.client_id} | event.columns())]


def _order_unanswered(event: Event) -> list[Write]:
    body = event_body(event, OrderUnanswered)
    return [Write(_QUERIES.doubt_order, msgspec.structs.asdict(body) | event.columns())]


def _order_ended(event: Event) -> list[Write]:
    end = event_body(event, OrderEnded).end
    row = {"client_id": end.client_id, "status": end.status, "detail": end.detail}
    return [Write(_QUERIES.end_order, row | event.columns())]


def _fill_observed(event: Event) -> list[Write]:
    fill = event_body(event, FillObserved).fill
    row = msgspec.structs.asdict(fill) | {"maker": int(fill.maker), "liquidation": int(fill.liquidation)}
    return [Write(_QUERIES.fill, row | event.columns())]


def _spot_fill_observed(event: Event) -> list[Write]:
    fill = event_body(event, SpotFillObserved).fill
    return [Write(_QUERIES.spot_fill, msgspec.structs.asdict(fill) | {"maker": int(fill.maker)} | event.columns())]


def _token_fee_observed(event: Event) -> list[Write]:
    return [
        Write(
            _QUERIES.token_fee,
            msgspec.structs.asdict(event_body(event, TokenFeeObserved)) | event.columns(),
        )
    ]


def _fill_bridged(event: Event) -> list[Write]:
    return [Write(_QUERIES.bridge_fill, {"fill_id": event_body(event, FillBridged).fill_id} | event.columns())]


def _trade_marked(event: Event) -> list[Write]:
    body = event_body(event, TradeMarkedIncomplete)
    return [Write(_QUERIES.mark_trade, {"trade_id": body.trade_id, "lacks": ",".join(body.lacks)} | event.columns())]


def _marks_observed(event: Event) -> list[Write]:
    body = event_body(event, MarksObserved)
    place = (event.stream.owner, event.stream.deployment, event.seq)
    worth = (body.cash_usd_e6, body.equity_usd_e6, body.walked_until)
    return [Write(_QUERIES.snapshot, (*place, event.happened_at, canonical_json(body.marks).decode(), *worth))]


def _trade_opened(event: Event) -> list[Write]:
    body = event_body(event, TradeOpened)
    row = msgspec.structs.asdict(body.trade) | {"agent": body.agent, "agent_version": body.agent_version}
    return [
        Write(_QUERIES.open_trade, row | event.columns()),
        _position_version(event, body.trade, body.position),
    ]


def _trade_updated(event: Event) -> list[Write]:
    body = event_body(event, TradeUpdated)
    return [_position_version(event, body.trade, body.position)]


def _trade_closed(event: Event) -> list[Write]:
    closed = event_body(event, TradeClosed).trade
    row = msgspec.structs.asdict(closed.state) | {
        "exit_tick_at": closed.exit_tick_at,
        "exit_reason": closed.exit_reason,
        "exit_run_id": closed.exit_run_id,
    }
    gone = Position(closed.state.symbol, 0, 0, 0)
    return [Write(_QUERIES.close_trade, row | event.columns()), _position_version(event, closed.state, gone)]


def _position_version(event: Event, trade: TradeState, position: Position) -> Write:
    row = msgspec.structs.asdict(trade) | msgspec.structs.asdict(position)
    return Write(_QUERIES.position, row | event.columns())


PROJECTION = Projection(
    tables=TABLES,
    projectors={
        EVENT_KINDS[AgentSaved]: _agent_saved,
        EVENT_KINDS[AgentRemoved]: _agent_removed,
        EVENT_KINDS[DeploymentOpened]: _deployment_opened,
        EVENT_KINDS[DeskHalted]: _desk_halted,
        EVENT_KINDS[DeskResumed]: _desk_resumed,
        EVENT_KINDS[DeskFlattened]: _desk_flattened,
        EVENT_KINDS[LedgerPosted]: _ledger_posted,
        EVENT_KINDS[RunDecided]: _run_decided,
        EVENT_KINDS[RunEnded]: _run_ended,
        EVENT_KINDS[OrderIntended]: _order_intended,
        EVENT_KINDS[OrderDryRun]: _order_dry_run,
        EVENT_KINDS[OrderPlaced]: _order_placed,
        EVENT_KINDS[OrderUnanswered]: _order_unanswered,
        EVENT_KINDS[OrderEnded]: _order_ended,
        EVENT_KINDS[FillObserved]: _fill_observed,
        EVENT_KINDS[MarksObserved]: _marks_observed,
        EVENT_KINDS[SpotFillObserved]: _spot_fill_observed,
        EVENT_KINDS[TokenFeeObserved]: _token_fee_observed,
        EVENT_KINDS[FillBridged]: _fill_bridged,
        EVENT_KINDS[TradeMarkedIncomplete]: _trade_marked,
        EVENT_KINDS[TradeOpened]: _trade_opened,
        EVENT_KINDS[TradeUpdated]: _trade_updated,
        EVENT_KINDS[TradeClosed]: _trade_closed,
    },
)
