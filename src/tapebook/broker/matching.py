"""When an order executes: a function of the order and what was observed, whatever the account holds.

- A market order meets the first observation at or after its arrival, which is the decision plus
  the latency. After a gap nobody wants the next price: without one in `PATIENCE_MS` it is cancelled.
- A limit order that the best price of that first observation satisfies is executed at once, as a
  taker. Otherwise it rests, and executes when an observation goes beyond its limit: as a maker, at
  its limit. One that nobody wanted is cancelled after `limit_order_ms`.
"""

from typing import Literal

import msgspec

from tapebook.broker.impact import touch_price_e8
from tapebook.broker.port import PaperTerms, Quotes
from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.order import Order

PATIENCE_MS = 5 * MINUTE


class Match(msgspec.Struct, frozen=True, order=True):
    """The moment an order's waiting ends, and how: executed as a taker or a maker at a midpoint, or given up."""

    at: int
    client_id: str
    how: Literal["taker", "maker", "given up"]
    mid_e8: int


def match(order: Order, quotes: Quotes, terms: PaperTerms, *, until: int) -> Match | None:
    """How an order's waiting has ended by a moment; None while it goes on."""
    since = order.intended_at + terms.latency_ms
    deadline = since + (PATIENCE_MS if order.type == "market" else terms.limit_order_ms)
    seen = quotes.mids(order.symbol, since=since, until=min(until, deadline))
    if seen and _executes_at_once(order, seen[0], quotes, terms):
        return Match(seen[0].bucket_ts, order.client_id, "taker", seen[0].price_e8)
    for mid in seen[1:]:
        if _beyond(order, mid):
            return Match(mid.bucket_ts, order.client_id, "maker", mid.price_e8)
    return Match(deadline, order.client_id, "given up", 0) if until >= deadline else None


def _executes_at_once(order: Order, first: Mid, quotes: Quotes, terms: PaperTerms) -> bool:
    if order.limit_price_e8 is None:
        return True
    book, buying = quotes.book(order.symbol, at=first.bucket_ts), order.side == "buy"
    best = touch_price_e8(first.price_e8, book, terms, buying=buying)
    return best <= order.limit_price_e8 if buying else best >= order.limit_price_e8


def _beyond(order: Order, mid: Mid) -> bool:
    if order.limit_price_e8 is None:
        return False
    return mid.price_e8 < order.limit_price_e8 if order.side == "buy" else mid.price_e8 > order.limit_price_e8
