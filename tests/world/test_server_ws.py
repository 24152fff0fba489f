"""The socket as a client meets it: acks, frames, errors, limits, and the order that makes a barrier of a ping."""

import hashlib
import json
from typing import Any

import aiohttp
import pytest

from tapebook.domain.market import Candle, Mid
from tapebook.domain.units import E8, HOUR, MINUTE, to_units
from tapebook.world.assets import DEFAULT_SYMBOLS
from tapebook.world.cadence import STEP
from tapebook.world.faults import Faults
from tapebook.world.market import World, WorldStep
from tests.world.exchange_client import START, Client, Line, run, serving

LEVEL = {"px": str, "sz": str, "n": int}


def data(lines: list[str], channel: str) -> list[Any]:
    """The payloads of one channel."""
    frames = [json.loads(line) for line in lines]
    return [frame["data"] for frame in frames if frame["channel"] == channel]


def types(row: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in row.items()}


@pytest.mark.parametrize(
    ("subscription", "echo"),
    [
        ({"type": "allMids"}, '{"type":"allMids"}'),
        ({"dex": "xyz", "type": "allMids"}, '{"type":"allMids","dex":"xyz"}'),
        (
            {"type": "candle", "coin": "BTC", "interval": "1m"},
            '{"type":"candle","interval":"1m","coin":"BTC"}',
        ),
        (
            {"type": "l2Book", "coin": "BTC"},
            '{"type":"l2Book","coin":"BTC","nSigFigs":null,"mantissa":null,"fast":false}',
        ),
        ({"coin": "BTC", "type": "activeAssetCtx"}, '{"type":"activeAssetCtx","coin":"BTC"}'),
        ({"type": "bbo", "coin": "BTC"}, '{"type":"bbo","coin":"BTC"}'),
        ({"type": "trades", "coin": "@107"}, '{"type":"trades","coin":"@107"}'),
    ],
)
def test_acks_are_normalised(subscription: dict[str, object], echo: str) -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()
            for method in ("subscribe", "unsubscribe"):
                await line.say({"method": method, "subscription": subscription})
                said = f'{{"channel":"subscriptionResponse","data":{{"method":"{method}","subscription":{echo}}}}}'
                assert await line.settle() == [said]
            await client.steps(line, 2)
            assert len(line.heard) == 2, "nothing comes after the subscription ended"

    run(scenario())


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("what?", "Error parsing JSON into valid websocket request: what?"),
        (
            '{"method":"subscribe","xsubscription":{"type":"bbo","coin":"SOL"}}',
            "Error parsing JSON into valid websocket request: "
            '{"method":"subscribe","xsubscription":{"type":"bbo","coin":"SOL"}}',
        ),
        (
            '{"method":"subscribe","subscription":{"type":"candle","coin":"BTC","interval":"7m"}}',
            'Invalid subscription {"type":"candle","coin":"BTC","interval":"7m"}',
        ),
        (
            '{"method":"subscribe","subscription":{"type":"candle","coin":"NOPE","interval":"1m"}}',
            'Invalid subscription {"type":"candle","coin":"NOPE","interval":"1m"}',
        ),
        ('{"method":"subscribe","subscription":{"type":"userFills"}}', 'Invalid subscription {"type":"userFills"}'),
        (
            '{"method":"subscribe","subscription":{"type":"allMids","dex":"nope"}}',
            'Invalid subscription {"type":"allMids","dex":"nope"}',
        ),
        ('{"method":"unsubscribe","subscription":{"type":"allMids"}}', 'Already unsubscribed: {"type":"allMids"}'),
        ('{"method":"unsubscribe","subscription":{"type":"x"}}', 'Invalid subscription {"type":"x"}'),
    ],
)
def test_what_is_refused_and_how(said: str, error: str) -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()
            await line.say(said)
            assert data(await line.settle(), "error") == [error]

    run(scenario())


def test_a_second_subscription_is_an_error() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()
            await line.subscribe(type="allMids")
            await line.subscribe(type="allMids", dex="")
            assert data(await line.settle(), "error") == ['Already subscribed: {"type":"allMids"}']

    run(scenario())


def test_a_ping_after_advance_sees_all_frames_first() -> None:
    async def scenario() -> None:
        async with serving() as client:
            lines = [await client.open_line() for _ in range(2)]
            for line in lines:
                await line.subscribe(type="allMids")
                for symbol in DEFAULT_SYMBOLS:
                    await line.subscribe(type="candle", coin=symbol, interval="1m")
                await line.settle()
            await client.server.advance(START)
            assert [len(data(await line.settle(), "allMids")) for line in lines] == [1, 1], "the step it begins with"
            await client.server.advance(START + 5 * MINUTE)
            heard = [await line.settle() for line in lines]
            assert heard[0] == heard[1]
            assert len(data(heard[0], "allMids")) == 60
            await client.server.advance(START + 5 * MINUTE)
            assert [await line.settle() for line in lines] == [[], []], "no step is told twice"

    run(scenario())


def test_every_frame_of_mids_is_the_full_map_of_its_step() -> None:
    async def scenario() -> None:
        world = World(7, start=START).steps()
        async with serving() as client:
            line = await client.open_line()
            await line.subscribe(type="allMids")
            await line.settle()
            await client.server.advance(START)
            frames = data(await line.settle() + await client.steps(line, 30), "allMids")
            assert len(frames) == 31
            for frame, step in zip(frames, world, strict=False):
                assert frame.keys() == {"mids"}
                told = {each.symbol: each.price_e8 for each in step.observations if isinstance(each, Mid)}
                assert told.items() <= {name: to_units(price, E8) for name, price in frame["mids"].items()}.items()
                assert {"MATIC", "@107", "PURR/USDC", "#1710"} <= frame["mids"].keys()

    run(scenario())


def test_mids_of_the_builders_dex() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()
            await line.subscribe(type="allMids", dex="xyz")
            frame = data(await client.steps(line, 1), "allMids")[-1]
            assert frame["dex"] == "xyz"
            assert set(frame["mids"]) == {"xyz:TSLA", "xyz:NVDA", "xyz:GOLD"}

    run(scenario())


async def _told_by_step(client: Client, line: Line, steps: int) -> list[tuple[int, dict[str, Any]]]:
    """Every candle frame with the time of the step that sent it."""
    frames = []
    for _ in range(steps):
        frames += [(client.server.now, frame) for frame in data(await line.settle(), "candle")]
        await client.server.advance(client.server.now + STEP)
    return frames


def test_the_last_frame_of_a_bar_is_the_final_bar_and_comes_before_its_end() -> None:
    async def scenario() -> None:
        finals = {
            (each.symbol, each.bucket_ts): each
            for step in _until(World(2, start=START), START + HOUR)
            for each in step.observations
            if isinstance(each, Candle)
        }
        quiet = {key for key, candle in finals.items() if not candle.sample_count}
        assert quiet, "the hour has a minute without trades"
        async with serving(2) as client:
            line = await client.open_line()
            for symbol in DEFAULT_SYMBOLS:
                await line.subscribe(type="candle", coin=symbol, interval="1m")
            await line.settle()
            await client.server.advance(START)
            frames = await _told_by_step(client, line, HOUR // STEP)
        last: dict[tuple[str, int], dict[str, Any]] = {}
        for sent_at, frame in frames:
            assert frame["t"] <= sent_at < frame["T"] == frame["t"] + MINUTE - 1
            assert last.get((frame["s"], frame["t"])) != frame, "a frame says something new"
            last[frame["s"], frame["t"]] = frame
        assert last.keys() == finals.keys() - quiet, "a quiet minute sends nothing"
        for key, frame in last.items():
            final = finals[key]
            prices = (final.open_e8, final.close_e8, final.high_e8, final.low_e8)
            assert tuple(to_units(frame[name], E8) for name in "ochl") == prices
            assert (float(frame["v"]), frame["n"], frame["i"]) == (final.volume_base, final.sample_count, "1m")

    run(scenario())


def _until(world: World, end: int) -> list[WorldStep]:
    steps: list[WorldStep] = []
    for step in world.steps():
        if step.at > end:
            return steps
        steps.append(step)
    return steps


@pytest.mark.parametrize("interval", ["5m", "15m", "1h"])
def test_larger_bars_end_as_the_snapshot_has_them(interval: str) -> None:
    async def scenario() -> None:
        async with serving(symbols=("kPEPE",)) as client:
            line = await client.open_line()
            await line.subscribe(type="candle", coin="kPEPE", interval=interval)
            await line.settle()
            await client.server.advance(START)
            await client.server.advance(START + HOUR - STEP)
            last = {frame["t"]: frame for frame in data(await line.settle(), "candle")}
            wanted = {"coin": "kPEPE", "interval": interval, "startTime": START}
            assert list(last.values()) == await client.get(type="candleSnapshot", req=wanted)

    run(scenario())


def test_books_contexts_tops_and_trades() -> None:
    async def scenario() -> None:
        async with serving(symbols=("SOL",), history_ms=HOUR) as client:
            line = await client.open_line()
            for kind in ("l2Book", "activeAssetCtx", "bbo", "trades"):
                await line.subscribe(type=kind, coin="SOL")
            await line.subscribe(type="l2Book", coin="SOL", nSigFigs=3, fast=True)
            heard = await client.steps(line, 3)
            book, fast = data(heard, "l2Book")[-2:]
            assert types(book) == {"coin": str, "time": int, "levels": list}
            assert [len(side) for side in book["levels"]] == [20, 20]
            assert types(book["levels"][0][0]) == LEVEL
            assert types(fast) == {"coin": str, "time": int, "levels": list, "spread": str, "fast": bool}
            assert [len(side) for side in fast["levels"]] == [5, 5]
            assert book == await client.get(type="l2Book", coin="SOL")
            context = data(heard, "activeAssetCtx")[-1]
            _, contexts = await client.get(type="metaAndAssetCtxs")
            assert context["coin"] == "SOL" and context["ctx"] in contexts
            top = data(heard, "bbo")[-1]
            assert types(top) == {"coin": str, "time": int, "bbo": list}
            assert top["bbo"] == [book["levels"][0][0], book["levels"][1][0]]
            trade = data(heard, "trades")[-1][0]
            assert trade.keys() == {"coin", "side", "px", "sz", "time", "hash", "tid", "users"}
            assert (trade["coin"], trade["side"] in "AB", len(trade["users"]), len(trade["hash"])) == (
                "SOL",
                True,
                2,
                66,
            )

    run(scenario())


def test_questions_over_the_socket_weigh_the_same() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()

            async def post(number: int, kind: str, payload: object) -> Any:
                await line.say({"method": "post", "id": number, "request": {"type": kind, "payload": payload}})
                return data(await line.settle(), "post")

            book = await client.get(type="l2Book", coin="BTC")
            answered = await post(1, "info", {"type": "l2Book", "coin": "BTC"})
            assert answered == [{"id": 1, "response": {"type": "info", "payload": {"type": "l2Book", "data": book}}}]
            refused = {"id": 2, "response": {"type": "error", "payload": "422 Unprocessable Entity"}}
            assert await post(2, "info", {"type": "nothing"}) == [refused]
            failed = await post(3, "info", {"type": "meta", "dex": "nope"})
            assert failed[0]["response"] == {"type": "error", "payload": "500 Internal Server Error"}
            assert (await post(4, "action", {"type": "allMids"}))[0]["response"]["type"] == "error"
            for _ in range(58):
                await client.get(type="meta")
            assert (await post(5, "info", {"type": "meta"}))[0]["response"]["payload"] == "429 Too Many Requests"

    run(scenario())


def test_ten_lines_are_open_at_once_and_thirty_new_ones_a_minute() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            lines = [await client.open_line() for _ in range(10)]
            with pytest.raises(aiohttp.WSServerHandshakeError, match="429"):
                await client.open_line()
            for _ in range(20):
                await lines.pop().ws.close()
                lines.append(await client.open_line())
            await lines.pop().ws.close()
            with pytest.raises(aiohttp.WSServerHandshakeError, match="429"):
                await client.open_line()
            await client.server.advance(START + MINUTE)
            await client.open_line()

    run(scenario())


def test_a_thousand_subscriptions_and_two_thousand_messages() -> None:
    async def scenario() -> None:
        async with serving() as client:
            lines = [await client.open_line() for _ in range(10)]
            coins = [*DEFAULT_SYMBOLS, "@107", "@142", "PURR/USDC"]
            wanted = [
                {"type": "candle", "coin": coin, "interval": interval}
                for coin in coins
                for interval in ("1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h", "8h", "12h", "1d", "3d")
            ]
            made = 0
            for line in lines:
                for subscription in wanted[: 1_000 - made]:
                    await line.subscribe(**subscription)
                    made += 1
                assert not data(await line.settle(), "error")
            assert made == 1_000
            await lines[0].subscribe(type="allMids")
            assert data(await lines[0].settle(), "error") == ["Cannot track more than 1000 total subscriptions."]
            # A line that ends gives its subscriptions back.
            await lines[1].ws.close()
            await lines[0].subscribe(type="allMids")
            assert data(await lines[0].settle(), "error") == []
            spent = 1_000 + 10 + 2 + 2
            for _ in range(2_000 - spent):
                await lines[0].say("{}")
            await lines[0].say({"method": "ping"})
            heard = [await lines[0].hear() for _ in range(2_000 - spent + 1)]
            assert "Too many messages" in heard[-1]
            assert not any("Too many messages" in text for text in heard[:-1])
            await client.server.advance(START + MINUTE)
            await lines[0].say({"method": "ping"})
            while await lines[0].hear() != '{"channel":"pong"}':
                pass

    run(scenario())


def test_an_unknown_coin_of_bbo_ends_the_line_without_a_word() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            line = await client.open_line()
            await line.subscribe(type="bbo", coin="UBTC")
            assert await line.is_closed()
            assert line.heard == []

    run(scenario())


def test_a_line_on_which_nothing_is_sent_is_ended_after_a_minute_unless_pinged() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            quiet, pinging, fed = [await client.open_line() for _ in range(3)]
            await fed.subscribe(type="allMids")
            await fed.settle()
            await client.server.advance(START + 30_000)
            await pinging.settle()
            await client.server.advance(START + MINUTE - STEP)
            await quiet.ws.ping()
            assert not quiet.ws.closed
            await client.server.advance(START + MINUTE)
            assert await quiet.is_closed()
            await client.server.advance(START + 90_000 - STEP)
            await pinging.settle()
            await client.server.advance(START + 3 * MINUTE)
            assert len(data(await fed.settle(), "allMids")) == 37
            assert await pinging.is_closed()

    run(scenario())


async def _transcript(seed: int, faults: Faults | None) -> str:
    """The digest of everything one script hears."""
    told = hashlib.sha256()
    async with serving(seed, history_ms=HOUR, faults=faults) as client:
        line = await client.open_line()
        await line.subscribe(type="allMids")
        for symbol in (*DEFAULT_SYMBOLS, "@107", "xyz:TSLA"):
            await line.subscribe(type="candle", coin=symbol, interval="1m")
            await line.subscribe(type="l2Book", coin=symbol)
        await line.subscribe(type="activeAssetCtx", coin="BTC")
        await line.subscribe(type="trades", coin="BTC")
        await client.steps(line, 25)
        for body in (
            *({"type": "metaAndAssetCtxs"}, {"type": "predictedFundings"}, {"type": "allMids", "dex": "xyz"}),
            {"type": "candleSnapshot", "req": {"coin": "DOGE", "interval": "1m", "startTime": START}},
            {"type": "fundingHistory", "coin": "DOGE", "startTime": START},
        ):
            told.update(repr(await client.ask(body)).encode())
        told.update("\n".join(line.heard).encode())
    return told.hexdigest()


def test_two_servers_with_one_seed_send_the_same_bytes() -> None:
    async def scenario() -> None:
        assert await _transcript(7, None) == await _transcript(7, None) != await _transcript(8, None)
        hurt = Faults(seed=1, duplicate=0.1, reorder=0.1, delay=0.05, corrupt=0.1, late=1, correct=0.5, error=0.3)
        assert await _transcript(7, hurt) == await _transcript(7, hurt) != await _transcript(7, None)

    run(scenario())


def test_a_client_that_does_not_read_while_the_world_moves_is_waited_for() -> None:
    async def scenario() -> None:
        async with serving() as client:
            line = await client.open_line()
            await line.subscribe(type="allMids")
            await line.subscribe(type="l2Book", coin="BTC")
            await line.settle()
            await client.server.advance(START + 20 * MINUTE)
            heard = await line.settle()
            assert len(data(heard, "allMids")) == len(data(heard, "l2Book")) == 241

    run(scenario())


def test_a_client_that_never_reads_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapebook.world.server.sockets._PATIENCE_S", 0.1)

    async def scenario() -> None:
        async with serving() as client:
            deaf = await client.open_line()
            for coin in (*DEFAULT_SYMBOLS, "@107", "@142", "PURR/USDC"):
                await deaf.subscribe(type="l2Book", coin=coin)
            await deaf.settle()
            await client.server.advance(START + HOUR)
            assert await deaf.is_closed()
            assert 0 < len(data(deaf.heard, "l2Book")) < 9 * HOUR // STEP

    run(scenario())
