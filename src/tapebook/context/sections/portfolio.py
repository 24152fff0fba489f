"""Portfolio and risk caps: what is held and under way, what it is worth, and how much more is allowed.

Every cap the guard enforces is here with what is left of it, so that nothing has to be learned from
a refusal. The day's and the hour's figures are absent when they could not be read.
"""

from functools import lru_cache

import msgspec

from tapebook.context.quote import Name, symbol_text
from tapebook.context.sections import FACTS, Layout, Row, Rows, fact_text
from tapebook.context.sections.figures import settled_usd, usd
from tapebook.context.situation import Situation, agent_of
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E8, decimal_text, notional_usd_e6, price_e8_of, short_price
from tapebook.domain.order import Order
from tapebook.domain.position import Position

MOST_SYMBOLS = 8
MOST_ORDERS = 3
FLAT: Rows = (("position_side", "flat"),)
LONG, SHORT = ("position_side", "long"), ("position_side", "short")

Held = tuple[tuple[Position, int, int], ...]
"""Positions by symbol, each with its mark and its signed value there."""


class Seen(msgspec.Struct, frozen=True):
    """What the section is made of: each position with what it is worth, each order with what it would add.

    `left` is what the day began with, the orders of the hour and the seconds the symbol still rests, if they are known.
    Marks are not in it where nothing depends on them, and no mapping is, for somebody may go on to fill it.
    """

    symbol: str
    cash_usd_e6: int
    equity_usd_e6: int
    held: Held
    working: tuple[tuple[Order, int], ...]
    caps: RiskCaps
    left: tuple[int, int, int] | None
    degraded: tuple[str, ...]


def look(situation: Situation) -> Seen:
    """The account, the caps, and what the day and the hour have used of them."""
    symbol, marks, working = situation.market.symbol, situation.marks, situation.working
    caps, activity = situation.deployment.agent.caps, situation.activity
    equity = cash = situation.portfolio.cash_usd_e6
    positions, held = situation.portfolio.positions, []
    for name in sorted(positions):
        position, mark = positions[name], marks[name]
        value = notional_usd_e6(position.size_e8, mark)
        equity += value - position.cost_usd_e6
        held.append((position, mark, value))
    left = None
    if activity is not None:
        lost_at = activity.last_loss_at.get(symbol)
        rests = 0 if lost_at is None else max(0, -((situation.as_of - lost_at - caps.cooldown_ms) // 1000))
        left = (activity.day_start_equity_usd_e6, activity.orders_last_hour, rests)
    adds = tuple([(order, _adds(order, marks)) for order in working]) if working else ()
    return Seen(symbol, cash, equity, tuple(held), adds, caps, left, situation.degraded)


def _adds(order: Order, marks: dict[str, int]) -> int:
    """What an order would add; nothing is known of one at the market while its symbol has no price."""
    price = order.limit_price_e8 or marks.get(order.symbol, 0)
    return 0 if order.reduce_only else notional_usd_e6(order.size_e8, price)


def rows(seen: Seen, name: Name = symbol_text) -> Rows:
    """Names and values; the position is that of the packet's symbol."""
    each, together, leverage, smallest, loss = _limits(seen.caps)
    own, names, used = FLAT, [], 0
    for position, mark, value in seen.held:
        names.append(name(position.symbol))
        used += abs(value)
        if position.symbol == seen.symbol:
            own = _position(position, mark, value)
    working = "none"
    if seen.working:
        working = _orders([order for order, _ in seen.working], name)
        used += sum([added for _, added in seen.working])
    return (
        ("cash_usd", settled_usd(seen.cash_usd_e6)),
        ("equity_usd", usd(seen.equity_usd_e6)),
        *own,
        ("open_symbols", " ".join(names if len(names) <= MOST_SYMBOLS else _some(names)) or "none"),
        ("working_orders", working),
        each,
        together,
        ("account_used_usd", usd(used)),
        leverage,
        smallest,
        *(() if seen.left is None else _still_allowed(seen, seen.left, loss)),
        *((("could_not_be_read", " ".join(sorted(seen.degraded))),) if seen.degraded else ()),
    )


@lru_cache(maxsize=512)
def _limits(caps: RiskCaps) -> Rows:
    """What an order has to keep to; cached, since it changes only with the agent."""
    return (
        ("max_position_usd", usd(caps.max_position_usd_e6)),
        ("max_account_usd", usd(caps.max_account_usd_e6)),
        ("max_leverage", str(caps.max_leverage)),
        ("min_notional_usd", usd(caps.min_notional_usd_e6)),
        ("max_daily_loss_usd", usd(caps.max_daily_loss_usd_e6)),
    )


def _position(position: Position, mark_e8: int, value_usd_e6: int) -> Rows:
    cost = position.cost_usd_e6
    return (
        LONG if position.size_e8 > 0 else SHORT,
        ("position_usd", usd(abs(value_usd_e6))),
        ("entry_price", _entry(cost, position.size_e8)),
        ("mark", short_price(mark_e8)),
        ("unrealised_usd", usd(value_usd_e6 - cost)),
    )


@lru_cache(maxsize=64)
def _entry(cost_usd_e6: int, size_e8: int) -> str:
    """What was paid on average; cached, since it stays until the size changes."""
    return short_price(price_e8_of(cost_usd_e6, size_e8))


def _orders(working: list[Order], name: Name) -> str:
    told = [_order(order, name) for order in working[:MOST_ORDERS]]
    more = len(working) - len(told)
    return "; ".join([*told, f"{more} more"] if more else told)


def _order(order: Order, name: Name) -> str:
    at = "" if order.limit_price_e8 is None else f" at {short_price(order.limit_price_e8)}"
    size = decimal_text(order.size_e8, E8, 8).rstrip("0").rstrip(".")
    return f"{order.side} {size} {name(order.symbol)}{at}"


def _still_allowed(seen: Seen, left: tuple[int, int, int], loss: Row) -> Rows:
    """What the day may lose, and what it and the hour still allow."""
    (began, sent, rests), caps = left, seen.caps
    allowed = caps.max_daily_loss_usd_e6 - max(0, began - seen.equity_usd_e6)
    lose = ("daily_loss_left_usd", settled_usd(max(0, allowed)))
    send = ("orders_left_this_hour", str(max(0, caps.max_orders_per_hour - sent)))
    return (loss, lose, send, ("rests_after_loss_s", str(rests))) if rests else (loss, lose, send)


def _some(names: list[str]) -> list[str]:
    return [*names[:MOST_SYMBOLS], f"and {len(names) - MOST_SYMBOLS} more"]


LAYOUT = Layout(
    name="portfolio",
    cap=350,
    title="Portfolio and risk caps",
    columns=FACTS,
    look=look,
    rows=rows,
    text=fact_text,
    whole=agent_of,
)
