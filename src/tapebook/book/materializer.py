"""Round trips from position changes, and the events that one report of the broker writes. Pure functions.

For each symbol, in alphabetical order (`reconcile_portfolio_delta` → `_transition`):

1. nothing held, something now            → OpenTrade      (`_open_trade`)
2. held, nothing now                      → CloseTrade     (`_close_trade`)
3. held, the other side now               → FlipTrade      (both)
4. held, same side, any size              → UpdateMfeMae   (`_resize_trade`): adds, partial closes, funding and
   marks
                                            belong to the trade that is open

It is called once per fill, so no lifetime between two ticks is invisible; with no fill to explain a change, the
mark stands in for the price. It never asks the time and never reads a store.

A trade's extremes (MFE, MAE) hold the results it had at prices that were observed while it was open: 0 at its first
fill, the path of prices since (`MaterializerContext.path`), the price of every later fill. A mark beside a fill was
observed before it, so it counts in a step without one alone.

The ledger is the account in integers: what a fill, funding and insurance do to positions and to cash, as postings
(`apply_fill`, `apply_funding`, `apply_insurance`).

`settle_fill`, `settle_funding`, `settle_insurance` and `settle_marks` take an account and an event and return the
next account and the bodies of new events. The caller appends all bodies of one reconciliation in one transaction.

Recent activity is a pure function of two parts:

    session    the rows of the last hour and of the day so far, as the store reads them
    marks      what the positions of 00:00 UTC were worth then, which only the market can say

The day starts at 00:00 UTC. Its equity is computed from the ledger, never remembered by a process: cash now, less
all that was posted today, plus what the positions held at midnight had not realised. Transfers are left where they
are, so a deposit at noon is no gain.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile

import msgspec

from tapebook.book import events as ev
from tapebook.book.events import Posting
from tapebook.domain.canonical import short_id
from tapebook.domain.order import Fill, FundingPayment, InsurancePayment
from tapebook.domain.position import ClosedTrade, Portfolio, Position, PriceRange, TradeState, position_after_fill
from tapebook.domain.run import Activity
from tapebook.domain.units import DAY, divide_half_even, floor_to_step, notional_usd_e6


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


class MaterializerContext(msgspec.Struct, frozen=True):
    """What explains one step: when, at which prices, by which source, and the trades open before it.

    `path` are the prices observed before the step, by symbol, of what was held until then; `order_id` is the order a
    fill belongs to; `stream` is the owner and the deployment whose account it is, and part of the ids of its trades.
    """

    at: int
    source_id: str
    open_trades: dict[str, TradeState] = {}
    marks: dict[str, int] = {}
    prices: dict[str, int] = {}
    fees: dict[str, int] = {}
    funding: dict[str, int] = {}
    reason: str = ""
    run_id: str | None = None
    exit_label: str | None = None
    regimes: dict[str, str | None] = {}
    lessons_hash: str | None = None
    path: dict[str, PriceRange] = {}
    order_id: str | None = None
    stream: str = ""

    def price(self, symbol: str) -> int:
        """The price at which a symbol's size changed: the fill's, else the mark."""
        return self.prices[symbol] if symbol in self.prices else self.marks[symbol]


class OpenTrade(msgspec.Struct, frozen=True):
    """A position appeared: a new round trip begins."""

    trade: TradeState


class UpdateMfeMae(msgspec.Struct, frozen=True):
    """The position is still open: its newest totals and extremes."""

    trade: TradeState


class CloseTrade(msgspec.Struct, frozen=True):
    """The position is gone: the round trip with its outcome."""

    trade: ClosedTrade


class FlipTrade(msgspec.Struct, frozen=True):
    """The position changed sides in one step: one round trip ends, another begins."""

    close: CloseTrade
    open: OpenTrade


Op = OpenTrade | UpdateMfeMae | CloseTrade | FlipTrade


def reconcile_portfolio_delta(prev: Portfolio, next: Portfolio, ctx: MaterializerContext) -> list[Op]:
    """The ops that turn the trades open before a step into those after it."""
    # In a fixed order, so that two runs write equal events.
    symbols = sorted({*prev.positions, *next.positions})
    changes = (_transition(_held_position(prev, symbol), _held_position(next, symbol), ctx) for symbol in symbols)
    return [op for op in changes if op is not None]


def _held_position(portfolio: Portfolio, symbol: str) -> Position | None:
    """A symbol's position; a size of zero is none."""
    held = portfolio.positions.get(symbol)
    return held if held is not None and held.size_e8 else None


def _transition(before: Position | None, after: Position | None, ctx: MaterializerContext) -> Op | None:
    trade = ctx.open_trades.get(before.symbol) if before else None
    # A position without a trade is from before our time: it is adopted as it is.
    if before is None or trade is None:
        return OpenTrade(_adopt_position(after, ctx)) if after else None
    for price in ctx.path.get(before.symbol, ()):
        trade = _with_extremes(trade, trade.realised_usd_e6 + before.unrealised_usd_e6(price))
    fee = ctx.fees.get(before.symbol, 0)
    if after is None:
        return CloseTrade(_close_trade(trade, before, ctx, fee=fee))
    if (before.size_e8 > 0) != (after.size_e8 > 0):
        # One fill did both; each trade bears the fee of its part.
        closing = divide_half_even(fee * abs(before.size_e8), abs(before.size_e8) + abs(after.size_e8))
        return FlipTrade(
            CloseTrade(_close_trade(trade, before, ctx, fee=closing)),
            OpenTrade(_open_trade(after, ctx, fee=fee - closing)),
        )
    return UpdateMfeMae(_resize_trade(trade, before, after, ctx))


def _adopt_position(after: Position, ctx: MaterializerContext) -> TradeState:
    """A trade for a position that has none; the step's fee and funding are all its own."""
    fee, funding = ctx.fees.get(after.symbol, 0), ctx.funding.get(after.symbol, 0)
    return msgspec.structs.replace(_open_trade(after, ctx, fee=fee), funding_usd_e6=funding)


def _open_trade(after: Position, ctx: MaterializerContext, *, fee: int) -> TradeState:
    # A position from before our time, in a step about something else, has neither mark nor price: its cost stands in.
    mark = ctx.marks.get(after.symbol) or ctx.prices.get(after.symbol) or after.entry_price_e8
    return TradeState(
        trade_id=_trade_id(after.symbol, ctx),
        symbol=after.symbol,
        side="long" if after.size_e8 > 0 else "short",
        entry_tick_at=ctx.at,
        entry_mark_e8=mark,
        entry_leverage=after.leverage,
        entry_reason=ctx.reason,
        entry_run_id=ctx.run_id,
        entry_regime_tag=ctx.regimes.get(after.symbol),
        entry_lessons_hash=ctx.lessons_hash,
        entered_e8=abs(after.size_e8),
        entered_usd_e6=abs(after.cost_usd_e6),
        funded_until=ctx.at,
        fees_usd_e6=fee,
        entry_usd_e6=abs(after.cost_usd_e6),
        entry_order_id=None if ctx.run_id else ctx.order_id,
    )


def _trade_id(symbol: str, ctx: MaterializerContext) -> str:
    """The id of a trade, made of its account, its symbol and what began it."""
    # The account's own, since exchanges and files give the same fill to whoever asks for it.
    return short_id("trade", *((ctx.stream,) if ctx.stream else ()), symbol, ctx.source_id)


def _close_trade(trade: TradeState, before: Position, ctx: MaterializerContext, *, fee: int) -> ClosedTrade:
    proceeds = notional_usd_e6(before.size_e8, ctx.price(before.symbol))
    ended = msgspec.structs.replace(
        trade,
        exited_e8=trade.exited_e8 + abs(before.size_e8),
        exited_usd_e6=trade.exited_usd_e6 + abs(proceeds),
        realised_usd_e6=trade.realised_usd_e6 + proceeds - before.cost_usd_e6,
        fees_usd_e6=trade.fees_usd_e6 + fee,
        funding_usd_e6=trade.funding_usd_e6 + ctx.funding.get(before.symbol, 0),
    )
    # The exit is a result the trade has had: MAE ≤ final ≤ MFE.
    ended = _with_extremes(ended, ended.realised_usd_e6)
    return ClosedTrade(ended, ctx.at, ctx.exit_label or ctx.reason or "unknown", ctx.run_id)


def _resize_trade(trade: TradeState, before: Position, after: Position, ctx: MaterializerContext) -> TradeState:
    paid = after.cost_usd_e6 - before.cost_usd_e6
    if abs(after.size_e8) > abs(before.size_e8):
        trade = msgspec.structs.replace(
            trade,
            entered_e8=trade.entered_e8 + abs(after.size_e8 - before.size_e8),
            entered_usd_e6=trade.entered_usd_e6 + abs(paid),
            entry_usd_e6=_entry_usd_e6(trade, abs(paid), ctx),
        )
    elif after.size_e8 != before.size_e8:
        proceeds = notional_usd_e6(before.size_e8 - after.size_e8, ctx.price(before.symbol))
        trade = msgspec.structs.replace(
            trade,
            exited_e8=trade.exited_e8 + abs(after.size_e8 - before.size_e8),
            exited_usd_e6=trade.exited_usd_e6 + abs(proceeds),
            realised_usd_e6=trade.realised_usd_e6 + proceeds + paid,
        )
    trade = msgspec.structs.replace(
        trade,
        fees_usd_e6=trade.fees_usd_e6 + ctx.fees.get(before.symbol, 0),
        funding_usd_e6=trade.funding_usd_e6 + ctx.funding.get(before.symbol, 0),
        funded_until=max(ctx.at, trade.funded_until) if before.symbol in ctx.funding else trade.funded_until,
    )
    # The price of a fill was observed at the fill; a mark beside it may be older than the position.
    seen = ctx.prices if before.symbol in ctx.prices else ctx.marks
    if before.symbol in seen:
        trade = _with_extremes(trade, trade.realised_usd_e6 + after.unrealised_usd_e6(seen[before.symbol]))
    return trade


def _entry_usd_e6(trade: TradeState, paid_usd_e6: int, ctx: MaterializerContext) -> int | None:
    """The notional at entry after a fill that enters: it grows with fills of the order that opened the trade alone."""
    if trade.entry_usd_e6 is None or ctx.run_id != trade.entry_run_id:
        return trade.entry_usd_e6
    opening = ctx.run_id or ctx.at == trade.entry_tick_at or (ctx.order_id and ctx.order_id == trade.entry_order_id)
    return trade.entry_usd_e6 + paid_usd_e6 if opening else trade.entry_usd_e6


def _with_extremes(trade: TradeState, result_usd_e6: int) -> TradeState:
    """The trade with its extremes widened to include a result it has had."""
    return msgspec.structs.replace(
        trade,
        mfe_usd_e6=max(trade.mfe_usd_e6, result_usd_e6),
        mae_usd_e6=min(trade.mae_usd_e6, result_usd_e6),
    )


class Account(msgspec.Struct, frozen=True):
    """A deployment's account as of `seq`: what it holds, and the round trips that are open."""

    seq: int
    portfolio: Portfolio
    open_trades: dict[str, TradeState]


class TradeCause(msgspec.Struct, frozen=True):
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


SettleResult = tuple[Account, list[msgspec.Struct]]


def settle_fill(
    account: Account, fill: Fill, cause: TradeCause, *, mark_e8: int | None, path: PriceRange | None = None
) -> SettleResult:
    """One fill: position, ledger and trade move together. A fill of no order of ours is somebody else's doing.

    `path` are the prices observed of its symbol since the account was last valued, before it.
    """
    # Every order of ours has a client id: without one, somebody traded on the account beside us.
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
    return _settle(account, portfolio, context, cause=cause, first_bodies=[ev.FillObserved(fill)], postings=postings)


def settle_funding(account: Account, payment: FundingPayment, cause: TradeCause) -> SettleResult:
    """One hour's funding on one position."""
    portfolio, postings = apply_funding(account.portfolio, payment)
    context = MaterializerContext(
        at=payment.happened_at,
        source_id=f"funding {payment.happened_at}",
        stream=cause.stream,
        open_trades=account.open_trades,
        funding={payment.symbol: payment.amount_usd_e6},
    )
    return _settle(
        account, portfolio, context, cause=cause, first_bodies=[ev.FundingObserved(payment)], postings=postings
    )


def settle_insurance(account: Account, payment: InsurancePayment) -> SettleResult:
    """A loss that the exchange made up, posted to the account."""
    # Money of the account and of no trade, so that a trade's result stays what it was.
    portfolio, postings = apply_insurance(account.portfolio, payment)
    posted = ev.LedgerPosted(f"insurance {payment.happened_at}", tuple(postings), portfolio.cash_usd_e6)
    return Account(account.seq, portfolio, account.open_trades), [posted]


def settle_marks(
    account: Account,
    marks: dict[str, int],
    cause: TradeCause,
    *,
    path: Mapping[str, PriceRange],
    at: int,
    walked_until: int = 0,
) -> SettleResult:
    """The marks of a moment: what the account is worth by them, and how far each trade has been by its path.

    A mark may be from before a position was opened: what a trade has been through, the path alone says.
    """
    portfolio, trades = account.portfolio, account.open_trades
    bodies: list[msgspec.Struct] = [
        ev.MarksObserved(marks, portfolio.cash_usd_e6, portfolio.equity_usd_e6(marks), walked_until)
    ]
    # Within what a trade has been through already, as most prices are, there is nothing to be said of it.
    if not _widens_extremes(account, path):
        return account, bodies
    context = MaterializerContext(
        at=at, source_id=f"marks {at}", stream=cause.stream, open_trades=trades, path=dict(path)
    )
    return _settle(account, portfolio, context, cause=cause, first_bodies=bodies, postings=[])


def _widens_extremes(account: Account, path: Mapping[str, PriceRange]) -> bool:
    """Whether prices stretch the extremes of a trade; a position without a trade gets one."""
    for symbol, held in account.portfolio.positions.items():
        trade, prices = account.open_trades.get(symbol), path.get(symbol)
        if trade is None:
            return True
        if prices is None:
            continue
        # The result is linear in the price, so the two ends of the path bound it.
        ends = held.unrealised_usd_e6(prices[0]), held.unrealised_usd_e6(prices[1])
        lowest, highest = trade.realised_usd_e6 + min(ends), trade.realised_usd_e6 + max(ends)
        if lowest < trade.mae_usd_e6 or highest > trade.mfe_usd_e6:
            return True
    return False


def _settle(
    account: Account,
    portfolio: Portfolio,
    context: MaterializerContext,
    *,
    cause: TradeCause,
    first_bodies: list[msgspec.Struct],
    postings: list[Posting],
) -> SettleResult:
    bodies = list(first_bodies)
    if postings:
        bodies.append(ev.LedgerPosted(context.source_id, tuple(postings), portfolio.cash_usd_e6))
    trades = dict(account.open_trades)
    for op in reconcile_portfolio_delta(account.portfolio, portfolio, context):
        bodies += _events_of_op(op, trades, portfolio, cause)
    return Account(account.seq, portfolio, trades), bodies


def _events_of_op(
    op: Op, trades: dict[str, TradeState], portfolio: Portfolio, cause: TradeCause
) -> list[msgspec.Struct]:
    """An op as events; an update that changes nothing is none."""
    if isinstance(op, FlipTrade):
        return _events_of_op(op.close, trades, portfolio, cause) + _events_of_op(op.open, trades, portfolio, cause)
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


UNREADABLE_REPLY = "UNREADABLE_REPLY"


BROKER_REFUSED = "BROKER_REFUSED"


AT_SEND = " at send: "
"""Between the rule and the detail of an order that the send gate refused."""


def refusal_code(detail: str) -> str:
    """The code of an order that was refused: the rule of the send gate, or the broker."""
    rule, at_send, _ = detail.partition(AT_SEND)
    return rule if at_send else BROKER_REFUSED


class LastClose(msgspec.Struct, frozen=True):
    """How a symbol's newest round trip ended."""

    symbol: str
    at: int
    net_usd_e6: int


class Session(msgspec.Struct, frozen=True):
    """What the tables say as of one moment; `held` are the positions of the day's start, `nets` newest first."""

    cash_usd_e6: int
    results_usd_e6: int
    held: dict[str, Position]
    rejections: tuple[str, ...]
    executed: int
    orders: int
    nets: tuple[int, ...]
    closes: tuple[LastClose, ...]
    refusals: tuple[str, ...] = ()


def day_start(as_of: int) -> int:
    """00:00 UTC of a moment's day."""
    return floor_to_step(as_of, DAY)


def activity_of_session(session: Session, marks: Mapping[str, int]) -> Activity:
    """The activity of a session, with the marks of the day's start."""
    return Activity(
        rejections=session.rejections,
        executed_today=session.executed,
        orders_last_hour=session.orders,
        realised_today_usd_e6=session.results_usd_e6,
        day_start_equity_usd_e6=day_start_equity(session, marks),
        losing_streak=losing_streak(session.nets),
        last_close_at={close.symbol: close.at for close in session.closes},
        last_loss_at={close.symbol: close.at for close in session.closes if close.net_usd_e6 < 0},
        refusals=session.refusals,
    )


def day_start_equity(session: Session, marks: Mapping[str, int]) -> int:
    """Equity at 00:00 UTC, as if all transfers of the day had been made before."""
    unrealised = sum(held.unrealised_usd_e6(marks[symbol]) for symbol, held in session.held.items())
    return session.cash_usd_e6 - session.results_usd_e6 + unrealised


def losing_streak(nets: Iterable[int]) -> int:
    """How many of the newest results in a row were losses; breaking even ends a row."""
    return sum(1 for _ in takewhile(lambda net: net < 0, nets))
