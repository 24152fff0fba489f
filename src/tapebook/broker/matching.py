"""When an order executes and at which price: a function of the order and what was observed.

- A market order meets the first observation at or after its arrival, which is the decision plus the latency. After
  a gap nobody wants the next price: without one in `MARKET_ORDER_WAIT_MS`, or in the time of a longer bar, it is
  cancelled.
- Where bars are all there is of the time it arrives in, the fill rule says which price of the bar under way it
  meets, at its arrival. The price is known when the bar is, so the fill is booked then:

      next_open   the open; an order decided more than `OPEN_COUNTS_MS` after it comes too late for
                  that price, and meets the close at the bar's end, where the next bar opens
      worst       the high for a buy, the low for a sell: no price within the bar is worse
      bar_close   none: the first observation is the close of the bar under way, at its end (of
                  minutes, the open of the next)

- A limit order that the best price of that first observation satisfies is executed at once, as a taker. Otherwise
  it rests, and executes when an observation goes beyond its limit: as a maker, at its limit. Of bars longer than a
  minute the extremes count too, at their end: of those that began when it rested already. One that stays unfilled is
  cancelled after `limit_order_ms`.

Whoever asks more often than bars end, and has booked funding of a position in the meantime, does not book it again
for a size that a fill at the bar's beginning has changed.

A market order pays half the spread and its impact (`market_price_e8`). An order book has four points a side:
nothing up to the best price, then what is offered within 0.1, 0.5 and 1 % of the mid, evenly in between. An order
takes it from the best price outwards and pays the average. Beyond 1 % the book is assumed to go on as in its last
band, up to the farthest price an order may reach (`max_impact_ppm`), where all of the rest is had; a book with
nothing in its last band has nothing beyond it either. Where no book was recorded, the average grows by
`impact_ppm_per_100k` with every 100,000 USD, up to the same limit. Either way more size is never cheaper, and
nothing is better than the best price.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import msgspec

from tapebook.broker.port import OrderBook, PaperTerms, Quotes
from tapebook.domain.market import Mid
from tapebook.domain.order import Order
from tapebook.domain.units import E6, MINUTE

_PPM = 1_000_000
# The distances at which a book is recorded: 0.1, 0.5 and 1 % of the mid.
_BANDS_PPM = (1_000, 5_000, 10_000)
# A size times a price, both e8, is USD e16.
_E16_PER_USD_E6 = 10**10

# How far from the mid, in millionths, and how much is offered up to there, in USD e16.
_Point = tuple[Fraction, Fraction]


def touch_price_e8(mid_e8: int, book: OrderBook | None, terms: PaperTerms, *, buying: bool) -> int:
    """The best price there is: half a spread away from the mid."""
    return _price_away_from_mid(mid_e8, _half_spread(book, terms), buying=buying)


def market_price_e8(signed_size_e8: int, mid_e8: int, book: OrderBook | None, terms: PaperTerms) -> int:
    """The average price of taking a size from the book, rounded to the worse side."""
    buying = signed_size_e8 > 0
    wanted = Fraction(abs(signed_size_e8) * mid_e8)
    half = _half_spread(book, terms)
    limit = max(Fraction(terms.max_impact_ppm), half)
    if book is None:
        per_e16 = Fraction(terms.impact_ppm_per_100k, 100_000 * E6 * _E16_PER_USD_E6)
        return _price_away_from_mid(mid_e8, min(limit, half + per_e16 * wanted), buying=buying)
    side = book.asks_usd_e6 if buying else book.bids_usd_e6
    return _price_away_from_mid(mid_e8, _average_ppm(wanted, _book_points(side, half, limit), limit), buying=buying)


def _half_spread(book: OrderBook | None, terms: PaperTerms) -> Fraction:
    return Fraction(terms.spread_ppm if book is None else book.spread_ppm, 2)


def _price_away_from_mid(mid_e8: int, offset_ppm: Fraction, *, buying: bool) -> int:
    # Rounded up, which is the worse side for a buyer and a seller alike.
    distance = -(-mid_e8 * offset_ppm // _PPM)
    return mid_e8 + distance if buying else max(1, mid_e8 - distance)


def _book_points(side_usd_e6: tuple[int, int, int], half: Fraction, limit: Fraction) -> list[_Point]:
    """The book from the best price to the limit; a band that holds less than the one within it adds nothing."""
    points: list[_Point] = [(half, Fraction(0))]
    for band, depth in zip(_BANDS_PPM, side_usd_e6, strict=True):
        offered = max(points[-1][1], Fraction(depth * _E16_PER_USD_E6))
        points.append((max(half, Fraction(band)), offered))
    (inner, less), (outer, more) = points[-2:]
    if outer > inner and limit > outer:
        points.append((limit, more + (more - less) * (limit - outer) / (outer - inner)))
    return points


def _average_ppm(wanted: Fraction, points: list[_Point], limit: Fraction) -> Fraction:
    """How far from the mid the average of what is taken lies."""
    left, paid = wanted, Fraction(0)
    for (inner, less), (outer, more) in pairwise(points):
        offered = more - less
        taken = min(left, offered)
        if taken:
            paid += taken * (inner + (outer - inner) * taken / (2 * offered))
            left -= taken
    return (paid + left * limit) / wanted


# A market order that meets no price for so long was decided on a market that is gone.
MARKET_ORDER_WAIT_MS = 5 * MINUTE
# The exchange gives the last bar of a minute within seconds; after two minutes it is missing.
GRACE_MS = 2 * MINUTE

OPEN_COUNTS_MS = 2 * MINUTE
"""How long after a bar began a decision may still have its open: as long as the guard takes a price for fresh."""


class Match(msgspec.Struct, frozen=True, order=True):
    """The moment an order's waiting ends, and how: executed as a taker or a maker at a midpoint, or given up."""

    at: int
    client_id: str
    how: Literal["taker", "maker", "given up"]
    mid_e8: int


def match_order(order: Order, quotes: Quotes, terms: PaperTerms, *, until: int) -> Match | None:
    """How an order's waiting has ended by a moment; None while it goes on."""
    since = order.intended_at + terms.latency_ms
    deadline = since + _wait_ms(order, quotes, terms)
    last = min(until, deadline)
    seen = _observations(order, quotes, terms, since=since, until=last)
    if seen and _executes_at_once(order, seen[0], quotes, terms):
        return Match(seen[0].bucket_ts, order.client_id, "taker", seen[0].price_e8)
    # Beyond, not at: at the limit itself others may have been first in the queue.
    passed = [mid for mid in seen[1:] if _is_beyond_limit(order, mid.price_e8)][:1]
    if seen:
        passed += _traded_through(order, quotes, since=seen[0].bucket_ts, until=last)
    if passed:
        first = min(passed, key=lambda mid: mid.bucket_ts)
        return Match(first.bucket_ts, order.client_id, "maker", first.price_e8)
    return Match(deadline, order.client_id, "given up", 0) if until >= deadline else None


def _observations(order: Order, quotes: Quotes, terms: PaperTerms, *, since: int, until: int) -> Sequence[Mid]:
    """What an order meets from its arrival on, oldest first; a fill rule puts a price of the bar under way first."""
    seen = quotes.mids(order.symbol, since=since, until=until)
    first = None if terms.fill == "bar_close" else _price_within_bar(order, quotes, terms, at=since, until=until)
    return seen if first is None else [first, *(mid for mid in seen if mid.bucket_ts > since)]


def _price_within_bar(order: Order, quotes: Quotes, terms: PaperTerms, *, at: int, until: int) -> Mid | None:
    """The price of the bar under way that an order meets; None while that is not known, and where there is a better."""
    begins = at - at % quotes.bar_ms(order.symbol)
    if terms.fill == "next_open" and order.intended_at - begins > OPEN_COUNTS_MS:
        return None
    bar = quotes.bar_alone(order.symbol, begins=begins, until=until)
    if bar is None:
        return None
    # The least favourable price of the bar: no fill can be worse than this assumption.
    worst = bar.high_e8 if order.side == "buy" else bar.low_e8
    return Mid(order.symbol, at, bar.open_e8 if terms.fill == "next_open" else worst)


def _wait_ms(order: Order, quotes: Quotes, terms: PaperTerms) -> int:
    """How long an order waits; within a bar's length and its grace, a bar that is not missing is known."""
    if order.type == "limit":
        return terms.limit_order_ms
    return max(MARKET_ORDER_WAIT_MS, quotes.bar_ms(order.symbol) + GRACE_MS)


def _executes_at_once(order: Order, first: Mid, quotes: Quotes, terms: PaperTerms) -> bool:
    if order.limit_price_e8 is None:
        return True
    book, buying = quotes.book(order.symbol, at=first.bucket_ts), order.side == "buy"
    best = touch_price_e8(first.price_e8, book, terms, buying=buying)
    return best <= order.limit_price_e8 if buying else best >= order.limit_price_e8


def _is_beyond_limit(order: Order, price_e8: int) -> bool:
    if order.limit_price_e8 is None:
        return False
    return price_e8 < order.limit_price_e8 if order.side == "buy" else price_e8 > order.limit_price_e8


def _traded_through(order: Order, quotes: Quotes, *, since: int, until: int) -> list[Mid]:
    """The close of the first bar longer than a minute that went beyond the limit of an order that rests."""
    if quotes.bar_ms(order.symbol) == MINUTE:
        return []
    for bar in quotes.bars(order.symbol, since=since, until=until):
        if _is_beyond_limit(order, bar.low_e8 if order.side == "buy" else bar.high_e8):
            # When within the bar nobody knows, so it counts as filled at its end.
            return [Mid(order.symbol, bar.end, bar.close_e8)]
    return []
