"""One WebSocket: what its client says, what it is subscribed to, and what is sent to it at every step.

Frames of a step are written before the step is over, so a client that pings afterwards has them all before the pong.
"""

import asyncio

import msgspec
from aiohttp import WSMsgType, web

from tapebook.domain.instants import MINUTE
from tapebook.world.cadence import STEP
from tapebook.world.faults import Injected, Record
from tapebook.world.server import messages, requests, subscriptions
from tapebook.world.server.desk import Desk
from tapebook.world.server.feeds import Feed
from tapebook.world.server.limits import MOST_SUBSCRIPTIONS, Client
from tapebook.world.server.mangle import Mangler
from tapebook.world.server.subscriptions import Subscription, Tops

_IDLE_MS = MINUTE

# Real seconds after which a client that does not read is let go: a step must not wait for ever.
_PATIENCE_S = 10.0

_UNREADABLE = "Error parsing JSON into valid websocket request: "


class Socket:
    """A client's line."""

    def __init__(self, ws: web.WebSocketResponse, transport: asyncio.Transport, *, desk: Desk, client: Client) -> None:
        self._ws = ws
        self._transport = transport
        self._desk = desk
        self._client = client
        self._subscriptions: dict[Subscription, None] = {}
        self._last_sent = desk.exchange.now
        self._mute: tuple[str, int, int] | None = None
        client.sockets += 1

    def close(self) -> None:
        """Ends the line without a word; what was sent before still arrives."""
        self._transport.close()

    def gone(self) -> None:
        """Gives back what the line held of its client's limits."""
        self._client.sockets -= 1
        self._client.subscriptions -= len(self._subscriptions)
        self._subscriptions.clear()

    def fall_silent(self, kind: str, *, at: int, until: int) -> None:
        """From now on nothing is sent; with a `stall`, replies still are."""
        if self._mute is None or at >= self._mute[2]:
            self._mute = kind, at, until

    async def publish(self, feed: Feed, at: int, *, mangler: Mangler | None, record: Record) -> None:
        """Sends the frames of a step, and ends a line on which nothing was sent for a minute."""
        if self._transport.is_closing():
            return
        if self._mute is not None and at < self._mute[2]:
            kind, since, _ = self._mute
            record.stretch(Injected(kind, "*", "*", since, at + STEP))
            return
        frames = [frame for each in self._subscriptions if (frame := feed.frame(each)) is not None]
        await self._send(mangler.send(frames, at) if mangler else [frame.payload for frame in frames])
        if at - self._last_sent >= _IDLE_MS:
            self.close()

    async def hear(self, text: str) -> None:
        """Answers one message."""
        if not self._client.messages.take(self._desk.exchange.now):
            await self._reply(messages.error("Too many messages: 2000 a minute are allowed."))
            return
        try:
            message = messages.decode(text)
        except msgspec.DecodeError:
            await self._reply(messages.error(_UNREADABLE + text))
            return
        match message:
            case messages.Ping():
                await self._reply(messages.PONG)
            case messages.Subscribe(subscription=raw):
                await self._subscribe(bytes(raw))
            case messages.Unsubscribe(subscription=raw):
                await self._unsubscribe(bytes(raw))
            case messages.Post():
                await self._reply(self._posted(message))

    async def _subscribe(self, raw: bytes) -> None:
        wanted = self._decoded(raw)
        if isinstance(wanted, Tops) and self._desk.exchange.coin(wanted.coin) is None:
            # The exchange really does this, without an error frame.
            self.close()
        elif wanted is None or not subscriptions.is_valid(wanted, self._desk.exchange):
            await self._reply(messages.error(f"Invalid subscription {raw.decode()}"))
        elif wanted in self._subscriptions:
            await self._reply(messages.error(f"Already subscribed: {_text(wanted)}"))
        elif self._client.subscriptions >= MOST_SUBSCRIPTIONS:
            await self._reply(messages.error(f"Cannot track more than {MOST_SUBSCRIPTIONS} total subscriptions."))
        else:
            self._subscriptions[wanted] = None
            self._client.subscriptions += 1
            await self._reply(messages.acknowledged("subscribe", _text(wanted)))

    async def _unsubscribe(self, raw: bytes) -> None:
        wanted = self._decoded(raw)
        if wanted is None:
            await self._reply(messages.error(f"Invalid subscription {raw.decode()}"))
        elif wanted not in self._subscriptions:
            await self._reply(messages.error(f"Already unsubscribed: {_text(wanted)}"))
        else:
            del self._subscriptions[wanted]
            self._client.subscriptions -= 1
            await self._reply(messages.acknowledged("unsubscribe", _text(wanted)))

    def _decoded(self, raw: bytes) -> Subscription | None:
        try:
            return subscriptions.decode(raw)
        except msgspec.DecodeError:
            return None

    def _posted(self, message: messages.Post) -> str:
        try:
            request = requests.decode(message.request.payload)
        except msgspec.DecodeError:
            return messages.post_failed(message.id, 422)
        if message.request.type != "info":
            return messages.post_failed(message.id, 422)
        answer = self._desk.ask(self._client, request)
        if answer.status != 200:
            return messages.post_failed(message.id, answer.status)
        return messages.posted(message.id, requests.name(request), answer.body)

    async def _reply(self, text: str) -> None:
        silent = self._mute is not None and self._mute[0] == "silence" and self._desk.exchange.now < self._mute[2]
        if not silent:
            await self._send([text.encode()])

    async def _send(self, payloads: list[bytes]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for payload in payloads:
                    await self._ws.send_frame(payload, WSMsgType.TEXT)
        except ConnectionError:
            self.close()
            return
        except TimeoutError:
            # Closing would wait for what is not read.
            self._transport.abort()
            return
        if payloads:
            self._last_sent = self._desk.exchange.now


def _text(subscription: Subscription) -> str:
    return msgspec.json.encode(subscription).decode()
