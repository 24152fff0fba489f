"""Portfolio and risk caps: what is held and under way, what it is worth, and how much more is allowed.

Every cap the guard enforces is here with what is left of it, so that nothing has to be learned from
a refusal. The day's and the hour's figures are absent when they could not be read.
"""

import msgspec

from tapebook.context.quote import symbol_text
from tapebook.context.sections import FACTS, Layout, Row, Rows, fact_line
from tapebook.context.sections.figures import usd
from tapebook.context.situation import Situation
from tapebook.domain.activity import Activity
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E8, decimal_text, notional_usd_e6, short_price
from tapebook.domain.order import Order
from tapebook.domain.position import Portfolio

MOST_SYMBOLS = 8
MOST_ORDERS = 3


class Seen(msgspec.Struct, frozen=True):
    """What the section is made of; marks only where something depends on them, and the seconds a symbol still rests."""

    symbol: str
    portfolio: Portfolio
    marks: dict[str, int]
    working: tuple[Order, ...]
    caps: RiskCaps
    activity: Activity | None
    rests_s: int
    degraded: tuple[str, ...]

    def held_usd_e6(self, symbol: str) -> int:
        """The signed value of a position, at its mark."""
        held = self.portfolio.positions[symbol]
        return held.cost_usd_e6 + held.unrealised_usd_e6(self.marks[symbol])


def look(situation: Situation) -> Seen:
    """The account, the caps, and what the day and the hour have used of them."""
    portfolio, working, symbol = situation.portfolio, situation.working, situation.symbol
    return Seen(
        symbol,
        portfolio,
        situation.marks if portfolio.positions or working else {},
        working,
        situation.deployment.agent.caps,
        situation.activity,
        _rests_s(situation),
        situation.degraded,
    )


def _rests_s(situation: Situation) -> int:
    lost_at = situation.activity.last_loss_at.get(situation.symbol) if situation.activity else None
    if lost_at is None:
        return 0
    rested_at = lost_at + situation.deployment.agent.caps.cooldown_ms
    return max(0, -(-(rested_at - situation.as_of) // 1000))


def rows(seen: Seen) -> Rows:
    """Names and values; the position is that of the packet's symbol."""
    equity = seen.portfolio.equity_usd_e6(seen.marks)
    rows: list[Row] = [
        ("cash_usd", usd(seen.portfolio.cash_usd_e6)),
        ("equity_usd", usd(equity)),
        *_position(seen),
        ("open_symbols", _listed([symbol_text(symbol) for symbol in sorted(seen.portfolio.positions)])),
        ("working_orders", _orders(seen.working)),
        *_caps(seen),
    ]
    if seen.activity is not None:
        rows += _left(seen, seen.activity, equity)
    if seen.degraded:
        rows.append(("could_not_be_read", " ".join(sorted(seen.degraded))))
    return tuple(rows)


def _position(seen: Seen) -> list[Row]:
    held = seen.portfolio.positions.get(seen.symbol)
    if held is None:
        return [("position_side", "flat")]
    mark = seen.marks[seen.symbol]
    return [
        ("position_side", "long" if held.size_e8 > 0 else "short"),
        ("position_usd", usd(abs(seen.held_usd_e6(seen.symbol)))),
        ("entry_price", short_price(held.entry_price_e8)),
        ("mark", short_price(mark)),
        ("unrealised_usd", usd(held.unrealised_usd_e6(mark))),
    ]


def _orders(working: tuple[Order, ...]) -> str:
    told = [_order(order) for order in working[:MOST_ORDERS]]
    more = len(working) - len(told)
    return "; ".join([*told, f"{more} more"] if more else told) or "none"


def _order(order: Order) -> str:
    at = "" if order.limit_price_e8 is None else f" at {short_price(order.limit_price_e8)}"
    size = decimal_text(order.size_e8, E8, 8).rstrip("0").rstrip(".")
    return f"{order.side} {size} {symbol_text(order.symbol)}{at}"


def _caps(seen: Seen) -> list[Row]:
    caps = seen.caps
    used = sum(abs(seen.held_usd_e6(symbol)) for symbol in seen.portfolio.positions)
    used += sum(_worth(order, seen.marks) for order in seen.working if not order.reduce_only)
    return [
        ("max_position_usd", usd(caps.max_position_usd_e6)),
        ("max_account_usd", usd(caps.max_account_usd_e6)),
        ("account_used_usd", usd(used)),
        ("max_leverage", str(caps.max_leverage)),
        ("min_notional_usd", usd(caps.min_notional_usd_e6)),
    ]


def _worth(order: Order, marks: dict[str, int]) -> int:
    """What an order would add; nothing is known of one at the market while its symbol has no price."""
    return notional_usd_e6(order.size_e8, order.limit_price_e8 or marks.get(order.symbol, 0))


def _left(seen: Seen, activity: Activity, equity_usd_e6: int) -> list[Row]:
    """What the day and the hour still allow."""
    caps = seen.caps
    lost = max(0, activity.day_start_equity_usd_e6 - equity_usd_e6)
    rows: list[Row] = [
        ("max_daily_loss_usd", usd(caps.max_daily_loss_usd_e6)),
        ("daily_loss_left_usd", usd(max(0, caps.max_daily_loss_usd_e6 - lost))),
        ("orders_left_this_hour", str(max(0, caps.max_orders_per_hour - activity.orders_last_hour))),
    ]
    return [*rows, ("rests_after_loss_s", str(seen.rests_s))] if seen.rests_s else rows


def _listed(names: list[str]) -> str:
    shown, more = names[:MOST_SYMBOLS], len(names) - MOST_SYMBOLS
    return " ".join([*shown, f"and {more} more"] if more > 0 else shown) or "none"


LAYOUT = Layout(
    name="portfolio",
    cap=350,
    title=lambda _: "Portfolio and risk caps",
    columns=FACTS,
    look=look,
    rows=rows,
    line=fact_line,
    whole=True,
)
