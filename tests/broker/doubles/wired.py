"""A broker whose orders, fills and account are those of a little exchange behind a socket.

Loaded by its name like any broker, once its folder is added to the brokers' package.
"""

import os
import socket
from typing import Any

import msgspec

from tapebook.broker.port import BookedAccount, BrokerActivity, MarketListing, OpenOrder, OrderState, PaperTerms
from tapebook.domain.order import BrokerEvent, Fill, FundingPayment, Increments, Order, OrderEnd
from tapebook.domain.position import Portfolio
from tapebook.errors import BrokerAway

ADDRESS = "LITTLE_EXCHANGE"
TIMEOUT_SECONDS = 0.2
LOT, TICK = 1_000, 100
EVENTS: dict[str, type[BrokerEvent]] = {each.__name__: each for each in (Fill, FundingPayment, OrderEnd)}


class WiredBroker:
    """A client of the little exchange."""

    account: str | None = "the account of the little exchange"

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._place = host, int(port)

    def place(self, order: Order) -> OrderState:
        """Sends an order."""
        return self._ask_about_order(do="place", client_id=order.client_id, order=order)

    def cancel(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Asks for a cancellation."""
        return self._ask_about_order(do="cancel", client_id=client_id)

    def order_state(self, client_id: str, booked: BookedAccount) -> OrderState:
        """Asks for an order."""
        return self._ask_about_order(do="state", client_id=client_id)

    def open_orders(self, booked: BookedAccount) -> tuple[OpenOrder, ...]:
        """Asks for all orders."""
        found = self._read(do="open")
        return tuple(OpenOrder(name, symbol, left if side == "buy" else -left) for name, symbol, side, left in found)

    def activity_since(self, booked: BookedAccount) -> BrokerActivity:
        """Asks for fills, funding and ends of orders, from a moment on."""
        told = self._read(do="fills", since=booked.since, until=booked.until)
        return BrokerActivity(tuple(msgspec.convert(body, EVENTS[kind]) for kind, body in told), booked.until)

    def account_state(self, booked: BookedAccount) -> Portfolio:
        """Asks for cash and positions."""
        return msgspec.convert(self._read(do="account"), Portfolio)

    def increments(self, symbol: str, listing: MarketListing) -> Increments | None:
        """The same for all symbols."""
        return Increments(LOT, TICK)

    def _ask_about_order(self, **request: Any) -> OrderState:
        try:
            return msgspec.convert(self._request(request), OrderState)
        except OSError as error:
            return OrderState("unknown", f"{type(error).__name__}: {error}")

    def _read(self, **request: Any) -> Any:
        try:
            return self._request(request)
        except OSError as error:
            raise BrokerAway(f"the little exchange does not answer: {error}") from error

    def _request(self, request: dict[str, Any]) -> Any:
        with socket.create_connection(self._place, timeout=TIMEOUT_SECONDS) as line:
            line.sendall(msgspec.json.encode(request) + b"\n")
            said = line.makefile("rb").readline()
        if not said:
            raise ConnectionError("the connection was closed")
        return msgspec.json.decode(said)


def create(_terms: PaperTerms) -> WiredBroker:
    """The adapter's entry point."""
    return WiredBroker(os.environ[ADDRESS])
