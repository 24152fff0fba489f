"""A perp that the exchange delists while it is held: over the sockets to the tape, and from there to the account."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tapebook.clock import VirtualClock
from tapebook.domain.agent import AgentProfile, Deployment
from tapebook.domain.market import Delisting
from tapebook.domain.position import ClosedTrade
from tapebook.domain.units import E8, HOUR, MINUTE, parse_instant
from tapebook.home import make_home
from tapebook.ingest.stepwise import STEP_MS, SteppedFeed
from tapebook.lab.replay import replay_runs
from tapebook.tape.view import View
from tapebook.wiring import Rooms
from tapebook.world.market import World
from tests.db.places import sql
from tests.desk.desks import Desk, desk, reply

BORN = parse_instant("2026-01-05T00:00:00Z")
START = BORN + HOUR
GONE = START + 5 * MINUTE + 20_000
SYMBOLS = ("BTC", "DOGE")
AGENT = AgentProfile("a", SYMBOLS, cadence_ms=5 * MINUTE)
LIMIT = {"order_type": "limit", "symbol": "DOGE"}


@contextmanager
def opened(home: Path) -> Iterator[Desk]:
    clock = VirtualClock(START)
    rooms = Rooms(home, clock=clock)
    try:
        yield Desk(rooms, clock)
    finally:
        rooms.close()


async def play(floor: Desk, agent: Deployment, *, until: int) -> None:
    """The market over sockets up to a moment, from where the tape ends, with what a desk does between ticks."""
    world = World(7, start=BORN, symbols=SYMBOLS)
    async with SteppedFeed(floor.rooms, floor.clock, world, history_ms=HOUR, delistings={"DOGE": GONE}) as feed:
        for at in range(feed.next_step(), until + 1, STEP_MS):
            await feed.play_step(at)
            floor.work(agent)


def ended(floor: Desk, agent: Deployment) -> list[ClosedTrade]:
    return floor.rooms.book.closed_trades(agent.id, seq=floor.rooms.book.head(agent.id), most=9)


def test_position_ends_at_the_settlement_price_over_the_wire(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    with opened(home) as floor:
        agent = floor.hire(AGENT)
        asyncio.run(play(floor, agent, until=START + MINUTE))
        floor.say(agent, reply("open", "long", 500, symbol="DOGE"), symbol="DOGE")
        asyncio.run(play(floor, agent, until=START + 2 * MINUTE))
        (held,) = floor.held(agent)
        mid = floor.rooms.tape.last_price("DOGE", view=View(floor.clock.now()))
        assert held == "DOGE" and mid is not None
        low = round(mid.price_e8 / E8 * 0.985, 5)
        floor.say(agent, reply("open", "long", 200, limit_price=low, **LIMIT), symbol="DOGE")
        assert len(floor.working(agent)) == 1
        asyncio.run(play(floor, agent, until=GONE - STEP_MS))
        assert floor.held(agent) and floor.rooms.tape.delistings.newest("DOGE", view=View(floor.clock.now())) is None
    # Another process goes on, which has never seen the perp listed.
    with opened(home) as floor:
        asyncio.run(play(floor, agent, until=GONE + 2 * MINUTE))
        gone = floor.rooms.tape.delistings.newest("DOGE", view=View(floor.clock.now()))
        assert gone is not None and GONE <= gone.known_at <= GONE + MINUTE
        (closed,) = ended(floor, agent)
        assert (closed.exit_reason, closed.exit_run_id, closed.exit_tick_at) == ("delisted", None, gone.known_at)
        fills = floor.rooms.book_db.all(sql("SELECT price_e8, fee_usd_e6, client_id FROM fills ORDER BY seq"))
        assert fills[-1] == (gone.settlement_e8, 0, None)
        assert floor.order(agent) == ("cancelled", "delisted") and floor.working(agent) == []
        # What was known before is known no differently now.
        assert floor.rooms.tape.delistings.newest("DOGE", view=View(gone.known_at - 1)) is None
        floor.later(3 * MINUTE)
        run = floor.say(agent, reply("open", "long", 100, symbol="DOGE"), symbol="DOGE")
        assert (run.status, run.verdicts[0].rule) == ("rejected", "R18_DELISTED")
        assert run.verdicts[0].detail.startswith("DOGE is not listed any more; positions in it were settled at 0.")
        runs = floor.rooms.book.run_ids(most=9)
        assert replay_runs(floor.rooms, runs, progress=lambda _: None).different == []
        assert floor.is_whole()
    # It is told once, however often a source starts and says it again.
    with opened(home) as floor:
        asyncio.run(play(floor, agent, until=GONE + 10 * MINUTE))
        assert floor.rooms.tape_db.all(sql("SELECT COUNT(*) FROM tape_delistings")) == [(1,)]
        assert len(ended(floor, agent)) == 1


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path / "home") as opened:
        yield opened


def delist(floor: Desk, symbol: str, price: float | None) -> None:
    settlement = None if price is None else round(price * E8)
    floor.rooms.tape.commit([Delisting(symbol, floor.clock.now(), settlement)])


def test_order_on_its_way_is_stopped_at_the_gate_and_at_the_broker(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "long", 500))
    assert floor.order(agent) == ("placed", "")
    delist(floor, "BTC", 99)
    floor.later(1_000)
    floor.work(agent)
    assert floor.order(agent) == ("cancelled", "delisted") and floor.held(agent) == {} and floor.is_whole()


def test_other_symbols_are_not_touched(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    floor.say(agent, reply("open", "short", 500))
    floor.say(agent, reply("open", "long", 500, symbol="ETH"), symbol="ETH")
    floor.later(10_000, BTC=100, ETH=10)
    floor.work(agent)
    delist(floor, "BTC", 90)
    floor.later(10_000, ETH=10)
    floor.work(agent)
    assert floor.held(agent).keys() == {"ETH"}
    (closed,) = ended(floor, agent)
    # Ten dollars a piece gained on five sold short, less what the entry cost.
    assert closed.exit_reason == "delisted" and 49_000_000 < closed.state.realised_usd_e6 < 51_000_000
    assert floor.is_whole()


def test_perp_that_is_listed_again_can_be_traded(floor: Desk) -> None:
    agent = floor.hire()
    floor.quote(BTC=100, ETH=10)
    delist(floor, "BTC", 99)
    floor.later(1_000, BTC=100)
    assert floor.say(agent, reply("open", "long", 500)).verdicts[0].rule == "R18_DELISTED"
    delist(floor, "BTC", None)
    floor.later(1_000, BTC=100)
    assert floor.say(agent, reply("open", "long", 500)).status == "placed"
    floor.later(10_000, BTC=100)
    floor.work(agent)
    assert floor.held(agent) == {"BTC": 500_000_000}
