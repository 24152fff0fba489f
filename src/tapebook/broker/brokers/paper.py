"""Paper trading against the recorded market, without a state of its own.

What happens to an order is a function of the order and the tape, so a process that died asks
again and gets the same answer. In steps (`PaperBroker.activity`):

1. each working order is matched with the first observation that may execute it (`_match`);
2. executions and full hours are walked in time order (`_walk`);
3. at an hour, every position then held pays or receives funding (`_funding`);
4. an execution is cut down if it may only reduce, and becomes a fill with its fee (`_execute`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from tapebook.broker.port import Exposure, PaperTerms, Quotes
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import HOUR, MINUTE, floor
from tapebook.domain.money import E12, divide, notional_usd_e6
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, Order, OrderEnd

PATIENCE_MS = 5 * MINUTE
"""A market order that finds no price for this long is cancelled: after a gap nobody wants the next price."""

_PPM = 1_000_000


class _Match(msgspec.Struct, frozen=True, order=True):
    """The moment an order can be executed, and the price; no price means that its patience ended."""

    at: int
    client_id: str
    price_e8: int | None
    maker: bool


class PaperBroker:
    """Fills orders from recorded midpoints, half a spread away."""

    def __init__(self, terms: PaperTerms) -> None:
        self._terms = terms

    def place(self, order: Order) -> None:
        """Nothing has to leave: the order is in the book, and the tape decides."""

    def activity(
        self, orders: Sequence[Order], exposures: Sequence[Exposure], *, quotes: Quotes, until: int
    ) -> list[BrokerEvent]:
        """Fills, funding and cancellations up to a moment, in time order."""
        known = {order.client_id: order for order in orders}
        matches = sorted(match for order in orders if (match := self._match(order, quotes, until)) is not None)
        return list(self._walk(matches, known, {each.symbol: each for each in exposures}, quotes=quotes, until=until))

    def _match(self, order: Order, quotes: Quotes, until: int) -> _Match | None:
        since = order.intended_at + self._terms.latency_ms
        last = until if order.type == "limit" else min(until, since + PATIENCE_MS)
        for mid in quotes.mids(order.symbol, since=since, until=last):
            price = self._price(order, mid.price_e8, quotes.spread_ppm(order.symbol, at=mid.bucket_ts))
            if price is not None:
                return _Match(mid.bucket_ts, order.client_id, price, order.type == "limit")
        if order.type == "market" and until >= since + PATIENCE_MS:
            return _Match(since + PATIENCE_MS, order.client_id, None, False)
        return None

    def _price(self, order: Order, mid_e8: int, spread_ppm: int | None) -> int | None:
        """Where an order executes at this midpoint: half a spread away, or at its limit once it was traded through."""
        buying = order.side == "buy"
        if order.limit_price_e8 is not None:
            through = mid_e8 < order.limit_price_e8 if buying else mid_e8 > order.limit_price_e8
            return order.limit_price_e8 if through else None
        spread = self._terms.spread_ppm if spread_ppm is None else spread_ppm
        half = divide(mid_e8 * spread, 2 * _PPM)
        return mid_e8 + half if buying else mid_e8 - half

    def _walk(
        self,
        matches: Sequence[_Match],
        orders: dict[str, Order],
        exposures: dict[str, Exposure],
        *,
        quotes: Quotes,
        until: int,
    ) -> Iterator[BrokerEvent]:
        held = dict(exposures)
        starts = [each.funded_until for each in held.values()] + [match.at for match in matches]
        waiting = list(matches)
        for hour in range(floor(min(starts), HOUR) + HOUR, until + 1, HOUR) if starts else ():
            # A position that is opened at the very hour was not held before it, so it owes nothing yet.
            while waiting and waiting[0].at < hour:
                yield from self._execute(waiting.pop(0), orders, held)
            yield from _funding(hour, held, quotes)
        for match in waiting:
            yield from self._execute(match, orders, held)

    def _execute(self, match: _Match, orders: dict[str, Order], held: dict[str, Exposure]) -> Iterator[BrokerEvent]:
        order = orders[match.client_id]
        before = held.get(order.symbol, Exposure(order.symbol, 0, match.at))
        size = _allowed_size(order, before.size_e8)
        if match.price_e8 is None:
            yield OrderEnd(order.client_id, match.at, "cancelled", "no price was observed in time")
        elif size == 0:
            yield OrderEnd(order.client_id, match.at, "rejected", "reduce-only order would increase the position")
        else:
            left = before.size_e8 + size
            turned = (left > 0) != (before.size_e8 > 0) or not before.size_e8
            held[order.symbol] = Exposure(order.symbol, left, match.at if turned else before.funded_until)
            yield self._fill(match, order, size, match.price_e8)
            yield OrderEnd(order.client_id, match.at, "filled")

    def _fill(self, match: _Match, order: Order, size_e8: int, price_e8: int) -> Fill:
        rate = self._terms.maker_fee_ppm if match.maker else self._terms.taker_fee_ppm
        fee = divide(abs(notional_usd_e6(size_e8, price_e8)) * rate, _PPM)
        fill_id = short_id("paper", order.client_id, 0)
        return Fill(fill_id, order.symbol, match.at, size_e8, price_e8, fee, match.maker, order.client_id)


def _allowed_size(order: Order, held_e8: int) -> int:
    """The signed size that may execute: a reduce-only order never grows a position and never turns it."""
    size = order.signed_size_e8
    if not order.reduce_only:
        return size
    if held_e8 == 0 or (held_e8 > 0) == (size > 0):
        return 0
    return size if abs(size) <= abs(held_e8) else -held_e8


def _funding(hour: int, held: dict[str, Exposure], quotes: Quotes) -> Iterator[FundingPayment]:
    for symbol, each in sorted(held.items()):
        if each.size_e8 == 0 or each.funded_until >= hour:
            continue
        rate, mark = quotes.funding_e12(symbol, hour=hour), quotes.mark_e8(symbol, at=hour)
        held[symbol] = Exposure(symbol, each.size_e8, hour)
        if rate is not None and mark is not None:
            amount = -divide(notional_usd_e6(each.size_e8, mark) * rate, E12)
            yield FundingPayment(symbol, hour, amount, rate)


def create(terms: PaperTerms) -> PaperBroker:
    """The adapter's entry point."""
    return PaperBroker(terms)
