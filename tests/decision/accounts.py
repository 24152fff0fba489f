"""Accounts for the guard's tests: what is held, at which marks, and what is under way, in dollars."""

from typing import Any

import msgspec

from tapebook.decision.guard import Limits, Move
from tapebook.domain.agent import RiskCaps
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.run import Action, ActionKind
from tapebook.domain.units import E6, E8

CAPS = RiskCaps(
    max_position_usd_e6=2_000 * E6,
    max_leverage=5,
    min_notional_usd_e6=10 * E6,
    max_data_age_ms=120_000,
    max_account_usd_e6=3_000 * E6,
    max_daily_loss_usd_e6=1_000 * E6,
    max_orders_per_hour=60,
    max_price_deviation_ppm=20_000,
)
MARK = 100 * E8
"""One unit costs 100 USD."""


def usd(amount: float) -> int:
    """Dollars in millionths."""
    return round(amount * E6)


def position(symbol: str, dollars: float, *, leverage: int = 1) -> Position:
    """A position worth so much at the mark, bought there."""
    return Position(symbol, round(dollars * E8 / 100), usd(dollars), leverage)


def limits(*, held: float = 0, others: dict[str, float] | None = None, cash: float = 10_000, **changes: Any) -> Limits:
    """An account that may trade BTC, on a price three seconds old."""
    worth = {"BTC": held, **(others or {})}
    positions = {symbol: position(symbol, dollars) for symbol, dollars in worth.items() if dollars}
    plain = Limits(
        caps=CAPS,
        symbol="BTC",
        watchlist=("BTC", "ETH"),
        at=0,
        seq=1,
        portfolio=Portfolio(positions, usd(cash)),
        marks=dict.fromkeys(["BTC", *positions], MARK),
        data_age_ms=3_000,
    )
    return msgspec.structs.replace(plain, **changes)


def working(
    symbol: str, dollars: float, *, limit: float | None = None, leverage: int = 1, reduces: bool = False
) -> Move:
    """An order under way that buys (or, below zero, sells) so many dollars."""
    price = None if limit is None else round(limit * E8)
    return Move(symbol, dollars > 0, usd(abs(dollars)), MARK, price, leverage, reduces)


def action(kind: ActionKind, side: Any = None, dollars: float = 0, **changes: Any) -> Action:
    """A proposal on BTC."""
    plain = Action(kind, "BTC", side, usd(dollars), 1, "market", None, 5_000, "why")
    return msgspec.structs.replace(plain, **changes)


def limited(kind: ActionKind, side: Any, dollars: float, *, at: float, **changes: Any) -> Action:
    """A proposal with a limit price."""
    return action(kind, side, dollars, order_type="limit", limit_price_e8=round(at * E8), **changes)


def order(signed_dollars: float, *, run: str = "r1", at: int = 0, **changes: Any) -> Order:
    """An order on BTC for so many dollars at the mark."""
    size = round(abs(signed_dollars) * E8 / 100)
    side: Any = "buy" if signed_dollars > 0 else "sell"
    plain = Order("c1", run, "BTC", side, size, "market", None, False, 1, at)
    return msgspec.structs.replace(plain, **changes)
