"""A broker whose orders go over a socket to a little exchange; what they come to is what paper would say.

Loaded by its name like any broker, once its folder is added to the brokers' package.
"""

import json
import os
import socket
from collections.abc import Sequence
from typing import Any

from tapebook.broker.brokers.paper import PaperBroker
from tapebook.broker.port import BrokerAccount, BrokerActivity, OrderState, PaperTerms, Quotes
from tapebook.domain.order import Order

ADDRESS = "LITTLE_EXCHANGE"
TIMEOUT_SECONDS = 0.2


class WiredBroker:
    """A client of the little exchange."""

    def __init__(self, address: str, terms: PaperTerms) -> None:
        host, _, port = address.partition(":")
        self._place = host, int(port)
        self._paper = PaperBroker(terms)

    def place(self, order: Order) -> OrderState:
        """Sends an order."""
        return self._request(do="place", client_id=order.client_id)

    def order_state(self, client_id: str) -> OrderState:
        """Asks for an order."""
        return self._request(do="state", client_id=client_id)

    def activity(
        self, account: BrokerAccount, orders: Sequence[Order], *, quotes: Quotes, until: int
    ) -> BrokerActivity:
        """What became of orders and positions."""
        return self._paper.activity(account, orders, quotes=quotes, until=until)

    def _request(self, **request: Any) -> OrderState:
        try:
            with socket.create_connection(self._place, timeout=TIMEOUT_SECONDS) as line:
                line.sendall(json.dumps(request).encode() + b"\n")
                said = line.makefile("rb").readline()
        except OSError as error:
            return OrderState("unknown", f"{type(error).__name__}: {error}")
        return OrderState(**json.loads(said)) if said else OrderState("unknown", "the connection was closed")


def create(terms: PaperTerms) -> WiredBroker:
    """The adapter's entry point."""
    return WiredBroker(os.environ[ADDRESS], terms)
