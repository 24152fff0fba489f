"""Portfolio and risk caps: what is held and under way, what it is worth, and how much more is allowed.

Every cap the guard enforces is here with what is left of it, so that nothing has to be learned from
a refusal. The day's and the hour's figures are absent when they could not be read.
"""

from tapebook.context.quote import symbol_text
from tapebook.context.sections import Layout, fact_line
from tapebook.context.sections.figures import usd
from tapebook.context.situation import Situation
from tapebook.domain.activity import Activity
from tapebook.domain.agent import RiskCaps
from tapebook.domain.money import E8, decimal_text, notional_usd_e6, short_price
from tapebook.domain.order import Order
from tapebook.domain.packet import Section

MOST_SYMBOLS = 8
MOST_ORDERS = 3

Rows = list[tuple[str, str]]


def build(situation: Situation) -> Section | None:
    """Names and values; the position is that of the packet's symbol."""
    rows: Rows = [
        ("cash_usd", usd(situation.portfolio.cash_usd_e6)),
        ("equity_usd", usd(situation.equity_usd_e6)),
        *_position(situation),
        ("open_symbols", _listed([symbol_text(symbol) for symbol in sorted(situation.portfolio.positions)])),
        ("working_orders", _orders(situation.working)),
        *_caps(situation),
    ]
    if situation.activity is not None:
        rows += _left(situation, situation.activity)
    if situation.degraded:
        rows.append(("could_not_be_read", " ".join(sorted(situation.degraded))))
    return Section("portfolio", "Portfolio and risk caps", ("name", "value"), tuple(rows))


def _position(situation: Situation) -> Rows:
    held = situation.portfolio.positions.get(situation.symbol)
    if held is None:
        return [("position_side", "flat")]
    mark = situation.marks[situation.symbol]
    return [
        ("position_side", "long" if held.size_e8 > 0 else "short"),
        ("position_usd", usd(abs(situation.held_usd_e6(situation.symbol)))),
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


def _caps(situation: Situation) -> Rows:
    caps: RiskCaps = situation.deployment.agent.caps
    used = sum(abs(situation.held_usd_e6(symbol)) for symbol in situation.portfolio.positions)
    used += sum(_worth(order, situation) for order in situation.working if not order.reduce_only)
    return [
        ("max_position_usd", usd(caps.max_position_usd_e6)),
        ("max_account_usd", usd(caps.max_account_usd_e6)),
        ("account_used_usd", usd(used)),
        ("max_leverage", str(caps.max_leverage)),
        ("min_notional_usd", usd(caps.min_notional_usd_e6)),
    ]


def _worth(order: Order, situation: Situation) -> int:
    """What an order would add; nothing is known of one at the market while its symbol has no price."""
    price = order.limit_price_e8 or situation.marks.get(order.symbol, 0)
    return notional_usd_e6(order.size_e8, price)


def _left(situation: Situation, activity: Activity) -> Rows:
    """What the day and the hour still allow."""
    caps = situation.deployment.agent.caps
    lost = max(0, activity.day_start_equity_usd_e6 - situation.equity_usd_e6)
    rows = [
        ("max_daily_loss_usd", usd(caps.max_daily_loss_usd_e6)),
        ("daily_loss_left_usd", usd(max(0, caps.max_daily_loss_usd_e6 - lost))),
        ("orders_left_this_hour", str(max(0, caps.max_orders_per_hour - activity.orders_last_hour))),
    ]
    rested_at = activity.last_loss_at.get(situation.symbol, 0) + caps.cooldown_ms
    if situation.symbol in activity.last_loss_at and rested_at > situation.as_of:
        rows.append(("rests_after_loss_s", str(-(-(rested_at - situation.as_of) // 1000))))
    return rows


def _listed(names: list[str]) -> str:
    shown, more = names[:MOST_SYMBOLS], len(names) - MOST_SYMBOLS
    return " ".join([*shown, f"and {more} more"] if more > 0 else shown) or "none"


LAYOUT = Layout(name="portfolio", cap=350, build=build, line=fact_line, whole=True)
