"""Simulates an account through time, from what it was to what it is.

Four kinds of steps are taken in the order of time; at one moment in this order (`AccountSimulation.simulate`):

1. a window that has ended is checked (`_check_margin`): what falls short within it is liquidated. Positions of a
   cross-margined account share their backing and fall together, isolated ones stand alone;
2. at a full hour every position held until then pays or receives funding (`_pay_funding`);
3. a symbol that was delisted ends (`_settle_delisted`): what is held of it is closed at its settlement price, free
   of fees, and its orders are cancelled;
4. an order that meets its observation executes or is refused (`_execute_order`).

Margin is checked window by window (`MarginWindows`): as long as the bars of what is held, a minute as a rule; with
bars of several lengths, as long as the longest. Two minutes after a window has ended, a bar that is still missing
is made of the midpoints of its time, if there are any. Which of a bar's prices count depends on when the position
last moved:

- before the bar or at its very start: from the open to the adverse extreme;
- within the bar: the close, for nobody knows whether the extreme came before or after; but what was filled at a
  price of the bar itself, by a fill rule (`matching`), goes from its open to the extreme;
- since: what it was worth when it moved, for it was not there before.

A symbol nothing was observed of keeps its last mark.

Executions do not wait for the end of their window, so it is checked after them. A bar that becomes known later is
checked by a later simulation, which begins where this one stopped (`walked_until`).

Money cannot be lost that is not there: an isolated position that closes with a loss beyond its margin, and an
account left without positions and with less than nothing, are made up for.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from tapebook.broker.margin import (
    AdverseMove,
    ListedLeverage,
    MarginTiers,
    covers_initial_margin,
    liquidation_prices,
)
from tapebook.broker.matching import GRACE_MS, Match, market_price_e8, match_order
from tapebook.broker.port import BookedAccount, BrokerActivity, OpenOrder, PaperTerms, Quotes, Settlement
from tapebook.domain.canonical import short_id
from tapebook.domain.market import Candle
from tapebook.domain.order import (
    BrokerEvent,
    Fill,
    FillRule,
    FundingPayment,
    InsurancePayment,
    Order,
    OrderEnd,
    OrderEndStatus,
)
from tapebook.domain.position import Portfolio, Position, position_after_fill
from tapebook.domain.units import E12, HOUR, MINUTE, SECOND, divide_half_even, notional_usd_e6

FUNDING_WAIT_MS = HOUR
"""A funding rate that is not known so long after its hour is left out."""

_PPM = 1_000_000
NEVER = 2**62
"""Later than any moment."""


class MarginWindow(msgspec.Struct, frozen=True):
    """From when to when, and when it can be judged: `NEVER` while that is not known.

    One that has ended has the bars of each symbol since its position moved, oldest first; `missing` are those that
    are not known, by symbol and when they began.
    """

    start: int
    end: int
    ready_at: int
    bars: Mapping[str, Sequence[Candle]] = {}
    missing: Sequence[tuple[str, int]] = ()


class MarginWindows:
    """The windows up to a moment; bars are read once per symbol."""

    def __init__(self, quotes: Quotes, *, until: int, fill: FillRule) -> None:
        self._quotes = quotes
        self._until = until
        self._fill = fill
        self._lengths: dict[str, int] = {}
        self._known: dict[str, dict[int, Candle]] = {}
        # For each symbol the hour that was looked at last, and whether nothing was observed in it.
        self._hours: dict[str, tuple[int, bool]] = {}

    def next_window(self, held: Collection[Position], walked: int) -> MarginWindow:
        """The first stretch that is not walked and any of the positions was there in; lengths divide one another.

        It can be judged at its end if all its bars are known, else a grace later.
        """
        lengths, first, longest = self._lengths, NEVER, 0
        for each in held:
            if each.symbol not in lengths:
                lengths[each.symbol] = self._quotes.bar_ms(each.symbol)
            length, moved = lengths[each.symbol], each.moved_at
            begun = moved - moved % length
            first = begun if begun < first else first
            longest = length if length > longest else longest
        start = walked if walked > first else first
        # Windows lie on multiples of their length, so that a simulation in pieces sees the same ones.
        end = start - start % longest + longest
        return MarginWindow(start, end, NEVER) if end > self._until else self._with_bars(held, start, end)

    def extremes(self, held: Collection[Position], stretch: MarginWindow) -> dict[str, AdverseMove] | None:
        """How each position's price went through a stretch; None when nothing was observed of any."""
        bars = self._fill_missing_bars(stretch) if stretch.missing else stretch.bars
        if not any(bars.values()):
            return None
        return {each.symbol: self._extreme(each, bars[each.symbol], stretch.end) for each in held}

    def _with_bars(self, held: Collection[Position], start: int, end: int) -> MarginWindow:
        """A stretch with its bars, as far as they are known."""
        bars: dict[str, list[Candle]] = {}
        missing: list[tuple[str, int]] = []
        for each in held:
            symbol, length, since = each.symbol, self._lengths[each.symbol], max(start, each.moved_at)
            known, found = self._known.get(symbol) or self._read_bars(symbol, start), []
            for begins in range(since - since % length, end, length):
                if begins in known:
                    found.append(known[begins])
                else:
                    missing.append((symbol, begins))
            bars[symbol] = found
        ready = end + GRACE_MS if missing else end
        return MarginWindow(start, end, ready if ready <= self._until else NEVER, bars, missing)

    def _read_bars(self, symbol: str, start: int) -> dict[int, Candle]:
        """A symbol's bars by their start, from the stretch that is asked for first: they come in order."""
        if symbol not in self._known:
            bars = self._quotes.bars(symbol, since=start + 1 - self._lengths[symbol], until=self._until)
            self._known[symbol] = {bar.bucket_ts: bar for bar in bars}
        return self._known[symbol]

    def _fill_missing_bars(self, stretch: MarginWindow) -> dict[str, list[Candle]]:
        """The bars of a stretch, and what stands in for those that are missing."""
        bars = {symbol: [*known] for symbol, known in stretch.bars.items()}
        for symbol, begins in stretch.missing:
            seen = self._bar_from_mids(symbol, begins)
            if seen is not None:
                bars[symbol].append(seen)
        return {symbol: sorted(found, key=lambda bar: bar.bucket_ts) for symbol, found in bars.items()}

    def _bar_from_mids(self, symbol: str, begins: int) -> Candle | None:
        """A bar made of the midpoints of its time."""
        length = self._lengths[symbol]
        if self._is_quiet(symbol, begins, begins + length):
            return None
        mids = [mid.price_e8 for mid in self._quotes.mids(symbol, since=begins, until=begins + length - 1)]
        if not mids:
            return None
        prices = (mids[0], max(mids), min(mids), mids[-1])
        return Candle(symbol, length // SECOND, begins, *prices, 0.0, 0.0, len(mids))

    def _is_quiet(self, symbol: str, begins: int, end: int) -> bool:
        """Whether nothing was observed in the hour of a bar: days without a market would be asked for by the minute."""
        hour = begins - begins % HOUR
        if end > min(hour + HOUR, self._until):
            return False
        looked_at, quiet = self._hours.get(symbol, (-1, False))
        if looked_at != hour:
            quiet = not self._quotes.mids(symbol, since=hour, until=min(hour + HOUR, self._until) - 1)
            self._hours[symbol] = hour, quiet
        return quiet

    def _extreme(self, held: Position, bars: Sequence[Candle], end: int) -> AdverseMove:
        if not bars:
            mark = self._quotes.mark_e8(held.symbol, at=max(held.moved_at, end))
            # Nothing was ever observed of it: at its own cost it neither gains nor loses.
            known = mark or held.entry_price_e8
            return AdverseMove(known, known)
        first, is_long = bars[0], held.size_e8 > 0
        began, worst = first.open_e8, first.low_e8 if is_long else first.high_e8
        if held.moved_at > first.bucket_ts and not self._filled_within(held, first):
            began = worst = first.close_e8
        for bar in bars[1:]:
            worst = min(worst, bar.low_e8) if is_long else max(worst, bar.high_e8)
        return AdverseMove(began, worst)

    def _filled_within(self, held: Position, bar: Candle) -> bool:
        """Whether a position that moved within a bar was filled at one of its prices, as if at its beginning."""
        # At the close of a bar its extremes lie before the fill.
        if self._fill == "bar_close" or held.moved_at >= bar.end:
            return False
        return self._quotes.bar_alone(held.symbol, begins=bar.bucket_ts, until=self._until) is not None


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
                stretch = self._stretch or self._stretches.next_window(self._held.values(), self._walked)
                if stretch is not self._stretch:
                    self._stretch, self._walked = stretch, stretch.start
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
