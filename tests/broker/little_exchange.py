"""A little exchange behind a real socket that loses requests and answers, answers late and refuses, as it is told.

One line of JSON is a request, one an answer. It outlives the process that places orders, as an exchange does.
"""

import json
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest

from tapebook.broker import brokers

Fault = Literal["lose request", "lose answer", "late answer", "late arrival", "reject"]


class LittleExchange:
    """The orders it has, by client id, and the faults that the next requests of a kind meet."""

    def __init__(self) -> None:
        self.orders: dict[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.placing: deque[Fault] = deque()
        self.asking: deque[Fault] = deque()
        self.on_the_way: list[str] = []
        self._done = threading.Event()
        exchange = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                request = json.loads(self.rfile.readline())
                answer = exchange._answer(request["do"], request["client_id"])
                if answer is None:
                    # A reset, as from a machine that went away: no polite end of the stream.
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    self.wfile.write(json.dumps(answer).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def arrive(self) -> None:
        """What was on its way arrives; a client id that is there already changes nothing."""
        for client_id in self.on_the_way:
            self.orders.setdefault(client_id, "placed")
        self.on_the_way.clear()

    def _answer(self, do: str, client_id: str) -> dict[str, Any] | None:
        self.asked.append((do, client_id))
        faults = self.placing if do == "place" else self.asking
        fault = faults.popleft() if faults else None
        if fault == "lose request":
            return None
        if fault == "late arrival":
            self.on_the_way.append(client_id)
            return None
        if do == "place":
            self.orders.setdefault(client_id, "rejected" if fault == "reject" else "placed")
        if fault == "lose answer":
            return None
        if fault == "late answer":
            self._done.wait(5)
        status = self.orders.get(client_id, "never seen")
        return {"status": status, "detail": "no such market" if status == "rejected" else ""}

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
def wired_broker(patch: pytest.MonkeyPatch) -> Iterator[LittleExchange]:
    """Makes `wired` one of the brokers, connected to an exchange of its own."""
    patch.setattr(brokers, "__path__", [*brokers.__path__, str(DOUBLES)])
    with LittleExchange() as exchange:
        patch.setenv("LITTLE_EXCHANGE", exchange.address)
        yield exchange
