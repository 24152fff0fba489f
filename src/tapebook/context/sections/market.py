"""Market: the price now, the book, funding and open interest. What is not known is left out, never carried on."""

from tapebook.context.sections import Layout, fact_line
from tapebook.context.situation import Situation
from tapebook.domain.market import AssetContext, Liquidity
from tapebook.domain.money import E12, decimal_text, short_price
from tapebook.domain.packet import Section


def build(situation: Situation) -> Section | None:
    """Names and values."""
    rows: list[tuple[str, str]] = []
    if situation.mid is not None:
        rows.append(("price", short_price(situation.mid.price_e8)))
        rows.append(("price_age_s", str((situation.price_age_ms or 0) // 1000)))
    if situation.liquidity is not None:
        rows += _liquidity(situation.liquidity)
    if situation.context is not None:
        rows += _context(situation.context)
    return Section("market", f"Market: {situation.symbol}", ("name", "value"), tuple(rows)) if rows else None


def _liquidity(book: Liquidity) -> list[tuple[str, str]]:
    return [
        ("spread_bps", f"{book.spread_bps:.2f}"),
        ("depth_usd_0.1pct", f"{book.depth_usd_10bps:.0f}"),
        ("depth_usd_1pct", f"{book.depth_usd_100bps:.0f}"),
        ("imbalance", f"{book.imbalance:+.2f}"),
    ]


def _context(context: AssetContext) -> list[tuple[str, str]]:
    return [
        ("funding_rate_1h_pct", decimal_text(context.funding_e12 * 100, E12, 5)),
        ("premium_pct", decimal_text(context.premium_e12 * 100, E12, 4)),
        ("open_interest", f"{context.open_interest_base:.0f}"),
    ]


LAYOUT = Layout(cap=700, build=build, line=fact_line)
