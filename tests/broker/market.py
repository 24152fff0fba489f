"""A market a broker can ask, written down by a test, and an account that books what the broker says."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tapebook.book.materializer import apply_fill, apply_funding, apply_insurance
from tapebook.broker import (
    BookedAccount,
    Broker,
    BrokerAccount,
    BrokerActivity,
    Exposure,
    MarketListing,
    OrderBook,
    PaperTerms,
    Quotes,
    Settlement,
)
from tapebook.domain.agent import MarginMode
from tapebook.domain.market import Candle, Mid
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, InsurancePayment, Order, OrderEnd
from tapebook.domain.position import Portfolio, Position
from tapebook.domain.units import E6, E8, HOUR, MINUTE

NOON = 500_000 * HOUR
"""A full hour to count from."""

TERMS = PaperTerms(
    latency_ms=500,
    taker_fee_ppm=450,
    maker_fee_ppm=150,
    spread_ppm=200,
    impact_ppm_per_100k=0,
    max_impact_ppm=50_000,
    liquidation_fee_ppm=5_000,
    limit_order_ms=HOUR,
    default_max_leverage=5,
    fill="bar_close",
)
RICH = 1_000_000 * E6


class Market(msgspec.Struct, frozen=True):
    """All that is ever observed: books stand for an hour, rates are those of an hour."""

    mids: tuple[Mid, ...] = ()
    bars: tuple[Candle, ...] = ()
    books: tuple[tuple[str, int, OrderBook], ...] = ()
    rates: dict[str, int] = {}
    settlements: dict[str, Settlement] = {}
    listings: tuple[tuple[str, int, MarketListing], ...] = ()

    def rate(self, symbol: str, hour: int) -> int | None:
        """The rate of a symbol at an hour; one written for an hour alone is everybody's."""
        return self.rates.get(f"{symbol} {hour}", self.rates.get(str(hour)))


class WrittenQuotes:
    """Quotes from a market; `seen` is the latest moment a broker has asked about."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._mids = sorted(market.mids, key=lambda mid: mid.bucket_ts)
        self._bars = sorted(market.bars, key=lambda bar: bar.bucket_ts)
        self.seen = 0

    def mids(self, symbol: str, *, since: int, until: int) -> Sequence[Mid]:
        """Midpoints between two moments, both included, oldest first."""
        self.seen = max(self.seen, until)
        return [mid for mid in self._mids if mid.symbol == symbol and since <= mid.bucket_ts <= until]

    def bars(self, symbol: str, *, since: int, until: int) -> Sequence[Candle]:
        """Bars that begin at or after one moment and end by another."""
        self.seen = max(self.seen, until)
        return [bar for bar in self._bars if bar.symbol == symbol and since <= bar.bucket_ts and bar.end <= until]

    def bar_alone(self, symbol: str, *, begins: int, until: int) -> Candle | None:
        """The bar that begins at a moment, once it has ended, if it has no midpoint within it."""
        self.seen = max(self.seen, min(until, begins))
        for bar in self._bars:
            if (bar.symbol, bar.bucket_ts) == (symbol, begins) and bar.end <= until:
                within = [mid for mid in self._mids if mid.symbol == symbol and begins <= mid.bucket_ts < bar.end]
                return None if within else bar
        return None

    def bar_ms(self, symbol: str) -> int:
        """The length of the bars that are written down."""
        return next((bar.granularity_sec * 1_000 for bar in self._bars if bar.symbol == symbol), MINUTE)

    def book(self, symbol: str, *, at: int) -> OrderBook | None:
        """The newest book of the hour before a moment."""
        self.seen = max(self.seen, at)
        known = [each for each in self._market.books if each[0] == symbol and at - HOUR <= each[1] <= at]
        return max(known, key=lambda each: each[1])[2] if known else None

    def listing(self, symbol: str, *, at: int) -> MarketListing:
        """What is written of its listing from a moment on."""
        self.seen = max(self.seen, at)
        known = [each for each in self._market.listings if each[0] == symbol and each[1] <= at]
        return known[-1][2] if known else MarketListing()

    def settlement(self, symbol: str) -> Settlement | None:
        """How a symbol ends."""
        return self._market.settlements.get(symbol)

    def mark_e8(self, symbol: str, *, at: int) -> int | None:
        """The newest midpoint at a moment."""
        self.seen = max(self.seen, at)
        known = [mid.price_e8 for mid in self._mids if mid.symbol == symbol and mid.bucket_ts <= at]
        return known[-1] if known else None

    def funding_e12(self, symbol: str, *, hour: int) -> int | None:
        """The rate written for an hour."""
        self.seen = max(self.seen, hour)
        return self._market.rate(symbol, hour)


def activity(
    broker: Broker, account: BrokerAccount, orders: Iterable[Order], *, quotes: Quotes, until: int
) -> BrokerActivity:
    """What a broker says happened to an account and its orders up to a moment."""
    return broker.activity_since(BookedAccount(account, tuple(orders), quotes, until))


class Teller:
    """An account that books every word of a broker through the ledger, as a reconciliation does."""

    def __init__(self, account: BrokerAccount, orders: Iterable[Order]) -> None:
        self._margin: MarginMode = account.margin
        held = {each.position.symbol: each.position for each in account.exposures}
        self.portfolio = Portfolio(held, account.cash_usd_e6)
        self._funded = {each.position.symbol: each.funded_until for each in account.exposures}
        self.walked_until = account.walked_until
        self._orders = {order.client_id: order for order in orders}
        self._sent = dict(self._orders)
        self.events: list[BrokerEvent] = []

    def ask(self, broker: Broker, market: Market, *, until: int) -> BrokerActivity:
        """Asks a broker what happened and books it; orders are known from the moment they were intended."""
        return self.hear(broker, WrittenQuotes(market), until=until)

    def hear(self, broker: Broker, quotes: Quotes, *, until: int) -> BrokerActivity:
        """The same of any market."""
        said = broker.activity_since(self.booked(quotes, until=until))
        for event in said.events:
            self.book(event)
        if self.portfolio.positions:
            self.walked_until = said.walked_until
        return said

    def booked(self, quotes: Quotes, *, until: int) -> BookedAccount:
        """All that a broker is told; orders are known from the moment they were intended."""
        known = [order for order in self._orders.values() if order.intended_at <= until]
        return BookedAccount(self.account(), tuple(known), quotes, until)

    def add(self, order: Order) -> None:
        """An order the broker has."""
        self._orders.setdefault(order.client_id, order)
        self._sent[order.client_id] = order

    def drop(self, client_id: str) -> None:
        """An order that was taken out of the market; what was executed before may be told later."""
        self._orders.pop(client_id, None)

    def working(self) -> list[Order]:
        """Orders that have not ended."""
        return list(self._orders.values())

    def has(self, event: BrokerEvent) -> bool:
        """Whether an event is booked."""
        if isinstance(event, OrderEnd):
            return event.client_id not in self._orders
        return event in self.events

    def account(self) -> BrokerAccount:
        """The account as the broker is told of it."""
        held = tuple(Exposure(each, self._funded[symbol]) for symbol, each in sorted(self.portfolio.positions.items()))
        return BrokerAccount(self.portfolio.cash_usd_e6, held, self._margin, self.walked_until)

    def book(self, event: BrokerEvent) -> None:
        """Moves the account by one event."""
        self.events.append(event)
        before = self.portfolio
        match event:
            case Fill():
                leverage = self._sent[event.client_id].leverage if event.client_id else 1
                self.portfolio, _ = apply_fill(before, event, leverage=leverage)
                self._fund_from(event, before)
            case FundingPayment():
                self.portfolio, _ = apply_funding(before, event)
                self._funded[event.symbol] = event.happened_at
            case InsurancePayment():
                self.portfolio, _ = apply_insurance(before, event)
            case OrderEnd():
                del self._orders[event.client_id]

    def _fund_from(self, fill: Fill, before: Portfolio) -> None:
        """A position that is new, or has turned, owes funding from its first fill on."""
        was, now = before.positions.get(fill.symbol), self.portfolio.positions.get(fill.symbol)
        if now is not None and (was is None or (was.size_e8 > 0) != (now.size_e8 > 0)):
            self._funded[fill.symbol] = fill.happened_at


def mid(minutes: float, price: float, symbol: str = "BTC") -> Mid:
    """A midpoint so many minutes after noon."""
    return Mid(symbol, NOON + round(minutes * MINUTE), round(price * E8))


def bar(
    minute: int, open: float, high: float, low: float, close: float, symbol: str = "BTC", *, minutes: int = 1
) -> Candle:
    """A bar that begins so many minutes after noon."""
    start, (first, top, bottom, last) = NOON + minute * MINUTE, (round(each * E8) for each in (open, high, low, close))
    return Candle(symbol, minutes * 60, start, first, top, bottom, last, 1.0, 1.0, 1)


def order(minutes: float = 0, side: Any = "buy", size: float = 1, **changes: Any) -> Order:
    """A market order in BTC, intended so many minutes after noon."""
    at = NOON + round(minutes * MINUTE)
    plain = Order("c1", "r1", "BTC", side, round(size * E8), "market", None, False, 1, at)
    return msgspec.structs.replace(plain, **changes)


def limit(price: float, minutes: float = 0, side: Any = "buy", size: float = 1, **changes: Any) -> Order:
    """A limit order in BTC."""
    return order(minutes, side, size, type="limit", limit_price_e8=round(price * E8), **changes)


def held(size: float, price: float = 100, symbol: str = "BTC", *, leverage: int = 1, **changes: Any) -> Exposure:
    """A position that was opened long before noon, funded until noon."""
    cost = round(size * price * E6)
    plain = Position(symbol, round(size * E8), cost, leverage, -(-abs(cost) // leverage), NOON - HOUR)
    return Exposure(msgspec.structs.replace(plain, **changes), NOON)


def account(
    *exposures: Exposure, cash: float = RICH / E6, margin: MarginMode = "cross", walked: float = 0
) -> BrokerAccount:
    """An account, checked up to so many minutes after noon."""
    return BrokerAccount(round(cash * E6), exposures, margin, NOON + round(walked * MINUTE))
