"""A small exchange on loopback that does exactly what a test tells it to."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Reply = tuple[int, bytes]
Responder = Callable[[dict[str, Any]], Reply]

LEVEL = {"px": "1", "sz": "1", "n": 1}
CONTEXT = {"funding": "0.0", "openInterest": "1.0", "premium": "0.0", "oraclePx": "5.0", "markPx": "5.0"}


class ScriptedExchange:
    """Knows two perps; every answer can be replaced, every socket can be spoken on, silenced or dropped."""

    def __init__(self, *symbols: str) -> None:
        self.symbols = list(symbols or ("A", "B"))
        self.answers: dict[str, Responder] = {}
        self.asked: list[dict[str, Any]] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.heard: list[tuple[int, dict[str, Any]]] = []
        self.opened = 0
        self.pongs = True
        self.acks = True
        self.refuse_sockets = False
        self.url = ""
        self._changed = asyncio.Event()

    def count(self, kind: str) -> int:
        """How often a question was asked."""
        return Counter(question["type"] for question in self.asked)[kind]

    def subscribed(self, kind: str) -> list[str]:
        """What was subscribed to, in order, by coin or dex."""
        wanted = [message["subscription"] for _, message in self.heard if message["method"] == "subscribe"]
        return [each.get("coin", each.get("dex", "")) for each in wanted if each["type"] == kind]

    async def until(self, holds: Callable[[], bool], *, seconds: float = 5.0) -> None:
        """Waits until something has happened here."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.02):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def say(self, channel: str, data: Any) -> None:
        """Sends a frame on every open socket."""
        await self.say_text(json.dumps({"channel": channel, "data": data}))

    async def say_text(self, text: str) -> None:
        """Sends any text on every open socket."""
        for socket in list(self.sockets):
            await socket.send_str(text)

    async def drop(self) -> None:
        """Cuts every connection without a word."""
        for socket in list(self.sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()
        await self.until(lambda: not self.sockets)

    async def info(self, request: web.Request) -> web.StreamResponse:
        """Answers a question."""
        question = await request.json()
        self.asked.append(question)
        self._changed.set()
        responder = self.answers.get(question["type"], self._usual)
        status, body = responder(question)
        if status == 0:
            await asyncio.sleep(60)
        return web.Response(status=status, body=body, content_type="application/json")

    def _usual(self, question: dict[str, Any]) -> Reply:
        universe = [{"name": name} for name in self.symbols]
        answers: dict[str, Any] = {
            "meta": {"universe": universe},
            "metaAndAssetCtxs": [{"universe": universe}, [CONTEXT for _ in universe]],
            "spotMeta": {"universe": [], "tokens": []},
            "predictedFundings": [],
            "l2Book": {"coin": question.get("coin"), "time": 1, "levels": [[LEVEL], [LEVEL | {"px": "2"}]]},
            "candleSnapshot": [],
            "fundingHistory": [],
        }
        return 200, json.dumps(answers[question["type"]]).encode()

    async def ws(self, request: web.Request) -> web.StreamResponse:
        """Serves a connection."""
        self.opened += 1
        if self.refuse_sockets:
            self._changed.set()
            return web.Response(status=429, body=b"null")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        number = self.opened
        self.sockets.append(socket)
        self._changed.set()
        try:
            async for message in socket:
                await self._hear(number, socket, json.loads(message.data))
        finally:
            self.sockets.remove(socket)
            self._changed.set()
        return socket

    async def _hear(self, number: int, socket: web.WebSocketResponse, message: dict[str, Any]) -> None:
        self.heard.append((number, message))
        self._changed.set()
        if message["method"] == "ping":
            if self.pongs:
                await socket.send_str('{"channel":"pong"}')
        elif self.acks:
            await socket.send_str(json.dumps({"channel": "subscriptionResponse", "data": message}))


@asynccontextmanager
async def serving(exchange: ScriptedExchange) -> AsyncIterator[str]:
    """Serves an exchange and gives its address."""
    app = web.Application()
    app.add_routes([web.post("/info", exchange.info), web.get("/ws", exchange.ws)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    exchange.url = f"http://{host}:{port}"
    try:
        yield exchange.url
    finally:
        for socket in list(exchange.sockets):
            await socket.close()
        await runner.cleanup()
