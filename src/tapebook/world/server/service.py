"""The world as a server on loopback that speaks Hyperliquid: `POST /info` and `GET /ws`; beside it, under `/gamma`,
`/clob`, `/llama` and `/stablecoins`, the servers of Polymarket and DefiLlama (`beside.py`).

Its time is only what `advance` made it. A step, in order:

1. the exchange moves on (`Exchange.play_to`);
2. faults that hit all sockets strike (`_strike_sockets`);
3. every socket is sent its frames (`Socket.publish`);
4. requests that were left unanswered for long enough are let go (`_release_unanswered`).

`advance_in_real_time` lets the world run in real time, or so many times faster. The clock and the wait are arguments:
a room reads no clock of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
from aiohttp import web

from tapebook.domain.market import Candle, FundingRate
from tapebook.domain.units import floor_to_step
from tapebook.world.cadence import STEP
from tapebook.world.faults import BAD_GATEWAY, BarAmender, FaultLog, Faults, FrameMangler, InjectedFault
from tapebook.world.market import World
from tapebook.world.server import requests
from tapebook.world.server.answers import TOO_MANY_REQUESTS, InfoAnswer, InfoEndpoint, refusal_answer
from tapebook.world.server.beside import OtherServers
from tapebook.world.server.catalog import SPOTS
from tapebook.world.server.exchange import Exchange
from tapebook.world.server.predictions import MOST_PER_PAGE
from tapebook.world.server.requests import MOST_SOCKETS
from tapebook.world.server.sockets import Socket, StepFrames

_CALM = Faults()


class WorldServer:
    """A world, told over HTTP and WebSocket from `history_ms` after its start on.

    `delistings` are perps that are delisted on the way, and when; `page_size` is the most that Gamma gives at once;
    without `spots` it has perps alone.
    The step at which it begins is published by the first `advance`, so a client can subscribe before it.
    """

    def __init__(
        self,
        world: World,
        *,
        faults: Faults = _CALM,
        history_ms: int = 0,
        delistings: Mapping[str, int] | None = None,
        page_size: int = MOST_PER_PAGE,
        spots: bool = True,
    ) -> None:
        self._faults = faults
        self._record = FaultLog()
        now = world.start + floor_to_step(history_ms, STEP)
        amend = BarAmender(faults, self._record)
        pairs = SPOTS if spots else ()
        self._exchange = Exchange(world, now=now, amend=amend, delistings=delistings or {}, spots=pairs)
        self._desk = InfoEndpoint(self._exchange, faults, self._record)
        self._beside = OtherServers(self._exchange, faults, self._record, page_size=page_size)
        self._feed = StepFrames(self._exchange)
        self._next_step = now
        self._sockets: dict[Socket, FrameMangler | None] = {}
        self._unanswered: list[tuple[int, asyncio.Event]] = []
        self._runner: web.AppRunner | None = None

    @property
    def now(self) -> int:
        """The world's time."""
        return self._exchange.now

    @property
    def speed(self) -> float:
        """Milliseconds of the world per millisecond, as whoever paces it says; 0 when it moves by hand."""
        return self._exchange.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._exchange.speed = speed

    @property
    def injected_faults(self) -> list[InjectedFault]:
        """All faults that struck so far."""
        return self._record.injected

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> str:
        """Begins to listen, on a free port if none is named, and gives the base URL."""
        app = web.Application()
        app.add_routes([web.post("/info", self._info), web.get("/ws", self._ws)])
        app.add_routes(self._beside.routes())
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound = self._runner.addresses[0]
        return f"http://{bound[0]}:{bound[1]}"

    async def stop(self) -> None:
        """Ends all lines and stops listening."""
        for socket in list(self._sockets):
            socket.close()
        self._release_unanswered(everything=True)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def advance(self, to: int) -> None:
        """Plays all steps up to `to`; their frames are written to every subscribed socket before this returns."""
        if to < self.now:
            raise ValueError(f"the world cannot go back from {self.now} to {to}")
        for at in range(self._next_step, to + 1, STEP):
            self._next_step = at + STEP
            await self._play(at)
        self._exchange.now = to
        self._release_unanswered()

    def skip_to(self, at: int, *, bars: Iterable[Candle] = ()) -> list[Candle | FundingRate]:
        """Moves the world on without a frame to anybody; gives the bars that ended and the rates settled meanwhile.

        `bars` are those of the time between that were drawn elsewhere; it draws what is missing.
        """
        since = self.now
        self._exchange.play_to(at, bars=bars)
        self._next_step = at + STEP
        return self._exchange.main.rows_between(since, at)

    async def _play(self, at: int) -> None:
        self._exchange.play_to(at)
        self._feed.next_step()
        self._strike_sockets(at)
        for socket, mangler in list(self._sockets.items()):
            await socket.publish(self._feed, at, mangler=mangler, record=self._record)
        # A long way to go must not keep others in this event loop from reading and asking.
        await asyncio.sleep(0)

    def _strike_sockets(self, at: int) -> None:
        """Faults of whole sockets; without one open they hit nobody and are not recorded."""
        if not self._sockets:
            return
        for kind, lasts in (("silence", self._faults.silence_ms), ("stall", self._faults.stall_ms)):
            if self._faults.happens(kind, "*", at):
                for socket in self._sockets:
                    socket.mute(kind, at=at, until=at + lasts)
        if self._faults.happens("drop", "*", at):
            self._record.add(InjectedFault("drop", "*", "*", at, at))
            for socket in list(self._sockets):
                self._hang_up(socket)

    def _hang_up(self, socket: Socket) -> None:
        if socket in self._sockets:
            del self._sockets[socket]
            socket.release_limits()
        socket.close()

    async def _ws(self, request: web.Request) -> web.StreamResponse:
        client = self._desk.client(request.remote)
        if client.sockets >= MOST_SOCKETS or not client.new_sockets.try_spend(self.now):
            return _response(TOO_MANY_REQUESTS)
        ws = web.WebSocketResponse(compress=False)
        await ws.prepare(request)
        assert request.transport is not None, "a line that was just opened has a transport"
        socket = Socket(ws, request.transport, desk=self._desk, client=client)
        self._sockets[socket] = FrameMangler(self._faults, self._record) if self._faults.touch_frames else None
        try:
            async for message in ws:
                if message.type is web.WSMsgType.TEXT:
                    await socket.handle_message(message.data)
        finally:
            self._hang_up(socket)
        return ws

    async def _info(self, request: web.Request) -> web.StreamResponse:
        if self._faults.is_down("info", self.now):
            return web.Response(status=503, body=BAD_GATEWAY, content_type="text/html")
        try:
            question = requests.decode_request(await request.read())
        except msgspec.DecodeError as error:
            return _response(refusal_answer(str(error)))
        answer = self._desk.answer_with_faults(self._desk.client(request.remote), question)
        if answer is None:
            await self._wait_for_timeout()
            if request.transport is not None:
                request.transport.close()
            return _response(TOO_MANY_REQUESTS)
        return _response(answer)

    async def _wait_for_timeout(self) -> None:
        """Returns once the world's time has moved on by a timeout, or the server stops."""
        if not self._faults.timeout_ms:
            return
        over = asyncio.Event()
        self._unanswered.append((self.now + self._faults.timeout_ms, over))
        await over.wait()

    def _release_unanswered(self, *, everything: bool = False) -> None:
        waiting, self._unanswered = self._unanswered, []
        for until, over in waiting:
            if everything or self.now >= until:
                over.set()
            else:
                self._unanswered.append((until, over))


def _response(answer: InfoAnswer) -> web.Response:
    kind = "text/plain" if answer.status == 422 else "application/json"
    headers = {"access-control-allow-origin": "*"}
    return web.Response(status=answer.status, body=answer.body, content_type=kind, headers=headers)


async def advance_in_real_time(
    server: WorldServer,
    *,
    speed: float,
    monotonic: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    until: int | None = None,
) -> None:
    """Advances step by step, each when its time has come, until the world reaches `until` or this is cancelled.

    A world that has fallen behind catches up step by step and leaves none out.
    """
    if speed <= 0:
        raise ValueError(f"a world cannot run {speed} times as fast: give a speed above 0")
    server.speed = speed
    began, now = monotonic(), server.now
    at = now
    while until is None or at <= until:
        ahead = (at - now) / 1_000 / speed - (monotonic() - began)
        if ahead > 0:
            await sleep(ahead)
        await server.advance(at)
        at += STEP
