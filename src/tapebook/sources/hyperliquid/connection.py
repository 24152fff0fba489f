"""One WebSocket connection: opened, subscribed, read, watched, and opened again when it is lost.

A `SocketConnection` hands every frame and every loss to its owner in the order they happened, and keeps no market
facts itself. Pings are counted: a pong answers the oldest ping that waits, so `sync` knows that everything the
server wrote before has been read.

`ConnectionWatch` is pure. Connections die in two ways: they stop answering pings, or they answer and send nothing
any more, which the silence of a channel tells. Backoff doubles from 250 ms to 30 s; its jitter comes from a hash of
the connection's name and the attempt, so that two runs wait alike.
"""

import asyncio
import contextlib
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import aiohttp
import msgspec

from tapebook.sources.hyperliquid.rest import RateLimit, RateLimits
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import Subscription
from tapebook.sources.hyperliquid.wire import Ack, CandlesFrame, Frame, MidsFrame, Pong, read_frame

# Most disconnections are of one socket and pass at once; an outage is not helped by asking often.
FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 30.0


class ConnectionVerdict(msgspec.Struct, frozen=True):
    """What to do now: give the connection up for a reason, ping, or nothing."""

    give_up: str = ""
    channel: str = ""
    ping: bool = False


class ConnectionWatch:
    """The watch over one connection, from its opening on."""

    def __init__(self, settings: HyperliquidSourceSettings) -> None:
        self._settings = settings
        self._silences: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._pinged = 0.0
        self._unanswered: float | None = None

    def on_open(self, now: float, channels: Sequence[str]) -> None:
        """A new connection that is to carry these channels, named once for every subscription."""
        mids, candle = self._settings.mids_silence_s, self._settings.candles_silence_s
        # A quiet coin sends no candles for minutes, but the more there are, the less likely all are quiet at once.
        self._silences = {"mids": mids, "candles": max(mids, candle / max(1, channels.count("candles")))}
        self._heard = dict.fromkeys(channels, now)
        self._pinged, self._unanswered = now, None

    def on_message(self, channel: str, now: float) -> None:
        """A channel has sent something."""
        if channel in self._heard:
            self._heard[channel] = now

    def on_ping(self, now: float) -> None:
        """A ping was sent."""
        self._pinged = now
        if self._unanswered is None:
            self._unanswered = now

    def on_pong(self) -> None:
        """A ping was answered."""
        self._unanswered = None

    def verdict(self, now: float) -> ConnectionVerdict:
        """What to do now."""
        if self._unanswered is not None and now - self._unanswered > self._settings.pong_s:
            return ConnectionVerdict(give_up=f"no pong within {self._settings.pong_s:g} s")
        for channel, at in self._heard.items():
            if now - at > self._silences[channel]:
                return ConnectionVerdict(give_up=f"no {channel} for {self._silences[channel]:g} s", channel=channel)
        return ConnectionVerdict(ping=now - self._pinged >= self._settings.ping_s)


def backoff_s(name: str, attempt: int) -> float:
    """How long a connection waits before its next attempt, `attempt` failures after it last worked."""
    longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt, 16))
    jitter = zlib.crc32(f"{name}/{attempt}".encode()) / 2**32
    return longest * (0.5 + jitter / 2)


_PING = b'{"method":"ping"}'
_WATCH_EVERY_S = 0.5
_READABLE = (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY)
_WIRE_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


class Disconnected(msgspec.Struct, frozen=True):
    """A connection is gone: why, and the channel whose silence gave it away, if it was that."""

    reason: str
    channel: str = ""


class ConnectionOwner(Protocol):
    """Who a line works for."""

    def handle_event(self, line: "SocketConnection", event: Frame | Disconnected, payload: str | bytes = b"") -> None:
        """Takes what happened on a line; a frame with the payload it was read from."""
        ...

    def elapsed_seconds(self) -> float:
        """The seconds by which silences are counted."""
        ...


class SharedConnection(msgspec.Struct, frozen=True):
    """What all lines share."""

    settings: HyperliquidSourceSettings
    http: aiohttp.ClientSession
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    messages: RateLimits
    connections: RateLimit


class SocketConnection:
    """One connection and its subscriptions."""

    def __init__(
        self, place: int, subscriptions: Iterable[Subscription], *, wires: SharedConnection, owner: ConnectionOwner
    ) -> None:
        self.place = place
        self.subscriptions = list(subscriptions)
        self.watch = ConnectionWatch(wires.settings)
        self.reconnects = -1
        self._wires = wires
        self._owner = owner
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._subscribed = asyncio.Event()
        self._unacknowledged: set[Subscription] = set()
        self._pings: deque[asyncio.Future[bool]] = deque()
        self._verdict: Disconnected | None = None
        self._worked = False

    @property
    def is_up(self) -> bool:
        """Whether the connection stands and everything has been asked for."""
        return self._subscribed.is_set()

    async def run(self) -> None:
        """Keeps the connection until cancelled."""
        failures = 0
        while True:
            await self._wait_for_budget(self._wires.connections)
            lost = await self._connect()
            failures = 0 if self._worked else failures + 1
            self._owner.handle_event(self, lost)
            await self._wires.sleep(backoff_s(f"line {self.place}", failures))

    async def sync(self) -> None:
        """Returns when a ping sent after the call has been answered; a line that is down is waited for."""
        answered = False
        while not answered:
            await self._subscribed.wait()
            answered = await self._answers_ping()

    async def _answers_ping(self) -> bool:
        """Whether the connection answers a ping; one that does not is given up."""
        limit_s = self._wires.settings.pong_s
        try:
            async with asyncio.timeout(limit_s):
                return await (await self._ping())
        except TimeoutError:
            await self.give_up(Disconnected(f"no pong within {limit_s:g} s"))
        except _WIRE_ERRORS as error:
            await self.give_up(Disconnected(f"cannot ping: {type(error).__name__} {error}"))
        return False

    async def check_alive(self) -> None:
        """Pings when it is time, and gives the connection up when it is dead."""
        if not self.is_up:
            return
        verdict = self.watch.verdict(self._owner.elapsed_seconds())
        if verdict.give_up:
            await self.give_up(Disconnected(verdict.give_up, verdict.channel))
        elif verdict.ping:
            with contextlib.suppress(*_WIRE_ERRORS):
                await self._ping()

    async def give_up(self, lost: Disconnected) -> None:
        """Closes the connection; `run` opens it again."""
        self._subscribed.clear()
        self._verdict = self._verdict or lost
        if self._socket is not None:
            await self._socket.close()

    async def subscribe(self, subscription: Subscription) -> None:
        """Subscribes to one thing more."""
        self.subscriptions.append(subscription)
        with contextlib.suppress(*_WIRE_ERRORS):
            await self._send_subscription(subscription)

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Calls a subscription off."""
        self.subscriptions.remove(subscription)
        self._unacknowledged.discard(subscription)
        with contextlib.suppress(*_WIRE_ERRORS):
            await self._send(subscription.message("unsubscribe"))

    async def _connect(self) -> Disconnected:
        """One life of the connection; gives the reason why it ended."""
        self._worked, self._verdict = False, None
        settings = self._wires.settings
        timeout = aiohttp.ClientWSTimeout(ws_close=1.0)
        try:
            async with asyncio.timeout(settings.connect_s):
                self._socket = await self._wires.http.ws_connect(settings.socket_url, timeout=timeout)
        except _WIRE_ERRORS as error:
            return Disconnected(f"cannot connect: {type(error).__name__} {error}".rstrip())
        self.reconnects += 1
        helpers = [asyncio.create_task(self._subscribe_all(self._socket)), asyncio.create_task(self._watch_loop())]
        try:
            return await self._read(self._socket)
        finally:
            await self._disconnect(helpers)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> Disconnected:
        async for message in socket:
            if message.type not in _READABLE:
                break
            self._receive(read_frame(message.data), message.data)
        return self._verdict or Disconnected(f"closed by the exchange ({socket.close_code})")

    def _receive(self, frame: Frame, payload: str | bytes) -> None:
        if isinstance(frame, Pong):
            self.watch.on_pong()
            if self._pings and not (ping := self._pings.popleft()).done():
                ping.set_result(True)
        elif isinstance(frame, Ack):
            kind = {"allMids": "mids", "candle": "candles"}.get(frame.kind, frame.kind)
            self._unacknowledged.discard(Subscription(kind, frame.coin or frame.dex))
        self._worked = self._worked or isinstance(frame, MidsFrame | CandlesFrame | Pong)
        self._owner.handle_event(self, frame, payload)

    async def _subscribe_all(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Asks for everything, no faster than allowed."""
        self._unacknowledged = set()
        try:
            for subscription in list(self.subscriptions):
                await self._send_subscription(subscription)
        except _WIRE_ERRORS as error:
            self._verdict = Disconnected(f"cannot subscribe: {type(error).__name__} {error}".rstrip())
            await socket.close()
            return
        self.watch.on_open(self._owner.elapsed_seconds(), [one.channel for one in self.subscriptions])
        self._subscribed.set()

    async def _watch_loop(self) -> None:
        """Watches over the connection; under virtual time its owner does, step by step."""
        settings = self._wires.settings
        asked = self._wires.monotonic()
        while not settings.stepped:
            await self._wires.sleep(min(_WATCH_EVERY_S, settings.ping_s / 4, settings.mids_silence_s / 4))
            await self.check_alive()
            if self._wires.monotonic() - asked > settings.ack_s:
                asked = self._wires.monotonic()
                await self._repeat_unacknowledged()

    async def _repeat_unacknowledged(self) -> None:
        """Repeats what nobody acknowledged; a subscription that stands already is only acknowledged once more."""
        with contextlib.suppress(*_WIRE_ERRORS):
            for subscription in list(self._unacknowledged):
                await self._send_subscription(subscription)

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

    async def _send_subscription(self, subscription: Subscription) -> None:
        self._unacknowledged.add(subscription)
        await self._send(subscription.message())

    async def _ping(self) -> "asyncio.Future[bool]":
        """Sends a ping; the future is True when it is answered, False when the connection is lost before."""
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # Before it is sent: the answer may be read before this task goes on.
        self._pings.append(answered)
        self.watch.on_ping(self._owner.elapsed_seconds())
        await self._send(_PING)
        return answered

    async def _send(self, message: bytes) -> None:
        await self._wait_for_budget(self._wires.messages)
        if self._socket is None:
            raise ConnectionError("the connection is down")
        await self._socket.send_str(message.decode())

    async def _wait_for_budget(self, budget: RateLimit | RateLimits) -> None:
        """Waits until one more may be sent or opened. The wire is real, so this always counts monotonic time."""
        while (delay := budget.delay_s(1, self._wires.monotonic())) > 0:
            await self._wires.sleep(delay)
        budget.spend(1, self._wires.monotonic())
