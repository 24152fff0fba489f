"""The shell against an exchange that drops, stalls, refuses, lies and dawdles."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tapebook.domain.market import AssetContext, Candle, Liquidity, Mid
from tapebook.domain.units import MINUTE
from tapebook.errors import ConfigError, Retry
from tapebook.sources.hyperliquid import HyperliquidSourceSettings, create
from tapebook.sources.hyperliquid.client import HyperliquidSource
from tapebook.sources.hyperliquid.wire import MidsFrame
from tapebook.tape.source import Source
from tests.sources.hyperliquid.candles import START
from tests.sources.hyperliquid.exchange import Reply, ScriptedExchange, serving
from tests.sources.hyperliquid.recorder import Recorder, source_of

FAST = {
    "audit": False,
    "ping_s": 0.2,
    "pong_s": 10.0,
    "mids_silence_s": 30.0,
    "connect_s": 10.0,
    "request_s": 10.0,
    "barrier_s": 3.0,
}


class Clock:
    """Market time set by the test."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Stage:
    """A source at work on a scripted exchange."""

    def __init__(self, exchange: ScriptedExchange, **settings: Any) -> None:
        self.exchange = exchange
        self.clock = Clock()
        self.sink = Recorder()
        self.settings = settings
        self.source: HyperliquidSource

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Stage"]:
        """Runs the source; what it raises, the test raises."""
        chosen = HyperliquidSourceSettings(base_url=self.exchange.url, **{**FAST, **self.settings})
        self.source = source_of(chosen, sink=self.sink, clock=self.clock)
        task = asyncio.create_task(self.source.run())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def subscribed(self) -> None:
        """Waits until all subscriptions stand."""
        await self.exchange.until(lambda: self.source.health().connections_up == 2)

    async def mids(self, price: str) -> None:
        await self.exchange.say("allMids", {"mids": {"A": price}})

    async def bar(self, minute: int, trades: int, symbol: str = "A") -> None:
        await self.exchange.say("candle", bar(minute, trades, symbol))


def bar(minute: int, trades: int, symbol: str = "A") -> dict[str, Any]:
    begins = START + minute * MINUTE
    prices = {"o": "5.0", "h": f"{5 + trades}.0", "l": "5.0", "c": f"{5 + trades}.0"}
    return {"t": begins, "T": begins + MINUTE - 1, "s": symbol, "i": "1m", **prices, "v": f"{trades}.0", "n": trades}


def play(script: Callable[[Stage], Awaitable[None]], *symbols: str, **settings: Any) -> Stage:
    """Runs a script with a source and an exchange around it."""

    async def scene() -> Stage:
        exchange = ScriptedExchange(*symbols)
        async with serving(exchange):
            stage = Stage(exchange, **settings)
            async with asyncio.timeout(15), stage.running():
                await script(stage)
            return stage

    return asyncio.run(scene())


def test_it_is_a_source() -> None:
    async def script(stage: Stage) -> None:
        source: Source = stage.source
        await stage.subscribed()
        await source.barrier(START)
        assert stage.source.health().connections_up

    play(script)


def test_it_subscribes_reads_and_polls() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.mids("5.5")
        await stage.bar(0, 1)
        await stage.bar(1, 1)
        await stage.exchange.until(lambda: len(stage.sink.of(Candle)) == 1 and len(stage.sink.of(Liquidity)) == 2)

    stage = play(script)
    assert stage.exchange.subscribed("allMids") == [""]
    assert sorted(stage.exchange.subscribed("candle")) == ["A", "B"]
    assert stage.sink.of(Mid) == [Mid("A", START, 550_000_000)]
    assert {fact.symbol for fact in stage.sink.of(AssetContext)} == {"A", "B"}
    assert {fact.symbol for fact in stage.sink.of(Liquidity)} == {"A", "B"}
    assert stage.exchange.count("candleSnapshot") == 2 and stage.exchange.count("fundingHistory") >= 2
    assert not stage.source.health().problems


def test_a_quiet_connection_is_pinged() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.exchange.until(lambda: pings(stage) >= 4)

    assert play(script).source.health().reconnects == 0


def pings(stage: Stage) -> int:
    return sum(message["method"] == "ping" for _, message in stage.exchange.heard)


def test_a_dropped_connection_comes_back_subscribes_again_and_repairs_what_was_missed() -> None:
    async def script(stage: Stage) -> None:
        exchange = stage.exchange
        await stage.subscribed()
        await exchange.until(lambda: exchange.count("candleSnapshot") == 2)
        await stage.mids("5.0")
        await stage.bar(0, 1)
        await exchange.until(lambda: bool(stage.sink.of(Mid)))
        stage.clock.now = START + MINUTE + 5_000
        await stage.bar(1, 1)
        await exchange.until(lambda: len(stage.sink.of(Candle)) == 1)
        rows = [bar(1, 2), bar(2, 1)]
        exchange.answers["candleSnapshot"] = lambda asked: answer(rows if asked["req"]["coin"] == "A" else [])
        stage.clock.now = START + 2 * MINUTE + 30_000
        await exchange.drop()
        await exchange.until(lambda: len(exchange.sockets) == 2)
        await exchange.until(lambda: len(stage.sink.of(Candle)) == 2)
        await stage.mids("6.0")
        await exchange.until(lambda: len(stage.sink.of(Mid)) == 2)

    stage = play(script)
    assert sorted(stage.exchange.subscribed("candle")) == ["A", "A", "B", "B"]
    assert [(found.bucket_ts, found.sample_count) for found in stage.sink.of(Candle)] == [
        (START, 1),
        (START + MINUTE, 2),
    ]
    asked = [question["req"]["startTime"] for question in stage.exchange.asked if question["type"] == "candleSnapshot"]
    assert asked[2:] == [START + MINUTE, START + MINUTE], "exactly what was missed"
    assert ("mids", "*", START + 5_000, START + 150_000) in stage.sink.named()
    assert stage.source.health().reconnects == 2


def answer(value: Any) -> Reply:
    return 200, json.dumps(value).encode()


def test_a_connection_that_answers_no_ping_is_replaced() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        stage.exchange.pongs = False
        await stage.exchange.until(lambda: stage.exchange.opened >= 4)
        stage.exchange.pongs = True
        await stage.subscribed()

    stage = play(script, pong_s=0.2)
    assert any("no pong within" in problem for problem in stage.source.health().recent_problems)


def test_a_connection_that_answers_pings_but_sends_nothing_is_replaced() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.exchange.until(lambda: stage.exchange.opened >= 3)

    stage = play(script, mids_silence_s=0.3)
    assert any("no mids for 0.3 s" in problem for problem in stage.source.health().recent_problems)
    assert stage.exchange.subscribed("candle") == ["A", "B"], "only the silent one is replaced"


def test_an_exchange_that_takes_no_connections_is_tried_ever_more_rarely() -> None:
    async def script(stage: Stage) -> None:
        stage.exchange.refuse_sockets = True
        await asyncio.sleep(1.2)
        # Two lines that wait at least 0, 0.25, 0.5 and 1 s; without backing off they would try every 0.25 s or sooner.
        assert 4 <= stage.exchange.opened <= 8
        stage.exchange.refuse_sockets = False
        await stage.subscribed()

    assert play(script).source.health().problems["connection"] >= 4


def test_a_corrupt_frame_is_counted_and_the_stream_goes_on() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        for text in (
            "",
            "{",
            "<html>502</html>",
            '{"channel":"candle","data":{"t":1}}',
            '{"channel":"allMids","data":7}',
        ):
            await stage.exchange.say_text(text)
        await stage.exchange.say_text("Websocket connection established.")
        await stage.mids("5.0")
        await stage.exchange.until(lambda: bool(stage.sink.of(Mid)))

    stage = play(script)
    health = stage.source.health()
    assert health.problems == {"malformed": 10} and health.reconnects == 0


@pytest.mark.parametrize("refusal", [(429, b"null"), (500, b"null"), (502, b"<html>"), (0, b""), (200, b"null")])
def test_an_answer_that_fails_is_asked_for_again_and_nothing_is_lost(refusal: Reply) -> None:
    """Monotonic time runs fast here, so that the five seconds pass."""
    failed: list[str] = []

    def once(asked: dict[str, Any]) -> Reply:
        coin = asked["req"]["coin"]
        if coin not in failed:
            failed.append(coin)
            return refusal
        return answer([bar(-2, 1, coin), bar(-1, 1, coin)])

    async def scene() -> tuple[ScriptedExchange, Recorder, dict[str, int]]:
        exchange = ScriptedExchange()
        exchange.answers["candleSnapshot"] = once
        async with serving(exchange) as url:
            sink, started = Recorder(), time.monotonic()

            def hurried() -> float:
                return started + 40 * (time.monotonic() - started)

            async def nap(seconds: float) -> None:
                await asyncio.sleep(seconds / 40)

            settings = HyperliquidSourceSettings(base_url=url, request_s=0.2, ping_s=60)
            source = create(settings, sink=sink, clock=lambda: START + 10_000, monotonic=hurried, sleep=nap)
            task = asyncio.create_task(source.run())
            await exchange.until(lambda: len(sink.of(Candle)) == 4)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return exchange, sink, source.health().problems

    exchange, sink, problems = asyncio.run(scene())
    assert {(found.symbol, found.bucket_ts) for found in sink.of(Candle)} == {
        (symbol, START + minute * MINUTE) for symbol in ("A", "B") for minute in (-2, -1)
    }
    assert exchange.count("candleSnapshot") == 4
    assert problems["limited" if refusal[0] == 429 else "refused"] == 2


def test_names_are_asked_for_until_they_are_known() -> None:
    failures = [(429, b"null"), (500, b"null"), (200, b"[]")]

    async def script(stage: Stage) -> None:
        stage.exchange.answers["meta"] = lambda asked: failures.pop() if failures else stage.exchange._usual(asked)
        await stage.subscribed()

    assert play(script).exchange.count("meta") == 4


def test_a_listing_is_subscribed_to_and_a_delisting_called_off() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        stage.exchange.symbols = ["B", "NEW"]
        stage.clock.now += MINUTE
        await stage.exchange.until(lambda: len(stage.exchange.subscribed("candle")) == 3)

    stage = play(script)
    methods = [
        (message["method"], message["subscription"].get("coin"))
        for _, message in stage.exchange.heard
        if "subscription" in message
    ]
    assert ("unsubscribe", "A") in methods and ("subscribe", "NEW") in methods


def test_a_subscription_nobody_acknowledged_is_asked_for_again() -> None:
    async def script(stage: Stage) -> None:
        stage.exchange.acks = False
        await stage.subscribed()
        stage.exchange.acks = True
        await stage.exchange.until(lambda: stage.exchange.count("candleSnapshot") == 2)

    stage = play(script, ack_s=0.2)
    assert stage.exchange.opened == 2


def test_a_slow_answer_holds_up_neither_frames_nor_other_questions() -> None:
    async def script(stage: Stage) -> None:
        stage.exchange.answers["l2Book"] = lambda asked: (0, b"")
        await stage.subscribed()
        await stage.mids("5.0")
        await stage.exchange.until(lambda: bool(stage.sink.of(Mid)) and bool(stage.sink.of(AssetContext)))
        assert stage.sink.of(Mid)[-1].price_e8 == 5 * 10**8 and not stage.sink.of(Liquidity)

    play(script, request_s=5.0)


def test_a_sink_that_fails_ends_the_run() -> None:
    class Full(Recorder):
        def add_observations(self, observations: Any) -> None:
            raise OSError("the disk is full")

    async def scene() -> None:
        exchange = ScriptedExchange()
        async with serving(exchange) as url:
            settings = HyperliquidSourceSettings(base_url=url)
            source = source_of(settings, sink=Full(), clock=lambda: START)
            async with asyncio.timeout(5):
                await source.run()

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(scene())
    assert raised.group_contains(OSError, match="the disk is full")


def test_under_virtual_time_a_step_is_taken_at_its_barrier_and_not_before() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.mids("5.0")
        await stage.bar(0, 2)
        await asyncio.sleep(0.05)
        assert not stage.sink.calls
        stage.clock.now = START + 5_000
        await stage.source.barrier(START + 5_000)
        assert stage.sink.of(Mid) == [Mid("A", START + 5_000, 500_000_000)]
        assert [fact.bucket_ts for fact in stage.sink.of(AssetContext)] == [START, START]
        asked = len(stage.exchange.asked)
        await stage.source.barrier(START + 10_000)
        assert len(stage.exchange.asked) == asked, "no poll is due again"
        await stage.source.barrier(START + MINUTE + 2_000)
        assert [found.bucket_ts for found in stage.sink.of(Candle)] == [START]

    play(script, stepped=True)


def test_under_virtual_time_lines_are_read_in_their_order() -> None:
    async def script(stage: Stage) -> None:
        await stage.source.barrier(START)
        first, second = stage.source._lines
        stage.source.handle_event(second, MidsFrame("", ["A"], [2]))
        stage.source.handle_event(first, MidsFrame("", ["A"], [1]))
        await stage.source.barrier(START + 5_000)
        assert stage.sink.of(Mid) == [Mid("A", START + 5_000, 1)]

    play(script, stepped=True)


def test_under_virtual_time_a_lost_connection_is_back_before_the_step_ends() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.source.barrier(START)
        await stage.exchange.drop()
        await stage.source.barrier(START + 5_000)
        assert stage.source.health().connections_up == 2
        assert stage.exchange.count("candleSnapshot") == 4
        await stage.mids("5.0")
        await stage.source.barrier(START + 10_000)
        assert len(stage.sink.of(Mid)) == 1

    play(script, stepped=True)


def test_under_virtual_time_silence_counts_market_time() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        await stage.mids("5.0")
        await stage.source.barrier(START)
        await asyncio.sleep(0.5)
        await stage.source.barrier(START + 30_000)
        assert stage.exchange.opened == 2
        await stage.source.barrier(START + 30_001)
        assert stage.exchange.opened == 3 and stage.source.health().connections_up == 2

    play(script, stepped=True, mids_silence_s=30.0, candles_silence_s=3_000.0)


def test_a_barrier_nobody_answers_says_what_to_do() -> None:
    async def script(stage: Stage) -> None:
        await stage.subscribed()
        stage.exchange.refuse_sockets = True
        await stage.exchange.drop()
        with pytest.raises(Retry, match="is it up, and is the source running"):
            await stage.source.barrier(START)

    play(script, stepped=True, barrier_s=0.5)


def test_under_virtual_time_a_refusal_is_asked_again_when_market_time_has_passed() -> None:
    async def script(stage: Stage) -> None:
        refusing = True
        usual = stage.exchange._usual
        stage.exchange.answers["metaAndAssetCtxs"] = lambda asked: (429, b"null") if refusing else usual(asked)
        await stage.source.barrier(START)
        await stage.source.barrier(START + 4_999)
        assert stage.exchange.count("metaAndAssetCtxs") == 1 and stage.exchange.count("l2Book") == 0
        refusing = False
        await stage.source.barrier(START + 5_000)
        assert stage.exchange.count("metaAndAssetCtxs") == 2 and stage.exchange.count("l2Book") == 2

    play(script, stepped=True)


WEIGHTS = {"l2Book": 2, "candleSnapshot": 22, "fundingHistory": 21}


def test_the_weight_budget_spreads_questions_over_market_time() -> None:
    symbols = [f"S{number}" for number in range(20)]
    spent = []

    async def script(stage: Stage) -> None:
        for minute in range(12):
            before = len(stage.exchange.asked)
            await stage.source.barrier(START + minute * MINUTE)
            spent.append(sum(WEIGHTS.get(question["type"], 20) for question in stage.exchange.asked[before:]))

    stage = play(script, *symbols, stepped=True, weight_share=0.2, mids_silence_s=1e6)
    assert max(spent) <= 240 and spent[:3] > [200, 200, 200]
    assert stage.exchange.count("candleSnapshot") == 20


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"base_url": "api.hyperliquid.xyz"}, "is no address"),
        ({"weight_share": 0.01}, "weight_share"),
        ({"weight_share": 2.0}, "weight_share"),
        ({"contexts_every_ms": 30_000}, "contexts whole minutes"),
        ({"books_every_ms": 0}, "books_every_ms"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        source_of(HyperliquidSourceSettings(**settings), sink=Recorder(), clock=lambda: START)


@pytest.mark.parametrize(
    ("base", "info", "socket"),
    [
        ("https://api.hyperliquid.xyz", "https://api.hyperliquid.xyz/info", "wss://api.hyperliquid.xyz/ws"),
        ("http://127.0.0.1:3001/", "http://127.0.0.1:3001/info", "ws://127.0.0.1:3001/ws"),
    ],
)
def test_addresses(base: str, info: str, socket: str) -> None:
    settings = HyperliquidSourceSettings(base_url=base)
    assert (settings.info_url, settings.socket_url) == (info, socket)
