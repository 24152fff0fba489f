"""Every kind of event in the book with its body, the ledger postings in them, and the ids of runs and orders.

The log sees kinds and bytes; here they get their meaning. The ledger is the account in integers: what a fill,
funding and insurance do to positions and to cash, as postings. Ids are a function of what asked for a run or an
order, so that a retry cannot make either twice. `may_be_archived` says which events may leave the book when they
are old.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from tapebook.db import Row
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import canonical_json, short_id
from tapebook.domain.order import (
    Fill,
    FundingPayment,
    Increments,
    InsurancePayment,
    Order,
    OrderEnd,
    SpotFill,
    round_price,
    round_size,
)
from tapebook.domain.position import (
    ClosedTrade,
    MissingFact,
    Portfolio,
    Position,
    TradeState,
    only_reduces,
    position_after_fill,
    signed_size_e8,
)
from tapebook.domain.run import Action, DecisionRun, RunStatus, SlotMark, Trigger, Usage, Verdict, Vote, Watermarks
from tapebook.log import Draft, Event, LateDraft

EntryKind = Literal["deposit", "realised_pnl", "fee", "funding", "insurance"]


class Posting(msgspec.Struct, frozen=True):
    """One line of the ledger; cash is the sum of all of them."""

    kind: EntryKind
    symbol: str
    amount_usd_e6: int


def apply_fill(portfolio: Portfolio, fill: Fill, *, leverage: int) -> tuple[Portfolio, list[Posting]]:
    """The account after a fill, and what it posts: the realised result, if any, and the fee."""
    after, realised = position_after_fill(portfolio.positions.get(fill.symbol), fill, leverage=leverage)
    postings = [Posting("realised_pnl", fill.symbol, realised)] if realised else []
    if fill.fee_usd_e6:
        postings.append(Posting("fee", fill.symbol, -fill.fee_usd_e6))
    positions = {symbol: kept for symbol, kept in portfolio.positions.items() if symbol != fill.symbol}
    if after is not None:
        positions[fill.symbol] = after
    return Portfolio(positions, portfolio.cash_usd_e6 + sum(each.amount_usd_e6 for each in postings)), postings


def apply_funding(portfolio: Portfolio, payment: FundingPayment) -> tuple[Portfolio, list[Posting]]:
    """The account after an hour's funding."""
    posting = Posting("funding", payment.symbol, payment.amount_usd_e6)
    positions = dict(portfolio.positions)
    if payment.symbol in positions:
        positions[payment.symbol] = positions[payment.symbol].with_funding(payment.amount_usd_e6)
    return Portfolio(positions, portfolio.cash_usd_e6 + payment.amount_usd_e6), [posting]


def apply_insurance(portfolio: Portfolio, payment: InsurancePayment) -> tuple[Portfolio, list[Posting]]:
    """The account after a loss beyond its means was made up."""
    posting = Posting("insurance", payment.symbol, payment.amount_usd_e6)
    return Portfolio(portfolio.positions, portfolio.cash_usd_e6 + payment.amount_usd_e6), [posting]


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


class _RunDetails(msgspec.Struct, frozen=True):
    """What the event of a run says and no table repeats."""

    inputs_sha256: str
    votes: tuple[Vote, ...] = ()
    note: str = ""
    mark: SlotMark | msgspec.UnsetType = msgspec.UNSET


class _RunEvent(msgspec.Struct, frozen=True):
    run: _RunDetails


_RUN_DETAILS = msgspec.json.Decoder(_RunEvent)


def run_of_row(row: Row, acted: Sequence[Row], *, body: str) -> DecisionRun:
    """A decision of its columns, those of its actions, and what only its event says."""
    details = _RUN_DETAILS.decode(body).run
    # The columns stand in the order of the struct's fields, with four columns for its watermarks.
    before = (*row[:10], Watermarks(*row[10:14]), row[14], details.inputs_sha256, *row[15:21])
    actions, verdicts = tuple(map(_action, acted)), tuple(map(_verdict, acted))
    reply_values = (tuple(msgspec.json.decode(row[21])), details.note, row[22], details.votes)
    usage, causes = Usage(*row[23:28]) if row[23] else None, tuple(msgspec.json.decode(row[28]))
    fields: Row = (*before, actions, verdicts, *reply_values, usage, causes, row[29], details.mark)
    return DecisionRun(*fields)


def _action(row: Row) -> Action:
    fields: Row = (*row[:9], tuple(msgspec.json.decode(row[9])))
    return Action(*fields)


def _verdict(row: Row) -> Verdict:
    return Verdict(bool(row[10]), row[11], row[12], tuple(msgspec.json.decode(row[13])))
