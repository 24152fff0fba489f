"""What one word of the broker writes: the account moves, the ledger gets lines, trades open, change and close.

Pure: an account and an event in, the next account and the bodies of new events out. The caller
appends all bodies of one reconciliation in one transaction.
"""

from collections.abc import Mapping

import msgspec

from tapebook.book import events as ev
from tapebook.book.ledger import Posting, apply_fill, apply_funding, apply_insurance
from tapebook.book.materializer import (
    CloseTrade,
    FlipTrade,
    MaterializerContext,
    Op,
    OpenTrade,
    reconcile_portfolio_delta,
)
from tapebook.domain.order import Fill, FundingPayment, InsurancePayment
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.trade import PriceRange, TradeState


class Account(msgspec.Struct, frozen=True):
    """A deployment's account as of `seq`: what it holds, and the round trips that are open."""

    seq: int
    portfolio: Portfolio
    open_trades: dict[str, TradeState]


class Cause(msgspec.Struct, frozen=True):
    """Why something happened: the agent, and (for a fill of ours) the run, its reason and the leverage it asked for.

    `stream` is the owner and the deployment whose account it is, which the ids of its trades are made of;
    `exit_label` stands for the reason where nobody's decision gave one.
    """

    agent: str
    agent_version: int
    run_id: str | None = None
    reason: str = ""
    leverage: int = 1
    regime: str | None = None
    lessons_hash: str | None = None
    exit_label: str | None = None
    stream: str = ""


Settled = tuple[Account, list[msgspec.Struct]]


def settle_fill(
    account: Account, fill: Fill, cause: Cause, *, mark_e8: int | None, path: PriceRange | None = None
) -> Settled:
    """One fill: position, ledger and trade move together. A fill of no order of ours is somebody else's doing.

    `path` are the prices observed of its symbol since the account was last valued, before it.
    """
    label = cause.exit_label or (None if fill.client_id else "external_flatten")
    portfolio, postings = apply_fill(account.portfolio, fill, leverage=cause.leverage)
    context = MaterializerContext(
        at=fill.happened_at,
        source_id=fill.fill_id,
        stream=cause.stream,
        open_trades=account.open_trades,
        marks={} if mark_e8 is None else {fill.symbol: mark_e8},
        prices={fill.symbol: fill.price_e8},
        fees={fill.symbol: fill.fee_usd_e6},
        reason=cause.reason,
        run_id=cause.run_id,
        exit_label="liquidated" if fill.liquidation else "delisted" if fill.delisted else label,
        regimes={fill.symbol: cause.regime},
        lessons_hash=cause.lessons_hash,
        path={} if path is None else {fill.symbol: path},
        order_id=fill.client_id,
    )
    return _settled(account, portfolio, context, cause=cause, said=[ev.FillObserved(fill)], postings=postings)


def settle_funding(account: Account, payment: FundingPayment, cause: Cause) -> Settled:
    """One hour's funding on one position."""
    portfolio, postings = apply_funding(account.portfolio, payment)
    context = MaterializerContext(
        at=payment.happened_at,
        source_id=f"funding {payment.happened_at}",
        stream=cause.stream,
        open_trades=account.open_trades,
        funding={payment.symbol: payment.amount_usd_e6},
    )
    return _settled(account, portfolio, context, cause=cause, said=[ev.FundingObserved(payment)], postings=postings)


def settle_insurance(account: Account, payment: InsurancePayment) -> Settled:
    """A loss that was made up: money of the account and of no trade, so that a trade's result stays what it was."""
    portfolio, postings = apply_insurance(account.portfolio, payment)
    posted = ev.LedgerPosted(f"insurance {payment.happened_at}", tuple(postings), portfolio.cash_usd_e6)
    return Account(account.seq, portfolio, account.open_trades), [posted]


def settle_marks(
    account: Account,
    marks: dict[str, int],
    cause: Cause,
    *,
    path: Mapping[str, PriceRange],
    at: int,
    walked_until: int = 0,
) -> Settled:
    """The marks of a moment: what the account is worth by them, and how far each trade has been by its path.

    A mark may be from before a position was opened: what a trade has been through, the path alone says.
    """
    portfolio, trades = account.portfolio, account.open_trades
    said: list[msgspec.Struct] = [
        ev.MarksObserved(marks, portfolio.cash_usd_e6, portfolio.equity_usd_e6(marks), walked_until)
    ]
    # Within what a trade has been through already, as most prices are, there is nothing to be said of it.
    if not any(_widens(trades.get(symbol), held, path.get(symbol)) for symbol, held in portfolio.positions.items()):
        return account, said
    context = MaterializerContext(
        at=at, source_id=f"marks {at}", stream=cause.stream, open_trades=trades, path=dict(path)
    )
    return _settled(account, portfolio, context, cause=cause, said=said, postings=[])


def _widens(trade: TradeState | None, held: Position, path: PriceRange | None) -> bool:
    """Whether prices stretch a trade's extremes; a position without a trade gets one."""
    if trade is None or path is None:
        return trade is None
    ends = [trade.realised_usd_e6 + held.unrealised_usd_e6(price) for price in path]
    return min(ends) < trade.mae_usd_e6 or max(ends) > trade.mfe_usd_e6


def _settled(
    account: Account,
    portfolio: Portfolio,
    context: MaterializerContext,
    *,
    cause: Cause,
    said: list[msgspec.Struct],
    postings: list[Posting],
) -> Settled:
    bodies = list(said)
    if postings:
        bodies.append(ev.LedgerPosted(context.source_id, tuple(postings), portfolio.cash_usd_e6))
    trades = dict(account.open_trades)
    for op in reconcile_portfolio_delta(account.portfolio, portfolio, context):
        bodies += _apply(op, trades, portfolio, cause)
    return Account(account.seq, portfolio, trades), bodies


def _apply(op: Op, trades: dict[str, TradeState], portfolio: Portfolio, cause: Cause) -> list[msgspec.Struct]:
    """An op as events; an update that changes nothing is none."""
    if isinstance(op, FlipTrade):
        return _apply(op.close, trades, portfolio, cause) + _apply(op.open, trades, portfolio, cause)
    if isinstance(op, CloseTrade):
        del trades[op.trade.state.symbol]
        return [ev.TradeClosed(op.trade)]
    symbol = op.trade.symbol
    if trades.get(symbol) == op.trade:
        return []
    trades[symbol] = op.trade
    position = portfolio.positions[symbol]
    if isinstance(op, OpenTrade):
        return [ev.TradeOpened(cause.agent, cause.agent_version, op.trade, position)]
    return [ev.TradeUpdated(op.trade, position)]
