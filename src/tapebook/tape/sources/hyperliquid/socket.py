"""One WebSocket connection: opened, subscribed, read, watched, and opened again when it is lost.

A `Line` hands every frame and every loss to its owner in the order they happened, and keeps no
market facts itself. Pings are counted: a pong answers the oldest ping that waits, so `sync` knows
that everything the server wrote before has been read.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import aiohttp
import msgspec

from tapebook.tape.sources.hyperliquid.settings import HyperliquidSettings
from tapebook.tape.sources.hyperliquid.subscriptions import Subscription
from tapebook.tape.sources.hyperliquid.watch import Watch, wait_s
from tapebook.tape.sources.hyperliquid.weights import Window, Windows
from tapebook.tape.sources.hyperliquid.wire import Ack, CandlesFrame, Frame, MidsFrame, Pong, read_frame

_PING = b'{"method":"ping"}'
_WATCH_EVERY_S = 0.5
_READABLE = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)
_WIRE_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


class Lost(msgspec.Struct, frozen=True):
    """A connection is gone: why, and the channel whose silence gave it away, if it was that."""

    reason: str
    channel: str = ""


class Owner(Protocol):
    """Who a line works for."""

    def arrived(self, line: "Line", event: Frame | Lost, payload: str | bytes = b"") -> None:
        """Takes what happened on a line; a frame with the payload it was read from."""
        ...

    def elapsed(self) -> float:
        """The seconds by which silences are counted."""
        ...


class Wires(msgspec.Struct, frozen=True):
    """What all lines share."""

    settings: HyperliquidSettings
    http: aiohttp.ClientSession
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    messages: Windows
    connections: Window


class Line:
    """One connection and its subscriptions."""

    def __init__(self, place: int, subscriptions: Iterable[Subscription], *, wires: Wires, owner: Owner) -> None:
        self.place = place
        self.subscriptions = list(subscriptions)
        self.watch = Watch(wires.settings)
        self.reconnects = -1
        self._wires = wires
        self._owner = owner
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._subscribed = asyncio.Event()
        self._unacknowledged: set[Subscription] = set()
        self._pings: deque[asyncio.Future[bool]] = deque()
        self._verdict: Lost | None = None
        self._worked = False

    @property
    def is_up(self) -> bool:
        """Whether the connection stands and everything has been asked for."""
        return self._subscribed.is_set()

    async def run(self) -> None:
        """Keeps the connection until cancelled."""
        failures = 0
        while True:
            await self._afford(self._wires.connections)
            lost = await self._connect()
            failures = 0 if self._worked else failures + 1
            self._owner.arrived(self, lost)
            await self._wires.sleep(wait_s(f"line {self.place}", failures))

    async def sync(self) -> None:
        """Returns when a ping sent after the call has been answered; a line that is down is waited for."""
        answered = False
        while not answered:
            await self._subscribed.wait()
            answered = await self._answers()

    async def _answers(self) -> bool:
        """Whether the connection answers a ping; one that does not is given up."""
        patience = self._wires.settings.pong_s
        try:
            async with asyncio.timeout(patience):
                return await (await self._ping())
        except TimeoutError:
            await self.give_up(Lost(f"no pong within {patience:g} s"))
        except _WIRE_ERRORS as error:
            await self.give_up(Lost(f"cannot ping: {type(error).__name__} {error}"))
        return False

    async def check(self) -> None:
        """Pings when it is time, and gives the connection up when it is dead."""
        if not self.is_up:
            return
        verdict = self.watch.verdict(self._owner.elapsed())
        if verdict.give_up:
            await self.give_up(Lost(verdict.give_up, verdict.channel))
        elif verdict.ping:
            with contextlib.suppress(*_WIRE_ERRORS):
                await self._ping()

    async def give_up(self, lost: Lost) -> None:
        """Closes the connection; `run` opens it again."""
        self._subscribed.clear()
        self._verdict = self._verdict or lost
        if self._socket is not None:
            await self._socket.close()

    async def add(self, subscription: Subscription) -> None:
        """Subscribes to one thing more."""
        self.subscriptions.append(subscription)
        with contextlib.suppress(*_WIRE_ERRORS):
            await self._ask_for(subscription)

    async def remove(self, subscription: Subscription) -> None:
        """Calls a subscription off."""
        self.subscriptions.remove(subscription)
        self._unacknowledged.discard(subscription)
        with contextlib.suppress(*_WIRE_ERRORS):
            await self._send(subscription.message("unsubscribe"))

    async def _connect(self) -> Lost:
        """One life of the connection; gives the reason why it ended."""
        self._worked, self._verdict = False, None
        settings = self._wires.settings
        timeout = aiohttp.ClientWSTimeout(ws_close=1.0)
        try:
            async with asyncio.timeout(settings.connect_s):
                self._socket = await self._wires.http.ws_connect(settings.socket_url, timeout=timeout)
        except _WIRE_ERRORS as error:
            return Lost(f"cannot connect: {type(error).__name__} {error}".rstrip())
        self.reconnects += 1
        helpers = [asyncio.create_task(self._subscribe(self._socket)), asyncio.create_task(self._guard())]
        try:
            return await self._read(self._socket)
        finally:
            await self._disconnect(helpers)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> Lost:
        async for message in socket:
            if message.type not in _READABLE:
                break
            self._receive(read_frame(message.data), message.data)
        return self._verdict or Lost(f"closed by the exchange ({socket.close_code})")

    def _receive(self, frame: Frame, payload: str | bytes) -> None:
        if isinstance(frame, Pong):
            self.watch.ponged()
            if self._pings and not (ping := self._pings.popleft()).done():
                ping.set_result(True)
        elif isinstance(frame, Ack):
            kind = {"allMids": "mids", "candle": "candles"}.get(frame.kind, frame.kind)
            self._unacknowledged.discard(Subscription(kind, frame.coin or frame.dex))
        self._worked = self._worked or isinstance(frame, MidsFrame | CandlesFrame | Pong)
        self._owner.arrived(self, frame, payload)

    async def _subscribe(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Asks for everything, no faster than allowed."""
        self._unacknowledged = set()
        try:
            for subscription in list(self.subscriptions):
                await self._ask_for(subscription)
        except _WIRE_ERRORS as error:
            self._verdict = Lost(f"cannot subscribe: {type(error).__name__} {error}".rstrip())
            await socket.close()
            return
        self.watch.opened(self._owner.elapsed(), [one.channel for one in self.subscriptions])
        self._subscribed.set()

    async def _guard(self) -> None:
        """Watches over the connection; under virtual time its owner does, step by step."""
        settings = self._wires.settings
        asked = self._wires.monotonic()
        while not settings.stepped:
            await self._wires.sleep(min(_WATCH_EVERY_S, settings.ping_s / 4, settings.mids_silence_s / 4))
            await self.check()
            if self._wires.monotonic() - asked > settings.ack_s:
                asked = self._wires.monotonic()
                await self._ask_again()

    async def _ask_again(self) -> None:
        """Repeats what nobody acknowledged; a subscription that stands already is only acknowledged once more."""
        with contextlib.suppress(*_WIRE_ERRORS):
            for subscription in list(self._unacknowledged):
                await self._ask_for(subscription)

    async def _disconnect(self, helpers: list[asyncio.Task[None]]) -> None:
        self._subscribed.clear()
        for helper in helpers:
            helper.cancel()
        ended = await asyncio.gather(*helpers, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()
            self._socket = None
        while self._pings:
            if not (ping := self._pings.popleft()).done():
                ping.set_result(False)
        for error in ended:
            # Losses of the wire are answered where they happen; anything else is a fault of this program.
            if isinstance(error, Exception):
                raise error

    async def _ask_for(self, subscription: Subscription) -> None:
        self._unacknowledged.add(subscription)
        await self._send(subscription.message())

    async def _ping(self) -> "asyncio.Future[bool]":
        """Sends a ping; the future is True when it is answered, False when the connection is lost before."""
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # Before it is sent: the answer may be read before this task goes on.
        self._pings.append(answered)
        self.watch.pinged(self._owner.elapsed())
        await self._send(_PING)
        return answered

    async def _send(self, message: bytes) -> None:
        await self._afford(self._wires.messages)
        if self._socket is None:
            raise ConnectionError("the connection is down")
        await self._socket.send_str(message.decode())

    async def _afford(self, budget: Window | Windows) -> None:
        """Waits until one more may be sent or opened. The wire is real, so this always counts monotonic time."""
        while (delay := budget.delay(1, self._wires.monotonic())) > 0:
            await self._wires.sleep(delay)
        budget.spend(1, self._wires.monotonic())
