"""A little exchange behind a real socket that loses requests and answers, answers late and refuses, as it is told.

One line of JSON is a request, one an answer. It keeps orders, fills and an account of its own and outlives the process
that places orders, as an exchange does. Prices are prints (`trade`), which may fill an order in part.
"""

import json
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import msgspec
import pytest

from tapebook.book.materializer import apply_fill, apply_funding
from tapebook.broker import OrderState, brokers
from tapebook.broker.port import OrderStatus
from tapebook.domain.order import Fill, FundingPayment, Order, OrderEnd
from tapebook.domain.position import Portfolio
from tapebook.domain.units import notional_usd_e6

Fault = Literal["lose request", "lose answer", "late answer", "late arrival", "reject"]

MOST_ID_DIGITS = 32
FEE_PPM = 450


@dataclass
class KnownOrder:
    """An order the exchange has, or refused, or was told to cancel before it came."""

    order: Order | None
    left_e8: int
    status: OrderStatus
    detail: str = ""


class LittleExchange:
    """The orders it has, by client id, and the faults that the next requests of a kind meet."""

    def __init__(self, cash_usd_e6: int = 0) -> None:
        self.clear(cash_usd_e6)
        self._lock = threading.Lock()
        self._done = threading.Event()
        exchange = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                answer = exchange._respond(json.loads(self.rfile.readline()))
                if answer is None:
                    # A reset, as from a machine that went away: no polite end of the stream.
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    self.wfile.write(msgspec.json.encode(answer) + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def clear(self, cash_usd_e6: int) -> None:
        """Begins anew, with so much money in the account."""
        self.orders: dict[str, KnownOrder] = {}
        self.asked: list[tuple[str, str]] = []
        self.placing: deque[Fault] = deque()
        self.asking: deque[Fault] = deque()
        self.cancelling: deque[Fault] = deque()
        self.reading: deque[Fault] = deque()
        self.on_the_way: list[Order] = []
        self.events: list[Fill | FundingPayment | OrderEnd] = []
        self.portfolio = Portfolio({}, cash_usd_e6)
        self.now = 0

    def arrive(self) -> None:
        """What was on its way arrives; a client id that is there already changes nothing."""
        with self._lock:
            for order in self.on_the_way:
                self._take(order)
            self.on_the_way.clear()

    def trade(self, symbol: str, at: int, price_e8: int, *, most_e8: int | None = None) -> None:
        """A print: market orders fill at it and limits that it goes beyond, each up to so much."""
        with self._lock:
            self.now = max(self.now, at)
            for known in list(self.orders.values()):
                order = known.order
                if order is not None and known.status == "resting" and order.symbol == symbol:
                    limit, buying = order.limit_price_e8, order.side == "buy"
                    if limit is None or (price_e8 < limit if buying else price_e8 > limit):
                        self._execute(known, order, limit or price_e8, most_e8)

    def fill_of_somebody_else(self, symbol: str, signed_size_e8: int, price_e8: int) -> None:
        """An execution of an order that is not in our book."""
        with self._lock:
            self._fill(Fill(self._next_id(), symbol, self.now, signed_size_e8, price_e8, 0, False, "f" * 32), 1)

    def pay_funding(self, symbol: str, at: int, amount_usd_e6: int) -> None:
        """The funding of an hour."""
        with self._lock:
            self.now = max(self.now, at)
            payment = FundingPayment(symbol, at, amount_usd_e6, 1)
            self.portfolio, _ = apply_funding(self.portfolio, payment)
            self.events.append(payment)

    def statuses(self) -> list[str]:
        """What became of the orders it ever had, oldest first."""
        return [known.status for known in self.orders.values()]

    def _execute(self, known: KnownOrder, order: Order, price_e8: int, most_e8: int | None) -> None:
        size = known.left_e8 if most_e8 is None else min(known.left_e8, most_e8)
        if order.reduce_only:
            held = self.portfolio.positions.get(order.symbol)
            have = held.size_e8 if held and (held.size_e8 > 0) != (order.side == "buy") else 0
            if not have:
                self._end(known, order, "cancelled", "reduce-only order would increase the position")
                return
            size = min(size, abs(have))
        signed = size if order.side == "buy" else -size
        fee = abs(notional_usd_e6(signed, price_e8)) * FEE_PPM // 1_000_000
        maker = order.type == "limit"
        fill = Fill(self._next_id(), order.symbol, self.now, signed, price_e8, fee, maker, order.client_id)
        self._fill(fill, order.leverage)
        known.left_e8 -= size
        if not known.left_e8:
            self._end(known, order, "filled", "")

    def _fill(self, fill: Fill, leverage: int) -> None:
        self.portfolio, _ = apply_fill(self.portfolio, fill, leverage=leverage)
        self.events.append(fill)

    def _next_id(self) -> str:
        return f"fill {len(self.events)}"

    def _end(self, known: KnownOrder, order: Order, status: Literal["filled", "cancelled"], detail: str) -> None:
        known.status, known.detail = status, detail
        self.events.append(OrderEnd(order.client_id, self.now, status, detail))

    def _respond(self, request: dict[str, Any]) -> Any:
        do, client_id = request["do"], request.get("client_id", "")
        with self._lock:
            self.asked.append((do, client_id))
            faults = {"place": self.placing, "state": self.asking, "cancel": self.cancelling}.get(do, self.reading)
            fault = faults.popleft() if faults else None
            if fault == "lose request":
                return None
            if fault == "late arrival":
                self.on_the_way.append(msgspec.convert(request["order"], Order))
                return None
            answer = self._answer(do, request, refuse=fault == "reject")
        if fault == "lose answer":
            return None
        if fault == "late answer":
            self._done.wait(5)
        return answer

    def _answer(self, do: str, request: dict[str, Any], *, refuse: bool) -> Any:
        if do == "open":
            known = [(each.order, each.left_e8) for each in self.orders.values() if each.status == "resting"]
            return [[order.client_id, order.symbol, order.side, left] for order, left in known if order is not None]
        if do == "fills":
            told = [each for each in self.events if request["since"] <= each.happened_at <= request["until"]]
            return [[type(each).__name__, each] for each in told]
        if do == "account":
            return self.portfolio
        client_id = request["client_id"]
        if do == "place":
            self._take(msgspec.convert(request["order"], Order), refuse=refuse)
        elif do == "cancel":
            return self._cancel(client_id)
        found = self.orders.get(client_id)
        return OrderState("never seen") if found is None else OrderState(found.status, found.detail)

    def _take(self, order: Order, *, refuse: bool = False) -> None:
        # One that cannot be the id of an order is refused as exchanges do: they take 128 bits.
        fits = len(order.client_id) <= MOST_ID_DIGITS and int(order.client_id, 16) >= 0
        known = KnownOrder(order, order.size_e8, "resting")
        if refuse or not fits:
            known = KnownOrder(order, 0, "rejected", "no such market" if refuse else "the client id is too long")
        self.orders.setdefault(order.client_id, known)

    def _cancel(self, client_id: str) -> OrderState:
        found = self.orders.get(client_id)
        if found is None:
            # What is still on its way with this id counts for nothing any more.
            self.orders[client_id] = KnownOrder(None, 0, "cancelled", "cancelled before it came")
            return OrderState("never seen")
        if found.status == "resting" and found.order is not None:
            self._end(found, found.order, "cancelled", "cancelled by its owner")
        return OrderState(found.status, found.detail)

    def __enter__(self) -> "LittleExchange":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


DOUBLES = Path(__file__).parent / "doubles"


@contextmanager
def wired_broker(patch: pytest.MonkeyPatch, cash_usd_e6: int = 0) -> Iterator[LittleExchange]:
    """Makes `wired` one of the brokers, connected to an exchange of its own."""
    patch.setattr(brokers, "__path__", [*brokers.__path__, str(DOUBLES)])
    with LittleExchange(cash_usd_e6) as exchange:
        patch.setenv("LITTLE_EXCHANGE", exchange.address)
        yield exchange
