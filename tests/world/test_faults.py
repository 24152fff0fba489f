"""Each fault does what it says, when it is due, and is written down; without faults nothing happens."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tapebook.domain.units import HOUR, MINUTE
from tapebook.world.cadence import STEP
from tapebook.world.faults import FaultLog, Faults, InjectedFault
from tests.world.exchange_client import START, Client, Line, run, serving

AFTER = START + MINUTE
PER_FRAME = ("duplicate", "reorder", "delay", "corrupt")
SWITCHES = (
    *("drop", "silence", "stall", "late", "correct", "too_many", "error", "timeout"),
    *PER_FRAME,
)


def once(at: int, **chances: float) -> Faults:
    """Certain faults at one step alone."""
    return replace(Faults(seed=1, **chances), window=(at, at))  # type: ignore[arg-type]


async def subscribed(client: Client, *coins: str) -> Line:
    line = await client.open_line()
    await line.subscribe(type="allMids")
    for coin in coins:
        await line.subscribe(type="candle", coin=coin, interval="1m")
    await line.settle()
    line.heard.clear()
    return line


def mids(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith('{"channel":"allMids"')]


async def faithful(steps: int, *coins: str) -> list[list[str]]:
    """What a server without faults says at each of so many steps."""
    async with serving(symbols=("BTC",)) as client:
        line = await subscribed(client, *coins)
        return [await client.steps(line, 1) for _ in range(steps)]


def test_dice_depend_on_seed_kind_subject_and_time_alone() -> None:
    faults = Faults(seed=3, drop=0.5, error=0.5)
    struck = [faults.happens("drop", "*", at) for at in range(200)]
    assert struck == [Faults(seed=3, drop=0.5).happens("drop", "*", at) for at in range(200)]
    assert struck != [replace(faults, seed=4).happens("drop", "*", at) for at in range(200)]
    assert struck != [faults.happens("error", "*", at) for at in range(200)]
    assert struck != [faults.happens("drop", "BTC", at) for at in range(200)]
    assert 70 < sum(struck) < 130
    assert not any(Faults(seed=3).happens(kind, "*", at) for kind in SWITCHES for at in range(50))
    assert not any(replace(faults, window=(1_000, 2_000)).happens("drop", "*", at) for at in range(200))


def test_a_storm_turns_everything_on() -> None:
    storm = Faults.storm(5)
    assert all(getattr(storm, kind) > 0 for kind in SWITCHES)
    assert storm.seed == 5
    assert set(SWITCHES) == {name for name in Faults.__struct_fields__ if isinstance(getattr(Faults(), name), float)}


def test_the_record_keeps_each_fault_once_and_lets_it_grow() -> None:
    record = FaultLog()
    record.add_or_extend(InjectedFault("silence", "*", "*", 10, 15))
    record.add(InjectedFault("error", "mids", "*", 11, 11))
    record.add_or_extend(InjectedFault("silence", "*", "*", 10, 20))
    record.add_or_extend(InjectedFault("silence", "*", "*", 10, 15))
    record.add(InjectedFault("error", "mids", "*", 11, 11))
    error = InjectedFault("error", "mids", "*", 11, 11)
    assert record.injected == [InjectedFault("silence", "*", "*", 10, 20), error, error]


def test_drop_ends_all_lines_before_the_frames_of_its_step() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=once(AFTER, drop=1.0)) as client:
            lines = [await subscribed(client) for _ in range(2)]
            await client.server.advance(AFTER)
            for line in lines:
                assert await line.is_closed()
                assert len(mids(line.heard)) == MINUTE // STEP
            assert client.server.injected_faults == [InjectedFault("drop", "*", "*", AFTER, AFTER)]
            again = await subscribed(client)
            await client.server.advance(AFTER + STEP)
            assert len(mids(await again.settle())) == 1

    run(scenario())


def test_a_drop_that_hits_nobody_is_not_recorded() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=Faults(drop=1.0, silence=1.0)) as client:
            await client.server.advance(AFTER)
            assert client.server.injected_faults == []

    run(scenario())


def test_silence_says_nothing_at_all_on_the_lines_then_open() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=once(AFTER, silence=1.0)) as client:
            line = await subscribed(client)
            await client.server.advance(AFTER + 80_000)
            await line.say({"method": "ping"})
            fresh = await subscribed(client)
            await client.server.advance(AFTER + 90_000)
            heard = [await line.hear() for _ in range(MINUTE // STEP + 1)]
            assert len(mids(heard)) == MINUTE // STEP + 1, "no pong, and mids again when it is over"
            assert len(mids(await fresh.settle())) == 2
            assert client.server.injected_faults == [InjectedFault("silence", "*", "*", AFTER, AFTER + 90_000)]

    run(scenario())


def test_a_stall_still_answers_pings_and_is_not_taken_for_idle() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=once(AFTER, stall=1.0)) as client:
            line = await subscribed(client)
            await client.server.advance(AFTER + 80_000)
            assert len(mids(await line.settle())) == MINUTE // STEP
            await client.server.advance(AFTER + 90_000)
            assert len(mids(await line.settle())) == 1
            assert client.server.injected_faults == [InjectedFault("stall", "*", "*", AFTER, AFTER + 90_000)]

    run(scenario())


def test_a_line_closed_in_its_silence_ends_the_record_there() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=once(AFTER, silence=1.0)) as client:
            line = await subscribed(client)
            await client.server.advance(AFTER + 10_000)
            await line.ws.close()
            await client.server.advance(AFTER + 90_000)
            assert client.server.injected_faults == [InjectedFault("silence", "*", "*", AFTER, AFTER + 15_000)]

    run(scenario())


async def _hurt(steps: int, faults: Faults, *coins: str) -> tuple[list[list[str]], list[InjectedFault]]:
    async with serving(symbols=("BTC",), faults=faults) as client:
        line = await subscribed(client, *coins)
        return [await client.steps(line, 1) for _ in range(steps)], client.server.injected_faults


def test_duplicates_are_the_same_frame_twice() -> None:
    async def scenario() -> None:
        good = await faithful(4)
        heard, injected = await _hurt(4, once(START + 2 * STEP, duplicate=1.0))
        assert heard == [good[0], good[1] * 2, *good[2:]]
        assert injected == [InjectedFault("duplicate", "mids", "*", START + 2 * STEP, START + 2 * STEP)]

    run(scenario())


def test_a_reordered_frame_comes_after_the_next_one_of_its_kind() -> None:
    async def scenario() -> None:
        good = await faithful(4, "BTC")
        heard, injected = await _hurt(4, once(START + 2 * STEP, reorder=1.0), "BTC")
        swapped = [good[2][0], good[1][0], good[2][1], good[1][1]]
        assert heard == [good[0], [], swapped, good[3]]
        assert {(each.kind, each.channel, each.subject) for each in injected} == {
            ("reorder", "mids", "*"),
            ("reorder", "candles", "BTC"),
        }

    run(scenario())


def test_a_frame_held_back_is_released_when_no_other_comes() -> None:
    """kPEPE does not trade in the third and fourth minute of this world."""

    async def scenario() -> None:
        last = START + 2 * MINUTE - STEP
        async with serving(9, faults=once(last, reorder=1.0)) as client:
            line = await client.open_line()
            await line.subscribe(type="candle", coin="kPEPE", interval="1m")
            await line.settle()
            await client.server.advance(last - STEP)
            await line.settle()
            assert [len(await client.steps(line, 1)) for _ in range(6)] == [0, 0, 0, 1, 0, 0]

    run(scenario())


def test_a_delay_holds_its_channel_and_keeps_its_order() -> None:
    async def scenario() -> None:
        good = await faithful(8, "BTC")
        faults = once(START + 2 * STEP, delay=1.0)
        heard, injected = await _hurt(8, faults, "BTC")
        assert [len(lines) for lines in heard[:5]] == [len(good[0]), 0, 0, 0, 4 * 2]
        assert mids(heard[4]) == [line for lines in good[1:5] for line in mids(lines)]
        assert heard[5:] == good[5:]
        late = START + 2 * STEP
        assert InjectedFault("delay", "mids", "*", late, late + faults.delay_ms) in injected

    run(scenario())


def test_corrupt_frames_are_no_json() -> None:
    async def scenario() -> None:
        faults = Faults(seed=1, corrupt=1.0)
        heard, injected = await _hurt(20, faults)
        texts = [line for lines in heard for line in lines]
        assert len(texts) == len(injected) == 21, "the step the world begins with is told too"
        for text in texts:
            with pytest.raises(json.JSONDecodeError):
                json.loads(text)
        assert len({text[:10] for text in texts}) == 2, "cut off, or a proxy's page"

    run(scenario())


async def _minutes(client: Client, coin: str) -> list[dict[str, Any]]:
    found = await client.get(type="candleSnapshot", req={"coin": coin, "interval": "1m", "startTime": START})
    assert isinstance(found, list)
    return found


def test_a_minute_without_trades_is_late() -> None:
    async def scenario() -> None:
        quiet = START + 2 * MINUTE
        async with serving(9, faults=Faults(late=1.0, late_ms=3 * MINUTE)) as client:
            await client.server.advance(quiet + MINUTE + 3 * MINUTE - STEP)
            early = [row["t"] for row in await _minutes(client, "kPEPE")]
            assert quiet not in early and quiet + 3 * MINUTE in early
            await client.server.advance(quiet + MINUTE + 3 * MINUTE)
            row = next(row for row in await _minutes(client, "kPEPE") if row["t"] == quiet)
            assert (row["n"], row["v"], row["o"]) == (0, "0.0", row["c"])
            assert [(each.kind, each.channel, each.subject) for each in client.server.injected_faults] == [
                ("late", "candles", "kPEPE")
            ] * 2
            assert client.server.injected_faults[0] == InjectedFault("late", "candles", "kPEPE", quiet, quiet + MINUTE)
            five = {"coin": "kPEPE", "interval": "5m", "startTime": START}
            assert (await client.get(type="candleSnapshot", req=five))[0]["t"] == START

    run(scenario())


def test_an_old_bar_is_corrected() -> None:
    async def scenario() -> None:
        faults = replace(Faults(correct=1.0), window=(START, START))
        async with serving(symbols=("BTC",), faults=faults) as client:
            await client.server.advance(START + MINUTE)
            first = (await _minutes(client, "BTC"))[0]
            await client.server.advance(START + 6 * MINUTE - STEP)
            assert (await _minutes(client, "BTC"))[0] == first
            assert client.server.injected_faults == []
            await client.server.advance(START + 6 * MINUTE)
            rows = await _minutes(client, "BTC")
            changed = {key for key in first if first[key] != rows[0][key]}
            assert {"c", "v"} <= changed <= {"c", "v", "n"}
            assert float(rows[0]["l"]) <= float(rows[0]["c"]) <= float(rows[0]["h"])
            assert client.server.injected_faults == [InjectedFault("correct", "candles", "BTC", START, START + MINUTE)]
            assert rows == await _minutes(client, "BTC"), "and stays so"

    run(scenario())


@pytest.mark.parametrize(("kind", "status"), [("too_many", 429), ("error", 500)])
def test_answers_fail(kind: str, status: int) -> None:
    async def scenario() -> None:
        faults = replace(Faults(seed=1, **{kind: 0.5}), window=(START, START))  # type: ignore[arg-type]
        async with serving(symbols=("BTC",), faults=faults) as client:
            answers = [await client.ask({"type": "l2Book", "coin": "BTC"}) for _ in range(40)]
            assert {answer for answer in answers if answer[0] != 200} == {(status, "null")}
            assert {answer[0] for answer in answers} == {200, status}, (
                "trying again helps, even while time stands still"
            )
            struck = sum(answer[0] != 200 for answer in answers)
            assert client.server.injected_faults == [InjectedFault(kind, "books", "BTC", START, START)] * struck
            assert all([(await client.ask({"type": "worldClock"}))[0] == 200 for _ in range(20)])
            await client.server.advance(START + STEP)
            assert all([(await client.ask({"type": "l2Book", "coin": "BTC"}))[0] == 200 for _ in range(20)])

    run(scenario())


def test_a_question_stays_unanswered() -> None:
    async def scenario() -> None:
        faults = replace(Faults(timeout=1.0), window=(START, START))
        async with serving(symbols=("BTC",), faults=faults) as client:
            waiting = aiohttp.ClientTimeout(total=0.05)
            with pytest.raises(TimeoutError):
                await client.session.post(f"{client.url}/info", data='{"type":"meta"}', timeout=waiting)
            patient = asyncio.ensure_future(client.ask({"type": "allMids"}))
            await asyncio.sleep(0.05)
            await client.server.advance(START + MINUTE - STEP)
            await asyncio.sleep(0.05)
            assert not patient.done()
            await client.server.advance(START + MINUTE)
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await patient
            assert client.server.injected_faults == [
                InjectedFault("timeout", "*", "*", START, START),
                InjectedFault("timeout", "mids", "*", START, START),
            ]

    run(scenario())


def test_a_stopped_server_leaves_no_question_hanging() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), faults=Faults(timeout=1.0)) as client:
            patient = asyncio.ensure_future(client.ask({"type": "allMids"}))
            await asyncio.sleep(0.05)
            await client.server.stop()
            with pytest.raises(aiohttp.ClientError):
                await patient

    run(scenario())


async def _through_a_storm(seed: int, lasts: int) -> tuple[list[str], list[InjectedFault]]:
    """A client in a storm that comes back whenever it is dropped or hears nothing, and asks every minute."""
    heard: list[str] = []
    faults = replace(Faults.storm(seed), timeout=0.05, timeout_ms=0)
    async with serving(9, symbols=("BTC", "kPEPE"), faults=faults) as client:
        line = await subscribed(client, "BTC", "kPEPE")
        while client.server.now < START + lasts:
            await client.server.advance(client.server.now + STEP)
            if any(each.kind == "silence" and each.to_ts > client.server.now for each in client.server.injected_faults):
                heard.append("silent")
                await line.ws.close()
                line = await subscribed(client, "BTC", "kPEPE")
            try:
                heard += await line.settle()
            except (AssertionError, ConnectionError):
                heard.append("dropped")
                line = await subscribed(client, "BTC", "kPEPE")
            if client.server.now % MINUTE == 0:
                heard.append(await _ask_for_minutes(client))
        return heard, client.server.injected_faults


async def _ask_for_minutes(client: Client) -> str:
    wanted = {"coin": "kPEPE", "interval": "1m", "startTime": client.server.now - 10 * MINUTE}
    try:
        return repr(await client.ask({"type": "candleSnapshot", "req": wanted}))
    except aiohttp.ServerDisconnectedError:
        return "no answer"


def test_a_storm_is_the_same_storm_every_time() -> None:
    async def scenario() -> None:
        storms = ((5, 2 * HOUR), (5, 2 * HOUR), (6, 10 * MINUTE))
        one, two, other = [await _through_a_storm(*each) for each in storms]
        assert one == two
        assert one[0][: len(other[0])] != other[0]
        kinds = [each.kind for each in one[1]]
        assert {*kinds} == {*SWITCHES}
        told = {"drop": "dropped", "silence": "silent", "timeout": "no answer"}
        assert {kind: kinds.count(kind) for kind in told} == {kind: one[0].count(said) for kind, said in told.items()}

    run(scenario())
