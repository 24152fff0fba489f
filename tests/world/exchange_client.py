"""A client for tests of the server: it says what it is told to and keeps every line it hears."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tapebook.domain.units import parse_instant
from tapebook.world.faults import Faults
from tapebook.world.market import World
from tapebook.world.server import WorldServer

START = parse_instant("2026-01-05T00:00:00Z")
PONG = '{"channel":"pong"}'


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario; one that hangs fails."""
    asyncio.run(asyncio.wait_for(scenario, 60))


class Line:
    """A WebSocket with all that was heard on it, as text."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.heard: list[str] = []

    async def say(self, message: object) -> None:
        await self.ws.send_str(message if isinstance(message, str) else json.dumps(message))

    async def subscribe(self, **subscription: object) -> None:
        await self.say({"method": "subscribe", "subscription": subscription})

    async def settle(self) -> list[str]:
        """Pings, and gives what came before the pong."""
        await self.say({"method": "ping"})
        lines: list[str] = []
        while (text := await self.hear()) != PONG:
            lines.append(text)
        self.heard += lines
        return lines

    async def hear(self) -> str:
        """The next line; fails when the socket is closed."""
        message = await self.ws.receive(timeout=10)
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return str(message.data)

    async def is_closed(self) -> bool:
        """Whether the server ended the line; what it sent before is kept."""
        while True:
            message = await self.ws.receive(timeout=10)
            if message.type is not aiohttp.WSMsgType.TEXT:
                return message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING)
            self.heard.append(message.data)


class Client:
    """A server and a session that talks to it."""

    def __init__(self, server: WorldServer, url: str, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.url = url
        self.session = session

    async def ask(self, body: object) -> tuple[int, str]:
        """Status and text of an answer; a text is sent as it is."""
        sent = body if isinstance(body, str) else json.dumps(body)
        async with self.session.post(f"{self.url}/info", data=sent) as answer:
            return answer.status, await answer.text()

    async def get(self, **body: object) -> Any:
        """An answer that has to be good, as JSON."""
        status, text = await self.ask(body)
        assert status == 200, (status, text)
        return json.loads(text)

    async def open_line(self) -> Line:
        return Line(await self.session.ws_connect(f"{self.url}/ws"))

    async def steps(self, line: Line, count: int) -> list[str]:
        """So many steps with a barrier before and behind each; gives what was heard."""
        heard = await line.settle()
        for _ in range(count):
            await self.server.advance(self.server.now + 5_000)
            heard += await line.settle()
        return heard


@asynccontextmanager
async def serving(
    seed: int = 7, *, history_ms: int = 0, faults: Faults | None = None, symbols: tuple[str, ...] | None = None
) -> AsyncIterator[Client]:
    """A server of a world, and a client of it."""
    world = World(seed, start=START, symbols=symbols) if symbols else World(seed, start=START)
    server = WorldServer(world, faults=faults or Faults(), history_ms=history_ms)
    url = await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(server, url, session)
    finally:
        await server.stop()
