"""`/info` as a client meets it: the shapes of the exchange, the numbers of the world, weights and refusals."""

import json
from decimal import Decimal
from itertools import islice
from typing import Any, TypeVar

import aiohttp
import pytest

from tapebook.domain.market import AssetContext, Candle, FundingRate, Mid
from tapebook.domain.units import DAY, E8, E12, HOUR, MINUTE, to_units
from tapebook.world.assets import DEFAULT_SYMBOLS
from tapebook.world.cadence import STEP
from tapebook.world.market import World
from tapebook.world.server.answers import answer_request
from tapebook.world.server.exchange import Exchange
from tapebook.world.server.requests import decode_request, request_weight
from tests.world.exchange_client import START, Client, run, serving

Kind = TypeVar("Kind", Mid, Candle, AssetContext, FundingRate)

# Key sets and types as recorded from the exchange; `str` is a decimal string unless it is a name.
PERP = {"szDecimals": int, "name": str, "maxLeverage": int, "marginTableId": int}
CONTEXT = {
    **{"funding": str, "openInterest": str, "prevDayPx": str, "dayNtlVlm": str, "dayBaseVlm": str},
    **{"premium": str, "oraclePx": str, "markPx": str, "midPx": str, "impactPxs": list},
}
DEAD_CONTEXT = {**CONTEXT, "premium": type(None), "midPx": type(None), "impactPxs": type(None)}
CANDLE = {"t": int, "T": int, "s": str, "i": str, "o": str, "c": str, "h": str, "l": str, "v": str, "n": int}
LEVEL = {"px": str, "sz": str, "n": int}
FUNDING = {"coin": str, "fundingRate": str, "premium": str, "time": int}
PREDICTION = {"fundingRate": str, "nextFundingTime": int, "fundingIntervalHours": int}
PAIR = {"tokens": list, "name": str, "index": int, "isCanonical": bool}
TOKEN = {
    **{"name": str, "szDecimals": int, "weiDecimals": int, "index": int, "tokenId": str, "isCanonical": bool},
    **{"evmContract": type(None), "fullName": type(None), "deployerTradingFeeShare": str},
}
DEX = {
    **{"name": str, "fullName": str, "deployer": str, "oracleUpdater": type(None), "feeRecipient": str},
    **{"assetToStreamingOiCap": list, "subDeployers": list, "deployerFeeScale": str},
    **{"lastDeployerFeeScaleChangeTime": str, "assetToFundingMultiplier": list, "assetToFundingInterestRate": list},
}


@pytest.fixture(scope="module")
def exchange() -> Exchange:
    """Two hours into a world, at a step in the middle of a minute."""
    return at(2 * HOUR + 7 * STEP)


def at(into: int, seed: int = 7) -> Exchange:
    return Exchange(World(seed, start=START), now=START + into, amend=lambda rows, now: rows)


def ask(exchange: Exchange, **body: object) -> Any:
    found = answer_request(exchange, decode_request(json.dumps(body).encode()))
    assert found.status == 200, found
    return json.loads(found.body)


def types(row: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in row.items()}


def told(until: int, kind: type[Kind], seed: int = 7) -> list[Kind]:
    """What the world tells in process up to an instant."""
    steps = islice(World(seed, start=START).steps(), until // STEP + 1)
    return [each for step in steps for each in step.observations if isinstance(each, kind)]


def test_meta_lists_the_dead_among_the_living(exchange: Exchange) -> None:
    meta = ask(exchange, type="meta")
    assert types(meta) == {"universe": list, "marginTables": list, "collateralToken": int}
    names = [row["name"] for row in meta["universe"]]
    assert [name for name in names if name in DEFAULT_SYMBOLS] == list(DEFAULT_SYMBOLS)
    assert names.index("MATIC") < names.index("SOL")
    for row in meta["universe"]:
        assert types(row) == PERP | ({"isDelisted": bool} if row["name"] not in DEFAULT_SYMBOLS else {})
    number, table = meta["marginTables"][0]
    assert (type(number), types(table)) == (int, {"description": str, "marginTiers": list})
    assert types(table["marginTiers"][0]) == {"lowerBound": str, "maxLeverage": int}


def test_contexts_stand_in_the_order_of_the_universe(exchange: Exchange) -> None:
    meta, contexts = ask(exchange, type="metaAndAssetCtxs")
    assert meta == ask(exchange, type="meta")
    assert len(contexts) == len(meta["universe"])
    for perp, context in zip(meta["universe"], contexts, strict=True):
        assert types(context) == (DEAD_CONTEXT if "isDelisted" in perp else CONTEXT)
    by_name = dict(zip((row["name"] for row in meta["universe"]), contexts, strict=True))
    assert (by_name["MATIC"]["markPx"], by_name["MATIC"]["openInterest"]) == ("0.37621", "0.0")
    assert by_name["ETH"]["markPx"] == ask(exchange, type="allMids")["ETH"]


def test_contexts_are_those_of_the_world() -> None:
    reported = [each for each in told(2 * HOUR, AssetContext) if each.bucket_ts == START + 2 * HOUR]
    meta, contexts = ask(at(2 * HOUR), type="metaAndAssetCtxs")
    by_name = dict(zip((row["name"] for row in meta["universe"]), contexts, strict=True))
    assert len(reported) == len(DEFAULT_SYMBOLS)
    for context in reported:
        row = by_name[context.symbol]
        assert to_units(row["funding"], E12) == context.funding_e12
        assert to_units(row["premium"], E12) == context.premium_e12
        assert (to_units(row["markPx"], E8), to_units(row["oraclePx"], E8)) == (context.mark_e8, context.oracle_e8)
        assert float(row["openInterest"]) == context.open_interest_base


def test_volume_of_a_day_rolls() -> None:
    exchange = at(DAY + HOUR)
    sums = {symbol: 0.0 for symbol in DEFAULT_SYMBOLS}
    for candle in told(DAY + HOUR, Candle):
        if candle.bucket_ts >= START + HOUR:
            sums[candle.symbol] += candle.volume_quote_usd
    for symbol, coin in exchange.main.perps.items():
        assert float(coin.context()["dayNtlVlm"]) == pytest.approx(sums[symbol])


def test_all_mids_hold_every_kind_of_name(exchange: Exchange) -> None:
    mids = ask(exchange, type="allMids")
    names = {*DEFAULT_SYMBOLS, "MATIC", "PURR/USDC", "@107", "#1710", "#1711"}
    assert names <= mids.keys()
    assert not any(name.startswith("xyz:") for name in mids)
    assert all(type(price) is str and "." in price and Decimal(price) > 0 for price in mids.values())
    assert Decimal(mids["#1710"]) + Decimal(mids["#1711"]) == 1
    assert Decimal(mids["@107"]) == pytest.approx(Decimal(mids["HYPE"]), rel=Decimal("0.01"))


def test_mids_are_those_of_the_world(exchange: Exchange) -> None:
    newest = told(2 * HOUR + 7 * STEP, Mid)[-len(DEFAULT_SYMBOLS) :]
    mids = ask(exchange, type="allMids")
    assert {mid.symbol: mid.price_e8 for mid in newest} == {name: to_units(mids[name], E8) for name in DEFAULT_SYMBOLS}


def test_the_markets_beside_the_perps_are_alive() -> None:
    exchange = at(HOUR)
    before = {**ask(exchange, type="allMids"), **ask(exchange, type="allMids", dex="xyz")}
    exchange.play_to(START + 2 * HOUR)
    after = {**ask(exchange, type="allMids"), **ask(exchange, type="allMids", dex="xyz")}
    still = {name for name in before if before[name] == after[name]}
    assert still == {"MATIC", "RNDR", "FTM", "MKR"}


def test_a_world_without_hype_still_has_its_spot_pair() -> None:
    exchange = Exchange(World(7, start=START, symbols=("BTC",)), now=START, amend=lambda rows, now: rows)
    assert 20 < float(ask(exchange, type="allMids")["@107"]) < 60


def test_the_builders_dex_has_its_own_everything(exchange: Exchange) -> None:
    null, dex = ask(exchange, type="perpDexs")
    assert (null, types(dex), dex["name"]) == (None, DEX, "xyz")
    meta, contexts = ask(exchange, type="metaAndAssetCtxs", dex="xyz")
    names = [row["name"] for row in meta["universe"]]
    assert "xyz:TSLA" in names
    assert [name for name, _ in dex["assetToStreamingOiCap"]] == names
    assert all(types(context) == CONTEXT for context in contexts)
    assert list(ask(exchange, type="allMids", dex="xyz")) == names
    assert ask(exchange, type="l2Book", coin="xyz:TSLA")["levels"][0]
    candles = {"coin": "xyz:TSLA", "interval": "1m", "startTime": START}
    assert len(ask(exchange, type="candleSnapshot", req=candles)) >= 120


def test_spot_meta_has_indices_that_are_no_positions(exchange: Exchange) -> None:
    spot = ask(exchange, type="spotMeta")
    assert all(types(row) == PAIR for row in spot["universe"])
    assert all(types(row) == TOKEN for row in spot["tokens"])
    assert [row["index"] for row in spot["universe"]] != list(range(len(spot["universe"])))
    assert {row["name"] for row in spot["universe"]} <= ask(exchange, type="allMids").keys()


def test_predictions_have_gaps_and_intervals_of_their_own(exchange: Exchange) -> None:
    rows = ask(exchange, type="predictedFundings")
    assert [coin for coin, _ in rows] == sorted([*DEFAULT_SYMBOLS, "MATIC", "RNDR", "FTM", "MKR"])
    slots = {(coin, venue): slot for coin, venues in rows for venue, slot in venues}
    assert [[venue for venue, _ in venues] for _, venues in rows] == [["BinPerp", "HlPerp", "BybitPerp"]] * len(rows)
    assert slots["kPEPE", "BybitPerp"] is None and slots["MATIC", "BinPerp"] is None
    assert types(slots["BTC", "BinPerp"]) == PREDICTION
    assert "fundingIntervalHours" not in slots["DOGE", "BinPerp"]
    assert {slot["fundingIntervalHours"] for slot in slots.values() if slot and len(slot) == 3} == {1, 4, 8}
    assert all(START + 2 * HOUR < slot["nextFundingTime"] <= START + 8 * HOUR for slot in slots.values() if slot)


def test_funding_history_is_that_of_the_world_some_milliseconds_late(exchange: Exchange) -> None:
    rows = ask(exchange, type="fundingHistory", coin="SOL", startTime=START)
    settled = [each for each in told(2 * HOUR, FundingRate) if each.symbol == "SOL"]
    assert len(rows) == len(settled) == 2
    for row, rate in zip(rows, settled, strict=True):
        assert types(row) == FUNDING
        assert 0 <= row["time"] - rate.bucket_ts < 100
        assert (to_units(row["fundingRate"], E12), to_units(row["premium"], E12)) == (rate.rate_e12, rate.premium_e12)
    assert any(row["time"] % HOUR for row in rows)


def test_funding_is_not_there_before_its_time() -> None:
    """At the full hour itself the rate is still to be booked."""
    exchange = at(HOUR)
    assert ask(exchange, type="fundingHistory", coin="BTC", startTime=START) == []
    exchange.play_to(START + HOUR + STEP)
    assert len(ask(exchange, type="fundingHistory", coin="BTC", startTime=START)) == 1


def test_funding_comes_in_pages_of_500() -> None:
    exchange = Exchange(World(7, start=START, symbols=("BTC",)), now=START + 30 * DAY, amend=lambda rows, now: rows)
    page = ask(exchange, type="fundingHistory", coin="BTC", startTime=START)
    assert len(page) == 500
    rest = ask(exchange, type="fundingHistory", coin="BTC", startTime=page[-1]["time"] + 1)
    hours = [row["time"] // HOUR * HOUR for row in page + rest]
    # The last hour's rate is booked some milliseconds after now.
    assert hours == list(range(START + HOUR, START + 30 * DAY, HOUR))
    last = page[-1]["time"]
    assert ask(exchange, type="fundingHistory", coin="BTC", startTime=last, endTime=last) == page[-1:]


def test_candles_are_those_of_the_world(exchange: Exchange) -> None:
    finals = [each for each in told(2 * HOUR, Candle) if each.symbol == "kPEPE"]
    rows = ask(exchange, type="candleSnapshot", req={"coin": "kPEPE", "interval": "1m", "startTime": START})
    assert all(types(row) == CANDLE for row in rows)
    for row, candle in zip(rows, finals, strict=False):
        assert (row["t"], row["T"], row["s"], row["i"]) == (candle.bucket_ts, candle.end - 1, "kPEPE", "1m")
        prices = (candle.open_e8, candle.close_e8, candle.high_e8, candle.low_e8)
        assert tuple(to_units(row[key], E8) for key in "ochl") == prices
        assert (float(row["v"]), row["n"]) == (candle.volume_base, candle.sample_count)
    assert any(row["n"] == 0 and row["v"] == "0.0" for row in rows[:-1]), "a minute without trades is a flat row"
    assert len(rows) - len(finals) == 1 and rows[-1]["t"] == START + 2 * HOUR, "the forming bar is the last"


@pytest.mark.parametrize("interval", ["1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h"])
def test_the_bar_that_holds_the_start_time_is_there(exchange: Exchange, interval: str) -> None:
    wanted = {"coin": "BTC", "interval": interval, "startTime": START + 61 * MINUTE + 1}
    rows = ask(exchange, type="candleSnapshot", req=wanted)
    assert rows[0]["t"] <= wanted["startTime"] <= rows[0]["T"]
    assert [row["t"] for row in rows[1:]] == [row["T"] + 1 for row in rows[:-1]]
    assert rows[-1]["t"] <= exchange.now <= rows[-1]["T"]


def test_an_end_time_cuts(exchange: Exchange) -> None:
    span = {"coin": "BTC", "interval": "1m", "startTime": START + HOUR, "endTime": START + HOUR + 2 * MINUTE}
    rows = ask(exchange, type="candleSnapshot", req=span)
    assert [row["t"] for row in rows] == [START + HOUR, START + HOUR + MINUTE, START + HOUR + 2 * MINUTE]


def test_only_the_newest_5000_bars_exist() -> None:
    exchange = Exchange(World(7, start=START, symbols=("BTC",)), now=START + 4 * DAY, amend=lambda rows, now: rows)
    wanted = {"coin": "BTC", "interval": "1m", "startTime": START}
    rows = ask(exchange, type="candleSnapshot", req=wanted)
    assert len(rows) == 5_000
    assert rows[-1]["t"] == START + 4 * DAY
    for minute in range(6_000):
        exchange.play_to(exchange.now + MINUTE)
        if minute % 1_000 == 0:
            rows = ask(exchange, type="candleSnapshot", req=wanted)
            assert (len(rows), rows[-1]["t"]) == (5_000, exchange.now)


def test_rows_add_weight() -> None:
    candles = decode_request(b'{"type":"candleSnapshot","req":{"coin":"BTC","interval":"1m","startTime":0}}')
    funding = decode_request(b'{"type":"fundingHistory","coin":"BTC","startTime":0}')
    assert [request_weight(candles, rows) for rows in (0, 1, 60, 61, 1_440, 5_000)] == [20, 21, 21, 22, 44, 104]
    assert [request_weight(funding, rows) for rows in (0, 20, 500)] == [20, 21, 45]
    light = [b'{"type":"allMids"}', b'{"type":"l2Book","coin":"BTC"}', b'{"type":"exchangeStatus"}']
    assert [request_weight(decode_request(body), 9) for body in light] == [2, 2, 2]
    heavy = [b'{"type":"%s"}' % kind for kind in (b"meta", b"metaAndAssetCtxs", b"spotMeta", b"predictedFundings")]
    assert [request_weight(decode_request(body), 9) for body in heavy] == [20, 20, 20, 20]


def test_beyond_1200_a_minute_of_the_world_comes_429() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            assert [(await client.ask({"type": "meta"}))[0] for _ in range(60)] == [200] * 60
            assert await client.ask({"type": "exchangeStatus"}) == (429, "null")
            assert (await client.ask({"type": "worldClock"}))[0] == 200
            elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
            async with aiohttp.ClientSession(connector=elsewhere) as session:
                other = Client(client.server, client.url, session)
                assert (await other.ask({"type": "meta"}))[0] == 200
            await client.server.advance(START + MINUTE - STEP)
            assert (await client.ask({"type": "meta"}))[0] == 429
            await client.server.advance(START + MINUTE)
            assert (await client.ask({"type": "meta"}))[0] == 200

    run(scenario())


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("{", 422, "Failed to deserialize the JSON body into the target type"),
        ('{"type":"nothing"}', 422, "Failed to deserialize the JSON body into the target type"),
        ('{"type":"l2Book","coin":7}', 422, "Failed to deserialize the JSON body into the target type"),
        ('{"type":"l2Book","coin":"BTC","nSigFigs":9}', 422, "Failed to deserialize"),
        ('{"type":"l2Book","coin":"BTC","nSigFigs":4,"mantissa":5}', 422, "Failed to deserialize"),
        ('{"type":"l2Book","coin":"NOPE"}', 200, "null"),
        ('{"type":"l2Book","coin":"nope:NOPE"}', 200, "null"),
        ('{"type":"candleSnapshot","req":{"coin":"NOPE","interval":"1m","startTime":0}}', 500, "null"),
        ('{"type":"candleSnapshot","req":{"coin":"#1710","interval":"1m","startTime":0}}', 500, "null"),
        ('{"type":"candleSnapshot","req":{"coin":"BTC","interval":"7m","startTime":0}}', 422, "Failed to deserialize"),
        ('{"type":"candleSnapshot","req":{"coin":"MATIC","interval":"1m","startTime":0}}', 200, "[]"),
        ('{"type":"fundingHistory","coin":"MATIC","startTime":0}', 200, "[]"),
        ('{"type":"fundingHistory","coin":"NOPE","startTime":0}', 500, "null"),
        ('{"type":"meta","dex":"nope"}', 500, "null"),
        ('{"type":"allMids","dex":"nope"}', 500, "null"),
    ],
)
def test_what_is_refused_and_how(body: str, status: int, text: str) -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            found = await client.ask(body)
            assert found[0] == status
            assert found[1].startswith(text)

    run(scenario())


def test_the_clock_of_the_world() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",), history_ms=HOUR + 1) as client:
            assert await client.get(type="worldClock") == {"now": START + HOUR, "speed": 0.0}
            await client.server.advance(START + HOUR + 7_001)
            assert (await client.get(type="worldClock"))["now"] == client.server.now == START + HOUR + 7_001
            assert await client.get(type="exchangeStatus") == {"specialStatuses": None, "time": client.server.now}
            with pytest.raises(ValueError, match="cannot go back"):
                await client.server.advance(START)

    run(scenario())


def test_answers_over_http_have_the_right_type() -> None:
    async def scenario() -> None:
        async with serving(symbols=("BTC",)) as client:
            kinds = []
            for body in ('{"type":"meta"}', "{"):
                async with client.session.post(f"{client.url}/info", data=body) as found:
                    kinds.append(found.content_type)
            assert kinds == ["application/json", "text/plain"]

    run(scenario())
