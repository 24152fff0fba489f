"""The hourly crawl against the world: pages, searches, books, faults and outages, in virtual time."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tapebook.clock import VirtualClock
from tapebook.desk.health import health_checks
from tapebook.domain.market import FeatureRow, RegistryRecord
from tapebook.domain.units import HOUR, MINUTE, SECOND, parse_instant
from tapebook.ingest.ingester import FactBuffer
from tapebook.sources import load_sources
from tapebook.sources._polling import HttpRequest
from tapebook.sources.polymarket.crawl import (
    EVENTS,
    LINKS,
    MARKETS,
    CrawlSettings,
    PolymarketCrawl,
)
from tapebook.tape.registry import ASSETS, PREDICTION_SUBJECTS
from tapebook.tape.source import Source, SourceContext
from tapebook.tape.view import NO_WATERMARK, View
from tapebook.wiring import Rooms
from tapebook.world.market import World
from tapebook.world.server import Faults, WorldServer
from tapebook.world.server.predictions import HOSTILE_TITLE

BORN = parse_instant("2026-01-05T00:00:00Z")
START = BORN + 2 * HOUR
SETTINGS = CrawlSettings("http://g", "http://c", "crypto", 48 * HOUR, 7 * 24 * HOUR, 3, 5, True)


class Desk:
    """A world with its servers, a home, and the source that asks them."""

    def __init__(self, rooms: Rooms, clock: VirtualClock, server: WorldServer, source: Source) -> None:
        self.rooms, self.clock, self.server, self.source = rooms, clock, server, source
        self.intake = FactBuffer()

    async def step(self, at: int) -> None:
        """Moves all of it to a moment and commits what the source brought."""
        self.clock.advance(at)
        await self.server.advance(at)
        await self.source.barrier(at)
        waiting = self.intake.drain_pending()
        self.rooms.tape.commit(waiting.facts, gaps=waiting.gaps, kinds=waiting.kinds)
        self.rooms.tape.note_problems(waiting.problems)

    def asked(self, path: str) -> list[str]:
        """The questions a path was asked."""
        return [query for asked, query in self.server._beside.asked if asked == path]

    def metrics(self, channel: str, symbol: str) -> dict[str, Any]:
        """The newest summary of an asset."""
        row = self.rooms.tape.newest(channel, PREDICTION_SUBJECTS + symbol, view=View(self.clock.now() + HOUR))
        assert row is not None
        found: dict[str, Any] = json.loads(row.metrics_json)
        return found


def played(tmp_path: Path, play: Callable[[Desk], Awaitable[None]], **options: Any) -> None:
    """Runs a test with a desk, in virtual time."""

    async def run() -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / "tapebook.toml").write_text('sources = ["hyperliquid", "polymarket"]\n', "utf-8")
        clock = VirtualClock(START - SECOND)
        rooms = Rooms(home, clock=clock)
        server = WorldServer(World(7, start=BORN), history_ms=2 * HOUR, **options)
        url = await server.start()
        await server.advance(START)
        (adapter,) = load_sources(["polymarket"])
        desk = Desk(rooms, clock, server, None)  # type: ignore[arg-type]
        context = SourceContext(desk.intake, rooms.tape, clock.now, lambda: 0.0, asyncio.sleep, url=url, stepped=True)
        desk.source = adapter.create(rooms.config.source_section("polymarket"), context)
        running = asyncio.create_task(desk.source.run())
        # A crawl waits for the first word of the exchange, of which the terms to search for are made.
        rooms.tape.commit([RegistryRecord("WORLD", START, '{"kind":"perp","live":true}', ASSETS)])
        try:
            await play(desk)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await server.stop()
            rooms.close()

    asyncio.run(run())


def test_a_crawl_walks_all_pages_searches_and_reads_books(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        pages = desk.asked("/gamma/events/keyset")
        assert len(pages) > 5 and all("closed=" in page and "limit=100" in page for page in pages)
        cursors = [page.partition("after_cursor=")[2] for page in pages if "after_cursor" in page]
        assert len(pages) - len(cursors) == 2, "the first page of each list is asked for once"
        assert len(set(cursors)) == len(cursors) and "offset" not in "".join(pages)
        listed = {event["id"] for event in desk.server._beside._predictions.events()}
        stored = desk.rooms.tape.registry.records(EVENTS, view=View(NO_WATERMARK))
        assert stored and set(stored) <= listed
        terms = {query.partition("q=")[2].partition("&")[0] for query in desk.asked("/gamma/public-search")}
        assert "bitcoin" in terms and not terms & {"op", "near", "link", "s", "me"}
        assert len(desk.asked("/clob/books")) == 1
        top = desk.metrics("immediate_markets", "BTC")["top"]
        assert any("bid" in row and float(row["bid"]) < float(row["ask"]) for row in top)
        assert {row["tick"] for row in top} <= {"0.01", "0.001", "0.0025"}
        assert desk.metrics("recently_closed_markets", "ETH")["top"][0]["won"] in ("Yes", "No")
        assert not [row for row in top if "5m" in row["question"]]
        checks = {check.name: check for check in health_checks(desk.rooms)}
        assert all(checks[f"channel {name}"].ok for name in ("immediate_markets", "later_markets"))

    played(tmp_path, play, page_size=20)


def test_9_midpoints_are_made_of_books_and_asked_of_nobody(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        rows = [row for row in desk.metrics("immediate_markets", "BTC")["top"] if "bid" in row]
        assert rows and all(2 * float(row["mid"]) == float(row["bid"]) + float(row["ask"]) for row in rows)
        assert not desk.asked("/clob/midpoint") + desk.asked("/clob/midpoints")

    played(tmp_path, play)


def test_10_a_history_is_asked_for_by_its_ends(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        asked = desk.asked("/clob/prices-history")
        assert len(asked) == 20 and not [query for query in asked if "interval" in query]
        assert all(f"startTs={(START - 25 * HOUR) // 1000}&endTs={START // 1000}" in query for query in asked)
        url = desk.source._session._settings.clob_url  # type: ignore[attr-defined]
        token = asked[0].partition("market=")[2].partition("&")[0]
        async with aiohttp.ClientSession(headers={"User-Agent": "Mozilla"}) as http:
            month = await (await http.get(f"{url}/prices-history?market={token}&interval=1m&fidelity=60")).json()
            assert len(month["history"]) > 700, "a month of hours, and not a minute"
            for span in ("endTs=1", f"startTs=0&endTs={START // 1000}", "interval=1m&fidelity=1"):
                assert (await http.get(f"{url}/prices-history?market={token}&{span}")).status == 400, span

    played(tmp_path, play)


def test_13_an_event_of_the_list_and_of_a_search_is_one() -> None:
    intake = FactBuffer()
    terms = {"BTC": ("bitcoin",)}
    crawl = PolymarketCrawl(SETTINGS, intake, terms=lambda: terms, newest=None)
    market = {"id": "1", "question": "Will Bitcoin be above $9?", "endDate": "2026-01-05T12:00:00Z", "volume24hr": 10}
    while (request := crawl.next_request(START)) is not None:
        # The search is newer than the list, and says that more was traded.
        newer = market | {"volume24hr": 12} if request.kind == "search" else market
        events = [{"id": "7", "title": "Bitcoin", "markets": [newer]}] if request.kind in ("open", "search") else []
        assert crawl.handle_answer(request, json.dumps({"events": events}).encode(), START) is None
    facts = intake.drain_pending().facts
    (row,) = [fact for fact in facts if isinstance(fact, FeatureRow) and fact.family == "immediate_markets"]
    assert json.loads(row.metrics_json) | {"top": 0} == json.loads(row.metrics_json) | {"top": 0, "markets": 1}
    assert json.loads(row.metrics_json)["volume24hUsd"] == "12" and len(crawl_events(facts)) == 1


def crawl_events(facts: list[Any]) -> list[str]:
    return [fact.symbol for fact in facts if isinstance(fact, RegistryRecord) and fact.register == EVENTS]


def test_it_is_done_once_an_hour_and_what_did_not_change_makes_no_version(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        asked, markets = len(desk.server._beside.asked), desk.rooms.tape.registry.records(MARKETS, view=View(START + 1))
        await desk.step(START + 30 * MINUTE)
        assert len(desk.server._beside.asked) == asked
        await desk.step(START + HOUR)
        assert len(desk.server._beside.asked) > asked
        again = desk.rooms.tape.registry.records(MARKETS, view=View(NO_WATERMARK))
        assert [again[number].seq for number in markets] == [markets[number].seq for number in markets]

    played(tmp_path, play)


def test_odds_follow_the_price_and_a_market_ends_with_it(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        rows = {row["id"]: row for row in desk.metrics("immediate_markets", "BTC")["top"]}
        assert any(0 < float(row["probability"]) < 1 for row in rows.values())
        ends = BORN + 17 * HOUR
        await desk.step(ends + MINUTE)
        states = desk.rooms.tape.registry.records(MARKETS, view=View(NO_WATERMARK))
        daily = [record.values for record in states.values() if record.values["endsAt"] == "2026-01-05T17:00:00.000Z"]
        assert (
            daily and {values["state"] for values in daily} == {"pending"} and {each["won"] for each in daily} == {None}
        )
        await desk.step(ends + 3 * HOUR)
        states = desk.rooms.tape.registry.records(MARKETS, view=View(NO_WATERMARK))
        daily = [record.values for record in states.values() if record.values["endsAt"] == "2026-01-05T17:00:00.000Z"]
        assert {values["state"] for values in daily} == {"final"} and {each["won"] for each in daily} <= {"Yes", "No"}
        before = desk.rooms.tape.registry.records(MARKETS, view=View(START + MINUTE))
        assert {before[number].values["state"] for number in before if number in states} >= {
            "open",
            "final",
            "disputed",
        }

    played(tmp_path, play)


def test_a_hostile_title_is_stored_as_it_is_and_is_only_data(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        await desk.step(START)
        titles = [
            each.values["title"] for each in desk.rooms.tape.registry.records(EVENTS, view=View(NO_WATERMARK)).values()
        ]
        assert HOSTILE_TITLE in titles
        links = desk.rooms.tape.registry.records(LINKS, view=View(NO_WATERMARK))
        assert {"BTC"} <= {asset for link in links.values() for asset in link.values["assets"]}

    played(tmp_path, play)


def test_an_outage_of_hours_is_a_gap_and_the_crawl_goes_on_where_it_stopped(tmp_path: Path) -> None:
    down = Faults(down=(("gamma", START + HOUR, START + 4 * HOUR),))

    async def play(desk: Desk) -> None:
        await desk.step(START)
        for minutes in range(60, 240, 5):
            await desk.step(START + minutes * MINUTE)
        # Asked again ever more seldom: thirty-six steps, far fewer questions.
        failed = desk.asked("/gamma/events/keyset")
        assert desk.source.connection_problem() is not None
        assert [check.ok for check in health_checks(desk.rooms) if check.name == "problems"] == [False]
        before = desk.rooms.tape.newest_buckets()["immediate_markets"]
        assert before < START + HOUR
        await desk.step(START + 4 * HOUR + 15 * MINUTE)
        assert desk.source.connection_problem() is None
        assert desk.rooms.tape.newest_buckets()["immediate_markets"] == START + 4 * HOUR + 15 * MINUTE
        (gap, *_) = [
            each.gap for each in desk.rooms.tape.gaps(as_of=NO_WATERMARK) if each.gap.channel == "later_markets"
        ]
        assert (gap.from_ts, gap.to_ts) == (START + HOUR, START + 4 * HOUR)
        assert len(failed) < 40

    played(tmp_path, play, faults=down)


def test_errors_and_limits_of_single_requests_are_met_with_patience(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        for minutes in range(0, 60):
            await desk.step(START + minutes * MINUTE)
        kinds = {fault.kind for fault in desk.server.injected_faults}
        assert {"too_many", "error"} <= kinds
        assert desk.metrics("immediate_markets", "BTC")["markets"] > 0

    played(tmp_path, play, faults=Faults(seed=3, too_many=0.02, error=0.02))


def test_a_list_that_repeats_its_cursor_is_left() -> None:
    intake = FactBuffer()
    crawl = PolymarketCrawl(SETTINGS, intake, terms=dict, newest=None)
    for _ in range(10):
        request = crawl.next_request(START)
        assert request is not None
        if request.kind != "open":
            break
        crawl.handle_answer(request, b'{"events":[{"id":"1"}],"next_cursor":"same"}', START)
    assert request is not None and request.kind == "closed"
    (problem,) = intake.drain_pending().problems
    assert problem.kind == "keyset"


def test_a_list_that_is_refused_for_good_leaves_the_hour_without_rows() -> None:
    intake = FactBuffer()
    crawl = PolymarketCrawl(SETTINGS, intake, terms=dict, newest=None)
    request = crawl.next_request(START)
    assert request == HttpRequest(
        "open",
        "http://g/events/keyset",
        (("tag_slug", "crypto"), ("closed", "false"), ("order", "id"), ("ascending", "true"), ("limit", "100")),
        None,
        "page 1",
    )
    crawl.skip_request(request, "404", START)
    assert not len(intake) and crawl.next_request(START + MINUTE) is None
    assert crawl.next_request(START + HOUR) is not None


@pytest.mark.parametrize("status", [404, 422])
def test_the_world_refuses_what_gamma_refuses(status: int, tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        url = desk.source._session._settings.gamma_url  # type: ignore[attr-defined]
        async with aiohttp.ClientSession(headers={"User-Agent": "Mozilla"}) as http:
            if status == 422:
                for query in ("offset=1", "order=volume_24hr", "after_cursor=!"):
                    answer = await http.get(f"{url}/events/keyset?closed=false&{query}")
                    assert answer.status == 422, query
                wrong = await (await http.get(f"{url}/events/keyset?closed=false&limit=5&cursor=abc")).json()
                first = await (await http.get(f"{url}/events/keyset?closed=false&limit=5")).json()
                assert wrong == first, "a cursor by another name gives the first page for ever"
            else:
                answer = await http.get(f"{url.replace('gamma', 'clob')}/book?token_id=7")
                assert answer.status == 404
        async with aiohttp.ClientSession() as plain:
            assert (await plain.get(f"{url}/events/keyset")).status == 403

    played(tmp_path, play)
