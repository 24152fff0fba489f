"""The hourly snapshot of DefiLlama: each trap of its answers has a test that fails without its handling."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tapebook.domain.market import FeatureRow, RegistryRecord
from tapebook.domain.units import DAY, HOUR, MINUTE, parse_instant
from tapebook.ingest.ingester import FactBuffer, PendingFacts
from tapebook.sources.defillama.snapshot import (
    DefiLlamaSnapshot,
    SnapshotSettings,
    flow_word,
)
from tapebook.sources.defillama.wire import (
    chain_by_symbol,
    read_chains,
    read_history,
    read_overview,
    read_protocols,
    read_stablecoins,
)
from tapebook.tape.registry import ASSET_SUBJECTS, GLOBAL_SUBJECT, MACRO_CHANNELS, macro_rows
from tapebook.tape.view import View

NOW = parse_instant("2026-03-20T10:00:00Z")
SETTINGS = SnapshotSettings("http://l", "http://s", 10, 10, 10)

CHAINS = [
    {"name": "Binance", "tokenSymbol": "BNB", "tvl": 0, "chainId": None},
    {"name": "BSC", "tokenSymbol": "BNB", "tvl": 7.2e9, "chainId": "56"},
    {"name": "Bitcoin", "tokenSymbol": "BTC", "tvl": 6e9, "chainId": None},
    {"name": "Base", "tokenSymbol": None, "tvl": 4.6e9},
    {"name": "Unichain", "tokenSymbol": "-", "tvl": 4e8},
    {"name": "Hyperliquid L1", "tokenSymbol": "hype", "tvl": 1e9},
    {"name": "Odd", "tvl": "x"},
]
PROTOCOLS = [
    {"slug": "binance-cex", "name": "Binance CEX", "category": "CEX", "tvl": 1.8e11},
    {"slug": "base", "name": "Base", "category": "Chain", "tvl": 4.6e9},
    {
        **{"slug": "aave-v3", "name": "Aave V3", "category": "Lending", "symbol": "AAVE", "tvl": 2e10},
        **{"chains": ["Ethereum", "Binance", "Optimism"], "chainTvls": {"Ethereum": 2e10, "borrowed": 9e9}},
        **{"change_1d": None},
    },
    {"slug": "ghost", "name": "Ghost", "category": "Dexs", "tvl": None},
]
COINS: list[dict[str, Any]] = [
    {
        **{"id": "1", "name": "Tether", "symbol": "USDT", "pegType": "peggedUSD"},
        **{"circulating": {"peggedUSD": 1840.0}, "circulatingPrevDay": {"peggedUSD": 1800.0}},
        "circulatingPrevWeek": {"peggedUSD": 1700.0},
    },
    {
        **{"id": "50", "name": "Euro Coin", "symbol": "EURC", "pegType": "peggedEUR"},
        **{"circulating": {"peggedUSD": 40.0}, "circulatingPrevDay": {}, "circulatingPrevWeek": 30.0},
    },
]
OPEN = {
    "total24h": 14_300,
    "total7d": 93_100,
    "protocols": [
        {"defillamaId": "1", "slug": "hyperliquid-perps", "name": "H", "category": "Derivatives", "total24h": 8_000},
        {"defillamaId": "2", "slug": "trade-xyz", "name": "T", "category": "Interface", "total24h": 5_000},
        {"defillamaId": "3", "slug": "poly", "name": "P", "category": "Prediction Market", "total24h": 1_300},
    ],
}
VOLUME = {
    "total24h": 110,
    "total48hto24h": 100,
    "protocols": [{"defillamaId": "7", "slug": "uniswap-v3", "name": "U", "category": "Dexs", "total24h": 110}],
}
FEES = {
    "total24h": 60,
    "change_1d": 2.97,
    "protocols": [
        {"defillamaId": "chain#ethereum", "slug": "ethereum", "name": "E", "protocolType": "chain", "total24h": 60},
        {"defillamaId": "9", "name": "no total"},
    ],
}
HISTORY = [
    {"date": (NOW - 8 * DAY) // 1000, "tvl": 100.0},
    {"date": str((NOW - DAY) // 1000), "tvl": 110.0},
    {"date": NOW // 1000, "tvl": 121.0},
]
ANSWERS: dict[str, Any] = {
    **{"chains": CHAINS, "protocols": PROTOCOLS, "history": HISTORY, "stablecoins": {"peggedAssets": COINS}},
    **{"volume": VOLUME, "fees": FEES, "revenue": FEES, "openInterest": OPEN},
}


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def snapshot(now: int = NOW, answers: dict[str, Any] = ANSWERS, **options: Any) -> PendingFacts:
    """All answers taken, as the sink has them."""
    intake = FactBuffer()
    session = DefiLlamaSnapshot(SETTINGS, intake, **({"newest": None} | options))
    while (request := session.next_request(now)) is not None:
        assert session.handle_answer(request, body(answers[request.kind]), now) is None
    return intake.drain_pending()


def rows(found: PendingFacts) -> dict[tuple[str, str], dict[str, Any]]:
    facts = [fact for fact in found.facts if isinstance(fact, FeatureRow)]
    return {(fact.family, fact.symbol): json.loads(fact.metrics_json) for fact in facts}


def test_chains_share_symbols_and_the_largest_is_meant() -> None:
    named = chain_by_symbol(read_chains(body(CHAINS)))
    assert {symbol: row.name for symbol, row in named.items()} == {
        **{"BNB": "BSC", "BTC": "Bitcoin", "HYPE": "Hyperliquid L1"}
    }, "null and a dash are no symbols"


def test_exchanges_and_chains_are_no_protocols_and_parts_are_not_summed() -> None:
    (aave,) = read_protocols(body(PROTOCOLS))
    assert (aave.slug, aave.tvl, aave.change_1d) == ("aave-v3", 2e10, None)
    assert aave.chains == ("Ethereum", "BSC", "OP Mainnet"), "older names of chains are those of the list of chains"


def test_supply_lies_under_its_peg_or_any_key_and_may_be_empty_or_bare() -> None:
    tether, euro = read_stablecoins(body({"peggedAssets": COINS}))
    assert (tether.supply, tether.day_ago, tether.week_ago) == (1840.0, 1800.0, 1700.0)
    assert (euro.supply, euro.day_ago, euro.week_ago) == (40.0, None, 30.0)


def test_a_delisted_stablecoin_counts_no_more() -> None:
    gone = {**COINS[0], "id": "9", "delisted": True}
    assert [coin.id for coin in read_stablecoins(body({"peggedAssets": [*COINS, gone]}))] == ["1", "50"]


def test_a_perp_of_a_thousand_tokens_has_the_chain_of_the_token() -> None:
    class Registry:
        """Knows one chain."""

        def record(self, register: str, subject: str, *, view: View) -> SimpleNamespace | None:
            return SimpleNamespace(values={"subjects": ["chain/shibarium"]}) if subject == "SHIB" else None

    def facts(channel: str, subject: str, *, since: int, view: View) -> list[FeatureRow]:
        return [FeatureRow(subject, NOW, "{}", channel)]

    tape: Any = SimpleNamespace(registry=Registry(), feature_channels=frozenset(MACRO_CHANNELS), facts=facts)
    limits: Any = {"view": View(NOW), "since": NOW - DAY, "most": 1, "channels": MACRO_CHANNELS[:1]}
    assert [row.subject for row in macro_rows(tape, "kSHIB", **limits)] == [GLOBAL_SUBJECT, "chain/shibarium"]
    assert [row.subject for row in macro_rows(tape, "kas", **limits)] == [GLOBAL_SUBJECT]


def test_fees_and_revenue_are_joined_by_the_number_of_the_protocol() -> None:
    def earns(slug: str, total: int) -> dict[str, Any]:
        return {"total24h": total, "protocols": [{"defillamaId": "7", "slug": slug, "name": "U", "total24h": total}]}

    answers = ANSWERS | {"fees": earns("uniswap-v3", 60), "revenue": earns("uniswap-v3-1", 20)}
    found = rows(snapshot(answers=answers))
    assert found["economic_throughput", "protocol/uniswap-v3"] | {"volume24hUsd": ""} == {
        **{"name": "U", "category": "", "fees24hUsd": "60", "revenue24hUsd": "20", "volume24hUsd": ""}
    }


def test_dates_are_numbers_or_text_of_seconds() -> None:
    assert [at for at, _ in read_history(body(HISTORY))] == [NOW - 8 * DAY, NOW - DAY, NOW]


def test_totals_may_be_missing_and_open_interest_counts_venues_once() -> None:
    assert [row.id for row in read_overview(body(FEES)).rows] == ["chain#ethereum"]
    found = rows(snapshot())
    total = found["economic_throughput", GLOBAL_SUBJECT]
    assert total["openInterestUsd"] == "8000", "what front ends repeat, and sums over days, mean nothing"
    assert (total["volume24hUsd"], total["volumeChange1dPct"], total["feesChange1dPct"]) == ("110", "10.00", "2.97")
    assert ("economic_throughput", "protocol/trade-xyz") not in found
    assert found["economic_throughput", "chain/ethereum"]["fees24hUsd"] == "60"


def test_the_global_figure_is_that_of_chains() -> None:
    found = rows(snapshot())
    assert found["capital_base", GLOBAL_SUBJECT] == {"tvlUsd": "19200000000", "stablecoinSupplyUsd": "1880"}
    assert found["capital_flows", GLOBAL_SUBJECT] == {
        **{"stablecoinFlow24hUsd": "40", "stablecoinFlow7dUsd": "150", "chainFlowBias": "inflow"},
        **{"tvlChange1dPct": "10.00", "tvlChange7dPct": "21.00"},
    }


def test_chains_are_compared_with_the_tapes_own_row_of_a_day_ago() -> None:
    asked: list[tuple[str, int]] = []

    def tvl_at(subject: str, at: int) -> float | None:
        asked.append((subject, at))
        return 5e9 if subject == "chain/bitcoin" else None

    found = rows(snapshot(tvl_at=tvl_at))
    bitcoin = found["capital_flows", "chain/bitcoin"]
    assert (bitcoin["flow24hUsd"], bitcoin["flowBias"]) == ("1000000000", "inflow")
    assert found["capital_flows", "chain/bsc"]["flow24hUsd"] is None and ("chain/bitcoin", NOW - DAY) in asked


def test_assets_are_joined_to_their_chain_and_their_stablecoin() -> None:
    found = snapshot()
    joined = {
        fact.symbol: json.loads(fact.record_json)["subjects"]
        for fact in found.facts
        if isinstance(fact, RegistryRecord) and fact.register == ASSET_SUBJECTS
    }
    assert joined == {
        **{"BNB": ["chain/bsc"], "BTC": ["chain/bitcoin"], "HYPE": ["chain/hyperliquid-l1"]},
        **{"USDT": ["stablecoin/1"], "EURC": ["stablecoin/50"]},
    }
    assert found.kinds["chain/hyperliquid-l1"] == "chain" and found.kinds[GLOBAL_SUBJECT] == "global"


def test_it_is_once_an_hour_and_missed_hours_are_gaps() -> None:
    intake = FactBuffer()
    session = DefiLlamaSnapshot(SETTINGS, intake, newest=NOW - 3 * HOUR)
    assert DefiLlamaSnapshot(SETTINGS, intake, newest=NOW).next_request(NOW + 59 * MINUTE) is None
    while (request := session.next_request(NOW)) is not None:
        session.handle_answer(request, body(ANSWERS[request.kind]), NOW)
    gaps = intake.drain_pending().gaps
    assert {gap.channel for gap in gaps} == set(MACRO_CHANNELS)
    assert {(gap.from_ts, gap.to_ts) for gap in gaps} == {(NOW - 2 * HOUR, NOW)}
    assert session.next_request(NOW + MINUTE) is None and session.next_request(NOW + HOUR) is not None


@pytest.mark.parametrize("answer", [b"Internal Error", b"<html>", b"null", b"{}", b'{"total24h":null}', b"[", b'"x"'])
def test_what_is_no_answer_is_asked_for_again(answer: bytes) -> None:
    for kind in ANSWERS:
        intake = FactBuffer()
        session = DefiLlamaSnapshot(SETTINGS, intake, newest=None)
        while (request := session.next_request(NOW)) is not None and request.kind != kind:
            session.handle_answer(request, body(ANSWERS[request.kind]), NOW)
        assert request is not None and session.handle_answer(request, answer, NOW)
        assert session.next_request(NOW) == request and not len(intake)


def test_a_question_refused_for_good_leaves_the_hour_without_rows() -> None:
    intake = FactBuffer()
    session = DefiLlamaSnapshot(SETTINGS, intake, newest=None)
    request = session.next_request(NOW)
    assert request is not None
    session.skip_request(request, "404 Data not found", NOW)
    assert session.next_request(NOW + MINUTE) is None and not len(intake)
    assert session.next_request(NOW + HOUR) == request


@pytest.mark.parametrize(("change", "word"), [(0.49, "neutral"), (0.5, "inflow"), (-3.0, "outflow"), (None, None)])
def test_what_a_change_is_called(change: float | None, word: str | None) -> None:
    assert flow_word(change) == word


def test_paths_of_the_plan(tmp_path: Path) -> None:
    intake, asked = FactBuffer(), []
    session = DefiLlamaSnapshot(SETTINGS, intake, newest=None)
    while (request := session.next_request(NOW)) is not None:
        asked.append(request)
        session.handle_answer(request, body(ANSWERS[request.kind]), NOW)
    assert asked[0].url == "http://l/v2/chains", "the list without a version counts value twice"
    assert len(asked) == 8 and all("overview" not in each.url or len(each.params) >= 2 for each in asked)
    assert {dict(each.params).get("dataType") for each in asked if each.url.endswith("/fees")} == {
        *("dailyFees", "dailyRevenue")
    }
    assert not any("derivatives" in each.url for each in asked), "perp volume is for those who pay"
