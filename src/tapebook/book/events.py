"""Every kind of event in the book, with its body. The log sees kinds and bytes; here they get their meaning."""

from typing import Any, TypeVar

import msgspec

from tapebook.book.ledger import Posting
from tapebook.domain.agent import AgentProfile
from tapebook.domain.canonical import canonical
from tapebook.domain.order import Fill, FundingPayment, Order, OrderEnd, SpotFill
from tapebook.domain.position import Position
from tapebook.domain.run import DecisionRun, RunStatus, Vote
from tapebook.domain.trade import ClosedTrade, Lack, TradeState
from tapebook.log import Draft, Event

Body = TypeVar("Body", bound=msgspec.Struct)


class AgentSaved(msgspec.Struct, frozen=True):
    """In the owner's stream: a new version of an agent's profile."""

    version: int
    profile: AgentProfile


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


class TradeMarked(msgspec.Struct, frozen=True):
    """What is not known of a trade, all of it."""

    trade_id: str
    lacks: tuple[Lack, ...]


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


KINDS: dict[type[msgspec.Struct], str] = {
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
    TradeMarked: "trade.marked",
    TradeOpened: "trade.opened",
    TradeUpdated: "trade.updated",
    TradeClosed: "trade.closed",
}


_DECODERS: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in KINDS}
# Of every kind the body that was read or written last: tables and whoever follows the log want it right after.
_last: dict[type[msgspec.Struct], tuple[str, Any]] = {}


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    kind, text = type(body), canonical(body).decode()
    _last[kind] = text, body
    return Draft(KINDS[kind], happened_at, text)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    kept = _last.get(kind)
    if kept is None or kept[0] is not event.body:
        kept = _last[kind] = event.body, _DECODERS[kind].decode(event.body)
    body: Body = kept[1]
    return body


class ToldOnce(msgspec.Struct, frozen=True):
    """What an event says of a run and no table repeats."""

    inputs_sha256: str
    votes: tuple[Vote, ...] = ()
    note: str = ""


class _ToldOfRun(msgspec.Struct, frozen=True):
    run: ToldOnce


_TOLD_ONCE = msgspec.json.Decoder(_ToldOfRun)


def told_once(event: Event) -> ToldOnce:
    """What only the event of a decision says of it."""
    return _TOLD_ONCE.decode(event.body).run
