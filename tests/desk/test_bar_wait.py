"""A live decision waits until its newest bar is final, and says which minute is missing when it has waited enough."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tapebook.desk.scheduler import Scheduler
from tapebook.domain.agent import AgentProfile, ContextProfile
from tapebook.domain.market import Candle, Mid, Observation
from tapebook.domain.packet import Packet
from tapebook.domain.units import MINUTE, SECOND
from tapebook.home import make_home
from tapebook.tick.decide import Slot
from tapebook.tick.story import deploy_agent, tick
from tests.desk.worker_harness import START, Shop, shops, work

FIVE = AgentProfile("five", ("BTC", "ETH"), engine="hold")
QUARTER = AgentProfile("quarter", ("BTC",), engine="hold", context=ContextProfile(bar_minutes=15))
SLOT = START + 10 * MINUTE
PRICE = 10**10


def minute(at: int, symbol: str = "BTC", close_e8: int = PRICE) -> Candle:
    """A minute with trades."""
    return Candle(symbol, 60, at, PRICE, max(PRICE, close_e8), min(PRICE, close_e8), close_e8, 1.0, 100.0, 3)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A desk at a slot, with all minutes but the last, and midpoints up to now."""
    make_home(tmp_path / "home")
    with shops(tmp_path / "home", 1) as (one,):
        one.hire(FIVE)
        one.clock.advance(SLOT)
        seen: list[Observation] = [Mid(symbol, SLOT - 5 * SECOND, PRICE) for symbol in FIVE.watchlist]
        past = range(START, SLOT - MINUTE, MINUTE)
        one.rooms.tape.commit([*seen, *(minute(at, symbol) for symbol in FIVE.watchlist for at in past)])
        yield one


def told(shop: Shop, symbol: str) -> Packet:
    """The packet of a symbol that was asked about last."""
    return next(packet for packet in reversed(shop.engine.packets) if packet.symbol == symbol)


def bars(packet: Packet) -> tuple[str, list[str]]:
    """The heading of the bars, and when each began."""
    section = packet.section("bars")
    assert section is not None
    return section.title, section.cells("time")


def test_slot_is_listed_when_its_bar_is_final(shop: Shop) -> None:
    scheduler = Scheduler(shop.rooms)
    assert not scheduler.turn()
    shop.clock.advance(SLOT + 700)
    shop.rooms.tape.commit([minute(SLOT - MINUTE, close_e8=PRICE + 7)])
    assert scheduler.turn() and scheduler.added == 1
    work(shop.worker())
    title, begun = bars(told(shop, "BTC"))
    assert "not final" not in title and begun == ["06:00", "06:05"]
    assert [run.as_of for run in shop.runs()] == [SLOT + 700]


def test_after_the_limit_the_packet_says_which_minute_is_missing(shop: Shop) -> None:
    scheduler, limit = Scheduler(shop.rooms), 6 * SECOND
    shop.clock.advance(SLOT + limit - 1)
    assert not scheduler.turn()
    shop.clock.advance(SLOT + limit)
    assert scheduler.turn() and scheduler.added == 2
    work(shop.worker())
    title, begun = bars(told(shop, "ETH"))
    assert "(06:09 not final yet, bar 06:05 left out)" in title and begun == ["06:00"]


def test_minute_without_trades_is_final_once_the_source_is_heard_after_it(shop: Shop) -> None:
    shop.clock.advance(SLOT + 5 * SECOND)
    shop.rooms.tape.commit([Mid("BTC", SLOT + 5 * SECOND, PRICE)])
    assert shop.list_due() == 1
    work(shop.worker())
    title, begun = bars(told(shop, "BTC"))
    assert "not final" not in title and begun == ["06:00", "06:05"]


def test_agent_of_longer_bars_waits_for_the_minute_before_its_slot_too(shop: Shop) -> None:
    """Its newest bar ended before, but the price it trades at has not."""
    shop.hire(msgspec.structs.replace(FIVE, enabled=False), QUARTER)
    assert shop.list_due() == 0
    shop.clock.advance(SLOT + 400)
    shop.rooms.tape.commit([minute(SLOT - MINUTE)])
    assert shop.list_due() == 1
    work(shop.worker())
    assert "not final" not in bars(told(shop, "BTC"))[0]


def test_tick_by_hand_decides_now_and_shows_the_bar_as_unfinished(shop: Shop) -> None:
    run = tick(shop.rooms, Slot(deploy_agent(shop.rooms.book, shop.rooms.clock, "five"), "BTC", SLOT, trigger="manual"))
    assert run.as_of == SLOT
    title, begun = bars(told(shop, "BTC"))
    assert "06:09 not final yet" in title and begun == ["06:00"]


def test_wait_of_nothing_decides_at_the_slot(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    text = (home / "tapebook.toml").read_text("utf-8")
    (home / "tapebook.toml").write_text(text.replace("bar_wait_seconds = 6", "bar_wait_seconds = 0"), "utf-8")
    with shops(home, 1) as (one,):
        one.hire(FIVE)
        assert one.list_due() == 2
