"""Simulates an account through time, from what it was to what it is.

Four kinds of steps are taken in the order of time; at one moment in this order (`AccountSimulation.simulate`):

1. a window that has ended is checked (`_check_margin`): what falls short within it is liquidated. Positions of a
   cross-margined account share their backing and fall together, isolated ones stand alone;
2. at a full hour every position held until then pays or receives funding (`_pay_funding`);
3. a symbol that was delisted ends (`_settle_delisted`): what is held of it is closed at its settlement price, free
   of fees, and its orders are cancelled;
4. an order that meets its observation executes or is refused (`_execute_order`).

A window is a minute where there are minutes (`MarginWindows`). Executions do not wait for theirs to end, so it is
checked after them. A bar that becomes known later is checked by a later simulation, which begins where this one
stopped (`walked_until`).

Money cannot be lost that is not there: an isolated position that closes with a loss beyond its margin, and an
account left without positions and with less than nothing, are made up for.
"""

from collections.abc import Sequence

from tapebook.broker.margin import (
    NEVER,
    ListedLeverage,
    MarginTiers,
    MarginWindow,
    MarginWindows,
    covers_initial_margin,
    liquidation_prices,
)
from tapebook.broker.matching import Match, market_price_e8, match_order
from tapebook.broker.port import BookedAccount, BrokerActivity, OpenOrder, PaperTerms, Settlement
from tapebook.domain.canonical import short_id
from tapebook.domain.instants import HOUR, MINUTE
from tapebook.domain.money import E12, divide_half_even, notional_usd_e6
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, InsurancePayment, Order, OrderEnd, OrderEndStatus
from tapebook.domain.position import Portfolio, Position, position_after_fill

FUNDING_WAIT_MS = HOUR
"""A funding rate that is not known so long after its hour is left out."""

_PPM = 1_000_000


class AccountSimulation:
    """An account on its way; the events it meets are collected."""

    def __init__(self, booked: BookedAccount, *, terms: PaperTerms, margins: MarginTiers) -> None:
        account, orders, quotes, until = booked.account, booked.orders, booked.quotes, booked.until
        self._quotes = quotes
        self._terms = terms
        self._until = until
        self._margins = margins
        self._isolated = account.margin == "isolated"
        self._cash = account.cash_usd_e6
        self._walked = account.walked_until
        self._held: dict[str, Position] = {}
        self._funded: dict[str, int] = {}
        # A rate that was not known when its hour was walked is asked for a while longer, not for ever.
        asked = self._walked - FUNDING_WAIT_MS
        for each in account.exposures:
            symbol = each.position.symbol
            self._held[symbol], self._funded[symbol] = each.position, max(each.funded_until, asked)
        self._hour = self._next_hour()
        self._stretches = MarginWindows(quotes, until=until, fill=terms.fill)
        # The stretch to be judged next: looked for again when that is done, and when what is held has moved.
        self._stretch: MarginWindow | None = None
        self._orders: dict[str, Order] = {}
        self._matches: list[Match] = []
        if orders:
            self._match_orders(orders)
        # Symbols that were delisted, the last to end first; an order for one that had ended before it is refused.
        self._ended: dict[str, Settlement] = {}
        self._ending: list[str] = []
        for symbol in {*self._held, *[each.symbol for each in orders]} if orders else self._held:
            end = quotes.settlement(symbol)
            if end is not None:
                self._ended[symbol] = end
        if self._ended:
            self._ending = sorted(self._ended, key=lambda symbol: (self._ended[symbol].at, symbol), reverse=True)
        self._now = 0
        self._events: list[BrokerEvent] = []

    def simulate(self) -> BrokerActivity:
        """Walks to the end, turn by turn; of equals the first kind comes first."""
        while True:
            judged = funded = NEVER
            if self._held:
                stretch = self._stretch or self._next_window()
                judged, funded = max(stretch.ready_at, self._now), self._hour
            executed = self._matches[-1].at if self._matches else NEVER
            ended = self._ended[self._ending[-1]].at if self._ending else NEVER
            at = min(judged, funded, ended, executed)
            if at > self._until:
                return BrokerActivity(tuple(self._events), self._walked)
            self._now = at if at > self._now else self._now
            if at == judged:
                self._check_margin(stretch, at)
            elif at == funded:
                self._pay_funding(at)
            elif at == ended:
                self._settle_delisted(self._ending.pop(), at)
            else:
                self._execute_order(self._matches.pop())

    def open_orders(self) -> tuple[OpenOrder, ...]:
        """Orders that have not ended, in the order they were given."""
        left = self._orders.values()
        return tuple(OpenOrder(order.client_id, order.symbol, order.signed_size_e8) for order in left)

    def portfolio(self) -> Portfolio:
        """The account as it is by now."""
        return Portfolio(dict(self._held), self._cash)

    def _match_orders(self, orders: Sequence[Order]) -> None:
        self._orders = {order.client_id: order for order in orders}
        found = [match_order(order, self._quotes, self._terms, until=self._until) for order in orders]
        self._matches = sorted([each for each in found if each is not None], key=self._execution_order, reverse=True)

    def _execution_order(self, found: Match) -> tuple[int, int, str, str]:
        """The key by which matched orders are executed: of one moment the older first, then by symbol."""
        # Ids alone would be chance: they differ between live and a backtest.
        order = self._orders[found.client_id]
        return found.at, order.intended_at, order.symbol, order.client_id

    def _next_window(self) -> MarginWindow:
        """The first stretch that what is held has not gone through yet."""
        stretch = self._stretch = self._stretches.next_window(self._held.values(), self._walked)
        self._walked = stretch.start
        return stretch

    def _next_hour(self) -> int:
        """The first full hour at which anything that is held owes funding."""
        if not self._funded:
            return NEVER
        funded = min(self._funded.values())
        return funded - funded % HOUR + HOUR

    def _check_margin(self, stretch: MarginWindow, at: int) -> None:
        self._walked, self._stretch = stretch.end, None
        ways = self._stretches.extremes(self._held.values(), stretch)
        if ways is None:
            return
        together = [(self._cash, self._held)]
        if self._isolated:
            together = [(held.margin_usd_e6, {symbol: held}) for symbol, held in sorted(self._held.items())]
        for backing, sharing in together:
            prices = liquidation_prices(backing, sharing, ways, margins=self._margins, listed=self._listed_at(at))
            if prices is not None:
                self._liquidate(prices, at)

    def _liquidate(self, prices: dict[str, int], at: int) -> None:
        """Closes positions at the prices they fell at, and cancels what was still to come of them."""
        # A liquidation takes from the book like any market order, and the exchange's fee comes on top.
        rate = self._terms.taker_fee_ppm + self._terms.liquidation_fee_ppm
        for symbol, price in sorted(prices.items()):
            size = -self._held[symbol].size_e8
            fill_id = short_id("liquidation", symbol, at)
            self._apply_fill(Fill(fill_id, symbol, at, size, price, _fee(size, price, rate), False, None, True))
        for order in sorted(self._orders.values(), key=lambda order: order.client_id):
            # Under cross margin the whole account fell, so nothing that was under way may open it again.
            if order.intended_at < at and (order.symbol in prices or not self._isolated):
                self._end_order(order, at, "cancelled", "liquidated")

    def _pay_funding(self, hour: int) -> None:
        self._hour = hour + HOUR
        for symbol, held in sorted(self._held.items()):
            if self._funded[symbol] >= hour:
                continue
            self._funded[symbol] = hour
            if held.moved_at >= hour:
                # Its rate came so late that nobody knows any more what was held.
                continue
            rate = self._quotes.funding_e12(symbol, hour=hour)
            mark = None if rate is None else self._quotes.mark_e8(symbol, at=hour)
            if rate is not None and mark is not None:
                amount = -divide_half_even(notional_usd_e6(held.size_e8, mark) * rate, E12)
                self._held[symbol] = held.with_funding(amount)
                self._cash += amount
                self._events.append(FundingPayment(symbol, hour, amount, rate))

    def _settle_delisted(self, symbol: str, at: int) -> None:
        """Ends a symbol that is not listed any more."""
        held = self._held.get(symbol)
        # What was entered since is of a symbol that is listed again.
        if held is not None and held.moved_at <= at:
            price = self._ended[symbol].price_e8
            fill_id = short_id("settlement", symbol, at)
            self._apply_fill(Fill(fill_id, symbol, at, -held.size_e8, price, 0, False, delisted=True))
        for order in sorted(self._orders.values(), key=lambda order: order.client_id):
            if order.symbol == symbol and order.intended_at <= at:
                self._end_order(order, at, "cancelled", "delisted")

    def _execute_order(self, found: Match) -> None:
        order = self._orders.get(found.client_id)
        if order is None:
            return
        ended = self._ended.get(order.symbol)
        if ended is not None and found.at >= ended.at:
            self._end_order(order, found.at, "rejected", "delisted")
            return
        held = self._held.get(order.symbol)
        size = _allowed_size(order, held.size_e8 if held else 0)
        if found.how == "given up":
            self._end_order(order, found.at, "cancelled", _given_up_text(order, self._terms))
        elif size == 0:
            self._end_order(order, found.at, "rejected", "reduce-only order would increase the position")
        else:
            fill = self._make_fill(order, found, size)
            objection = self._margin_objection(order, fill, found.mid_e8)
            if objection:
                self._end_order(order, found.at, "rejected", objection)
                return
            self._apply_fill(fill, leverage=order.leverage)
            self._end_order(order, found.at, "filled")

    def _make_fill(self, order: Order, found: Match, size: int) -> Fill:
        """A maker gets its limit; a taker the market's price, or its limit if that is better."""
        maker = found.how == "maker"
        price = order.limit_price_e8
        if price is None or not maker:
            book = self._quotes.book(order.symbol, at=found.at)
            market = market_price_e8(size, found.mid_e8, book, self._terms)
            better = min if size > 0 else max
            price = market if price is None else better(price, market)
        rate = self._terms.maker_fee_ppm if maker else self._terms.taker_fee_ppm
        fill_id = short_id("paper", order.client_id, 0)
        fee = _fee(size, price, rate)
        return Fill(fill_id, order.symbol, found.at, size, price, fee, maker, order.client_id)

    def _margin_objection(self, order: Order, fill: Fill, mid_e8: int) -> str:
        """Why an account may not take a fill; what only reduces a position is never refused."""
        before = self._held.get(order.symbol)
        after, realised = position_after_fill(before, fill, leverage=order.leverage)
        if after is None or (before and abs(after.size_e8) < abs(before.size_e8) and _same_side(before, after)):
            return ""
        listed = self._listed_at(fill.happened_at)(order.symbol)
        most = self._margins.max_leverage(order.symbol, abs(after.size_e8) * mid_e8, listed=listed)
        if order.leverage > most:
            return f"leverage {order.leverage} exceeds the {most} that {order.symbol} allows at this size"
        cash = self._cash + realised - fill.fee_usd_e6
        held = self._held | {order.symbol: after}
        if self._isolated:
            enough = cash >= sum(each.margin_usd_e6 for each in held.values())
        else:
            marks = {symbol: self._mark(each, fill.happened_at) for symbol, each in self._held.items()}
            enough = covers_initial_margin(cash, held, marks | {order.symbol: mid_e8})
        return "" if enough else "insufficient margin"

    def _listed_at(self, at: int) -> ListedLeverage:
        """What the exchange's list allowed then: whoever asks later gets the same answer."""
        return lambda symbol: self._quotes.listing(symbol, at=at).max_leverage

    def _mark(self, held: Position, at: int) -> int:
        return self._quotes.mark_e8(held.symbol, at=at) or held.entry_price_e8

    def _apply_fill(self, fill: Fill, *, leverage: int = 1) -> None:
        """Moves the account by a fill."""
        symbol = fill.symbol
        before = self._held.pop(symbol, None)
        after, realised = position_after_fill(before, fill, leverage=leverage)
        self._cash += realised - fill.fee_usd_e6
        self._events.append(fill)
        if after is not None:
            self._held[symbol] = after
            if before is None:
                self._funded[symbol] = fill.happened_at
        elif before is not None:
            del self._funded[symbol]
            if self._isolated:
                self._make_up_loss(symbol, fill.happened_at, before.margin_usd_e6 + realised - fill.fee_usd_e6)
        self._hour, self._stretch = self._next_hour(), None
        if not self._held:
            self._make_up_loss("", fill.happened_at, self._cash)

    def _make_up_loss(self, symbol: str, at: int, left_usd_e6: int) -> None:
        """Makes up for what is less than nothing."""
        if left_usd_e6 < 0:
            self._cash -= left_usd_e6
            self._events.append(InsurancePayment(symbol, at, -left_usd_e6))

    def _end_order(self, order: Order, at: int, status: OrderEndStatus, detail: str = "") -> None:
        del self._orders[order.client_id]
        self._events.append(OrderEnd(order.client_id, at, status, detail))


def _allowed_size(order: Order, held_e8: int) -> int:
    """The signed size that may execute: a reduce-only order never grows a position and never turns it."""
    size = order.signed_size_e8
    if not order.reduce_only:
        return size
    if held_e8 == 0 or (held_e8 > 0) == (size > 0):
        return 0
    return size if abs(size) <= abs(held_e8) else -held_e8


def _given_up_text(order: Order, terms: PaperTerms) -> str:
    if order.type == "market":
        return "no price was observed in time"
    return f"not filled within {terms.limit_order_ms // MINUTE} minutes"


def _fee(size_e8: int, price_e8: int, rate_ppm: int) -> int:
    return divide_half_even(abs(notional_usd_e6(size_e8, price_e8)) * rate_ppm, _PPM)


def _same_side(before: Position, after: Position) -> bool:
    return (before.size_e8 > 0) == (after.size_e8 > 0)
