"""A server on this machine that speaks the wire formats of both providers, and gives what a test tells it to.

Each request takes the next of `script`, which says what to give or is a function of what came in; the last one stays.
What came in is kept in `seen`.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web


class Said(msgspec.Struct, frozen=True):
    """What the server gives: a status and a body, after a while; or the body byte by byte, for as long as it lasts."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}
    after_seconds: float = 0.0
    seconds_a_byte: float = 0.0


class Seen(msgspec.Struct, frozen=True):
    """What came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Says = Said | Callable[[Seen], Said]


class ModelServer:
    """The server, while it runs."""

    def __init__(self) -> None:
        self.script: list[Says] = []
        self.seen: list[Seen] = []
        self.url = ""

    def says(self, *script: Says) -> None:
        """What it gives from now on, one after the other."""
        self.script, self.seen = list(script), []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path, headers, await request.json()))
        given = self.script[0]
        del self.script[: len(self.script) > 1]
        said = given if isinstance(given, Said) else given(self.seen[-1])
        await asyncio.sleep(said.after_seconds)
        body = said.body if isinstance(said.body, bytes) else msgspec.json.encode(said.body)
        headers = {"content-type": "application/json", **said.headers}
        if said.seconds_a_byte:
            return await self._dripping(request, body, said.seconds_a_byte)
        return web.Response(status=said.status, body=body, headers=headers)

    async def _dripping(self, request: web.Request, body: bytes, seconds: float) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        # Whoever asked may have gone.
        with suppress(ConnectionResetError):
            for byte in body:
                await response.write(bytes([byte]))
                await asyncio.sleep(seconds)
        return response


@contextmanager
def serving() -> Iterator[ModelServer]:
    """Runs a server on a free port of the loopback address, in a thread of its own."""
    server, loop, ready = ModelServer(), asyncio.new_event_loop(), threading.Event()

    async def start() -> web.AppRunner:
        application = web.Application()
        application.router.add_route("POST", "/{path:.*}", server.handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def anthropic_message(text: str, *, stop: str = "end_turn", tokens: tuple[int, int] = (1000, 100)) -> dict[str, Any]:
    """An answer of the messages API, with a block of thinking before the text."""
    return {
        **{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "stop_reason": stop},
        "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": text}],
        "usage": {"input_tokens": tokens[0] - 10, "output_tokens": tokens[1], "cache_read_input_tokens": 10},
    }


def openai_chat(
    text: str | None, *, stop: str = "stop", tokens: tuple[int, int] | None = (1000, 100), refusal: str | None = None
) -> dict[str, Any]:
    """An answer of the chat completions API, as of a server that shows what a model thinks."""
    used = tokens and {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    message = {"role": "assistant", "content": text, "refusal": refusal, "reasoning_content": "hm"}
    choice = {"index": 0, "finish_reason": stop, "message": message}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": used}


def error(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """The body of an error; both providers write it so."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def trade_by(packet: str) -> str:
    """A reply that opens where nothing is held and closes what is: a function of the packet, as of a trading model."""
    symbol = packet.partition("## Market: ")[2].split("\n")[0]
    is_flat = "- position_side: flat" in packet
    action: dict[str, Any] = {
        **{"action": "open" if is_flat else "close", "symbol": symbol, "side": "long" if is_flat else None},
        **{"notional_usd": 500.0 if is_flat else 0, "leverage": 1, "order_type": "market", "limit_price": None},
        **{"confidence": 0.6, "reason": "it goes up" if is_flat else "it is enough", "cites": []},
    }
    return msgspec.json.encode({"actions": [action], "note": ""}).decode()


def trading_chat(seen: Seen) -> Said:
    """What a model that trades answers over the chat completions API."""
    return Said(body=openai_chat(trade_by(seen.body["messages"][-1]["content"])))
