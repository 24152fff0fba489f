"""The source itself: puts sockets, REST and the clock around a `HyperliquidSession`.

A run, in order:

1. `_learn_names` requests the names until those of the main dex are known;
2. `_open_connections` spreads the subscriptions over connections, which keep themselves up (`SocketConnection.run`);
3. `_tick_loop` lets time pass in the session, a few times a second;
4. `_request_loop` asks REST what the session wants to know, as fast as the budget allows.

Under virtual time (`stepped`) 3 and 4 happen only in `barrier`, and what the connections received waits for it too:
everything in a step is known at the moment of the step, in the order of the connections.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

import aiohttp
import msgspec

from tapebook.domain.market import Liquidity
from tapebook.errors import Retry
from tapebook.sources.hyperliquid import SYMBOL_SETTINGS_REMEDY, rest, universe
from tapebook.sources.hyperliquid.connection import Disconnected, SharedConnection, SocketConnection, backoff_s
from tapebook.sources.hyperliquid.rest import (
    RestRequest,
    SourceTime,
    connection_budget,
    encode_request,
    message_budget,
    rest_budget,
)
from tapebook.sources.hyperliquid.session import HyperliquidSession
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.wire import CandlesFrame, Frame, Malformed, MidsFrame
from tapebook.tape.source import NO_CONNECTION, RecordPayload, Sink

# How often due work is looked for: well below the five seconds of a midpoint.
_BEAT_S = 0.25
# Requests in flight: more would only wait for the rate limit.
_WORKERS = 3


class Health(msgspec.Struct, frozen=True):
    """How the source is doing, for whoever looks."""

    connections: int
    connections_up: int
    reconnects: int
    subscriptions: int
    left_out: int
    questions_waiting: int
    weight_spent: int
    # Perps that are watched; None before the first list of names.
    watched: int | None
    unknown_names: tuple[str, ...]
    problems: dict[str, int]
    recent_problems: tuple[str, ...]


class _LastHeard(msgspec.Struct):
    """When a line was last heard, and when it last brought candles, in market time."""

    at: int
    candles_at: int


class _RestAnswer(msgspec.Struct, frozen=True):
    """What REST said, when it was asked and when it said it."""

    body: bytes
    asked_at: int
    now: SourceTime


class HyperliquidSource:
    """Watches Hyperliquid, or whatever speaks like it at `base_url`."""

    def __init__(
        self,
        settings: HyperliquidSourceSettings,
        *,
        sink: Sink,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        resume: Mapping[str, int],
        books: Mapping[str, Liquidity],
        listed: Collection[str],
        record: RecordPayload | None,
    ) -> None:
        settings.check()
        self._settings = settings
        self._sink = sink
        self._clock = clock
        self._monotonic = monotonic
        self._sleep = sleep
        self._record = record
        # Under virtual time the moment of the latest barrier; None before the first.
        self._step: int | None = None
        self._session = HyperliquidSession(settings, resume=resume, at=clock(), books=books, listed=listed)
        self._budget = rest_budget(settings.weight_share)
        self._lines: list[SocketConnection] = []
        self._left_out = 0
        self._heard: dict[int, _LastHeard] = {}
        self._inbox: list[tuple[int, Frame | Disconnected]] = []
        self._version = 0
        self._http: aiohttp.ClientSession | None = None
        self._opened = asyncio.Event()

    async def run(self) -> None:
        """Connects, subscribes, watches, backfills and polls until cancelled."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as http:
            self._http = http
            await self._learn_names()
            self._open_connections(http)
            works = [line.run() for line in self._lines]
            if not self._settings.stepped:
                works += [self._tick_loop(), *(self._request_loop() for _ in range(_WORKERS))]
            async with asyncio.TaskGroup() as tasks:
                for work in works:
                    tasks.create_task(work)

    async def barrier(self, now: int) -> None:
        """Returns when everything sent before the call has been taken and the polls due at `now` are done."""
        self._step = now
        await self._sync(now, lambda line: True)
        if self._settings.stepped:
            for line in self._lines:
                await line.check_alive()
            # A line that was given up comes back within the step, so that it is the same step in every run.
            await self._sync(now, lambda line: not line.is_up)
        self._session.tick(self._source_time())
        await self._ask_all()
        self._session.outbox.flush(self._sink)

    def health(self) -> Health:
        """How the source is doing."""
        outbox = self._session.outbox
        return Health(
            connections=len(self._lines),
            connections_up=sum(line.is_up for line in self._lines),
            reconnects=sum(max(0, line.reconnects) for line in self._lines),
            subscriptions=sum(len(line.subscriptions) for line in self._lines),
            left_out=self._left_out,
            questions_waiting=len(self._session.errands),
            weight_spent=round(self._budget.spent_in_window(self.elapsed_seconds())),
            watched=len(self._session.names.watched.perps) if self._session.names.ready else None,
            unknown_names=self._session.names.missing_names()[1],
            problems=dict(outbox.problems),
            recent_problems=tuple(outbox.recent),
        )

    def connection_problem(self) -> str | None:
        """Why nothing is heard, when no connection stands; the source goes on trying."""
        recent = self._session.outbox.recent
        if not recent or any(line.is_up for line in self._lines):
            return None
        return f"{NO_CONNECTION} ({recent[-1]})"

    def unlisted_settings(self) -> tuple[str, ...]:
        """What the settings ask for and the exchange does not list, a line each that says what to do."""
        names = self._session.names
        unknown = names.missing_names()[1]
        if names.ready and not names.watched.perps and not unknown:
            return (f"there is no perp to watch: {SYMBOL_SETTINGS_REMEDY}",)
        return tuple(f"the exchange lists no {name}: {SYMBOL_SETTINGS_REMEDY}" for name in unknown)

    def elapsed_seconds(self) -> float:
        """The seconds by which silences, backoffs and budgets are counted: market time when it is virtual."""
        return self._now() / 1_000 if self._settings.stepped else self._monotonic()

    def handle_event(self, line: SocketConnection, event: Frame | Disconnected, payload: str | bytes = b"") -> None:
        """Takes what happened on a line: at once, or under virtual time at the next barrier."""
        at = self._clock()
        if self._record is not None and payload:
            self._record(at, payload)
        if self._settings.stepped:
            self._inbox.append((line.place, event))
        else:
            self._on_event(line, event, at)
            self._session.outbox.flush(self._sink)

    def _now(self) -> int:
        return self._step if self._step is not None and self._settings.stepped else self._clock()

    def _source_time(self) -> SourceTime:
        return SourceTime(self._now(), self.elapsed_seconds())

    async def _learn_names(self) -> None:
        attempt = 0
        while not self._session.names.ready:
            pause_s = backoff_s("names", attempt)
            for errand in self._session.name_requests():
                answer = await self._post(errand)
                if isinstance(answer, rest.RestRefusal):
                    asked = f"names {errand.subject}".strip()
                    self._session.outbox.add_problem("refused", f"{asked}: {answer.why}", subject=asked)
                    pause_s = max(pause_s, answer.wait_s)
                else:
                    self._session.learn_names(errand, answer.body, at=answer.now.at)
            if not self._session.names.ready:
                # Nothing else would be told of while this lasts.
                self._session.outbox.flush(self._sink)
                await self._sleep(pause_s)
                attempt += 1

    def _open_connections(self, http: aiohttp.ClientSession) -> None:
        messages = message_budget(stepped=self._settings.stepped)
        wires = SharedConnection(self._settings, http, self._monotonic, self._sleep, messages, connection_budget())
        plan = universe.plan_connections(
            self._session.wanted_subscriptions(), per_connection=self._settings.subscriptions_per_connection
        )
        self._lines = [
            SocketConnection(place, held, wires=wires, owner=self) for place, held in enumerate(plan.connections)
        ]
        self._left_out = len(plan.left_out)
        self._version = self._session.names.version
        now = self._now()
        self._heard = {line.place: _LastHeard(now, now) for line in self._lines}
        self._opened.set()

    async def _sync(self, now: int, chosen: Callable[[SocketConnection], bool]) -> None:
        """Waits until the chosen lines are up and have brought what was sent, and handles it."""
        limit = self._settings.barrier_s
        try:
            async with asyncio.timeout(limit):
                await self._opened.wait()
                await asyncio.gather(*(line.sync() for line in self._lines if chosen(line)))
        except TimeoutError:
            sentence = f"{self._settings.base_url} did not bring everything within {limit:g} s"
            raise Retry(f"{sentence}: is it up, and is the source running?") from None
        self._handle_inbox(now)

    def _handle_inbox(self, now: int) -> None:
        """What the lines received since the last step, line by line, each in its order."""
        inbox, self._inbox = self._inbox, []
        for place, event in sorted(inbox, key=lambda entry: entry[0]):
            self._on_event(self._lines[place], event, now)

    def _on_event(self, line: SocketConnection, event: Frame | Disconnected, at: int) -> None:
        last_message = self._heard[line.place]
        if isinstance(event, Disconnected):
            since = last_message.candles_at if event.channel == "candles" else last_message.at
            self._session.on_disconnected(line.subscriptions, since=since, reason=event.reason)
            return
        last_message.at = at
        if isinstance(event, CandlesFrame):
            last_message.candles_at = at
            line.watch.on_message("candles", self.elapsed_seconds())
            for found in event.bad:
                self._session.on_damaged_frame(found, line.subscriptions, at=at)
        elif isinstance(event, MidsFrame):
            line.watch.on_message("mids", self.elapsed_seconds())
        elif isinstance(event, Malformed):
            self._session.on_damaged_frame(event, line.subscriptions, at=at)
        self._session.handle_frame(event, at)

    async def _tick_loop(self) -> None:
        while True:
            self._session.tick(self._source_time())
            self._session.outbox.flush(self._sink)
            await self._sleep(_BEAT_S)

    async def _request_loop(self) -> None:
        while True:
            await self._ask_all()
            await self._sleep(_BEAT_S / 2)

    async def _ask_all(self) -> None:
        """Asks REST everything whose turn it is and that can be afforded now."""
        while (errand := self._session.errands.take_ready(self.elapsed_seconds(), self._affordable)) is not None:
            answer = await self._post(errand)
            if isinstance(answer, rest.RestRefusal):
                now, wait_s = self._source_time(), answer.wait_s
                self._session.handle_refusal(errand, answer.why, now=now, limited=answer.limited, wait_s=wait_s)
            else:
                self._session.handle_answer(errand, answer.body, asked_at=answer.asked_at, now=answer.now)
            if not self._settings.stepped:
                self._session.outbox.flush(self._sink)
            await self._follow_names()

    def _affordable(self, errand: RestRequest) -> bool:
        return self._budget.delay_s(encode_request(errand, now=self._now()).weight, self.elapsed_seconds()) <= 0

    async def _post(self, errand: RestRequest) -> _RestAnswer | rest.RestRefusal:
        assert self._http is not None
        asked_at = self._now()
        request = encode_request(errand, now=asked_at)
        self._budget.spend(request.weight, self.elapsed_seconds())
        body = await rest.post_request(self._http, self._settings.info_url, request, timeout_s=self._settings.request_s)
        if isinstance(body, rest.RestRefusal):
            return body
        answer = _RestAnswer(body, asked_at, self._source_time())
        if self._record is not None:
            self._record(answer.now.at, rest.answer_frame(request, body, asked_at=asked_at))
        return answer

    async def _follow_names(self) -> None:
        """Subscribes to what was listed since, and leaves what was delisted."""
        if self._version == self._session.names.version:
            return
        self._version = self._session.names.version
        added, gone = universe.subscription_changes(
            [line.subscriptions for line in self._lines], self._session.wanted_subscriptions()
        )
        for place, subscription in gone:
            await self._lines[place].unsubscribe(subscription)
        for place, subscription in added:
            await self._lines[place].subscribe(subscription)
