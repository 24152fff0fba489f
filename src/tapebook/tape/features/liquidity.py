"""Liquidity profile: the newest book, and how it compares with the last day's.

    change   100 × (newest / median of the books of the 24 h before it − 1), for the spread and for the depth within 1 %

    thin    depth within 1 % below half its median
    deep    above twice its median
    normal  between

Half and twice are as far from usual to either side; they are chosen, not fitted.

There is no profile without a fresh book. With fewer than 72 earlier books, six hours of them, the
median says little about a day: the changes and the regime are None, the newest figures stand.
"""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

import msgspec

from tapebook.domain.instants import DAY, MINUTE
from tapebook.domain.market import Liquidity
from tapebook.tape.features.fresh import newest_fresh

LiquidityRegime = Literal["thin", "normal", "deep"]

THIN_RATIO, DEEP_RATIO = 0.5, 2.0
LEAST_BOOKS = 72
ROUND_MS = 5 * MINUTE


class LiquidityProfile(msgspec.Struct, frozen=True):
    """The book now and against its day; the imbalance is positive when bids are heavier."""

    symbol: str
    as_of: int
    spread_bps: float
    depth_usd_10bps: float
    depth_usd_50bps: float
    depth_usd_100bps: float
    imbalance: float
    spread_change_24h_pct: float | None
    depth_change_24h_pct: float | None
    books_used: int
    regime: LiquidityRegime | None


def liquidity_profile(books: Sequence[Liquidity], *, as_of: int) -> LiquidityProfile | None:
    """The profile at a moment, from one symbol's books."""
    newest = newest_fresh(books, as_of=as_of)
    if newest is None:
        return None
    earlier = _one_a_round(book for book in books if newest.bucket_ts - DAY <= book.bucket_ts < newest.bucket_ts)
    spread = _ratio_to_median(newest.spread_bps, [book.spread_bps for book in earlier])
    depth = _ratio_to_median(newest.depth_usd_100bps, [book.depth_usd_100bps for book in earlier])
    return LiquidityProfile(
        symbol=newest.symbol,
        as_of=as_of,
        spread_bps=newest.spread_bps,
        depth_usd_10bps=newest.depth_usd_10bps,
        depth_usd_50bps=newest.depth_usd_50bps,
        depth_usd_100bps=newest.depth_usd_100bps,
        imbalance=newest.imbalance,
        spread_change_24h_pct=None if spread is None else 100 * (spread - 1),
        depth_change_24h_pct=None if depth is None else 100 * (depth - 1),
        books_used=len(earlier),
        regime=None if depth is None else liquidity_regime(depth),
    )


def _one_a_round(books: Iterable[Liquidity]) -> list[Liquidity]:
    """The first book of every five minutes: those kept in between are of restless hours and would outweigh the rest."""
    first: dict[int, Liquidity] = {}
    for book in books:
        first.setdefault(book.bucket_ts // ROUND_MS, book)
    return list(first.values())


def liquidity_regime(depth_ratio: float) -> LiquidityRegime:
    """The regime of a depth by its ratio to the median."""
    if depth_ratio < THIN_RATIO:
        return "thin"
    return "deep" if depth_ratio > DEEP_RATIO else "normal"


def _ratio_to_median(newest: float, earlier: Sequence[float]) -> float | None:
    middle = median(earlier) if len(earlier) >= LEAST_BOOKS else 0.0
    return newest / middle if middle > 0 else None
