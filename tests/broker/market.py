"""A market a broker can ask: midpoints, spreads and funding rates that a test has written down."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tapebook.broker import PaperTerms
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.money import E8
from tapebook.domain.order import Order

NOON = 500_000 * HOUR
"""A full hour to count from."""

TERMS = PaperTerms(latency_ms=500, taker_fee_ppm=450, maker_fee_ppm=150, spread_ppm=200)


class WrittenQuotes:
    """Quotes from lists; `seen` is the latest moment a broker has asked about."""

    def __init__(
        self,
        mids: Sequence[Mid] = (),
        *,
        spreads: dict[int, int] | None = None,
        rates: dict[int, int] | None = None,
    ) -> None:
        self._mids = sorted(mids, key=lambda mid: mid.bucket_ts)
        self._spreads = spreads or {}
        self._rates = rates or {}
        self.seen = 0

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """Midpoints between two moments, both included, oldest first."""
        self.seen = max(self.seen, until)
        return [mid for mid in self._mids if mid.symbol == symbol and since <= mid.bucket_ts <= until]

    def spread_ppm(self, symbol: str, *, at: int) -> int | None:
        """The spread written for that very moment."""
        self.seen = max(self.seen, at)
        return self._spreads.get(at)

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The newest midpoint at a moment."""
        self.seen = max(self.seen, at)
        known = [mid.price_e8 for mid in self._mids if mid.symbol == symbol and mid.bucket_ts <= at]
        return known[-1] if known else None

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate written for an hour."""
        self.seen = max(self.seen, hour)
        return self._rates.get(hour)


def mid(minutes: float, price: float, symbol: str = "BTC") -> Mid:
    """A midpoint so many minutes after noon."""
    return Mid(symbol, NOON + round(minutes * MINUTE), round(price * E8))


def order(minutes: float = 0, side: Any = "buy", size: float = 1, **changes: Any) -> Order:
    """A market order in BTC, intended so many minutes after noon."""
    at = NOON + round(minutes * MINUTE)
    plain = Order("c1", "r1", "BTC", side, round(size * E8), "market", None, False, 1, at)
    return msgspec.structs.replace(plain, **changes)


def limit(price: float, minutes: float = 0, side: Any = "buy", size: float = 1, **changes: Any) -> Order:
    """A limit order in BTC."""
    return order(minutes, side, size, type="limit", limit_price_e8=round(price * E8), **changes)
