"""Books: spread, depth and imbalance from one or more pictures of an order book. Pure.

The exchange shows twenty levels a side. On a liquid coin those end long before 1 % of the price,
so the same book is asked for with its prices rounded to fewer figures, which reaches further.
The mid and the spread come from full precision; each band of depth comes from the finest picture
that reaches it on both sides. A side with fewer than twenty levels is all there is.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from tapebook.domain.market import Liquidity
from tapebook.domain.money import E8
from tapebook.tape.sources.hyperliquid.answers import BookRow, Level
from tapebook.tape.sources.hyperliquid.universe import dex_of, full_name
from tapebook.tape.sources.hyperliquid.wire import price_e8

LEVELS = 20
BANDS = (0.001, 0.005, 0.01)
# Full precision first, then what is asked for when it does not reach, finest first.
FULL = 0
ROUNDED = (4, 3, 2)

_Side = Sequence[tuple[float, float]]


class Book(msgspec.Struct, frozen=True):
    """A picture of a book as numbers: (price, size) from the best outwards."""

    bids: tuple[tuple[float, float], ...]
    asks: tuple[tuple[float, float], ...]
    # Twice the mid, exact.
    best_sum_e8: int

    @property
    def mid(self) -> float:
        """The middle between the best bid and the best ask."""
        return self.best_sum_e8 / (2 * E8)


def book_of(row: BookRow, *, symbol: str | None = None) -> Book | None:
    """A picture as numbers; None when a side is empty, for then there is no mid. ValueError when it is none.

    Nor is it one when it is not that of the symbol which was asked for.
    """
    if symbol is not None and full_name(dex_of(symbol), row.coin) != symbol:
        raise ValueError(f"asked for {symbol}, answered with {row.coin}")
    bids, asks = row.levels
    if not bids or not asks:
        return None
    best_sum = price_e8(bids[0].px) + price_e8(asks[0].px)
    return Book(_numbers(bids), _numbers(asks), best_sum)


def _numbers(levels: list[Level]) -> tuple[tuple[float, float], ...]:
    numbers = tuple((float(level.px), float(level.sz)) for level in levels)
    if not all(math.isfinite(price * size) and price > 0 and size >= 0 for price, size in numbers):
        raise ValueError("a level has no price or no size")
    return numbers


def next_picture(pictures: Mapping[int, Book]) -> int | None:
    """The significant figures to ask for next, given the pictures so far; None when they are enough."""
    mid = pictures[FULL].mid
    for band in BANDS:
        if any(_reaches(book, mid, band) for book in pictures.values()):
            continue
        for figures in ROUNDED:
            if figures not in pictures and _span(mid, figures) >= band:
                return figures
    return None


def _reaches(book: Book, mid: float, band: float) -> bool:
    bids_reach = len(book.bids) < LEVELS or book.bids[-1][0] <= mid * (1 - band)
    asks_reach = len(book.asks) < LEVELS or book.asks[-1][0] >= mid * (1 + band)
    return bids_reach and asks_reach


def _span(price: float, figures: int) -> float:
    """How far twenty neighbouring levels of so many figures lie apart, as a share of the price."""
    step = 10.0 ** (math.floor(math.log10(price)) - figures + 1)
    return (LEVELS - 1) * step / price


def liquidity_of(symbol: str, pictures: Mapping[int, Book], *, bucket_ts: int) -> Liquidity:
    """The book boiled down; the depth of a band counts both sides."""
    full = pictures[FULL]
    mid = full.mid
    # Finest first: full precision, then more figures before fewer.
    finest = sorted(pictures, key=lambda figures: (figures != FULL, -figures))
    sides = [_band([pictures[figures] for figures in finest], mid, band) for band in BANDS]
    depth = [bids + asks for bids, asks in sides]
    bids, asks = sides[-1]
    return Liquidity(
        symbol=symbol,
        bucket_ts=bucket_ts,
        mid_e8=full.best_sum_e8 // 2,
        spread_bps=round((full.asks[0][0] - full.bids[0][0]) / mid * 10_000, 4),
        depth_usd_10bps=round(depth[0], 2),
        depth_usd_50bps=round(depth[1], 2),
        depth_usd_100bps=round(depth[2], 2),
        imbalance=round((bids - asks) / depth[2], 4) if depth[2] else 0.0,
    )


def _band(books: Sequence[Book], mid: float, band: float) -> tuple[float, float]:
    """USD of bids and asks within a band, from the finest book that reaches it, else from the widest."""
    reaching = next((book for book in books if _reaches(book, mid, band)), books[-1])
    return _within(reaching.bids, mid, band), _within(reaching.asks, mid, band)


def _within(side: _Side, mid: float, band: float) -> float:
    # A hair wider than the band: the product rounds, and a level exactly on the edge belongs to it.
    edge = mid * band * (1 + 1e-12)
    return math.fsum(price * size for price, size in side if abs(price - mid) <= edge)


def changed_enough(before: Liquidity, after: Liquidity, *, factor: float, imbalance: float) -> bool:
    """Whether a book differs so much from the newest one that is kept that it is worth a row of its own."""
    pairs = (
        (before.spread_bps, after.spread_bps),
        (before.depth_usd_10bps, after.depth_usd_10bps),
        (before.depth_usd_50bps, after.depth_usd_50bps),
        (before.depth_usd_100bps, after.depth_usd_100bps),
    )
    # From or to nothing counts, from nothing to nothing does not.
    grew = any(one != other and max(one, other) >= factor * min(one, other) for one, other in pairs)
    return grew or abs(after.imbalance - before.imbalance) >= imbalance
