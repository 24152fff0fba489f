"""Recorded answers of the exchange through the readers of the source: all of them parse, and mean what they say.

Runs where TAPEBOOK_OUTSIDE_DATA names the folder of recorded data; nothing of it is part of this project.
"""

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tapebook.domain.units import E8, E12, HOUR, to_units
from tapebook.sources.hyperliquid import wire
from tapebook.sources.hyperliquid.books import FULL, book_of, liquidity_of
from tapebook.sources.hyperliquid.contexts import contexts_of, funding_of
from tapebook.sources.hyperliquid.prices import MidStream
from tapebook.sources.hyperliquid.settings import HyperliquidSourceSettings
from tapebook.sources.hyperliquid.universe import ListedNames
from tapebook.sources.hyperliquid.wire import MidsFrame, read_frame

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def outside() -> Path:
    """The folder of recorded data."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"])


@pytest.fixture(scope="module")
def misc(outside: Path) -> Path:
    """Single answers as files."""
    return outside / "payloads" / "hyperliquid_misc"


def cassettes(outside: Path) -> list[tuple[dict[str, Any], bytes]]:
    """All recorded questions with their answers."""
    found = []
    for path in sorted((outside / "payloads" / "hyperliquid_sdk_cassettes").glob("*.yaml")):
        text = path.read_text()
        questions = re.findall(r"- request:\s+body: '(.*?)'\n    headers", text, re.DOTALL)
        replies = re.findall(r"response:\s+body:\s+string: '(.*?)'\n    headers", text, re.DOTALL)
        # Long texts are folded: a line break with its indentation stands for nothing in these.
        folded = [[re.sub(r"\n\s+", "", part) for part in parts] for parts in (questions, replies)]
        found += [(json.loads(question), reply.encode()) for question, reply in zip(*folded, strict=True)]
    return found


def replies(outside: Path, kind: str) -> list[tuple[dict[str, Any], bytes]]:
    """The recorded answers to one kind of question."""
    found = [(question, reply) for question, reply in cassettes(outside) if question["type"] == kind]
    assert found, f"nobody asked for {kind}"
    return found


def mids_frame(prices: dict[str, str]) -> MidsFrame:
    frame = read_frame(json.dumps({"channel": "allMids", "data": {"mids": prices}}))
    assert isinstance(frame, MidsFrame)
    return frame


@pytest.fixture(scope="module")
def contexts(misc: Path) -> wire.Perps:
    """A whole answer to `metaAndAssetCtxs`."""
    found = wire.read_contexts((misc / "hyperliquid_meta.json").read_bytes())
    assert isinstance(found, wire.Perps) and not found.problems
    return found


def all_mids(outside: Path) -> list[dict[str, str]]:
    """Every recorded map of mids."""
    single = json.loads((outside / "payloads" / "hyperliquid_misc" / "allMids_purrbook.json").read_bytes())
    socket = outside / "ledgers" / "hyperliquid_snapshots" / "webSocketDataSample" / "11-allMids.json.gz"
    recorded = json.loads(gzip.decompress(socket.read_bytes()))
    return [single, json.loads(replies(outside, "allMids")[0][1]), _mids_in(recorded)]


def _mids_in(value: Any) -> dict[str, str]:
    """The map of mids somewhere in a recording."""
    if isinstance(value, dict) and isinstance(value.get("mids"), dict):
        return dict(value["mids"])
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return next((found for each in inner if (found := _mids_in(each))), {})


def test_mids_are_exact(outside: Path) -> None:
    for prices in all_mids(outside):
        frame = mids_frame(prices)
        assert len(prices) > 20 and not frame.bad and frame.symbols == [*prices]
        # A mid between two neighbouring prices of eight decimals has nine: either of them is right.
        assert all(
            abs(price - to_units(prices[name], E8)) <= (len(prices[name].partition(".")[2]) > 8)
            for name, price in zip(frame.symbols, frame.prices_e8, strict=True)
        )


def test_delisted_perps_are_no_mids(outside: Path, contexts: wire.Perps) -> None:
    names = ListedNames(HyperliquidSourceSettings())
    names.learn_perps("", contexts.universe)
    found = {
        mid.symbol for mid in MidStream("", wanted=names.has_mid).mids_of_frame(mids_frame(all_mids(outside)[0]), at=0)
    }
    dead = {perp.name for perp in contexts.universe if perp is not None and perp.is_delisted}
    assert len(dead) == 39 and not dead & found
    assert {"BTC", "@107", "PURR/USDC"} <= found and not [name for name in found if name.startswith("#")]


def test_contexts_of_all_live_perps(contexts: wire.Perps) -> None:
    live = {perp.name for perp in contexts.universe if perp is not None and not perp.is_delisted}
    facts, problems = contexts_of(contexts, dex="", watched=live, bucket_ts=0)
    assert not problems and {fact.symbol for fact in facts} == live and len(live) == 190
    assert all(fact.mark_e8 > 0 and abs(fact.funding_e12) < 0.04 * E12 for fact in facts)


@pytest.mark.parametrize("coin", ["btc", "eth", "sol"])
def test_settled_rates_come_every_hour(misc: Path, coin: str) -> None:
    found = wire.read_funding((misc / f"hyperliquid_funding_{coin}.json").read_bytes())
    assert isinstance(found, wire.AnswerRows) and not found.problems
    rates, problems = funding_of(coin.upper(), found.good_rows(), until=2**62)
    assert not problems and len(rates) > 100
    hours = [rate.bucket_ts for rate in rates]
    assert hours == list(range(hours[0], hours[-1] + 1, HOUR))


def test_recorded_sessions_of_an_older_exchange_parse(outside: Path) -> None:
    for question, reply in replies(outside, "fundingHistory"):
        found = wire.read_funding(reply)
        assert isinstance(found, wire.AnswerRows) and not found.problems
        rates, problems = funding_of(question["coin"], found.good_rows(), until=2**62)
        assert rates and not problems
    for _, reply in replies(outside, "meta"):
        perps = wire.read_meta(reply)
        assert isinstance(perps, wire.Perps) and not perps.problems and perps.universe
    for question, reply in replies(outside, "candleSnapshot"):
        bars = wire.read_candles(reply)
        # These are hours: they are read, and refused as minutes one by one.
        assert question["req"]["interval"] == "1h"
        assert isinstance(bars, wire.AnswerRows) and not bars.good_rows() and len(bars.problems) > 10


def test_a_recorded_book_is_measured(outside: Path) -> None:
    for question, reply in replies(outside, "l2Book"):
        row = wire.read_book(reply)
        assert isinstance(row, wire.BookRow) and row.coin == question["coin"]
        book = book_of(row)
        assert book is not None
        found = liquidity_of(row.coin, {FULL: book}, bucket_ts=0)
        assert 0 < found.spread_bps < 100 and found.depth_usd_100bps > 0


def test_names_of_spot_pairs_and_of_an_older_universe_parse(outside: Path) -> None:
    snapshots = outside / "ledgers" / "hyperliquid_snapshots"
    pairs = wire.read_spot_meta(gzip.decompress((snapshots / "spotMeta.json.gz").read_bytes()))
    assert isinstance(pairs, wire.AnswerRows) and not pairs.problems
    assert [pair.index for pair in pairs.good_rows()] != list(range(len(pairs.rows))), "an index is no position"
    meta = gzip.decompress((snapshots / "hyperliquidNodeDataSample" / "info-endpoint" / "meta.json.gz").read_bytes())
    perps = wire.read_meta(meta)
    assert isinstance(perps, wire.Perps) and not perps.problems and perps.universe
