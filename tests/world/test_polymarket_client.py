"""Polymarket's own client against the stand-in: pages, searches, books and prices, without a parse error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tapebook.domain.units import HOUR, parse_instant
from tapebook.world.market import World
from tapebook.world.server import WorldServer

# Its hundreds of models take a second to import: every worker collects this file, and one runs it.
if TYPE_CHECKING:
    from polymarket import AsyncPublicClient

BORN = parse_instant("2026-01-05T00:00:00Z")


PREFIXES = {"gamma-api.polymarket.com": "gamma", "clob.polymarket.com": "clob"}


def send_to(url: str, patch: pytest.MonkeyPatch) -> None:
    """Sends what is meant for Polymarket's servers to the stand-in: the client's addresses are its own."""
    send = httpx.AsyncHTTPTransport.handle_async_request
    stand_in = httpx.URL(url)

    async def redirected(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        path = f"/{PREFIXES[request.url.host]}".encode() + request.url.raw_path
        where = {"scheme": stand_in.scheme, "host": stand_in.host, "port": stand_in.port}
        request.url = request.url.copy_with(**where, raw_path=path)
        return await send(self, request)

    patch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", redirected)


def with_client(play: Callable[[AsyncPublicClient, WorldServer], Awaitable[None]]) -> None:
    from polymarket import AsyncPublicClient

    async def run() -> None:
        server = WorldServer(World(7, start=BORN), history_ms=2 * HOUR, page_size=30)
        url = await server.start()
        await server.advance(BORN + 2 * HOUR)
        try:
            with pytest.MonkeyPatch.context() as patch:
                send_to(url, patch)
                async with AsyncPublicClient() as client:
                    await play(client, server)
        finally:
            await server.stop()

    asyncio.run(run())


def listed(server: WorldServer) -> list[dict[str, Any]]:
    return server._beside._predictions.events()


async def every_page(pages: Any) -> list[Any]:
    return [item async for page in pages for item in page.items]


def test_it_walks_all_pages_of_events_and_markets() -> None:
    async def play(client: AsyncPublicClient, server: WorldServer) -> None:
        for closed in (False, True):
            expected = [event for event in listed(server) if event["closed"] is closed]
            events = await every_page(client.list_events(closed=closed, tag_slug="crypto", page_size=100))
            tagged = {each["id"] for each in expected if any(tag["slug"] == "crypto" for tag in each["tags"])}
            assert {event.id for event in events} == tagged and len(events) == len(tagged) > 1
            questions = {market.question for event in events for market in event.markets}
            markets = await every_page(client.list_markets(closed=closed, page_size=50))
            open_ones = {m["id"] for e in listed(server) for m in e["markets"] if m["closed"] is closed}
            assert {market.id for market in markets} == open_ones and questions <= {each.question for each in markets}

    with_client(play)


def test_it_searches_page_by_page() -> None:
    async def play(client: AsyncPublicClient, server: WorldServer) -> None:
        found = await every_page(client.search(q="bitcoin", events_status="active", page_size=5))
        ids = [event.id for result in found for event in result.events]
        hits = [each["id"] for each in listed(server) if not each["closed"] and "bit" in each["title"].casefold()]
        assert ids == hits and len(ids) > 10

    with_client(play)


def test_it_reads_books_midpoints_prices_and_spreads() -> None:
    from polymarket.errors import RequestRejectedError

    async def play(client: AsyncPublicClient, server: WorldServer) -> None:
        (page, *_) = [page async for page in client.list_markets(closed=False, page_size=20)]
        priced = [market for market in page.items if market.outcomes.yes.price is not None]
        tokens = [str(market.outcomes.yes.token_id) for market in priced]
        books = await client.get_order_books(token_ids=tokens)
        assert {book.asset_id for book in books} == set(tokens)
        for book in books:
            # The client says so too: the best price is the last one.
            assert book.bids[-1].price == max(level.price for level in book.bids) < book.asks[-1].price
            assert book.tick_size in (Decimal("0.01"), Decimal("0.001"), Decimal("0.0025"))
        token = tokens[0]
        book = await client.get_order_book(token_id=token)
        mid, spread = await client.get_midpoint(token_id=token), await client.get_spread(token_id=token)
        bid = await client.get_price(token_id=token, side="BUY")
        assert bid == book.bids[-1].price and bid < mid < bid + spread
        # In the order of the tokens: the client's answers are typed by an id of its own.
        assert next(iter((await client.get_midpoints(token_ids=tokens)).values())) == mid
        assert next(iter((await client.get_spreads(token_ids=tokens)).values())) == spread
        assert (await client.get_last_trade_price(token_id=token)) is not None
        with pytest.raises(RequestRejectedError):
            await client.get_order_book(token_id="7" * 70)

    with_client(play)
