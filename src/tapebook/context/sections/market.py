"""Market: the price now, the regime of the bars, the book, funding, open interest and features, each with its age.

What is not known is left out, never carried on. A feature is one row of `name=value` pairs under
the name the tape gives it; figures that have a row of their own are not repeated in it. Funding is always by the
hour: where it is settled more seldom, a row says every how many hours.
"""

from functools import lru_cache

from tapebook.context.quote import Name, Words, plain, symbol_text
from tapebook.context.sections import FACTS, Layout, Row, Rows, fact_text
from tapebook.context.sections.figures import statistic
from tapebook.context.situation import Feature, Market
from tapebook.domain.market import AssetContext, Liquidity, SettledFunding
from tapebook.domain.money import E12, decimal_text, divide, short_price

FEATURES: dict[str, tuple[str, ...]] = {
    "liquidityProfile": ("depthUsd05Pct", "spreadChange24hPct", "depthChange24hPct", "booksUsed", "regime"),
    "fundingPressure": (
        *("fundingRate8h", "fundingRateAnnual", "venueSpread8h", "aboveOtherVenues8h"),
        *("openInterestChange1hPct", "openInterestChange24hPct", "regime"),
    ),
    "volatilityProfile": (
        *("realizedVol1h", "realizedVol24h", "annualizedVol24h", "parkinsonVol1h", "volRatio1hTo24h", "regime"),
    ),
    "positioningPressure": ("direction", "score", "confidence", "momentumZ", "funding", "imbalance"),
}
"""Which figures of each feature are shown, in this order."""


def title(market: Market, name: Name = symbol_text) -> str:
    """Names the symbol."""
    return f"Market: {name(market.symbol)}"


def look(market: Market) -> Market:
    """All of it: every figure has its age, so nothing outlives the moment."""
    return market


def rows(market: Market, words: Words = plain) -> Rows:
    """Names and values."""
    rows: list[Row] = []
    mid = market.mid
    if mid is not None:
        rows += ("price", short_price(mid.price_e8)), ("price_age_s", age(market, mid.bucket_ts))
    if market.regime is not None:
        rows.append(("regime", market.regime))
    if market.liquidity is not None:
        rows += [*liquidity(market.liquidity), ("book_age_s", age(market, market.liquidity.bucket_ts))]
    if market.context is not None:
        rows += [*context(market.context), ("funding_age_s", age(market, market.context.bucket_ts))]
    elif market.settled is not None:
        rows += [*settled(market.settled), ("funding_age_s", age(market, market.settled.bucket_ts))]
    for feature in market.features:
        line = feature.line or shown_line(feature, words)
        seconds = (market.as_of - feature.bucket_ts) // 1000
        rows.append((feature.name, f"{line} age_s={seconds}" if line else f"age_s={seconds}"))
    return tuple(rows)


def age(market: Market, bucket_ts: int) -> str:
    """How old a value is, so that a stale one is seen to be stale."""
    return str((market.as_of - bucket_ts) // 1000)


def liquidity(book: Liquidity) -> list[Row]:
    """Spread, depth and imbalance."""
    return [
        ("spread_bps", statistic(book.spread_bps, 2)),
        ("depth_usd_0.1pct", statistic(book.depth_usd_10bps, 0)),
        ("depth_usd_1pct", statistic(book.depth_usd_100bps, 0)),
        ("imbalance", statistic(book.imbalance, 2)),
    ]


def context(known: AssetContext) -> list[Row]:
    """Funding, premium and open interest."""
    return [
        ("funding_rate_1h_pct", decimal_text(known.funding_e12 * 100, E12, 5)),
        ("premium_pct", decimal_text(known.premium_e12 * 100, E12, 4)),
        ("open_interest", statistic(known.open_interest_base, 0)),
    ]


@lru_cache(maxsize=64)
def settled(known: SettledFunding) -> tuple[Row, ...]:
    """The funding settled last, by the hour; premium and open interest are not known of it."""
    hourly = divide(known.rate_e12 * 100, known.interval_hours)
    return ("funding_rate_1h_pct", decimal_text(hourly, E12, 5)), ("funding_interval_h", str(known.interval_hours))


def shown_line(feature: Feature, words: Words = plain) -> str:
    """The figures of a feature that are shown, as `name=value` pairs."""
    known = dict(feature.metrics)
    return " ".join([f"{name}={words(known[name], 24)}" for name in FEATURES[feature.name] if name in known])


LAYOUT = Layout(name="market", cap=700, title=title, columns=FACTS, look=look, rows=rows, text=fact_text)
