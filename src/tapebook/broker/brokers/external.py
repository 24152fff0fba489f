"""The broker of a bot that lives elsewhere and trades by itself: nothing is sent, and what happened is told.

An order in the book is what the bot said it would do. It works until the bot tells of its fills, or that it has ended;
nothing is filled, funded or liquidated here, so there is nothing to ask anybody for.
"""

from tapebook.broker.port import BookedAccount, BrokerActivity, MarketListing, OpenOrder, OrderState, PaperTerms
from tapebook.domain.order import Increments, Order
from tapebook.domain.position import Portfolio

ELSEWHERE = True
"""Decisions of agents at this broker are made by others, so no desk makes them."""


class ExternalBroker:
    """Says of every account what the book has."""

    account: str | None = None

    def place(self, order: Order) -> OrderState:
        """The bot places it."""
        return OrderState("resting")

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """The order no longer counts here; the bot must take it out of its market."""
        return OrderState("cancelled") if _is_booked(client_id, booked) else OrderState("never seen")

    def order_state(self, client_id: str, booked: BookedAccount) -> OrderState:
        """It rests until its end was told."""
        return OrderState("resting") if _is_booked(client_id, booked) else OrderState("never seen")

    def open_orders(self, booked: BookedAccount) -> tuple[OpenOrder, ...]:
        """Orders whose end was not told, as they were intended."""
        return tuple(OpenOrder(each.client_id, each.symbol, each.signed_size_e8) for each in booked.orders)

    def activity_since(self, booked: BookedAccount) -> BrokerActivity:
        """Nothing: whoever knows of a fill books it."""
        return BrokerActivity((), booked.until)

    def account_state(self, booked: BookedAccount) -> Portfolio:
        """The booked account."""
        held = {each.position.symbol: each.position for each in booked.account.exposures}
        return Portfolio(held, booked.account.cash_usd_e6)

    def increments(self, symbol: str, listing: MarketListing) -> Increments | None:
        """Any size and price will do: nothing is sent."""
        return None


def _is_booked(client_id: str, booked: BookedAccount) -> bool:
    return any(order.client_id == client_id for order in booked.orders)


def create(_terms: PaperTerms) -> ExternalBroker:
    """The adapter's entry point."""
    return ExternalBroker()
