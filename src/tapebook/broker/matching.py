"""When an order executes: a function of the order and what was observed, whatever the account holds.

- A market order meets the first observation at or after its arrival, which is the decision plus
  the latency. After a gap nobody wants the next price: without one in `PATIENCE_MS`, or in the time
  of a longer bar, it is cancelled.
- Where bars are all there is of the time it arrives in, the fill rule says which price of the bar
  under way it meets, at its arrival. The price is known when the bar is, so the fill is booked then:

      next_open   the open; an order decided more than `OPEN_COUNTS_MS` after it comes too late for
                  that price, and meets the close at the bar's end, where the next bar opens
      worst       the high for a buy, the low for a sell: no price within the bar is worse
      bar_close   none: the first observation is the close of the bar under way, at its end (of
                  minutes, the open of the next)

- A limit order that the best price of that first observation satisfies is executed at once, as a
  taker. Otherwise it rests, and executes when an observation goes beyond its limit: as a maker, at
  its limit. Of bars longer than a minute the extremes count too, at their end: of those that began
  when it rested already. One that nobody wanted is cancelled after `limit_order_ms`.

Whoever asks more often than bars end, and has booked funding of a position in the meantime, does not
book it again for a size that a fill at the bar's beginning has changed.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tapebook.broker.impact import touch_price_e8
from tapebook.broker.port import PaperTerms, Quotes
from tapebook.broker.stretches import GRACE_MS
from tapebook.domain.instants import MINUTE
from tapebook.domain.market import Mid
from tapebook.domain.order import Order

PATIENCE_MS = 5 * MINUTE

OPEN_COUNTS_MS = 2 * MINUTE
"""How long after a bar began a decision may still have its open: as long as the guard takes a price for fresh."""


class Match(msgspec.Struct, frozen=True, order=True):
    """The moment an order's waiting ends, and how: executed as a taker or a maker at a midpoint, or given up."""

    at: int
    client_id: str
    how: Literal["taker", "maker", "given up"]
    mid_e8: int


def match(order: Order, quotes: Quotes, terms: PaperTerms, *, until: int) -> Match | None:
    """How an order's waiting has ended by a moment; None while it goes on."""
    since = order.intended_at + terms.latency_ms
    deadline = since + _patience_ms(order, quotes, terms)
    last = min(until, deadline)
    seen = _observations(order, quotes, terms, since=since, until=last)
    if seen and _executes_at_once(order, seen[0], quotes, terms):
        return Match(seen[0].bucket_ts, order.client_id, "taker", seen[0].price_e8)
    passed = [mid for mid in seen[1:] if _beyond(order, mid.price_e8)][:1]
    if seen:
        passed += _traded_through(order, quotes, since=seen[0].bucket_ts, until=last)
    if passed:
        first = min(passed, key=lambda mid: mid.bucket_ts)
        return Match(first.bucket_ts, order.client_id, "maker", first.price_e8)
    return Match(deadline, order.client_id, "given up", 0) if until >= deadline else None


def _observations(order: Order, quotes: Quotes, terms: PaperTerms, *, since: int, until: int) -> Sequence[Mid]:
    """What an order meets from its arrival on, oldest first; a fill rule puts a price of the bar under way first."""
    seen = quotes.mids(order.symbol, since=since, until=until)
    first = None if terms.fill == "bar_close" else _within_bar(order, quotes, terms, at=since, until=until)
    return seen if first is None else [first, *(mid for mid in seen if mid.bucket_ts > since)]


def _within_bar(order: Order, quotes: Quotes, terms: PaperTerms, *, at: int, until: int) -> Mid | None:
    """The price of the bar under way that an order meets; None while that is not known, and where there is a better."""
    begins = at - at % quotes.bar_ms(order.symbol)
    if terms.fill == "next_open" and order.intended_at - begins > OPEN_COUNTS_MS:
        return None
    bar = quotes.bar_alone(order.symbol, begins=begins, until=until)
    if bar is None:
        return None
    worst = bar.high_e8 if order.side == "buy" else bar.low_e8
    return Mid(order.symbol, at, bar.open_e8 if terms.fill == "next_open" else worst)


def _patience_ms(order: Order, quotes: Quotes, terms: PaperTerms) -> int:
    """How long an order waits; within a bar's length and its grace, a bar that is not missing is known."""
    if order.type == "limit":
        return terms.limit_order_ms
    return max(PATIENCE_MS, quotes.bar_ms(order.symbol) + GRACE_MS)


def _executes_at_once(order: Order, first: Mid, quotes: Quotes, terms: PaperTerms) -> bool:
    if order.limit_price_e8 is None:
        return True
    book, buying = quotes.book(order.symbol, at=first.bucket_ts), order.side == "buy"
    best = touch_price_e8(first.price_e8, book, terms, buying=buying)
    return best <= order.limit_price_e8 if buying else best >= order.limit_price_e8


def _beyond(order: Order, price_e8: int) -> bool:
    if order.limit_price_e8 is None:
        return False
    return price_e8 < order.limit_price_e8 if order.side == "buy" else price_e8 > order.limit_price_e8


def _traded_through(order: Order, quotes: Quotes, *, since: int, until: int) -> list[Mid]:
    """The close of the first bar longer than a minute that went beyond the limit of an order that rests."""
    if quotes.bar_ms(order.symbol) == MINUTE:
        return []
    for bar in quotes.bars(order.symbol, since=since, until=until):
        if _beyond(order, bar.low_e8 if order.side == "buy" else bar.high_e8):
            return [Mid(order.symbol, bar.end, bar.close_e8)]
    return []
