"""Two of three sources away for hours: agents go on deciding, blocks are told to be stale, and all of it comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tapebook
from tapebook.api.market import ALL_SOURCES
from tapebook.clock import VirtualClock
from tapebook.desk.demo import VirtualDesk
from tapebook.desk.health import health_checks
from tapebook.domain.agent import AgentProfile
from tapebook.domain.units import HOUR, MINUTE, SECOND, parse_instant
from tapebook.home import make_home
from tapebook.ingest.stepwise import SteppedFeed
from tapebook.report.market import asset_context_view
from tapebook.tape.view import View
from tapebook.tick.story import deploy_agent
from tapebook.wiring import Rooms
from tapebook.world.market import World
from tapebook.world.server import Faults

BORN = parse_instant("2026-01-05T00:00:00Z")
START = BORN + HOUR
DOWN, UP = START + 40 * MINUTE, START + 4 * HOUR
END = UP + 15 * MINUTE
# The servers that are away, and the blocks that nobody else feeds.
OUTAGES = {
    "polymarket and defillama": (("gamma", "clob", "llama", "stablecoins"), {"predictionMarkets", "macro"}),
    "polymarket and the requests of hyperliquid": (
        ("gamma", "clob", "info"),
        {"predictionMarkets", "liquidity", "funding"},
    ),
}


class Look(msgspec.Struct, frozen=True):
    """What a home shows at a moment: its blocks, how many ticks there were, and what others were asked."""

    at: int
    blocks: dict[str, Any]
    ticks: int
    asked: int

    @property
    def stale(self) -> set[str]:
        return {name for name, block in self.blocks.items() if block["stale"]}


class Outage:
    """A morning of one agent, seen every five minutes."""

    def __init__(self, rooms: Rooms, clock: VirtualClock, servers: tuple[str, ...], starved: set[str]) -> None:
        self.rooms, self.servers, self.starved = rooms, servers, starved
        self.looks: list[Look] = []
        rooms.book.save_agent(AgentProfile("watcher", ("BTC",), engine="trend"), at=START)
        asyncio.run(self._play(clock))

    async def _play(self, clock: VirtualClock) -> None:
        faults = Faults(down=tuple((server, DOWN, UP) for server in self.servers))
        world = World(7, start=BORN, symbols=("BTC", "ETH"))
        async with SteppedFeed(self.rooms, clock, world, history_ms=HOUR, faults=faults) as feed:
            desk = VirtualDesk(self.rooms, [deploy_agent(self.rooms.book, self.rooms.clock, "watcher")], clock)
            await feed.play_step(START)
            # Long steps: a morning in steps of five seconds takes a minute, and shows the same.
            for at in range(START + 5 * SECOND, END + 1, 5 * MINUTE):
                desk.decide_after_waits(before=at)
                await feed.play_step(at)
                desk.do_due_work()
                blocks = asset_context_view(
                    self.rooms.tape, "BTC", view=View(at), horizon="intraday", sources=ALL_SOURCES
                )
                self.looks.append(Look(at, dict(blocks), desk.ticks, len(feed._server._beside.asked)))

    def between(self, first: int, last: int) -> list[Look]:
        return [look for look in self.looks if first <= look.at < last]


@pytest.fixture(scope="module", params=list(OUTAGES))
def outage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    folder: Path = tmp_path_factory.mktemp("outage") / "home"
    make_home(folder, sources=ALL_SOURCES)
    clock = VirtualClock(START)
    with closing(Rooms(folder, clock=clock)) as rooms:
        yield Outage(rooms, clock, *OUTAGES[request.param])


def test_every_tick_is_made_and_decided(outage: Outage) -> None:
    assert [look.ticks for look in outage.looks] == list(range(1, len(outage.looks) + 1))
    with tapebook.open(outage.rooms.home, clock=VirtualClock(END)) as book:
        runs = book.runs("watcher", most=1_000)
    assert len(runs) == len(outage.looks) and {run["status"] for run in runs} == {"done", "held"}


def test_blocks_are_kept_and_marked_stale_and_no_others_are(outage: Outage) -> None:
    assert not [look for look in outage.between(START, DOWN) if look.stale]
    late = outage.between(START + 3 * HOUR + MINUTE, UP)
    assert late and all(look.stale == outage.starved for look in late)
    assert all(look.stale <= outage.starved for look in outage.looks)
    for name in outage.starved:
        old = {late[0].blocks[name]["at"], late[-1].blocks[name]["at"]}
        assert len(old) == 1, "the last that was heard"


def test_servers_that_are_away_are_asked_ever_more_seldom(outage: Outage) -> None:
    during = outage.between(START + 3 * HOUR, START + 4 * HOUR - MINUTE)
    # Every ten minutes each source; one that is there is asked its eight questions an hour.
    assert during[-1].asked - during[0].asked <= 12


def test_within_minutes_all_of_it_is_fresh_again_and_nobody_was_asked_too_much(outage: Outage) -> None:
    assert outage.looks[-1].stale == set()
    assert not [each for each in outage.rooms.tape.problems(since=0) if each.problem.kind == "limited"]
    channels = [check for check in health_checks(outage.rooms) if check.name.startswith("channel ")]
    assert len(channels) == 15 and all(check.ok for check in channels)
    gaps = {each.gap.channel: each.gap for each in outage.rooms.tape.gaps(as_of=END + 1) if each.gap.to_ts >= UP}
    assert (gaps["immediate_markets"].from_ts, gaps["immediate_markets"].to_ts) == (START + HOUR, UP)
