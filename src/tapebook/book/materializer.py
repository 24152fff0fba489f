"""Round trips from position changes: a pure function of two portfolios and what explains the step between them.

For each symbol, in alphabetical order (`reconcile_portfolio_delta` → `_transition`):

1. nothing held, something now            → OpenTrade      (`_opened`)
2. held, nothing now                      → CloseTrade     (`_closed`)
3. held, the other side now               → FlipTrade      (both)
4. held, same side, any size              → UpdateMfeMae   (`_resized`): adds, partial closes, funding and marks
                                            belong to the trade that is open

It is called once per fill, so no lifetime between two ticks is invisible; with no fill to explain
a change, the mark stands in for the price. It never asks the time and never reads a store.

A trade's extremes (MFE, MAE) hold the results it had at prices that were observed while it was open:
0 at its first fill, the path of prices since (`MaterializerContext.path`), the price of every later
fill. A mark beside a fill was observed before it, so it counts in a step without one alone.
"""

import msgspec

from tapebook.domain.canonical import short_id
from tapebook.domain.money import divide, notional_usd_e6
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.trade import ClosedTrade, PriceRange, TradeState


class MaterializerContext(msgspec.Struct, frozen=True):
    """What explains one step: when, at which prices, on whose word, and the trades open before it.

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
    symbols = sorted({*prev.positions, *next.positions})
    changes = (_transition(_held(prev, symbol), _held(next, symbol), ctx) for symbol in symbols)
    return [op for op in changes if op is not None]


def _held(portfolio: Portfolio, symbol: str) -> Position | None:
    """A symbol's position; a size of zero is none."""
    held = portfolio.positions.get(symbol)
    return held if held is not None and held.size_e8 else None


def _transition(before: Position | None, after: Position | None, ctx: MaterializerContext) -> Op | None:
    trade = ctx.open_trades.get(before.symbol) if before else None
    if before is None or trade is None:
        return OpenTrade(_adopted(after, ctx)) if after else None
    for price in ctx.path.get(before.symbol, ()):
        trade = _stretched(trade, trade.realised_usd_e6 + before.unrealised_usd_e6(price))
    fee = ctx.fees.get(before.symbol, 0)
    if after is None:
        return CloseTrade(_closed(trade, before, ctx, fee=fee))
    if (before.size_e8 > 0) != (after.size_e8 > 0):
        # One fill did both; each trade bears the fee of its part.
        closing = divide(fee * abs(before.size_e8), abs(before.size_e8) + abs(after.size_e8))
        return FlipTrade(
            CloseTrade(_closed(trade, before, ctx, fee=closing)), OpenTrade(_opened(after, ctx, fee=fee - closing))
        )
    return UpdateMfeMae(_resized(trade, before, after, ctx))


def _adopted(after: Position, ctx: MaterializerContext) -> TradeState:
    """A trade for a position that has none; the step's fee and funding are all its own."""
    fee, funding = ctx.fees.get(after.symbol, 0), ctx.funding.get(after.symbol, 0)
    return msgspec.structs.replace(_opened(after, ctx, fee=fee), funding_usd_e6=funding)


def _opened(after: Position, ctx: MaterializerContext, *, fee: int) -> TradeState:
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
    """The id of a trade: one account's own, for exchanges and files give the same fill to whoever asks for it."""
    return short_id("trade", *((ctx.stream,) if ctx.stream else ()), symbol, ctx.source_id)


def _closed(trade: TradeState, before: Position, ctx: MaterializerContext, *, fee: int) -> ClosedTrade:
    proceeds = notional_usd_e6(before.size_e8, ctx.price(before.symbol))
    ended = msgspec.structs.replace(
        trade,
        exited_e8=trade.exited_e8 + abs(before.size_e8),
        exited_usd_e6=trade.exited_usd_e6 + abs(proceeds),
        realised_usd_e6=trade.realised_usd_e6 + proceeds - before.cost_usd_e6,
        fees_usd_e6=trade.fees_usd_e6 + fee,
        funding_usd_e6=trade.funding_usd_e6 + ctx.funding.get(before.symbol, 0),
    )
    ended = _stretched(ended, ended.realised_usd_e6)
    return ClosedTrade(ended, ctx.at, ctx.exit_label or ctx.reason or "unknown", ctx.run_id)


def _resized(trade: TradeState, before: Position, after: Position, ctx: MaterializerContext) -> TradeState:
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
    seen = ctx.prices if before.symbol in ctx.prices else ctx.marks
    if before.symbol in seen:
        trade = _stretched(trade, trade.realised_usd_e6 + after.unrealised_usd_e6(seen[before.symbol]))
    return trade


def _entry_usd_e6(trade: TradeState, paid_usd_e6: int, ctx: MaterializerContext) -> int | None:
    """The notional at entry after a fill that enters: it grows with fills of the order that opened the trade alone."""
    if trade.entry_usd_e6 is None or ctx.run_id != trade.entry_run_id:
        return trade.entry_usd_e6
    opening = ctx.run_id or ctx.at == trade.entry_tick_at or (ctx.order_id and ctx.order_id == trade.entry_order_id)
    return trade.entry_usd_e6 + paid_usd_e6 if opening else trade.entry_usd_e6


def _stretched(trade: TradeState, result_usd_e6: int) -> TradeState:
    """The trade with its extremes widened to include a result it has had."""
    return msgspec.structs.replace(
        trade,
        mfe_usd_e6=max(trade.mfe_usd_e6, result_usd_e6),
        mae_usd_e6=min(trade.mae_usd_e6, result_usd_e6),
    )
