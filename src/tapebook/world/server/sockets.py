"""One WebSocket: the client's messages, its subscriptions, and the frames it is sent at every step.

`StepFrames` makes the frame of each subscription once a step for all sockets. Frames of a step are written before the
step is over, so a client that pings afterwards has them all before the pong.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from tapebook.domain.units import MINUTE
from tapebook.world.cadence import STEP
from tapebook.world.faults import FaultLog, Frame, FrameMangler, InjectedFault
from tapebook.world.server import answers, catalog, messages, requests, wire
from tapebook.world.server.answers import InfoEndpoint
from tapebook.world.server.exchange import Coin, Exchange
from tapebook.world.server.levels import level_text
from tapebook.world.server.messages import (
    BookSubscription,
    CandleSubscription,
    ContextSubscription,
    MidsSubscription,
    Subscription,
    TopSubscription,
    TradeSubscription,
)
from tapebook.world.server.requests import MOST_SUBSCRIPTIONS, ClientLimits, L2Book

_FAST_LEVELS, _SLOW_LEVELS = 5, 20


class StepFrames:
    """The frames of the step the exchange is at."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._made: dict[Subscription, Frame | None] = {}
        self._tops: dict[str, str] = {}

    def next_step(self) -> None:
        """Forgets the frames of the step before."""
        self._made.clear()

    def frame(self, subscription: Subscription) -> Frame | None:
        """What a subscriber gets at this step; None when there is nothing to tell."""
        if subscription not in self._made:
            self._made[subscription] = _FRAMES[type(subscription)](self, subscription)
        return self._made[subscription]

    def _coin(self, name: str) -> Coin | None:
        """A coin that is subscribed to; None when it was delisted since."""
        coin = self._exchange.coin(name)
        assert coin is not None or name in self._exchange.delisted, "only known coins are subscribed to"
        return coin

    def _mids(self, wanted: MidsSubscription) -> Frame:
        dex = f',"dex":"{wanted.dex}"' if wanted.dex else ""
        text = f'{{"channel":"allMids","data":{{"mids":{self._exchange.mids_text(wanted.dex)}{dex}}}}}'
        return Frame("mids", wanted.dex or "*", text.encode())

    def _candle(self, wanted: CandleSubscription) -> Frame | None:
        coin = self._coin(wanted.coin)
        if coin is None or not coin.has_traded():
            return None
        bar = coin.bars.open_bar(wanted.interval, coin.forming_bar())
        assert bar is not None, "a minute that traded has a bar"
        text = wire.candle_text(bar, wanted.interval, coin.grid.size_decimals)
        return Frame("candles", wanted.coin, f'{{"channel":"candle","data":{text}}}'.encode(), wanted.interval)

    def _book(self, wanted: BookSubscription) -> Frame:
        request = L2Book(wanted.coin, wanted.n_sig_figs, wanted.mantissa)
        most = _FAST_LEVELS if wanted.fast else _SLOW_LEVELS
        text = answers.book_text(self._exchange, request, most=most) or "null"
        fast = f'{text[:-1]},"fast":true}}' if wanted.fast else text
        variant = f"{wanted.n_sig_figs} {wanted.mantissa} {wanted.fast}"
        return Frame("books", wanted.coin, f'{{"channel":"l2Book","data":{fast}}}'.encode(), variant)

    def _context(self, wanted: ContextSubscription) -> Frame:
        shown = self._coin(wanted.coin) or self._exchange.delisted[wanted.coin]
        payload = {"coin": wanted.coin, "ctx": shown.context()}
        return Frame("contexts", wanted.coin, msgspec.json.encode({"channel": "activeAssetCtx", "data": payload}))

    def _trades(self, wanted: TradeSubscription) -> Frame | None:
        coin = self._coin(wanted.coin)
        if coin is None or not coin.has_traded():
            return None
        rows = [_trade_row(coin, self._exchange.main.at)]
        return Frame("trades", wanted.coin, msgspec.json.encode({"channel": "trades", "data": rows}))

    def _top(self, wanted: TopSubscription) -> Frame | None:
        coin, at = self._coin(wanted.coin), self._exchange.main.at
        if coin is None:
            return None
        book = coin.book(at)
        text = f"[{level_text(book.bids[0], coin.grid)},{level_text(book.asks[0], coin.grid)}]"
        if self._tops.get(wanted.coin) == text:
            return None
        self._tops[wanted.coin] = text
        payload = f'{{"channel":"bbo","data":{{"coin":"{wanted.coin}","time":{at},"bbo":{text}}}}}'
        return Frame("tops", wanted.coin, payload.encode())


def _trade_row(coin: Coin, at: int) -> dict[str, Any]:
    """The trading of a step as one trade at its mid."""
    now, before = coin.forming_bar(), coin.forming_bar(back=1)
    assert now is not None, "a step that traded has a bar"
    size = now.volume_base - (before.volume_base if before else 0.0)
    digest = hashlib.blake2b(f"{coin.symbol}/{at}".encode(), digest_size=32).hexdigest()
    return {
        "coin": coin.symbol,
        "side": "B" if now.close_e8 >= (before or now).close_e8 else "A",
        "px": wire.price_text(now.close_e8),
        "sz": wire.amount_text(size, coin.grid.size_decimals),
        "time": at,
        "hash": f"0x{digest}",
        "tid": int(digest[:12], 16),
        "users": [catalog.account_address(f"buyer {digest}"), catalog.account_address(f"seller {digest}")],
    }


_FRAMES: dict[type, Callable[[StepFrames, Any], Frame | None]] = {
    MidsSubscription: StepFrames._mids,
    CandleSubscription: StepFrames._candle,
    BookSubscription: StepFrames._book,
    ContextSubscription: StepFrames._context,
    TradeSubscription: StepFrames._trades,
    TopSubscription: StepFrames._top,
}


_IDLE_MS = MINUTE

# Real seconds after which a client that does not read is let go: a step must not wait for ever.
_PATIENCE_S = 10.0

_UNREADABLE = "Error parsing JSON into valid websocket request: "


class Socket:
    """A client's line."""

    def __init__(
        self, ws: web.WebSocketResponse, transport: asyncio.Transport, *, desk: InfoEndpoint, client: ClientLimits
    ) -> None:
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

    def release_limits(self) -> None:
        """Gives back what the line held of its client's limits."""
        self._client.sockets -= 1
        self._client.subscriptions -= len(self._subscriptions)
        self._subscriptions.clear()

    def mute(self, kind: str, *, at: int, until: int) -> None:
        """From now on nothing is sent; with a `stall`, replies still are."""
        if self._mute is None or at >= self._mute[2]:
            self._mute = kind, at, until

    async def publish(self, feed: StepFrames, at: int, *, mangler: FrameMangler | None, record: FaultLog) -> None:
        """Sends the frames of a step, and ends a line on which nothing was sent for a minute."""
        if self._transport.is_closing():
            return
        if self._mute is not None and at < self._mute[2]:
            kind, since, _ = self._mute
            record.add_or_extend(InjectedFault(kind, "*", "*", since, at + STEP))
            return
        frames = [frame for each in self._subscriptions if (frame := feed.frame(each)) is not None]
        await self._send(mangler.payloads_at(frames, at) if mangler else [frame.payload for frame in frames])
        if at - self._last_sent >= _IDLE_MS:
            self.close()

    async def handle_message(self, text: str) -> None:
        """Answers one message."""
        if not self._client.messages.try_spend(self._desk.exchange.now):
            await self._reply(messages.error_message("Too many messages: 2000 a minute are allowed."))
            return
        try:
            message = messages.decode_message(text)
        except msgspec.DecodeError:
            await self._reply(messages.error_message(_UNREADABLE + text))
            return
        match message:
            case messages.Ping():
                await self._reply(messages.PONG)
            case messages.Subscribe(subscription=raw):
                await self._subscribe(bytes(raw))
            case messages.Unsubscribe(subscription=raw):
                await self._unsubscribe(bytes(raw))
            case messages.Post():
                await self._reply(self._post_reply(message))

    async def _subscribe(self, raw: bytes) -> None:
        wanted = self._decode_or_none(raw)
        if isinstance(wanted, TopSubscription) and self._desk.exchange.coin(wanted.coin) is None:
            # The exchange really does this, without an error frame.
            self.close()
        elif wanted is None or not messages.is_valid_subscription(wanted, self._desk.exchange):
            await self._reply(messages.error_message(f"Invalid subscription {raw.decode()}"))
        elif wanted in self._subscriptions:
            await self._reply(messages.error_message(f"Already subscribed: {_subscription_text(wanted)}"))
        elif self._client.subscriptions >= MOST_SUBSCRIPTIONS:
            await self._reply(
                messages.error_message(f"Cannot track more than {MOST_SUBSCRIPTIONS} total subscriptions.")
            )
        else:
            self._subscriptions[wanted] = None
            self._client.subscriptions += 1
            await self._reply(messages.subscription_response("subscribe", _subscription_text(wanted)))

    async def _unsubscribe(self, raw: bytes) -> None:
        wanted = self._decode_or_none(raw)
        if wanted is None:
            await self._reply(messages.error_message(f"Invalid subscription {raw.decode()}"))
        elif wanted not in self._subscriptions:
            await self._reply(messages.error_message(f"Already unsubscribed: {_subscription_text(wanted)}"))
        else:
            del self._subscriptions[wanted]
            self._client.subscriptions -= 1
            await self._reply(messages.subscription_response("unsubscribe", _subscription_text(wanted)))

    def _decode_or_none(self, raw: bytes) -> Subscription | None:
        try:
            return messages.decode_subscription(raw)
        except msgspec.DecodeError:
            return None

    def _post_reply(self, message: messages.Post) -> str:
        try:
            request = requests.decode_request(message.request.payload)
        except msgspec.DecodeError:
            return messages.post_error_response(message.id, 422)
        if message.request.type != "info":
            return messages.post_error_response(message.id, 422)
        answer = self._desk.answer_within_limits(self._client, request)
        if answer.status != 200:
            return messages.post_error_response(message.id, answer.status)
        return messages.post_response(message.id, requests.request_type(request), answer.body)

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


def _subscription_text(subscription: Subscription) -> str:
    return msgspec.json.encode(subscription).decode()
