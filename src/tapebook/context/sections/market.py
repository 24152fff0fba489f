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
        rows.append(("price_age_s", _age(situation, situation.mid.bucket_ts)))
    if situation.liquidity is not None:
        rows += [*_liquidity(situation.liquidity), ("book_age_s", _age(situation, situation.liquidity.bucket_ts))]
    if situation.context is not None:
        rows += [*_context(situation.context), ("funding_age_s", _age(situation, situation.context.bucket_ts))]
    return Section("market", f"Market: {situation.symbol}", ("name", "value"), tuple(rows)) if rows else None


def _age(situation: Situation, bucket_ts: int) -> str:
    """How old a value is, so that a stale one is seen to be stale."""
    return str((situation.as_of - bucket_ts) // 1000)


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
