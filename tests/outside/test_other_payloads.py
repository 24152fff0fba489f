"""Recorded answers of Polymarket and DefiLlama through the readers of their sources: all of them parse.

Runs where TAPEBOOK_OUTSIDE_DATA names a folder beside which `facts/wire` lies; nothing of it is part of this project.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tapebook.sources.defillama.wire import read_chains, read_overview, read_protocols, read_stablecoins
from tapebook.sources.polymarket.markets import market_state
from tapebook.sources.polymarket.wire import probability, read_books, read_market, read_page

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
