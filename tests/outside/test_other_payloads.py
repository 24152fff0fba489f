"""Recorded answers of Polymarket and DefiLlama through the readers of their sources: all of them parse.

Runs where TAPEBOOK_OUTSIDE_DATA names a folder beside which `facts/wire` lies; nothing of it is part of this project.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tapebook.sources.defillama.wire import (
    read_chains,
    read_history,
    read_overview,
    read_protocols,
    read_stablecoins,
)
from tapebook.sources.polymarket.markets import market_state, winning_outcome
from tapebook.sources.polymarket.wire import probability, read_books, read_market, read_page, read_shifts

pytestmark = pytest.mark.outside


@pytest.fixture(scope="module")
def wire() -> Path:
    """The folder of recorded answers."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]).parent / "facts" / "wire"


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("name", ["gamma_events_crypto", "gamma_event_multi", "gamma_public_search_bitcoin"])
def test_pages_of_events(wire: Path, name: str) -> None:
    path = wire / "polymarket" / f"{name}.json"
    page = read_page(path.read_bytes())
    rows = load(path)
    rows = rows if isinstance(rows, list) else rows["events"]
    assert page.odd == 0 and [event.id for event in page.events] == [str(row["id"]) for row in rows]
    for event, row in zip(page.events, rows, strict=True):
        assert [market.id for market in event.markets] == [str(each["id"]) for each in row["markets"]]
        assert event.title and event.slug and all(market.question and market.tick for market in event.markets)
        assert all(len(market.outcomes) == len(market.tokens) == 2 for market in event.markets)


def test_a_page_of_the_command_line_client(wire: Path) -> None:
    page = read_page((wire / "polymarket" / "cli_public_search.json").read_bytes())
    assert page.odd == 0


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("gamma_market_btc_updown", "open"),
        ("gamma_market_closed", "final"),
        ("gamma_market_closed_accepting_true", "final"),
        ("cli_market_detail", None),
    ],
)
def test_single_markets(wire: Path, name: str, state: str | None) -> None:
    market = read_market(load(wire / "polymarket" / f"{name}.json"))
    assert market is not None and market.ends_at is not None and market.outcomes
    assert probability(market, 0) is not None or not market.prices
    assert state in (None, market_state(market))
    assert not market.closed or market.closed_at is not None


@pytest.mark.parametrize("name", ["clob_book", "clob_book_fed_chair", "cli_book"])
def test_books(wire: Path, name: str) -> None:
    row = load(wire / "polymarket" / f"{name}.json")
    (book,) = read_books(json.dumps(row).encode()).values()
    assert book.token == row["asset_id"]
    assert book.bid is None or float(book.bid) == float(row["bids"][-1]["price"]), "the best stands last"
    assert book.ask is None or float(book.ask) == float(row["asks"][-1]["price"])


def test_defillama(wire: Path) -> None:
    folder = wire / "defillama"
    chains = load(folder / "v2_chains.json")
    assert len(read_chains((folder / "v2_chains.json").read_bytes())) == len(chains)
    assert read_protocols((folder / "protocols.json").read_bytes())
    coins = read_stablecoins((folder / "stablecoins.json").read_bytes())
    assert coins and coins[0].symbol == "USDT" and coins[0].day_ago
    overview = read_overview((folder / "overview_dexs.json").read_bytes())
    assert overview.day > 0 and overview.rows


@pytest.fixture(scope="module")
def payloads() -> Path:
    """The folder of answers that other projects recorded."""
    return Path(os.environ["TAPEBOOK_OUTSIDE_DATA"]) / "payloads"


def unpack(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_lists_of_markets(payloads: Path) -> None:
    """Hundreds of markets of three years: every one is read, with two outcomes and a price for each there is."""
    rows = [*unpack(payloads / "gamma_markets_response.json.gz")]
    rows += unpack(payloads / "active_markets.json.gz")["markets"]
    assert len(rows) > 90
    for row in rows:
        market = read_market(row)
        assert market is not None and market.question and market_state(market)
        assert len(market.outcomes) >= 2 and len(market.prices) in (0, len(market.outcomes))
        assert all(probability(market, place) is not None for place in range(len(market.prices)))


def test_a_recorded_history(wire: Path) -> None:
    path = wire / "polymarket" / "cli_price_history.json"
    rows = load(path)
    points = rows["history"] if isinstance(rows, dict) else rows
    body = json.dumps({"history": points}).encode()
    assert len(read_shifts(body, until=max(int(row["t"]) for row in points) * 1000)) == 2


def test_totals_of_chains_and_protocols(payloads: Path) -> None:
    """The overview of a chain, and answers about one protocol each, which have the fields of an overview's row."""
    overview = read_overview(
        json.dumps(unpack(payloads / "defillama" / "defillama_all-ethereum-dexs.json.gz")).encode()
    )
    assert overview.day > 0 and len(overview.rows) > 50
    seen = 0
    for path in sorted((payloads / "defillama").glob("*.json.gz")):
        row = unpack(path)
        if not isinstance(row, dict) or "name" not in row or not isinstance(row.get("total24h"), int | float):
            continue
        (found,) = read_overview(
            json.dumps({"total24h": row["total24h"], "protocols": [{"defillamaId": "0", **row}]}).encode()
        ).rows
        assert found.day == row["total24h"] and found.name == row["name"]
        seen += "protocols" not in row
    assert seen > 20


def test_histories_of_protocols(payloads: Path) -> None:
    """Days of a protocol's value, and of its fees: each day is read, in order, whatever form its moment has."""
    values = charts = 0
    for path in sorted((payloads / "defillama").glob("*.json.gz")):
        row = unpack(path)
        days = [(each["date"], each["totalLiquidityUSD"]) for each in row.get("tvl") or ()]
        chart = [(at, total) for at, total in row.get("totalDataChart") or ()]
        for points in filter(None, (days, chart)):
            found = read_history(json.dumps([{"date": at, "tvl": total} for at, total in points]).encode())
            assert [at for at, _ in found] == sorted(at * 1000 for at, _ in points), path.name
            assert [*dict(found).values()] == [float(total) for _, total in sorted(points)], path.name
        values, charts = values + bool(days), charts + bool(chart)
    assert values > 10 and charts > 20


def clob_market(row: dict[str, Any], number: int) -> dict[str, Any]:
    """A definition of the CLOB in the words of Gamma."""
    prices = [str(token["price"]) for token in row["tokens"]]
    return {
        "id": str(number),
        "question": row["question"],
        "slug": row["market_slug"],
        "outcomes": json.dumps([token["outcome"] for token in row["tokens"]]),
        "outcomePrices": json.dumps(prices),
        "clobTokenIds": json.dumps([token["token_id"] for token in row["tokens"]]),
        "orderPriceMinTickSize": row["minimum_tick_size"],
        "endDate": row["end_date_iso"],
        "closed": row["closed"],
    }


def test_definitions_of_the_clob_say_the_same_winner(wire: Path, payloads: Path) -> None:
    """`winner` is the settlement: what our rule says of the prices of closed markets is never another outcome."""
    nautilus = payloads / "polymarket_nautilus"
    rows = [*unpack(payloads / "polymarket_raw_data.json.gz")["data"], *load(nautilus / "clob_markets.json")["data"]]
    rows += load(wire / "polymarket" / "clob_markets_page.json")["data"]
    rows += [load(path) for path in sorted(nautilus.glob("clob_market_closed*.json"))]
    rows += [load(wire / "polymarket" / f"clob_market{kind}.json") for kind in ("", "_closed")]
    settled = 0
    for number, row in enumerate(rows, 1):
        market = read_market(clob_market(row, number))
        assert market is not None and market.question and 0 < float(market.tick) <= 0.1
        assert len(market.outcomes) == len(market.tokens) == 2
        won = [token["outcome"] for token in row["tokens"] if token["winner"]]
        said = winning_outcome(market)
        # Recordings of the first year name no winner of markets that had one.
        assert said is None or not won or [said] == won, row["question"]
        settled += [said] == won
    assert settled > 10


def test_recorded_tags(wire: Path, payloads: Path) -> None:
    """Tags as an event carries them: every one that has a slug is known by it."""
    rows = [*load(wire / "polymarket" / "gamma_tags.json"), *load(payloads / "polymarket_nautilus" / "gamma_tags.json")]
    (event,) = read_page(json.dumps([{"id": "1", "tags": rows}]).encode()).events
    assert [*event.tags] == [row["slug"] for row in rows] and len(rows) >= 10


def test_recordings_of_another_adapter(payloads: Path) -> None:
    folder = payloads / "polymarket_nautilus"
    for name in ("gamma_event", "search_response"):
        page = read_page((folder / f"{name}.json").read_bytes())
        assert page.odd == 0 and page.events and all(event.markets for event in page.events)
    for path in sorted(folder.glob("gamma_market*.json")):
        row = load(path)
        market = read_market(row)
        assert market is not None and market.question and market_state(market), path.name
        assert (market_state(market) == "final") is row["closed"], path.name
    for name in ("clob_book_response", "ws_book_snapshot"):
        (book,) = read_books((folder / f"{name}.json").read_bytes()).values()
        assert (book.bid, book.ask, book.mid) == ("0.5", "0.51", "0.505")
