"""Paper trading against the recorded market, without a state of its own.

What happens to an account is a function of the account, its orders and the tape, so a process that died asks again
and gets the same answer. Each question is one simulation (`broker/simulation.py`): orders meet observations and pay
for their size (`matching`), need margin and may be liquidated (`margin`). An order has been handed over when the book
says so, and has been taken out of the market when the book has written that.

Most of the time nothing happens: one position far from its liquidation, and no order. `walked_quietly` sees that
without a simulation.
"""

from tapebook.broker.margin import MarginTiers, is_backed_by_half, listed_increments
from tapebook.broker.port import BookedAccount, BrokerActivity, MarketListing, OpenOrder, OrderState, PaperTerms
from tapebook.broker.simulation import FUNDING_WAIT_MS, AccountSimulation
from tapebook.domain.order import Increments, Order, OrderEnd
from tapebook.domain.position import Portfolio
from tapebook.domain.units import HOUR

_RESTING, _NEVER_SEEN, _CANCELLED = OrderState("resting"), OrderState("never seen"), OrderState("cancelled")


def walked_quietly(booked: BookedAccount) -> int | None:
    """How far a simulation would check the margin of an account to which nothing happens; None if it has to look.

    The worst prices of all bars are taken at once, and those of a bar in which the position moved whole: what lasts
    through that lasts through every window.
    """
    account, quotes, until = booked.account, booked.quotes, booked.until
    if booked.orders or len(account.exposures) != 1:
        return None
    held, walked = account.exposures[0].position, account.walked_until
    symbol, moved_at = held.symbol, held.moved_at
    length = quotes.bar_ms(symbol)
    start = max(walked, moved_at - moved_at % length)
    if start % length or quotes.settlement(symbol) is not None:
        return None
    funded = max(account.exposures[0].funded_until, walked - FUNDING_WAIT_MS)
    for hour in range(funded - funded % HOUR + HOUR, until + 1, HOUR):
        if moved_at < hour and quotes.funding_e12(symbol, hour=hour) is not None:
            return None
    end = until - until % length
    if end <= start:
        return start
    bars = quotes.bars(symbol, since=start, until=end)
    if len(bars) * length != end - start:
        return None
    is_long, backing = held.size_e8 > 0, held.margin_usd_e6 if account.margin == "isolated" else account.cash_usd_e6
    worst = min([bar.low_e8 for bar in bars]) if is_long else max([bar.high_e8 for bar in bars])
    return end if is_backed_by_half(backing, held, worst) else None


class PaperBroker:
    """Fills orders from recorded prices and books; every deployment has an account of its own."""

    account: str | None = None

    def __init__(self, terms: PaperTerms) -> None:
        self._terms = terms
        self._margins = MarginTiers(terms.default_max_leverage)

    def place(self, order: Order) -> OrderState:
        """Takes every order. Nothing has to leave: the order is in the book, and the tape decides."""
        return _RESTING

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Lets go of an order that rests; it is gone once the book has written that."""
        state = self.order_state(client_id, booked)
        return _CANCELLED if state == _RESTING else state

    def order_state(self, client_id: str, booked: BookedAccount) -> OrderState:
        """How far the tape has carried an order; one the book does not call placed was never seen."""
        if all(order.client_id != client_id for order in booked.orders):
            return _NEVER_SEEN
        for event in self.activity_since(booked).events:
            if isinstance(event, OrderEnd) and event.client_id == client_id:
                return OrderState(event.status, event.detail)
        return _RESTING

    def open_orders(self, booked: BookedAccount) -> tuple[OpenOrder, ...]:
        """Orders that the tape has not ended."""
        simulation = self._simulation(booked)
        simulation.simulate()
        return simulation.open_orders()

    def activity_since(self, booked: BookedAccount) -> BrokerActivity:
        """Fills, funding, liquidations and cancellations up to a moment."""
        walked = walked_quietly(booked)
        return self._simulation(booked).simulate() if walked is None else BrokerActivity((), walked)

    def account_state(self, booked: BookedAccount) -> Portfolio:
        """The account at the end of its simulation."""
        simulation = self._simulation(booked)
        simulation.simulate()
        return simulation.portfolio()

    def increments(self, symbol: str, listing: MarketListing) -> Increments | None:
        """The exchange's steps where the settings ask for them (`paper.lots`) and they are known."""
        return listed_increments(symbol, listing.size_decimals) if self._terms.lots else None

    def _simulation(self, booked: BookedAccount) -> AccountSimulation:
        return AccountSimulation(booked, terms=self._terms, margins=self._margins)


def create(terms: PaperTerms) -> PaperBroker:
    """The adapter's entry point."""
    return PaperBroker(terms)
